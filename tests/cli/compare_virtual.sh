#!/bin/sh
# The virtual clock: the same seed gives the same result, and 48 disks take seconds.
. "$(dirname "$0")/functions.sh"

one() {
  run compare --clock virtual --model hdd-7200-2008:8 --layouts stripe,raid5 --tests write,read,randread-8k --json "$@"
  { [ "$status" -eq 0 ] || [ "$status" -eq 3 ]; } || { show; fail "status $status"; }
  grep -E '"(mb_per_s|limit_mb_per_s|device_read_bytes|device_write_bytes|max)"' out >figures
}
one --cpu free --seed 7
cp figures first
one --cpu free --seed 7
same first figures

run compare --clock virtual --model hdd-7200-2008:46 --layouts mirrorx23 --tests write,randread-8k --json
{ [ "$status" -eq 0 ] || [ "$status" -eq 3 ]; } || { show; fail "46 disks: status $status"; }
grep -q '"layout": "mirrorx23"' out || fail "no mirrorx23"
run compare --clock virtual --model hdd-7200-2008:45 --layouts raid5x9 --tests write,randread-8k --json
{ [ "$status" -eq 0 ] || [ "$status" -eq 3 ]; } || { show; fail "45 disks: status $status"; }
grep -q '"layout": "raid5x9"' out || fail "no raid5x9"

# What is virtual does not depend on how many worlds run at a time, and the layouts keep their order.
require_tool taskset "leave the program one CPU"
three() {
  "$@" compare --cpu free --clock virtual --model hdd-7200-2008:4 --layouts raid10,stripe,raid5 \
    --tests write,randread-8k --seed 3 --json
}
three taskset -c 0 "$SPINDLE" >alone 2>err
three "$SPINDLE" >together 2>err
for f in alone together; do
  grep -E '"(layout|test|mb_per_s|elapsed_s|device_read_bytes|device_write_bytes|verdict)"' $f >$f.figures
done
[ "$(grep -c '"mb_per_s"' together.figures)" -eq 6 ] || fail "not six cells"
same alone.figures together.figures
