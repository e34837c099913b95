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

# Worlds in processes of their own: what happens to one costs only its own cells, an interrupt reaches all of them, and
# none outlives the program.
require_tool pgrep "find the processes of the worlds"
begin_worlds() {
  rm -f err
  "$SPINDLE" compare --clock virtual --model hdd-7200-2008:8 --layouts stripe,raid5 --tests write,rewrite,read,reread \
    --out worlds$1 >out 2>err &
  child=$!
  tries=0
  until grep -q 'virtual .*rewrite' err 2>/dev/null || [ $tries -ge 1500 ]; do
    sleep 0.05
    tries=$((tries + 1))
  done
  worlds=$(pgrep -P $child)
}
begin_worlds 1
if [ -z "$worlds" ]; then
  wait $child
  skip "one CPU only, so the worlds are not in processes of their own"
fi
kill -SEGV $(echo $worlds | cut -d' ' -f1)
wait $child
status=$?
[ $status -eq 3 ] || { show; fail "status $status after a world broke"; }
[ "$(grep -c 'ended by signal 11' worlds1/result.json)" -ge 4 ] || fail "a broken world's cells do not say so"
grep -q '"verdict": "VALID"' worlds1/result.json || fail "the other world's cells are lost"

begin_worlds 2
kill -INT $child
wait $child
status=$?
[ $status -eq 130 ] || { show; fail "status $status instead of 130"; }
grep -q '"interrupted": true' worlds2/result.json || fail "the result of the worlds does not say that it was interrupted"
grep -q '"mb_per_s": [0-9]' worlds2/result.json || fail "the cells that were done are lost"

begin_worlds 3
kill -KILL $child
wait $child 2>/dev/null
tries=0
while ps -o stat= -p "$(echo $worlds | tr ' ' ',')" | grep -qv '^Z' && [ $tries -lt 100 ]; do
  sleep 0.1
  tries=$((tries + 1))
done
[ $tries -lt 100 ] || fail "a world outlives the program"
