#!/bin/sh
# Misleading figures that others published, as small trials with calculated right values, in virtual time.
. "$(dirname "$0")/functions.sh"

disk=mem:256MiB+model=hdd-7200-2008
measure() { # WORD…: $mb, $iops, $verdict, $read and $written (device bytes), $logical
  run bench --clock virtual --cpus free --json "$@"
  [ "$status" -ne 2 ] || { show; fail "refused: bench $*"; }
  mb=$(json mb_per_s) iops=$(json iops) verdict=$(json verdict)
  read=$(json device_read_bytes) written=$(json device_write_bytes) logical=$(json_last logical_bytes)
}
holds() { # EXPRESSION WHAT
  awk "BEGIN { exit !($1) }" || { show; fail "$2: $1 does not hold"; }
}

# Four disks of 50 MB/s read no more than 200; a valid figure came from the disks (A07).
measure --rw read --bs 1MiB --size 256MiB array:stripe "$disk,mb_s=50*4"
holds "$mb <= 210" "read of four disks of 50 MB/s"
[ "$verdict" != VALID ] || holds "$read >= 0.95 * $logical" "a valid read that the disks did not deliver"
# The flush counts: four disks of 20 MB/s write no more than 80 (A11).
measure --rw write --bs 1MiB --size 256MiB array:stripe "$disk,mb_s=20*4"
holds "$mb <= 88" "write to four disks of 20 MB/s"

# A stripe has one disk's random reads at depth 1, and those of all at depth 32 (A15).
measure --rw randread --bs 4KiB --depth 1 --time 4s "$disk"
one=$iops
measure --rw randread --bs 4KiB --depth 1 --time 4s array:stripe "$disk*4"
holds "$iops > 0.9 * $one && $iops < 1.1 * $one" "random reads of a stripe at depth 1"
shallow=$iops
measure --rw randread --bs 4KiB --depth 32 --time 4s array:stripe "$disk*4"
holds "$iops >= 3.2 * $shallow" "random reads of a stripe at depth 32"

# Small pieces in a row make full rows: hardly a read (A23).
measure --rw write --bs 4KiB --size 128MiB array:raid5 "$disk*4"
holds "$read <= 0.01 * $written" "reads while 4 KiB pieces are written in a row"
# Small writes at random places in between change nothing for streams (A26).
run bench --clock virtual --cpus free --json --test write --test randwrite-8k --test rewrite array:raid5 "$disk*4"
sed -nE 's/^ *"mb_per_s": ([0-9.]+),?$/\1/p' out >rates
[ "$(wc -l <rates)" -eq 3 ] || { show; fail "not three rates"; }
holds "$(sed -n 3p rates) > 0.9 * $(sed -n 1p rates) && $(sed -n 3p rates) < 1.1 * $(sed -n 1p rates)" "a stream after random writes"

# Two slow disks of eight: the survey marks just these two; all disks of a stripe wait for them (A33).
expect 0 survey --clock virtual --json "$disk,mb_s=100*6" "$disk,mb_s=60*2"
[ "$(grep -c '"slow": true' out)" -eq 2 ] || { show; fail "not two slow disks"; }
measure --test write array:raid6 "$disk,mb_s=100*6" "$disk,mb_s=60*2"
[ "$verdict" = SLOW-DISK ] || { show; fail "two slow disks give $verdict"; }
holds "$mb <= 6 * 60 * 1.05" "six data disks, the slowest of 60 MB/s"
grep -q '#6 0.6.*#7 0.6' out || { show; fail "not both slow disks are named"; }
run compare --clock virtual --cpu free --json --layouts raid6 --tests read "$disk,zones=0,mb_s=100*6" "$disk,zones=0,mb_s=60*2"
holds "$(json model_mb_per_s) > 6 * 60 * 0.95 && $(json model_mb_per_s) < 6 * 60 * 1.02" "the model of six data disks of 60 MB/s"
# A bus of 100 MB/s is found within 5 % (A36), and disks that alone would be faster get the verdict.
expect 0 survey --clock virtual --json "$disk,bus=b,bus_mb_s=100*4"
holds "$(json bus_mb_per_s) > 95 && $(json bus_mb_per_s) < 105" "a bus of 100 MB/s"
measure --test write array:stripe "$disk,bus=b,bus_mb_s=100*4"
[ "$verdict" = BUS-BOUND ] || { show; fail "a bus gives $verdict"; }
# What a seek costs does not show behind a bus, so nothing is modelled for large records at random places.
run compare --clock virtual --cpu free --json --layouts stripe --tests read,randread "$disk,bus=b,bus_mb_s=100*4"
[ "$(grep -c '"model_mb_per_s": null' out)" -eq 1 ] || { show; fail "a model of records behind a bus"; }

# A flush of 5 ms behind each MiB: at most 200 of them a second; one flush at the end costs a stream little (A40).
fast=$disk,flush_ms=5
measure --rw write --bs 1MiB --size 128MiB --fsync 1MiB array:stripe "$fast*4"
holds "$iops <= 200" "a flush of 5 ms behind each write"
each=$mb
measure --rw write --bs 1MiB --size 128MiB array:stripe "$fast*4"
holds "$mb > $each * 1.5" "one flush at the end"
# A disk that slows down to 5 MB/s behind 64 MiB is no disk of 55 (A45).
measure --rw write --bs 1MiB --size 240MiB "$disk,burst_mib=64,after_mb_s=5"
[ "$verdict" != VALID ] || holds "$mb < 10" "a disk that slowed down to 5 MB/s"

# A disk that takes 200 ms longer: its array says which, and the data is right (A34).
measure --rw randread --bs 4KiB --depth 4 --time 4s array:mirror "$disk" "$disk+fault=slow,ms=200"
holds "$iops > 40" "a mirror with one slow side"

# Capacity and rank of 20 disks of 250 GB in a stripe, in pairs and in five RAID 5 (A81).
run compare --clock virtual --cpu free --layouts stripe,raid10,raid5x5 --tests randwrite-8k --size 16MiB --csv \
  'mem:32MiB+model=hdd-7200-2008*20'
{ [ "$status" -eq 0 ] || [ "$status" -eq 3 ]; } || { show; fail "twenty disks: status $status"; }
awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) column[$i] = i; next }
  { bytes[$column["layout"]] = $column["usable_bytes"]; iops[$column["layout"]] = $column["iops"] }
  function about(a, b) { return a > 0.99 * b && a < 1.01 * b }
  END { exit !(about(bytes["stripe"], 5e12) && about(bytes["raid10"], 2.5e12) && about(bytes["raid5x5"], 3.75e12) &&
    iops["stripe"] > iops["raid10"] && iops["raid10"] > iops["raid5x5"]) }' out || { show; fail "sizes or ranks of twenty disks"; }
