# For the tests of the command line: each is a shell script that gets the program as its only argument, works in a
# folder of its own, and leaves nothing behind. Ends with 0, 1, or 77 after "SKIP: reason".

set -u
SPINDLE=$(readlink -f "$1")
WORK=$(mktemp -d "${TMPDIR:-/tmp}/spindle-test.XXXXXX") || exit 1
export SPINDLE_STATE="$WORK/state"
export TERM=dumb NO_COLOR=1 LC_ALL=C.UTF-8
LOOPS=
MOUNTS=

cleanup() {
  status=$?
  trap - EXIT INT TERM
  for child in $(jobs -p); do
    kill "$child" 2>/dev/null
  done
  wait
  cd /
  for mount in $MOUNTS; do
    umount "$mount" 2>/dev/null
  done
  for loop in $LOOPS; do
    losetup -d "$loop" 2>/dev/null
  done
  rm -rf "$WORK"
  exit "$status"
}
trap cleanup EXIT
trap 'exit 130' INT TERM
cd "$WORK" || exit 1

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

skip() {
  echo "SKIP: $*"
  exit 77
}

require_root() {
  [ "$(id -u)" -eq 0 ] || skip "root is needed to $*"
}

require_tool() { # TOOL, what for
  command -v "$1" >/dev/null 2>&1 || skip "$1 is not installed, which is needed to $2"
}

require_loop() {
  require_root "make loop devices"
  command -v losetup >/dev/null 2>&1 || skip "losetup is not there, so no loop device can be made"
  truncate -s 1M probe
  probe=$(losetup --find --show probe 2>/dev/null) || skip "the kernel gives no loop device"
  losetup -d "$probe"
  rm probe
}

# disks COUNT SIZE: empty files d1, d2, …
disks() {
  for disk in $(seq 1 "$1"); do
    rm -f "d$disk"
    truncate -s "$2" "d$disk"
  done
}

# loops COUNT SIZE: loop devices over files, in $LOOPS
loops() {
  for loop in $(seq 1 "$1"); do
    truncate -s "$2" "loop$loop"
    LOOPS="$LOOPS $(losetup --find --show "loop$loop")" || fail "cannot make loop device $loop of $1"
  done
}

# Runs the program; its output goes to the files out and err, its status to $status.
run() {
  "$SPINDLE" "$@" >out 2>err
  status=$?
}

show() {
  sed 's/^/  out: /' out | head -40 >&2
  sed 's/^/  err: /' err | head -40 >&2
}

# expect STATUS WORD…: runs the program, which must end so.
expect() {
  wanted=$1
  shift
  run "$@"
  if [ "$status" -ne "$wanted" ]; then
    show
    fail "status $status instead of $wanted from: spindle $*"
  fi
}

# refuses PATTERN WORD…: status 2, one sentence on stderr that the pattern matches, nothing on stdout.
refuses() {
  pattern=$1
  shift
  expect 2 "$@"
  if [ "$(grep -c '^spindle: ' err)" -ne 1 ] || [ "$(wc -l <err)" -ne 1 ]; then
    show
    fail "not one sentence from: spindle $*"
  fi
  grep -qE -- "$pattern" err || { show; fail "the sentence does not say '$pattern': spindle $*"; }
  [ ! -s out ] || { show; fail "something on stdout from: spindle $*"; }
}

# same FILE FILE
same() {
  cmp "$1" "$2" >&2 || fail "$1 and $2 differ"
}

# The value of a key in the JSON of file out, the first one there: json KEY
json() {
  sed -nE "s/^[[:space:]]*\"$1\": \"?([^\",]*)\"?,?\$/\\1/p" out | head -1
}

# The same of the last one there, which is the last cell's: disks have some keys too.
json_last() {
  sed -nE "s/^[[:space:]]*\"$1\": \"?([^\",]*)\"?,?\$/\\1/p" out | tail -1
}

random_file() { # NAME BYTES
  head -c "$2" /dev/urandom >"$1"
}
