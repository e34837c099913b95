#!/bin/sh
# A full file system under file-backed disks is an error in a sentence, and what was promised before is still there.
. "$(dirname "$0")/functions.sh"
require_root "mount a small file system"

mkdir small
mount -t tmpfs -o size=24m tmpfs small 2>/dev/null || skip "root may not mount a tmpfs here"
MOUNTS="$WORK/small"
cd small || exit 1
disks 3 32M
expect 0 array create t raid5 d1 d2 d3
random_file ../image 4000000
"$SPINDLE" array write t <../image 2>../err || fail "write of what fits: $(cat ../err)"
random_file ../more 40000000
"$SPINDLE" array write --offset 4000000 t <../more 2>../err
[ $? -eq 1 ] || fail "a full file system is no failure"
grep -qiE 'space|full|fail' ../err || fail "the sentence does not say why: $(cat ../err)"
rm -f out err
"$SPINDLE" array read --length 4000000 t >../back 2>../err || fail "what was promised is gone: $(cat ../err)"
cd ..
same image back
