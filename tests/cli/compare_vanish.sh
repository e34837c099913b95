#!/bin/sh
# A disk that vanishes in the middle: the run goes on and says so, or stops with what it has.
. "$(dirname "$0")/functions.sh"

disks 4 64M
run compare --budget 10s --size 16MiB --layouts raid5 --tests write,read --yes d1 d2 d3 d4+fault=vanish,nth=400 --json
case $status in
  0|1|3) ;;
  *) show; fail "status $status" ;;
esac
grep -qE 'DEGRADED|FAILED' out || { show; fail "nothing says that a disk is gone"; }
[ "$status" -ne 0 ] || fail "a run that lost a disk is called valid"
