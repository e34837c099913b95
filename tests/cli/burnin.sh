#!/bin/sh
# A burn-in passes a good disk, fails one that rots or errs, and goes on where it was interrupted.
. "$(dirname "$0")/functions.sh"

disks 3 16M
expect 0 survey --burn-in 2s d1 d2 --json
[ "$(grep -c '"passed": true' out)" = 2 ] || { show; fail "good disks do not pass"; }
[ "$(json covered_bytes)" = 16777216 ] || { show; fail "a small disk is not covered whole"; }
ls "$SPINDLE_STATE"/burn-in/*.json >/dev/null 2>&1 && fail "a finished burn-in leaves its state"

# What it wrote is not empty: the next one must be asked for by name.
refuses 'd1' survey --burn-in 1s d1
expect 0 survey --burn-in 1s --destroy d1 d1

expect 1 survey --burn-in 2s d3+fault=rot,nth=7 --json
grep -q '"passed": false' out || fail "a rotten disk passes"
[ "$(json mismatches)" -ge 1 ] || fail "rot is no mismatch"
disks 3 16M
expect 1 survey --burn-in 2s "d3+fault=eio,op=read,nth=5" --json
[ "$(json io_errors)" -ge 1 ] || fail "an error is not counted"
disks 3 16M
expect 1 survey --burn-in 2s "d3+fault=misdirect,nth=3" --json
grep -q '"passed": false' out || fail "a misdirected write passes"

# Interrupted, it keeps its state, and the same command goes on and ends.
disks 1 16M
"$SPINDLE" survey --burn-in 6s d1 >out 2>err &
child=$!
sleep 2
kill -INT $child
wait $child
[ $? -eq 130 ] || { show; fail "interrupted status is not 130"; }
ls "$SPINDLE_STATE"/burn-in/*.json >/dev/null 2>&1 || fail "no state is kept"
begun=$(date +%s)
expect 0 survey --burn-in 6s --destroy d1 d1 --json
grep -q 'goes on' err || fail "it does not go on"
[ $(($(date +%s) - begun)) -le 5 ] || fail "it began again from the start"
ls "$SPINDLE_STATE"/burn-in/*.json >/dev/null 2>&1 && fail "a finished burn-in leaves its state"
exit 0
