#!/bin/sh
# `spindle bench pool:LAYOUT` measures a pool of the disks that follow; and what others published wrongly of stacks like
# it, as small trials with calculated right values, in virtual time.
. "$(dirname "$0")/functions.sh"

disk=mem:256MiB+model=hdd-7200-2008
measure() { # WORD…
  run bench --clock virtual --cpus free --json "$@"
  [ "$status" -ne 2 ] || { show; fail "refused: bench $*"; }
  mb=$(json mb_per_s) iops=$(json iops) verdict=$(json verdict) ratio=$(json compress_ratio)
  read=$(json device_read_bytes) written=$(json device_write_bytes) logical=$(json_last logical_bytes)
}
holds() { # EXPRESSION WHAT
  awk "BEGIN { exit !($1) }" || { show; fail "$2: $1 does not hold"; }
}

refuses 'no layout' bench pool:raid7 "$disk*4"
refuses 'at least 4' bench pool:parity3 "$disk*3"
refuses 'equal groups' bench pool:mirrorx3 "$disk*4"
refuses 'needs disks' bench pool:stripe
refuses '2 to 4 disks, not 8' bench pool:mirror "$disk*8"
refuses '2 to 4 disks, not 8' compare --clock virtual --layouts pool:mirror "$disk*8"
refuses 'compression|zstd' bench --clock virtual pool:stripe+zip "$disk*2"
refuses 'power of two' bench --record 12KiB pool:stripe "$disk*2"
refuses 'power of two' bench --record 2MiB pool:stripe "$disk*2"
refuses 'pool:LAYOUT' bench --record 8KiB "$disk"
refuses 'array:LAYOUT' bench --chunk 8KiB pool:stripe "$disk*2"
refuses 'comes first' bench "$disk" pool:stripe
refuses 'in this machine' bench --link 1GbE pool:stripe "$disk*2"

measure --rw write --bs 1MiB --size 256MiB pool:parity1 "$disk*4"
[ "$(json stack)/$(json layout)/$(json compression)" = pool/parity1/off ] || { show; fail "the cell's key"; }
[ "$(json failures_survived)" = 1 ] || { show; fail "failures survived"; }
holds "$written >= 1.33 * $logical && $written <= 1.45 * $logical" "three columns and their parity"

# Zeros make no speed (A01, A02): bytes that did not go to the disks are not counted for them, and the ratio says so.
twenty="$disk,mb_s=20"
measure --rw write --bs 1MiB --size 256MiB --payload zero pool:stripe+lz4 "$twenty*4"
[ "$verdict" = DATA-REDUCED ] || { show; fail "zeros on a pool that compresses give $verdict"; }
holds "$written <= 0.01 * $logical && $ratio > 100" "zeros take no room"
measure --rw write --bs 1MiB --size 256MiB pool:stripe+lz4 "$twenty*4"
holds "$ratio > 0.99 && $ratio < 1.01 && $mb <= 88" "data that does not shrink"
# Half of each 4 KiB: with what lz4 adds a little over 64 KiB of 128, in a column of 80.
measure --rw write --bs 1MiB --size 256MiB --repeats 1 --payload ratio:2 pool:stripe+lz4 "$twenty*4"
holds "$ratio > 1.55 && $ratio < 2.1" "data of 2:1"
# Filling with zeros ends although nothing is consumed (A04), and without compression zeros are data (A05).
measure --rw write --bs 1MiB --repeats 1 --payload zero pool:stripe "mem:64MiB*4"
holds "$written >= $logical" "zeros without compression"

# Pages of 8 KiB: sixteen times the bytes in records of 128 KiB, hardly more than parity in records of 8 KiB (A21), and
# the bench says which fits.
measure --rw randwrite --bs 8KiB --depth 4 --size 128MiB --time 4s --repeats 1 pool:parity1 "$disk*4"
grep -q -- '--record 8192' err || { show; fail "no word about small blocks in large records"; }
holds "$written > 8 * $logical" "small writes into large records"
measure --rw randwrite --bs 8KiB --depth 4 --size 128MiB --record 8KiB --repeats 1 pool:parity1 "$disk*4"
holds "$written <= 3 * $logical" "small writes into small records"
# A checksummed record is read whole: 256 times the bytes for 4 KiB of 1 MiB; a stream reads nothing twice (A22).
measure --rw randread --bs 4KiB --size 256MiB --record 1MiB --time 4s --repeats 1 pool:parity1 "$disk*4"
holds "$read > 128 * $logical && $read < 300 * $logical" "small reads of large records"
measure --rw read --bs 1MiB --size 256MiB --record 1MiB --repeats 1 pool:parity1 "$disk*4"
holds "$read <= 1.15 * $logical" "a stream"

# Small records cost no more room than large ones: 8 disks with two parities write 8/6 of the data and its metadata,
# whatever the record (A75, A76: other stacks write up to three times the data).
for record in 4KiB 16KiB 128KiB; do
  measure --rw write --bs 1MiB --size 192MiB --record $record --repeats 1 pool:parity2 "$disk*8"
  holds "$written >= 1.32 * $logical && $written <= 1.45 * $logical" "two parities with records of $record"
done

# Random reads of whole records: parity over five disks has five disks' rate, not one's; two mirrors have four (A82).
measure --rw randread --bs 128KiB --depth 1 --size 128MiB --time 4s --repeats 1 "$disk"
one=$iops
measure --rw randread --bs 128KiB --depth 64 --size 128MiB --time 8s --repeats 1 pool:parity1 "$disk*5"
parity=$iops
measure --rw randread --bs 128KiB --depth 64 --size 128MiB --time 8s --repeats 1 pool:mirrorx2 "$disk*4"
holds "$parity > 4 * $one && $parity > $iops" "random reads of parity over five disks"
# A stream of three disks with parity: at least 80 % of the data disks, cold (A52).
measure --rw read --bs 1MiB --size 320MiB --repeats 1 pool:parity1 "$disk*3"
holds "$mb >= 0.8 * 2 * 51" "a cold stream"
