#!/bin/sh
# A disk that holds something is refused with the reason and not touched, unless --destroy names it.
. "$(dirname "$0")/functions.sh"

disks 4 32M
refused() { # PATTERN
  before=$(sha256sum d1 d2 d3)
  refuses "d2.*$1" array create t raid5 d1 d2 d3
  refuses "d2.*$1" survey --write d2
  refuses "d2.*$1" bench d2 --rw write --time 1s
  [ "$before" = "$(sha256sum d1 d2 d3)" ] || fail "a refused disk was touched ($1)"
}
fresh() {
  rm -f d2
  truncate -s 32M d2
}

if command -v mkswap >/dev/null 2>&1; then
  mkswap d2 >/dev/null 2>&1 || fail "mkswap"
  refused 'swap'
  fresh
fi
printf 'LUKS\272\276\000\001' | dd of=d2 bs=1 conv=notrunc status=none
refused 'LUKS|not empty|holds|data'
fresh
printf 'x' | dd of=d2 bs=1 seek=1000 conv=notrunc status=none
refused 'not empty|holds|data'
fresh
if command -v mkfs.ext4 >/dev/null 2>&1; then
  mkfs.ext4 -q -F d2
  refused 'ext4'
  fresh
fi
random_file text 100000
dd if=text of=d2 bs=1M seek=16 conv=notrunc status=none
dd if=text of=d2 conv=notrunc status=none
refused 'not empty|holds|data'

# Another disk's name is no consent; its own is.
refuses 'd2' array create --destroy d1 t raid5 d1 d2 d3
expect 0 array create --destroy d2 t raid5 d1 d2 d3
expect 0 array status t

# A member of an array is refused by name, and its array stays whole.
before=$(sha256sum d1 d2 d3)
refuses 'd1.*spindle.* t|d1.*array t' array create u mirror d1 d4
[ "$before" = "$(sha256sum d1 d2 d3)" ] || fail "a member was touched"
expect 0 array status t
