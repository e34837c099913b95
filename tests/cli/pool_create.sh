#!/bin/sh
# Pools are made of groups as zpool names them, ready at once; what makes no sense is refused and nothing is written.
. "$(dirname "$0")/functions.sh"

disks 8 32M
sum=$(cat d? | sha256sum)
refuses 'needs a name' create
refuses 'needs disks' create tank
refuses 'at least 2' create tank mirror d1
refuses 'at least' create tank parity2 d1 d2
refuses 'width' create tank parity1:1 d1 d2 d3
refuses 'no width' create tank mirror:2 d1 d2
refuses 'not built yet' create tank mirror d1 d2 spare d3
refuses 'no such file' create tank mirror d1 d9
refuses 'twice|same' create tank mirror d1 d1
refuses 'memory disk' create tank mem:64MiB
refuses 'POOL/VOLUME' create -V 16M tank
refuses 'volumes' create -s tank/x
refuses 'no option' create --bogus tank d1
refuses '.' create 'ta nk' d1
refuses '.' create mirror d1 d2
refuses '.' create "$(printf 'x%.0s' $(seq 300))" d1 d2
truncate -s 8M small
refuses 'too small' create tank small
refuses 'redundancy|survive' create tank mirror d1 d2 parity2 d3 d4 d5 d6
[ "$(cat d? | sha256sum)" = "$sum" ] || fail "a refused create wrote to a disk"
expect 0 create -n tank raidz2 d1 d2 d3 d4
grep -q 'would be made' err || fail "dry run says nothing"
[ "$(cat d? | sha256sum)" = "$sum" ] || fail "a dry run wrote to a disk"
expect 2 status tank

for groups in 'd1' 'd1 d2 d3' 'mirror d1 d2' 'mirror d1 d2 d3' 'mirror d1 d2 mirror d3 d4' 'parity1 d1 d2 d3' 'raidz d1 d2 d3' \
  'raidz2 d1 d2 d3 d4' 'raidz3 d1 d2 d3 d4 d5' 'parity1:3 d1 d2 d3 d4 d5' 'parity1 d1 d2 d3 parity1 d4 d5 d6'; do
  disks 6 32M
  # shellcheck disable=SC2086
  expect 0 create tank $groups
  grep -q 'is ready' err || fail "$groups: no word of it"
  expect 0 list -H -p -o name,health tank
  [ "$(cat out)" = "$(printf 'tank\tONLINE')" ] || { show; fail "$groups: list"; }
  expect 0 check tank
  # shellcheck disable=SC2086
  refuses 'known already|pool' create other $groups
  refuses '-f' destroy tank
  expect 0 destroy -f tank
  expect 2 status tank
  # What a pool leaves behind is not empty, and nobody's: it takes a word to overwrite it.
  # shellcheck disable=SC2086
  refuses 'not empty' create tank $groups
  # shellcheck disable=SC2086
  expect 0 create -f tank $groups
  expect 0 destroy -f tank
done

# What a disk holds is not overwritten.
disks 2 32M
mkfs.ext4 -q d1 2>/dev/null && {
  sum=$(sha256sum <d1)
  refuses 'ext4' create tank mirror d1 d2
  [ "$(sha256sum <d1)" = "$sum" ] || fail "a foreign disk was written to"
  expect 0 create -f tank mirror d1 d2
  expect 0 destroy -f tank
}
disks 3 32M
expect 0 create tank mirror d1 d2
refuses 'pool' create other d1
refuses 'pool' array create a mirror d1 d2
expect 0 status tank
