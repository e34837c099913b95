#!/bin/sh
# Data goes in and comes out, at any offset, also with a disk missing, and a replaced disk makes it whole again.
. "$(dirname "$0")/functions.sh"

disks 5 48M
expect 0 array create tank raid5 d1 d2 d3 d4
random_file image 20000000
"$SPINDLE" array write tank <image 2>err || fail "write: $(cat err)"
"$SPINDLE" array read --length 20000000 tank >back 2>err || fail "read: $(cat err)"
same image back

# Any offset, any length.
random_file piece 12345
"$SPINDLE" array write --offset 1000001 tank <piece 2>err || fail "write at an odd offset: $(cat err)"
dd if=piece of=image bs=1 seek=1000001 conv=notrunc status=none
"$SPINDLE" array read --offset 999999 --length 15000 tank >back 2>err || fail "read at an odd offset"
tail -c +1000000 image | head -c 15000 >expected
same expected back

# One disk gone: it is said, and everything is still there; what is written now is there later too.
mv d2 away
expect 0 array status --json tank
[ "$(json state)" = degraded ] || fail "state is '$(json state)', not degraded"
"$SPINDLE" array read --length 20000000 tank >back 2>err || fail "degraded read: $(cat err)"
same image back
random_file piece 3000000
"$SPINDLE" array write --offset 5000000 tank <piece 2>err || fail "degraded write: $(cat err)"
dd if=piece of=image bs=1000 seek=5000 conv=notrunc status=none

expect 0 array replace tank 1 d5
expect 0 array status --json tank
[ "$(json state)" = healthy ] || fail "state after replace is '$(json state)'"
expect 0 array check tank

# The replaced disk now carries the data of the lost one.
mv d3 away3
"$SPINDLE" array read --length 20000000 tank >back 2>err || fail "read without d3: $(cat err)"
same image back
mv away3 d3

# The disk that was away is stale: it is not believed.
mv away d2
"$SPINDLE" array read -d d1 -d d2 -d d3 -d d4 -d d5 --length 20000000 tank >back 2>err ||
  fail "read beside a stale member: $(cat err)"
same image back

# Two gone are too many: status 1, no data, no crash.
mv d3 away3
mv d4 away4
"$SPINDLE" array read tank >back 2>err
[ $? -eq 1 ] || fail "two lost disks of a raid5 are no failure"
mv away3 d3
mv away4 d4

# Past the end.
size=$("$SPINDLE" array status --json tank 2>/dev/null | sed -nE 's/.*"size_bytes": ([0-9]+).*/\1/p' | head -1)
refuses 'past its end' array read --offset "$size" --length 1 tank
head -c 2000 /dev/zero | "$SPINDLE" array write --offset $((size - 1000)) tank 2>err
[ $? -eq 1 ] || fail "more than fits is no failure"
grep -q 'more than fits' err || fail "more than fits is not said: $(cat err)"
