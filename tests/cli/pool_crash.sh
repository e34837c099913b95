#!/bin/sh
# A writer that is killed leaves a pool that needs no force, holds what was promised, and checks clean.
. "$(dirname "$0")/functions.sh"

disks 4 128M
expect 0 create tank parity1 d1 d2 d3 d4
expect 0 create -V 200M -s tank/v
random_file image 30000000
"$SPINDLE" volume write tank/v <image 2>err || fail "write: $(cat err)"
for round in 1 2 3; do
  mkfifo pipe
  "$SPINDLE" volume write --offset 60000000 tank/v <pipe 2>err &
  writer=$!
  { head -c 25000000 /dev/urandom; sleep 3; } >pipe &
  sleep 0.$((round * 3))
  refuses 'in use|open exclusively|held|process' status tank
  kill -KILL "$writer" || fail "the writer is not there"
  wait
  rm pipe
  "$SPINDLE" volume read --length 30000000 tank/v >back 2>err || fail "read after the kill: $(cat err)"
  same image back
  expect 0 check --data tank
  expect 0 status -j tank
  [ "$(json state)" = ONLINE ] || fail "state is $(json state)"
done
