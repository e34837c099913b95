#!/bin/sh
# Verdicts of what is behind a directory: a target that lies is planted between the program and the kernel.
. "$(dirname "$0")/verdict.sh"
. "$(dirname "$0")/functions.sh"
LIAR=$2 # the library of lie.c

# On a device of its own, where there can be one: what others write elsewhere counts for nothing there.
mkdir d
if [ "$(id -u)" -eq 0 ] && command -v mkfs.ext4 >/dev/null 2>&1 && truncate -s 512M image &&
  loop=$(losetup --find --show image 2>/dev/null); then
  LOOPS=$loop
  mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0 "$loop" && mount "$loop" d && MOUNTS="$WORK/d" && rmdir d/lost+found
fi
run bench --json --rw write --bs 1MiB --size 128MiB --repeats 1 --buffered d
[ "$(json device_write_bytes)" != null ] || skip "the kernel counts nothing for the device under $WORK"

# The flush lies: all was said to be written, nothing is on the disks.
export ASAN_OPTIONS=verify_asan_link_order=0
lie() {
  how=$1
  shift
  LIE=$how LD_PRELOAD=$LIAR "$SPINDLE" "$@" >out 2>err
  status=$?
}
lie fsync bench --json --rw write --bs 1MiB --size 128MiB --repeats 1 --buffered d
first IMPOSSIBLE
grep -q 'claims more than its disks moved' out || { show; fail "the reason is another"; }
[ $status -eq 3 ] || fail "status $status"

# Zeros that never arrive: the payload is to blame, and with data that nothing can reduce they do arrive.
lie zeros bench --json --rw write --bs 1MiB --size 64MiB --repeats 1 --buffered --payload zero d
first DATA-REDUCED
grep -q 'devices wrote 0\.[0-8]' out || { show; fail "the share that was written is not said"; }
lie zeros bench --json --rw write --bs 1MiB --size 128MiB --repeats 1 --buffered d
grep -q 'DATA-REDUCED' out && { show; fail "random data were reduced"; }

# More than the declared link carries did not come over it.
verdict IMPOSSIBLE 'over a link that carries 0.5 MB/s' --link 0.5 --rw write --bs 1MiB --size 64MiB --repeats 1 \
  --time 600ms d

# A limit is measured on the file itself, past the cache; where nothing gets past it, no figure is valid.
run bench --json --rw read --bs 1MiB --size 64MiB --repeats 1 --time 600ms d
case $(json limit_mb_per_s) in
  [0-9]*) ;;
  *) grep -q 'direct I/O is not in effect' out || { show; fail "no limit of a directory"; } ;;
esac
if [ "$(stat -f -c %T /dev/shm 2>/dev/null)" = tmpfs ] && [ -w /dev/shm ]; then
  run bench --json --rw write --bs 1MiB --size 16MiB --repeats 3 --time 600ms --buffered /dev/shm
  [ "$(json limit_mb_per_s)" = null ] || { show; fail "memory has a limit"; }
  grep -q '"verdict": "VALID"' out && { show; fail "valid without a limit"; }
fi
[ -z "$(ls -A d)" ] || fail "the file of the bench is left"
exit 0
