#!/bin/sh
# Ctrl-C in the middle: status 130, the partial result is kept, and no file is left in the directories.
. "$(dirname "$0")/functions.sh"

mkdir a b c
"$SPINDLE" compare --size 32MiB a b c >out 2>err &
child=$!
# It is under way when its files are there.
tries=0
while [ -z "$(ls a)" ] && [ $tries -lt 100 ]; do
  sleep 0.1
  tries=$((tries + 1))
done
sleep 3
kill -INT $child 2>/dev/null || { show; fail "it ended before it could be interrupted"; }
begun=$(date +%s)
wait $child
status=$?
[ $status -eq 130 ] || { show; fail "status $status instead of 130"; }
[ $(($(date +%s) - begun)) -le 10 ] || fail "it took $(($(date +%s) - begun)) s to stop"
[ -z "$(ls a b c | grep -v ':$')" ] || fail "files are left: $(ls a b c)"
ls "$SPINDLE_STATE"/runs/*/result.json >/dev/null 2>&1 || fail "the partial result is not kept"
grep -q '"interrupted": true' "$SPINDLE_STATE"/runs/*/result.json || fail "the result does not say that it was interrupted"
[ "$(ls "$SPINDLE_STATE"/runs/* | grep -c tmp)" -eq 0 ] || fail "temporary files are left"
