#!/bin/sh
# What goes into a volume comes out, at any offset, on every layout, with as many disks gone as the layout survives.
. "$(dirname "$0")/functions.sh"

random_file image 9000001
trip() { # DISKS-TO-LOSE GROUPS…
  lose=$1
  shift
  disks 6 32M
  expect 0 create tank "$@"
  expect 0 create -V 12M -s tank/v
  "$SPINDLE" volume write --offset 12345 tank/v <image 2>err || fail "$*: write: $(cat err)"
  "$SPINDLE" volume read --offset 12345 --length 9000001 tank/v >back 2>err || fail "$*: read: $(cat err)"
  same image back
  "$SPINDLE" volume read --length 12345 tank/v >back || fail "$*: read of the begin"
  head -c 12345 /dev/zero | cmp - back || fail "$*: what was never written is not zero"
  expect 0 check --data tank
  for disk in $lose; do
    mv "$disk" "$disk.away"
  done
  "$SPINDLE" volume read --offset 12345 --length 9000001 tank/v >back 2>err || fail "$* without $lose: $(cat err)"
  same image back
  if [ -n "$lose" ]; then
    expect 0 status tank
    grep -q DEGRADED out || { show; fail "$* without $lose is not degraded"; }
    # Written while they are away, and brought up to date when they are back.
    head -c 500000 image >half
    "$SPINDLE" volume write --offset 1000000 tank/v <half 2>err || fail "$* degraded write: $(cat err)"
    for disk in $lose; do
      mv "$disk.away" "$disk"
    done
    "$SPINDLE" volume read --offset 1000000 --length 500000 tank/v >back 2>err || fail "$*: read after return: $(cat err)"
    same half back
    expect 0 scrub tank
    expect 0 scrub tank
    grep -q ' 0 errors' out || { show; fail "$*: the second scrub still finds errors"; }
    expect 0 status tank
    grep -q ONLINE out || { show; fail "$*: not online after a scrub"; }
  fi
  expect 0 destroy -f tank
}
trip '' d1
trip '' d1 d2 d3
trip 'd1' mirror d1 d2
trip 'd1 d3' mirror d1 d2 d3
trip 'd2 d3' mirror d1 d2 mirror d3 d4
trip 'd2' parity1 d1 d2 d3
trip 'd1' parity1 d1 d2 d3 d4 d5
trip 'd5 d1' raidz2 d1 d2 d3 d4 d5
trip 'd1 d3 d6' parity3 d1 d2 d3 d4 d5 d6
trip 'd4' parity1:3 d1 d2 d3 d4 d5

# One disk more than it survives: said, and nothing lost when it is back.
disks 4 32M
expect 0 create tank parity1 d1 d2 d3 d4
expect 0 create -V 8M -s tank/v
head -c 4000000 image >part
"$SPINDLE" volume write tank/v <part 2>err || fail "write"
mkdir away
mv d1 d2 away
run volume read --length 10 tank/v
[ "$status" -eq 1 ] || { show; fail "status $status with two disks of parity1 away"; }
mv away/* .
"$SPINDLE" volume read --length 4000000 tank/v >back 2>err || fail "read after both are back: $(cat err)"
same part back

refuses 'past its end' volume read --offset 9M tank/v
refuses 'needs a name' volume read
refuses 'read, write and discard' volume eat tank/v
refuses 'no' volume read tank/none
expect 0 volume discard --offset 1M --length 1M tank/v
"$SPINDLE" volume read --offset 1M --length 1M tank/v | cmp - /dev/zero 2>&1 | grep -q 'EOF on -' || fail "discarded bytes are not zero"
