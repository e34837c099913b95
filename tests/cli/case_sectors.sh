#!/bin/sh
# On disks of odd size, and under bytes at any offset, all that is written to a disk is aligned to 4096 bytes (A27, A28).
. "$(dirname "$0")/functions.sh"

disks 4 32M
n=0
for disk in 1 2 3 4; do
  n=$((n + 1536))
  truncate -s $((33554432 + n)) d$disk
done
traced="d1+trace=t1 d2+trace=t2 d3+trace=t3 d4+trace=t4"
# shellcheck disable=SC2086
expect 0 array create t raid5 $traced
cat t1 t2 t3 t4 >all
rm t1 t2 t3 t4
random_file image 1000001
members=
for member in $traced; do
  members="$members -d $member"
done
# shellcheck disable=SC2086
"$SPINDLE" array write t --offset 12345 $members <image 2>err || fail "write: $(cat err)"
cat t1 t2 t3 t4 >>all
rm t1 t2 t3 t4
# shellcheck disable=SC2086
"$SPINDLE" array read t --offset 12345 --length 1000001 $members >back 2>err || fail "read: $(cat err)"
same image back
cat t1 t2 t3 t4 >>all
[ "$(grep -c '^write' all)" -gt 10 ] || fail "hardly a write in the trace"
awk '$1 == "write" && ($2 % 4096 || $3 % 4096)' all >odd
[ ! -s odd ] || fail "not aligned: $(head -2 odd)"
