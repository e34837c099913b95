#!/bin/sh
# What bash offers at a place of the line.
completion=$(readlink -f "$(dirname "$0")/../../completions/spindle.bash")
. "$(dirname "$0")/functions.sh"
require_tool bash "try the completion"

cat >try.bash <<'END'
. "$1"
program=$2
shift 2
spindle() { "$program" "$@"; }
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_spindle
printf '%s\n' "${COMPREPLY[@]}"
END
offers() { # PATTERN WORD…: a line that is offered, bash having cut the words at = and :
  pattern=$1
  shift
  bash try.bash "$completion" "$SPINDLE" "$@" >out 2>err || { show; fail "completion of: $*"; }
  grep -qxE -- "$pattern" out || { show; fail "not '$pattern' for: $*"; }
}
offers compare spindle comp
offers --layouts spindle compare --lay
offers raid5 spindle compare --layouts ra
offers raid5,raid6 spindle compare --layouts raid5,rai
offers stripe,raid10 spindle compare --layouts = stripe,raid1
offers stripe spindle compare --layouts =
offers bonnie spindle bench --preset = bo
offers null: spindle bench nu
offers raid50 spindle bench array : raid5
offers hdd-7200-2008: spindle compare --model hdd-72
offers create spindle array cr
offers raid6 spindle array create t rai
: >disk-file
offers disk-file spindle survey disk
disks 3 32M
expect 0 array create tank raid5 d1 d2 d3
offers tank spindle array status ta
