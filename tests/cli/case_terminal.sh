#!/bin/sh
# Names in any writing, narrow terminals, a reader that goes away, and any language.
. "$(dirname "$0")/functions.sh"

mkdir "with space" && cd "with space" || exit 1
for disk in 1 2 3; do
  truncate -s 32M "dïsk 日本 $disk"
done
expect 0 array create t raid5 "dïsk 日本 1" "dïsk 日本 2" "dïsk 日本 3"
echo hello >in
"$SPINDLE" array write t <in || fail "write"
"$SPINDLE" array read t --length 6 >back || fail "read"
same in back
expect 0 array status t
grep -q 'dïsk 日本 2' out || { show; fail "a name in UTF-8 is not shown as it is"; }
for language in C de_DE.UTF-8 no_SUCH; do
  LC_ALL=$language "$SPINDLE" array status t >out 2>err || fail "status with LC_ALL=$language"
  grep -q '^t: healthy' out || { show; fail "LC_ALL=$language"; }
done
long=$(printf 'x%.0s' $(seq 1 200))
mkdir "$long" "$long/$long"
truncate -s 32M "$long/$long/d"
refuses 'at most' array create u mirror "$long/$long/d" "dïsk 日本 1"

run compare --clock virtual --cpu free --model hdd-7200-2008:4 --layouts stripe,raid5 --tests write,read --out kept
{ [ "$status" -eq 0 ] || [ "$status" -eq 3 ]; } || { show; fail "status $status"; }
for columns in 40 80 160; do
  COLUMNS=$columns "$SPINDLE" report kept >out 2>err
  [ "$(wc -L <out)" -le $columns ] || { show; fail "a line of $(wc -L <out) columns where $columns are"; }
  grep -q raid5 out || fail "no raid5 at $columns columns"
done
for columns in 0 1 many; do
  COLUMNS=$columns "$SPINDLE" report kept 2>err | grep -q raid5 || fail "COLUMNS=$columns"
done
{ "$SPINDLE" report kept; echo $? >code; } 2>err | head -1 >out
grep -qE '^(0|1|3|141)$' code || fail "with a reader that goes away: status $(cat code)"
"$SPINDLE" report kept --json >&- 2>err
[ $? -eq 1 ] || fail "a closed standard output is no error"

# What is no result is said at once; a FIFO is not waited for.
mkfifo fifo
refuses 'no file with a result' report fifo
refuses 'no result.json' report .
refuses 'no such result' report nothing
