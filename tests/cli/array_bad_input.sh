#!/bin/sh
# `array create` refuses what makes no sense with one sentence and status 2, and touches no disk.
. "$(dirname "$0")/functions.sh"

disks 4 32M
before=$(sha256sum d1 d2 d3 d4)

refuses 'nosuch: there is no such file' array create t raid5 d1 d2 nosuch
refuses 'is a directory' array create t raid5 d1 d2 .
refuses 'd2 is given twice' array create t raid5 d1 d2 d2
ln -s d2 link
refuses 'd2 and link are the same disk' array create t raid5 d1 d2 link
ln d2 hard
refuses 'd2 and hard are the same disk' array create t raid5 d1 d2 hard
truncate -s 64K tiny
refuses 'tiny.* too small' array create t raid5 d1 d2 tiny
: >empty
refuses 'empty.* too small' array create t raid5 d1 d2 empty
refuses 'raid5.*(3|three)' array create t raid5 d1 d2
refuses 'raid6.*4' array create t raid6 d1 d2 d3
refuses 'raid50' array create t raid50 d1 d2 d3 d4
refuses 'raid5x9' array create t raid5x9 d1 d2 d3 d4
refuses 'raid99' array create t raid99 d1 d2 d3
refuses 'power of two' array create --chunk 100k t raid5 d1 d2 d3
refuses 'power of two' array create --chunk 2KiB t raid5 d1 d2 d3
refuses 'power of two' array create --chunk 32MiB t raid5 d1 d2 d3
refuses 'chunk|size|no-number' array create --chunk no-number t raid5 d1 d2 d3
refuses 'rotation|spiral' array create --rotation spiral t raid5 d1 d2 d3
refuses 'log or bitmap' array create --write-hole sand t raid5 d1 d2 d3
refuses 'svm, vxvm, vinum, md and lvm' array create --like zfs t raid5 d1 d2 d3
refuses 'no-such-model' array create t raid5 d1 d2 d3+model=no-such-model
refuses 'memory disk' array create t raid5 d1 d2 mem:64MiB
refuses 'is no name' array create ../t raid5 d1 d2 d3
refuses 'is no name' array create . raid5 d1 d2 d3
refuses 'needs a name' array create t raid5
refuses 'd4, which is not one of' array create --destroy d4 t raid5 d1 d2 d3
refuses 'd1 is given twice' array create --log d1 t raid5 d1 d2 d3
refuses 'log disk' array create --log d4 --write-hole bitmap t raid5 d1 d2 d3

[ "$before" = "$(sha256sum d1 d2 d3 d4)" ] || fail "a refused command has changed a disk"
[ ! -e "$SPINDLE_STATE/arrays/t" ] || fail "a refused array is remembered"

# Mixed sizes are allowed, and said.
truncate -s 48M d5
expect 0 array create t raid5 d1 d2 d5
grep -q 'differ in size' err || fail "mixed sizes are not said"

# What a command needs is asked for; an array that is not there is named.
refuses 'no array named u' array status u
refuses 'no array named u' array read u
refuses 'something is missing' array replace t d1
refuses 'something is missing' array check

