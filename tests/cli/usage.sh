#!/bin/sh
# Whatever is typed wrong gets one sentence and status 2; help and version are there and fit a screen.
. "$(dirname "$0")/functions.sh"

expect 2
grep -q '^usage: spindle' err || fail "no usage without arguments"
expect 0 --version
grep -qE '^spindle [0-9]+\.[0-9]+' out || fail "no version"

refuses "no verb 'comparr'; did you mean 'compare'" comparr
refuses "no verb 'xyzzy'" xyzzy
refuses "no option --frob" --frob
refuses "array has no verb 'creat'; did you mean 'create'" array creat
for verb in compare survey bench report models "array create" "array status" "array check"; do
  # shellcheck disable=SC2086
  refuses "no option --no-such-thing" $verb --no-such-thing
done
refuses "did you mean --chunk" array create --chunck 4k x raid5 a b c
refuses "needs a value" array create t raid5 a b c --chunk
refuses "takes no value" models --json=yes
refuses "needs disks" survey
refuses "needs a target" bench
refuses "preset 'dd2'" bench null: --preset dd2
refuses "no test 'wrote'; did you mean 'write'" bench null: --test wrote
refuses "exclude each other" bench null: --preset dd --rw read

screen() {
  expect 0 "$@" --help
  [ -s err ] && fail "help of '$*' writes to stderr"
  [ "$(wc -l <out)" -le 50 ] || fail "help of '$*' has more than 50 lines"
  [ "$(wc -L <out)" -le 100 ] || fail "help of '$*' is $(wc -L <out) columns wide"
}
screen
for verb in compare survey bench report models array "array create" "array status" "array read" "array write" \
  "array check" "array replace" "array attach" "array detach" "array destroy"; do
  # shellcheck disable=SC2086
  screen $verb
done

if [ -w /dev/full ]; then
  "$SPINDLE" models >/dev/full 2>err
  [ $? -eq 1 ] || fail "a full standard output is no error"
  grep -q 'standard output' err || fail "a full standard output is not named"
fi

# Every status that the program can end with stands in its help and in the manual page.
expect 0 --help
for status in 0 1 2 3 4 130; do
  sed -n '/^Exit status/,$p' out | grep -qE "(^|[ ,])$status [a-z]" || fail "the help does not list the exit status $status"
done
