#!/bin/sh
# `bench`: every preset runs, every output has its shape, what is there is not written to without consent.
. "$(dirname "$0")/functions.sh"

disk=mem:128MiB+model=ssd-sata
for preset in dd iozone bonnie vm database nfs quick; do
  run bench --clock virtual --preset $preset --json "$disk"
  { [ "$status" -eq 0 ] || [ "$status" -eq 3 ]; } || { show; fail "$preset: status $status"; }
  grep -q '"test": ' out || fail "$preset has no test"
  grep -q '"verdict": "FAILED"' out && { show; fail "$preset: a cell failed"; }
done
for kind in read write randread randwrite rw randrw; do
  run bench --clock virtual --rw $kind --bs 64KiB --depth 4 --jobs 2 --csv "$disk"
  { [ "$status" -eq 0 ] || [ "$status" -eq 3 ]; } || { show; fail "$kind: status $status"; }
  [ "$(wc -l <out)" -eq 2 ] || { show; fail "$kind: not a head and a line of CSV"; }
done
run bench --clock virtual --rw read --fio-json "$disk"
grep -q '"jobs"' out && grep -q '"bw' out || { show; fail "not the shape of fio"; }
run bench --clock virtual --rw read --markdown "$disk"
grep -q '^|' out || { show; fail "no Markdown table"; }
expect 0 bench cpu: --json
grep -q '"stage": "parity1"' out || fail "no parity stage in cpu:"

# The same seed, the same figures in virtual time.
figures() {
  run bench --clock virtual --cpus free --seed 5 --rw randread --bs 4KiB --depth 8 --json "$disk"
  grep -E '"(mb_per_s|iops|p50|p99|max|device_read_bytes|elapsed_s)"' out
}
figures >first
figures >second
same first second

# Reading a file leaves it; writing to it needs its name.
random_file data 8388608
before=$(sha256sum data)
run bench --rw read --bs 1MiB --time 300ms --repeats 1 data
{ [ "$status" -eq 0 ] || [ "$status" -eq 3 ]; } || { show; fail "read of a file: status $status"; }
refuses 'data' bench --rw write --time 300ms data
refuses 'not one of' bench --rw write --time 300ms --destroy other data
[ "$before" = "$(sha256sum data)" ] || fail "the file has changed"
run bench --rw write --bs 1MiB --time 300ms --repeats 1 --destroy data data
{ [ "$status" -eq 0 ] || [ "$status" -eq 3 ]; } || { show; fail "write of a file: status $status"; }
[ "$before" != "$(sha256sum data)" ] || fail "nothing was written"

refuses 'nosuch' bench nosuch --rw read
refuses 'multiple of 512' bench null: --rw read --bs 100
refuses 'payload|gold' bench null: --rw write --payload gold
refuses 'virtual' bench --clock virtual data --rw read
refuses 'raid5' bench --clock virtual array:raid5 "$disk*2"
refuses 'needs disks' bench array:raid5
