#!/bin/sh
# A full pool says so, keeps what it has, and can always delete; then there is room again.
. "$(dirname "$0")/functions.sh"

for groups in 'd1' 'mirror d1 d2' 'parity1 d1 d2 d3' 'parity2 d1 d2 d3 d4'; do
  disks 4 24M
  # shellcheck disable=SC2086
  expect 0 create tank $groups
  expect 0 create -V 200M -s tank/big
  expect 0 create -V 2M -s tank/small
  random_file keep 1000000
  "$SPINDLE" volume write tank/small <keep || fail "write"
  head -c 120000000 /dev/urandom | "$SPINDLE" volume write tank/big >out 2>err
  status=$?
  [ "$status" -eq 1 ] || { show; fail "$groups: status $status from filling"; }
  grep -qi 'space' err || { show; fail "$groups: the sentence does not speak of space"; }
  "$SPINDLE" volume read --length 1000000 tank/small >back || fail "$groups: read when full"
  same keep back
  expect 0 check --data tank
  expect 0 snapshot tank/small@s
  expect 0 destroy tank/small@s
  expect 0 destroy tank/big
  for round in 1 2 3 4; do expect 0 set comment=$round tank; done
  expect 0 create -V 8M -s tank/again
  random_file again 6000000
  "$SPINDLE" volume write tank/again <again 2>err || fail "$groups: no room after deleting: $(cat err)"
  "$SPINDLE" volume read --length 6000000 tank/again >back || fail "read"
  same again back
  expect 0 check --data tank
  expect 0 destroy -f tank
done
