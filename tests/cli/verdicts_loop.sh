#!/bin/sh
# Verdicts that need a device of their own: another writer on it, and a file system on it that compresses.
. "$(dirname "$0")/verdict.sh"
. "$(dirname "$0")/functions.sh"
require_loop
loops 2 512MiB
device=$(echo $LOOPS | cut -d' ' -f1)
compressing=$(echo $LOOPS | cut -d' ' -f2)

# Without, the device serves from the page cache of its file, and everything on it is CACHED.
direct=yes
losetup --direct-io=on "$device" 2>/dev/null || direct=no

dd if=/dev/urandom of="$device" bs=1M count=512 status=none || fail "cannot fill $device"
run bench --json --rw read --bs 1MiB --size 128MiB --time 1s --repeats 1 "$device"
grep -q 'BACKGROUND' out && ! grep -q 'other programs took' out && { show; fail "BACKGROUND while nobody else was there"; }
[ $direct = no ] || json limit_mb_per_s | grep -q '^[0-9]' || { show; fail "no limit of a device"; }
random_file noise 8388608
(while :; do dd if=noise of="$device" bs=1M seek=256 conv=notrunc oflag=direct status=none || exit; done) &
writer=$!
run bench --json --rw read --bs 1MiB --size 128MiB --time 1s --repeats 1 "$device"
grep -E '"reason": ' out | grep -qE 'while the bench did nothing|times the bytes that were asked for|written to the devices during' ||
  { show; fail "nothing is said of the other writer"; }
[ "$status" -eq 3 ] || fail "status $status beside another writer"
[ $direct = no ] || first BACKGROUND
kill $writer
wait $writer 2>/dev/null

require_tool mkfs.btrfs "make a file system that compresses"
grep -qw btrfs /proc/filesystems || modprobe btrfs 2>/dev/null
grep -qw btrfs /proc/filesystems || skip "the kernel has no btrfs, so no file system here compresses"
mkfs.btrfs -q -f "$compressing" >/dev/null 2>&1 || fail "mkfs.btrfs"
mkdir mnt
mount -o compress-force=zstd "$compressing" mnt || skip "btrfs cannot be mounted"
MOUNTS="$WORK/mnt"
verdict DATA-REDUCED 'target that compresses: the devices wrote 0\.[0-8]' --rw write --bs 1MiB --size 64MiB --payload zero \
  --time 600ms --repeats 1 --buffered mnt
run bench --json --rw write --bs 1MiB --size 64MiB --time 600ms --repeats 1 mnt
grep -q 'DATA-REDUCED' out && { show; fail "random data were reduced"; }
exit 0
