#!/bin/sh
# The question before disks are erased, on a terminal: nothing is written without the word.
. "$(dirname "$0")/functions.sh"
require_tool script "be a terminal that answers"

# Four small disks with something on them, named by --destroy, so that only the question stands between.
fresh() {
  for disk in 1 2 3; do
    rm -f "d$disk"
    random_file "d$disk" 67108864
  done
  sha256sum d1 d2 d3 >before
}
# answer TEXT: what is typed into the terminal
answer() {
  printf '%s\n' "$1" >typed
  typed="compare --destroy all-named --size 16MiB --layouts stripe --tests write --out run d1 d2 d3"
  script -q -e -c "$SPINDLE $typed" screen <typed >shown 2>&1
  status=$?
}
# Where there is no room for the file in a directory, the question about the other disk is not put at all.
mkdir room
if truncate -s 10T large 2>/dev/null; then
  printf 'erase\n' >typed
  typed="compare --size 9TiB --layouts stripe --tests write --out run room large"
  script -q -e -c "$SPINDLE $typed" screen <typed >shown 2>&1
  status=$?
  [ "$status" -eq 2 ] || { cat shown >&2; fail "status $status without room"; }
  grep -q 'are needed there' shown || { cat shown >&2; fail "the reason is not the room"; }
  ! grep -q 'Type erase\|will be lost' shown || { cat shown >&2; fail "asked before the room was looked at"; }
  rm large
else
  echo "files of 10 TB cannot be made here: the order of room and question is not tested"
fi

fresh
answer "yes"
[ "$status" -eq 2 ] || { cat shown >&2; fail "status $status after the wrong word"; }
grep -q 'erase' shown || { cat shown >&2; fail "the question does not name the word"; }
for disk in d1 d2 d3; do
  grep -q "$disk" shown || { cat shown >&2; fail "the question does not name $disk"; }
done
sha256sum -c --quiet before >&2 || fail "written without the word"
answer ""
[ "$status" -eq 2 ] || { cat shown >&2; fail "status $status after no word"; }
sha256sum -c --quiet before >&2 || fail "written without the word"

answer "erase"
{ [ "$status" -eq 0 ] || [ "$status" -eq 3 ]; } || { cat shown >&2; fail "status $status after the word"; }
! sha256sum -c --quiet --status before || fail "the word was given and nothing was written"
grep -q '"test": "write"' run/result.json || fail "no cell"
