#!/bin/sh
# `compare` refuses what makes no sense with one sentence and status 2, and touches nothing.
. "$(dirname "$0")/functions.sh"

disks 4 64M
random_file full 4000000
before=$(sha256sum d1 d2 d3 d4 full)
refuses 'nosuch' compare d1 d2 nosuch
refuses 'twice' compare d1 d2 d1
ln -s d1 link
refuses 'same disk' compare d1 d2 link
truncate -s 64K tiny
refuses 'tiny.* small' compare d1 d2 tiny
refuses 'full' compare d1 d2 full
refuses 'raid6' compare --layouts raid6 d1 d2 d3
refuses 'raid99' compare --layouts raid99 d1 d2 d3
refuses 'wrote' compare --tests wrote d1 d2 d3
refuses 'no-such-model' compare --model no-such-model:4
refuses 'no-such-model' compare 'mem:64MiB+model=no-such-model*3'
refuses 'fault|explode' compare 'mem:64MiB+fault=explode*3'
refuses 'power of two' compare --chunk 100k d1 d2 d3
refuses 'clock|sundial' compare --clock sundial
refuses 'virtual' compare --clock virtual d1 d2 d3
refuses 'zfs|stack' compare --stacks zfs,bogus d1 d2 d3
refuses 'link|carrier' compare --link carrier-pigeon
refuses 'destroy' compare --destroy d9 d1 d2 d3
[ "$before" = "$(sha256sum d1 d2 d3 d4 full)" ] || fail "a refused command has changed a disk"
[ ! -d "$SPINDLE_STATE/runs" ] || [ -z "$(ls -A "$SPINDLE_STATE/runs")" ] || fail "a refused run is kept"

# A dry run shows the steps and writes nothing.
run compare --dry-run --layouts raid5 --tests write d1 d2 d3
[ "$status" -eq 0 ] || { show; fail "dry run: status $status"; }
[ "$before" = "$(sha256sum d1 d2 d3 d4 full)" ] || fail "a dry run has written"
