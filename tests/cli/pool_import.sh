#!/bin/sh
# Labels decide who belongs to a pool: other names, other places, clones, halves, truncated and foreign disks.
. "$(dirname "$0")/functions.sh"

random_file image 4000000
disks 4 32M
expect 0 create tank parity1 d1 d2 d3 d4
expect 0 create -V 6M -s tank/v
"$SPINDLE" volume write tank/v <image || fail "write"
expect 0 export tank
refuses 'known|label' status tank

# Moved, renamed, in another order.
mkdir other
mv d1 other/x3
mv d3 other/x1
mv d2 d4 other
expect 0 import -d other
grep -q 'pool: tank' out || { show; fail "import does not list it"; }
grep -q '4 of 4' out || { show; fail "import does not see all"; }
expect 0 import -d other tank
"$SPINDLE" volume read --length 4000000 tank/v >back || fail "read after the move"
same image back
expect 0 status tank
grep -q other/x3 out || { show; fail "the new path is not shown"; }
refuses 'no ' import -d other nosuch

# For reading: not a byte changes.
sum=$(cat other/* | sha256sum)
expect 0 import -d other -o readonly=on tank
"$SPINDLE" volume read --length 4000000 tank/v >back || fail "read"
[ "$(cat other/* | sha256sum)" = "$sum" ] || fail "reading changed a disk"

# One end of each label is enough.
dd if=/dev/zero of=other/x3 bs=1M count=1 conv=notrunc 2>/dev/null
"$SPINDLE" volume read --length 4000000 tank/v >back 2>err || fail "read with a front label gone: $(cat err)"
same image back

# A copy of a disk beside it is no second disk.
cp other/d2 other/copy
run import -d other tank
grep -qiE 'copy|same|twice|duplicate' err || { show; fail "no word of the copied disk"; }
rm other/copy

# A truncated disk is told, the rest serves.
truncate -s 16M other/d2
expect 0 status tank
grep -q DEGRADED out || { show; fail "truncated disk: not degraded"; }
"$SPINDLE" volume read --length 4000000 tank/v >back 2>err || fail "read with a truncated disk: $(cat err)"
same image back
