#!/bin/sh
# Every layout takes data, gives it back, checks clean, and survives as many lost disks as it promises.
. "$(dirname "$0")/functions.sh"

random_file image 9000001
round_trip() { # LAYOUT COUNT MEMBER-TO-LOSE… ("" none)
  layout=$1
  count=$2
  shift 2
  disks "$count" 24M
  names=$(seq -f 'd%.0f' 1 "$count")
  # shellcheck disable=SC2086
  expect 0 array create --chunk 64KiB t "$layout" $names
  "$SPINDLE" array write t <image 2>err || fail "$layout: write: $(cat err)"
  "$SPINDLE" array read --length 9000001 t >back 2>err || fail "$layout: read: $(cat err)"
  same image back
  case $layout in
    single|concat|stripe)
      expect 2 array check t
      grep -q 'nothing to compare' err || fail "$layout: check does not say that there is nothing to compare" ;;
    *) expect 0 array check t ;;
  esac
  for lost in "$@"; do
    rm "$lost"
  done
  "$SPINDLE" array read --length 9000001 t >back 2>err || fail "$layout without $*: $(cat err)"
  same image back
  expect 0 array destroy t
  expect 2 array status t
}
round_trip single 1
round_trip concat 3
round_trip stripe 3
round_trip mirror 3 d1 d3
round_trip raid10 4 d2
round_trip raid10 5 d4
round_trip raid10-far 4 d1
round_trip raid10-offset 4 d3
round_trip raid01 4 d1
round_trip raid4 4 d4
round_trip raid5 3 d1
round_trip raid6 5 d2 d4
round_trip raid50 6 d1 d6
round_trip raid60 8 d1 d2 d7 d8
round_trip mirrorx2 4 d1 d4
