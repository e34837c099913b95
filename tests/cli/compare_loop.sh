#!/bin/sh
# `compare` on eight loop devices, as root.
. "$(dirname "$0")/functions.sh"
require_loop

loops 8 64M
# shellcheck disable=SC2086
run compare --budget 15s --size 16MiB --layouts stripe,raid10,raid5 --tests write,read,randread-8k --yes $LOOPS
{ [ "$status" -eq 0 ] || [ "$status" -eq 3 ]; } || { show; fail "status $status"; }
for layout in stripe raid10 raid5; do
  grep -q "$layout" out || { show; fail "$layout is not in the table"; }
done
grep -qi 'failed' out && { show; fail "a cell failed"; }
ls "$SPINDLE_STATE"/runs/*/result.json >/dev/null 2>&1 || fail "no result is kept"
expect_report=$(ls -d "$SPINDLE_STATE"/runs/*)
run report "$expect_report"
{ [ "$status" -eq 0 ] || [ "$status" -eq 3 ]; } || { show; fail "the kept result cannot be shown: status $status"; }
# The devices are free again.
for loop in $LOOPS; do
  losetup -d "$loop" || fail "$loop is still in use"
done
LOOPS=
