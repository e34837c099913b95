#!/bin/sh
# A survey names the slow disk, the bus that its disks share, and the drive that hides 4096-byte sectors; it only reads.
. "$(dirname "$0")/functions.sh"

# Planted in virtual time: the figures are exact there.
disk=mem:256MiB+model=hdd-7200-2008
expect 0 survey --clock virtual "$disk*3" "$disk,mb_s=30" --json
[ "$(grep -c '"slow": true' out)" = 1 ] || { show; fail "not exactly one slow disk"; }
expect 0 survey --clock virtual "$disk*3" "$disk,mb_s=30"
grep -q 'is slow' out || fail "the slow disk is not named"

# One disk has no company: nothing is said of "together".
expect 0 survey --clock virtual "$disk"
! grep -qi 'together' out || { show; fail "one disk alone is said to be together with others"; }
grep -q 'OUTER MB/s' out || { show; fail "no table"; }
expect 0 survey --clock virtual "$disk" --json
grep -q '"together_mb_per_s": null' out || { show; fail "one disk has a figure of all together"; }
grep -q '"bus_bound": false' out || { show; fail "one disk shares a bus"; }

expect 0 survey --clock virtual "$disk*4" --json
[ "$(grep -c '"slow": true' out)" = 0 ] || fail "a slow disk among equals"
grep -q '"bus_bound": false' out || fail "a bus limit where there is none"
expect 0 survey --clock virtual "$disk,bus=pci,bus_mb_s=120*4" --json
grep -q '"bus_bound": true' out || { show; fail "the bus is not found"; }
bus=$(json bus_mb_per_s)
awk -v b="$bus" 'BEGIN { exit !(b > 100 && b < 130) }' || fail "the bus is said to carry $bus MB/s, not about 120"

expect 0 survey --clock virtual --write 'mem:256MiB+model=hdd-5400-512e' --json
grep -q '"e512": true' out || { show; fail "the 512e drive is not named"; }
expect 0 survey --clock virtual --write "$disk" --json
grep -q '"e512": false' out || fail "a 512n drive is called 512e"

# The same seed, the same figures.
expect 0 survey --clock virtual "$disk*2" --json
cp out first
expect 0 survey --clock virtual "$disk*2" --json
same first out

# Files on the real clock: not a byte changes.
for file in a b; do
  random_file $file 8000000
  truncate -s 8388608 $file
done
before=$(sha256sum a b)
expect 0 survey --time 100ms a b
[ "$before" = "$(sha256sum a b)" ] || fail "a survey has written"
[ "$(grep -cE '^[ab]  ' out)" -eq 2 ] || { show; fail "not one line for each disk"; }

# A disk that fails is told, the others are measured.
expect 1 survey --clock virtual "$disk" "$disk+fault=eio" --json
[ "$(grep -c '"error": "..*"' out)" = 1 ] || { show; fail "not exactly one disk with an error"; }

refuses 'nosuch' survey nosuch
refuses 'given twice' survey a a
refuses 'virtual' survey --clock virtual a
refuses "no-such-model" survey mem:1GiB+model=no-such-model
