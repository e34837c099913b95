#!/bin/sh
# Every preset runs through `compare`: each of its tests has a cell with a figure and a limit, and none failed.
. "$(dirname "$0")/functions.sh"

# preset NAME TEST…
preset() {
  name=$1
  shift
  run compare --clock virtual --model hdd-7200-2008:4 --size 32MiB --layouts stripe --preset "$name" --json
  { [ "$status" -eq 0 ] || [ "$status" -eq 3 ]; } || { show; fail "$name: status $status"; }
  grep -q '"verdict": "FAILED"' out && { show; fail "$name: a cell failed"; }
  for test in "$@"; do
    [ "$(grep -c "\"test\": \"$test\"" out)" -eq 1 ] || { show; fail "$name: not one cell of $test"; }
  done
  [ "$(grep -c '"test": ' out)" -eq $# ] || fail "$name: other tests than its own"
  [ "$(grep -c '"limit_mb_per_s": [0-9]' out)" -eq $# ] || fail "$name: a cell without its limit"
  [ "$(grep -c '"mb_per_s": [0-9]' out)" -eq $# ] || fail "$name: a cell without its figure"
}
preset dd dd-2m-write dd-2m-read dd-8k-write dd-8k-read dd-1m-fsync
grep -qE 'dd-2m-write [0-9.]+ GiB scaled to' out || fail "that dd was scaled is not said"
preset iozone write rewrite read reread randread randwrite
preset bonnie bonnie-write bonnie-rewrite bonnie-read bonnie-seeks
preset vm vm
preset database database-data database-log
preset nfs nfs-write nfs-randwrite nfs-read
preset quick write read randread-8k randwrite-8k
refuses "did you mean 'bonnie'" compare --preset bonie
refuses 'exclude each other' compare --preset dd --tests write
