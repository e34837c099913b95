#!/bin/sh
# Bytes that change silently are found, answered rightly, mended, and counted against the disk that has them.
. "$(dirname "$0")/functions.sh"

random_file image 8000000
for groups in 'mirror d1 d2' 'mirror d1 d2 d3' 'parity1 d1 d2 d3 d4' 'parity2 d1 d2 d3 d4 d5'; do
  disks 5 32M
  # shellcheck disable=SC2086
  expect 0 create tank $groups
  expect 0 create -V 10M -s tank/v
  "$SPINDLE" volume write tank/v <image 2>err || fail "write: $(cat err)"
  # A fifth of one disk, labels aside.
  dd if=/dev/urandom of=d2 bs=64k seek=40 count=60 conv=notrunc 2>/dev/null
  dd if=/dev/urandom of=d2 bs=64k seek=160 count=60 conv=notrunc 2>/dev/null
  sum=$(cat d1 d3 | sha256sum)
  "$SPINDLE" volume read --length 8000000 tank/v >back 2>err || fail "$groups: read over rot: $(cat err)"
  same image back
  expect 0 scrub tank
  "$SPINDLE" volume read --length 8000000 tank/v >back 2>err || fail "$groups: read after scrub: $(cat err)"
  same image back
  expect 0 scrub tank
  grep -q ' 0 errors' out || { show; fail "$groups: a second scrub finds errors"; }
  expect 0 check --data tank
  # Repaired copies stand alone now.
  rm d1
  "$SPINDLE" volume read --length 8000000 tank/v >back 2>err || fail "$groups: read without d1 after the repair: $(cat err)"
  same image back
  expect 0 destroy -f tank
done

# Without redundancy wrong bytes are an error, never data.
disks 1 32M
expect 0 create tank d1
expect 0 create -V 10M -s tank/v
"$SPINDLE" volume write tank/v <image 2>err || fail "write"
dd if=/dev/urandom of=d1 bs=64k seek=40 count=40 conv=notrunc 2>/dev/null
run volume read --length 8000000 tank/v
[ "$status" -eq 1 ] || fail "status $status from reading rot"
expect 1 scrub tank
