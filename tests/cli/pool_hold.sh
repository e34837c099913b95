#!/bin/sh
# One process holds a pool; others have their commands done by it, on their own streams, with their own status.
. "$(dirname "$0")/functions.sh"

disks 3 64M
expect 0 create tank parity1 d1 d2 d3
"$SPINDLE" hold tank 2>held &
holder=$!
for i in $(seq 100); do
  [ -S "$SPINDLE_STATE/run/tank" ] && break
  sleep 0.1
done
expect 0 create -V 16M tank/v
random_file image 5000000
"$SPINDLE" volume write tank/v <image 2>err || fail "write: $(cat err)"
"$SPINDLE" volume read --length 5000000 tank/v >back 2>err || fail "read: $(cat err)"
same image back
expect 0 list -H -o name tank/v
[ "$(cat out)" = tank/v ] || fail "list by the holder"
expect 2 create -V 16M tank/v
grep -q '^spindle: ' err || fail "the sentence did not come back"
expect 0 iostat tank
expect 0 scrub tank
refuses 'held' export tank
expect 2 hold tank
kill -INT "$holder"
wait "$holder"
expect 0 check --data tank
"$SPINDLE" volume read --length 5000000 tank/v >back 2>err || fail "read after it let go: $(cat err)"
same image back

# Killed: nothing acknowledged is lost, and the socket that is left is no obstacle.
"$SPINDLE" hold tank 2>held &
holder=$!
sleep 1
head -c 2000000 image | "$SPINDLE" volume write --offset 8000000 tank/v 2>err || fail "write: $(cat err)"
kill -KILL "$holder"
wait "$holder" 2>/dev/null
"$SPINDLE" volume read --offset 8000000 --length 2000000 tank/v >back 2>err || fail "read after the kill: $(cat err)"
head -c 2000000 image | cmp - back || fail "acknowledged bytes are gone"
