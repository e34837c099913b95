#!/bin/sh
# --like takes the chunk, rotation and log of that volume manager; what is given beside it wins.
. "$(dirname "$0")/functions.sh"

like() { # NAME CHUNK ROTATION HOLE, other words
  disks 4 32M
  name=$1 chunk=$2 rotation=$3 hole=$4
  shift 4
  expect 0 array create --like "$name" "$@" t raid5 d1 d2 d3 d4
  expect 0 array status --json t
  [ "$(json chunk_bytes)" = "$chunk" ] || fail "$name: chunk $(json chunk_bytes)"
  [ "$(json rotation)" = "$rotation" ] || fail "$name: rotation $(json rotation)"
  [ "$(json write_hole)" = "$hole" ] || fail "$name: write hole $(json write_hole)"
  expect 0 array destroy t
}
like svm 524288 left-symmetric log
like vxvm 16384 left-symmetric log
like vinum 524288 left-asymmetric bitmap
like md 524288 left-symmetric bitmap
like lvm 65536 left-symmetric bitmap
like md 4096 right-symmetric log --chunk 4k --rotation right-symmetric --write-hole log

# Where a log disk is used, it is no member.
disks 4 32M
expect 0 array create --log d4 t raid5 d1 d2 d3
expect 0 array status --json t
[ "$(json disks)" = 3 ] || fail "the log disk counts as a member"
grep -q '"log_dedicated": true' out || fail "no dedicated log"

# --dry-run says and does nothing.
disks 4 32M
before=$(sha256sum d1 d2 d3)
expect 0 array create --dry-run v raid5 d1 d2 d3
grep -q 'would be made' err || fail "dry-run does not say what it would do"
[ "$before" = "$(sha256sum d1 d2 d3)" ] || fail "a dry run has written"
