#!/bin/sh
# A disk that fails or vanishes while data goes in costs redundancy, not data.
. "$(dirname "$0")/functions.sh"

random_file image 12000000
for fault in eio,op=write,nth=3,sticky=1 vanish,nth=6; do
  disks 4 32M
  expect 0 array create t raid5 d1 d2 d3 d4
  "$SPINDLE" array write -d d1 -d "d2+fault=$fault" -d d3 -d d4 t <image 2>err || fail "$fault: write: $(cat err)"
  "$SPINDLE" array read --length 12000000 t >back 2>err || fail "$fault: read: $(cat err)"
  same image back
  expect 0 array status --json t
  [ "$(json state)" = degraded ] || fail "$fault: state is $(json state)"
  expect 0 array destroy t
done
