#!/bin/sh
# A mirror gains a copy and loses one; each copy alone holds all of it.
. "$(dirname "$0")/functions.sh"

disks 3 24M
expect 0 array create t mirror d1 d2
random_file image 8000000
"$SPINDLE" array write t <image 2>err || fail "write"
expect 0 array attach t d3
expect 0 array status --json t
[ "$(json disks)" = 3 ] || fail "attach made no third copy"
rm d1 d2
"$SPINDLE" array read --length 8000000 t >back 2>err || fail "read of the attached copy alone: $(cat err)"
same image back

disks 3 24M
expect 0 array create -f u mirror d1 d2 d3
"$SPINDLE" array write u <image 2>err || fail "write"
expect 0 array detach u d2
expect 0 array status --json u
[ "$(json disks)" = 2 ] || fail "detach left $(json disks) copies"
"$SPINDLE" array read --length 8000000 u >back 2>err || fail "read after detach"
same image back
