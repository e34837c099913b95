#!/bin/sh
# A writer that is killed leaves an array that assembles, holds what was promised before, and agrees with itself.
. "$(dirname "$0")/functions.sh"

disks 4 64M
expect 0 array create t raid5 d1 d2 d3 d4
random_file image 30000000
"$SPINDLE" array write t <image 2>err || fail "write: $(cat err)"
for round in 1 2 3; do
  # Half of the input, then silence: it waits for more while rows are under way.
  mkfifo pipe
  "$SPINDLE" array write --offset 60000000 t <pipe 2>err &
  writer=$!
  { head -c 15000000 /dev/urandom; sleep 3; } >pipe &
  sleep 0.$((round * 3))
  kill -KILL "$writer" || fail "the writer is not there"
  wait
  rm pipe
  "$SPINDLE" array read --length 30000000 t >back 2>err || fail "read after the kill: $(cat err)"
  same image back
  expect 0 array check t
  expect 0 array status --json t
  [ "$(json state)" = healthy ] || fail "state is $(json state)"
done
