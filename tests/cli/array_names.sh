#!/bin/sh
# Labels decide, notes only help: moved disks are found with -d, strangers beside them do no harm.
. "$(dirname "$0")/functions.sh"

disks 5 24M
expect 0 array create one raid5 d1 d2 d3
expect 0 array create two mirror d4 d5
expect 0 array status
grep -q '^one:' out && grep -q '^two:' out || fail "not both arrays are listed"
refuses 'known already' array create one mirror d4 d5 --destroy d4 --destroy d5
random_file image 3000000
"$SPINDLE" array write one <image 2>err || fail "write"

mkdir shelf
mv d1 shelf/x1
mv d2 shelf/x2
mv d3 shelf/x3
cp d4 d5 shelf
random_file shelf/stranger 100000
expect 2 array status one
expect 0 array status -d shelf one
"$SPINDLE" array read -d shelf --length 3000000 one >back 2>err || fail "read from the shelf: $(cat err)"
same image back
expect 0 array status -d shelf
grep -q '^one:' out && grep -q '^two:' out || fail "a scan does not list both arrays"
refuses 'more than one array' array check -d shelf
expect 2 array status -d nosuch one

# Without notes at all.
rm -rf "$SPINDLE_STATE"
"$SPINDLE" array read -d shelf/x1 -d shelf/x2 -d shelf/x3 --length 3000000 one >back 2>err || fail "read without notes"
same image back

expect 0 array destroy -d shelf one
expect 2 array status -d shelf one
