#!/bin/sh
# What goes wrong around a run: no place for the result, no room, a full file system, a flush that fails, a kill.
. "$(dirname "$0")/functions.sh"

disks 4 64M
untouched() {
  [ "$before" = "$(sha256sum d1 d2 d3 d4)" ] || fail "$1 has changed a disk"
}
before=$(sha256sum d1 d2 d3 d4)

# No place for the result is found before the first write.
: >file
refuses 'could not be kept' compare --out file --tests write d1 d2
refuses 'could not be kept' compare --out nowhere/at/all --tests write d1 d2
SPINDLE_STATE=/proc/nowhere "$SPINDLE" compare --tests write d1 d2 >out 2>err
[ $? -eq 2 ] || { show; fail "no state directory, and disks are erased"; }
refuses 'needs names' compare --layouts '' d1 d2
refuses 'needs names' compare --tests '' d1 d2
refuses 'character device' compare d1 /dev/null
mkfifo fifo
refuses 'FIFO' compare d1 fifo
: >empty
refuses 'too small' compare d1 empty
untouched "a refused compare"

# More than is free, less 5 %, is refused, and no file stays.
mkdir a b
expect 2 compare --size 1000TiB a b
grep -q 'are needed there' err || { show; fail "the sentence does not say what is needed"; }
[ -z "$(ls a b | grep -v ':$')" ] || fail "files are left: $(ls a b)"

# A flush that fails (A68) makes the run fail: status 1, no figure.
disk=mem:64MiB+model=ssd-sata
run compare --clock virtual --cpu free --layouts stripe --tests write --json "$disk" "$disk+fault=eio,op=flush"
[ "$status" -eq 1 ] || { show; fail "a failing flush: status $status"; }
grep -q '"mb_per_s": [0-9]' out && { show; fail "a figure though the flush failed"; }
run bench --clock virtual --rw write --size 32MiB --json "$disk+fault=eio,op=flush"
[ "$status" -eq 1 ] || { show; fail "bench, a failing flush: status $status"; }
grep -q '"mb_per_s": [0-9]' out && { show; fail "bench: a figure though the flush failed"; }

# What a run leaves on disks is no array of anybody's, and needs consent like other data.
run compare --layouts raid5 --tests write --budget 1s d1 d2 d3 d4
{ [ "$status" -eq 0 ] || [ "$status" -eq 3 ]; } || { show; fail "status $status"; }
grep -q '4x file' out || { show; fail "four files are not called so"; }
grep -q 'more than the budget' err || { show; fail "a budget that cannot be kept is not said"; }
run array status -d d1 -d d2 -d d3 -d d4
grep -q 'compare' out && { show; fail "the array of the run is still there"; }
refuses 'd1 is not empty' compare --layouts raid5 --tests write d1 d2 d3 d4
refuses 'd1 is not empty' array create t raid5 d1 d2 d3
expect 0 array create t raid5 --destroy all-named d1 d2 d3
refuses 'd1 holds spindle array t' compare d1 d4
expect 0 array status t

# A kill leaves files; the next start removes them, also right behind it, when the kernel still ends what was under way.
"$SPINDLE" compare --size 32MiB --layouts stripe a b >out 2>err &
child=$!
tries=0
while [ -z "$(ls b)" ] && [ $tries -lt 100 ]; do
  sleep 0.1
  tries=$((tries + 1))
done
kill -KILL $child
wait $child 2>/dev/null
[ -n "$(ls a)" ] || fail "the kill came too late to be a test"
touch a/mine
run compare --size 32MiB --layouts stripe --tests write --budget 1s a b
[ "$(ls a b | grep -vc ':$')" -eq 2 ] || fail "left: $(ls a b)"   # mine, and the empty line between the two lists
[ -e a/mine ] || fail "a file of somebody else was removed"
[ "$(grep -c 'was left by an earlier run' err)" -eq 2 ] || { show; fail "what was removed is not said"; }

# A file system that is full under the disks.
if [ "$(id -u)" -eq 0 ]; then
  mkdir small
  if mount -t tmpfs -o size=16m tmpfs small 2>/dev/null; then
    MOUNTS="$WORK/small"
    for disk in 1 2 3; do
      truncate -s 64M small/d$disk
    done
    run compare --layouts raid5,stripe --tests write --budget 1s small/d1 small/d2 small/d3
    [ "$status" -eq 1 ] || { show; fail "a full file system: status $status"; }
    grep -q 'no space left' out || { show; fail "the list does not say why"; }
    # And no room for the result itself: said, and no empty directory of a run stays.
    rm small/*
    head -c 20M /dev/zero >small/filler 2>/dev/null
    SPINDLE_STATE="$WORK/small/state" run compare --clock virtual --model hdd-7200-2008:2 --layouts stripe --tests write
    [ "$status" -eq 1 ] || { show; fail "no room for the result: status $status"; }
    grep -q 'was not saved' err || { show; fail "no room for the result is not said"; }
    [ -z "$(ls -A small/state/runs 2>/dev/null)" ] || fail "an empty run is left"
  fi
fi
