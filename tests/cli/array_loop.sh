#!/bin/sh
# On block devices: an array works, a mounted disk is refused whatever is said, and two owners do not fit.
. "$(dirname "$0")/functions.sh"
require_loop

loops 5 40M
# shellcheck disable=SC2086
set -- $LOOPS
expect 0 array create t raid6 "$1" "$2" "$3" "$4" "$5"
random_file image 20000000
"$SPINDLE" array write t <image 2>err || fail "write: $(cat err)"
"$SPINDLE" array read --length 20000000 t >back 2>err || fail "read: $(cat err)"
same image back
expect 0 array check t

# A device that another process has open exclusively.
mkfifo hold
"$SPINDLE" array write t <hold 2>owner.err &
owner=$!
exec 9>hold
sleep 1
run array write t </dev/null
[ "$status" -eq 2 ] || { show; fail "two owners at once: status $status"; }
exec 9>&-
wait $owner

# Without one of the devices.
losetup -d "$3"
expect 0 array status --json t
[ "$(json state)" = degraded ] || fail "state is $(json state)"
expect 0 array destroy t

if command -v mkfs.ext4 >/dev/null 2>&1; then
  mkfs.ext4 -q -F "$1" || fail "mkfs"
  mkdir mnt
  if mount "$1" mnt 2>/dev/null; then
    MOUNTS="$WORK/mnt"
    refuses 'mounted on' array create u mirror "$1" "$2"
    refuses 'mounted on' array create --destroy all-named u mirror "$1" "$2"
    umount mnt
    refuses 'ext4' array create u mirror "$1" "$2"
    expect 0 array create --destroy "$1" --destroy "$2" u mirror "$1" "$2"
    expect 0 array destroy u
  fi
fi
