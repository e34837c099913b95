#!/bin/sh
# `compare` on eight plain files, and without being root: the table is right, and the files alone have changed.
. "$(dirname "$0")/functions.sh"

chmod 755 "$WORK"
mkdir files
cd files || exit 1
disks 8 64M
# Root tries it as somebody who is not.
if [ "$(id -u)" -eq 0 ]; then
  require_tool setpriv "become somebody who is not root"
  cp "$SPINDLE" "$WORK/spindle"
  chmod 755 "$WORK/spindle"
  mkdir "$SPINDLE_STATE"
  chown -R 65534:65534 . "$SPINDLE_STATE"
  as_user() { setpriv --reuid 65534 --regid 65534 --clear-groups env HOME=/nonexistent "$WORK/spindle" "$@"; }
else
  as_user() { "$SPINDLE" "$@"; }
fi

as_user compare --budget 15s --size 16MiB --layouts stripe,raid10,raid5,raid6 --tests write,read,randread-8k --json \
  d1 d2 d3 d4 d5 d6 d7 d8 >../out 2>../err
status=$?
cd ..
{ [ $status -eq 0 ] || [ $status -eq 3 ]; } || { show; fail "status $status"; }
[ "$(json schema)" = 1 ] || { show; fail "no JSON result"; }
[ "$(grep -c '"test": ' out)" -eq 12 ] || { show; fail "$(grep -c '"test": ' out) cells instead of 12"; }
[ "$(grep -c '"verdict": "FAILED"' out)" -eq 0 ] || { show; fail "a cell failed"; }
grep -q '"mb_per_s": [0-9]' out || fail "no rates"
# Each cell has its limit, and capacity follows from the layout: 8, 4, 7 and 6 disks' worth.
[ "$(grep -c '"limit_mb_per_s": [0-9]' out)" -eq 12 ] || { show; fail "a cell has no limit"; }
sed -nE 's/^ *"usable_bytes": ([0-9]+),?$/\1/p' out | sort -n | uniq >usable
awk '{ v[NR] = $1 } END { exit !(NR == 4 && v[2] / v[1] > 1.4 && v[2] / v[1] < 1.6 && v[4] / v[1] > 1.9 && v[4] / v[1] < 2.1) }' usable ||
  fail "capacities are $(tr '\n' ' ' <usable)"
[ "$(ls files | wc -l)" -eq 8 ] || fail "stray files: $(ls files)"
for disk in 1 2 3 4 5 6 7 8; do
  [ "$(stat -c %s "files/d$disk")" -eq 67108864 ] || fail "d$disk has changed its size"
done
