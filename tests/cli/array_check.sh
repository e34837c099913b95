#!/bin/sh
# A byte that rots on one disk is found by check, put right by --repair, and is then gone.
. "$(dirname "$0")/functions.sh"

for layout in raid5 raid6 mirror raid10; do
  count=4
  [ $layout = mirror ] && count=3
  disks $count 24M
  # shellcheck disable=SC2046
  expect 0 array create t $layout $(seq -f 'd%.0f' 1 $count)
  random_file image 12000000
  "$SPINDLE" array write t <image 2>err || fail "$layout: write"
  expect 0 array check t
  # The middle of the disk holds data in all of these.
  random_file rot 512
  dd if=rot of=d2 bs=512 seek=8192 conv=notrunc status=none
  expect 1 array check --json t
  [ "$(json mismatched_rows)" -ge 1 ] || { show; fail "$layout: the rot is not found"; }
  expect 0 array check --repair t
  expect 0 array check --json t
  [ "$(json mismatched_rows)" = 0 ] || fail "$layout: still not right after the repair"
  if [ $layout = raid6 ]; then
    # P and Q together tell which column is wrong: the data is as it was.
    "$SPINDLE" array read --length 12000000 t >back 2>err || fail "$layout: read"
    same image back
  fi
  expect 0 array destroy t
done
