#!/bin/sh
# spindle compare and report on the command line: what is refused and how, what is kept, and what is left behind.
#   t_report_compare.sh SPINDLE
set -u
spindle=$(realpath "$1") || exit 99
dir=$(mktemp -d) || exit 99
export SPINDLE_STATE="$dir/state"
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 99
failures=0

fail() { echo "FAILED: $*"; failures=$((failures + 1)); }

# refused STATUS PATTERN ARGUMENT…: one sentence on stderr, nothing on stdout.
refused() {
	wanted=$1 pattern=$2
	shift 2
	"$spindle" "$@" >out 2>err </dev/null
	status=$?
	[ $status -eq "$wanted" ] || fail "spindle $*: exit status $status, not $wanted: $(cat err)"
	grep -q -- "$pattern" err || fail "spindle $*: '$pattern' is not in: $(cat err)"
	[ -s out ] && fail "spindle $*: wrote to stdout"
	[ "$(grep -c '^spindle:' err)" -eq 1 ] || fail "spindle $*: not one sentence: $(cat err)"
}

for i in 1 2 3 4; do truncate -s 64M f$i; done
head -c 100000 /dev/urandom >full && truncate -s 64M full
truncate -s 1M tiny
ln -s f1 link

refused 2 "raid5 needs at least 3" compare --layouts raid5 --model hdd-7200-2008:2
refused 2 "names raid5 twice" compare --layouts raid5,raid5
refused 2 'raid7' compare --layouts raid7
refused 2 "not built into this program yet" compare --stacks md
refused 2 "there is no stack" compare --stacks nonsense
refused 2 "did you mean 'write'" compare --tests writ
refused 2 "no power of two" compare --chunk 100k
refused 2 "no disk model" compare --model nonsense:3
refused 2 "needs memory disks" compare --clock virtual f1 f2
refused 2 "given twice" compare f1 f1
refused 2 "same disk" compare f1 link
refused 2 "no such file" compare f1 missing
refused 2 "not empty" compare f1 full
refused 2 "too small" compare f1 tiny
refused 2 "not one of the disks" compare f1 --destroy f2
refused 2 "there is no rig" compare --rig nonsense
refused 2 "exclude each other" compare --json --csv
refused 2 "exclude each other" compare --preset dd --tests write
refused 2 "1GbE" compare --link 5GbE
refused 2 "has no option --nonsense" compare --nonsense
refused 2 "--clock is" compare --clock slow
refused 2 "smallest one offers" compare --size 1GiB f1 f2
refused 2 "no such result" report nonsense
refused 2 "needs a RUN" report

# A dry run tells every step and writes nothing.
before=$(cat f1 f2 f3 full | sha256sum)
"$spindle" compare --dry-run --destroy full f1 f2 f3 full >plan 2>err || fail "dry run: $(cat err)"
grep -q "make raid5 of 4 disks" plan || fail "the plan does not make raid5"
grep -q "full.*ERASED, it holds data" plan || fail "the plan does not say that full is erased"
grep -q "Nothing was written" plan || fail "the plan does not end as it should"
[ "$before" = "$(cat f1 f2 f3 full | sha256sum)" ] || fail "a dry run wrote to a disk"
[ -e state ] && fail "a dry run left a result"

# In virtual time the same seed gives the same cells.
run() { "$spindle" compare --clock virtual --model hdd-7200-2008:4 --layouts stripe,raid5 --tests write,read --cpu free "$@" 2>err; }
run --json >a.json
status=$?
[ $status -eq 0 ] || [ $status -eq 3 ] || fail "virtual run: status $status: $(cat err)"
run --json >b.json
sed -n '/"cells"/,$p' a.json >a.cells
sed -n '/"cells"/,$p' b.json >b.cells
[ -s a.cells ] || fail "no cells"
cmp -s a.cells b.cells || fail "two runs with one seed differ: $(diff a.cells b.cells | head -5)"
[ "$(grep -c '"test"' a.cells)" -eq 4 ] || fail "not four cells"
grep -q '"mb_per_s": null' a.cells && fail "a cell without a figure: $(grep verdict_reason a.cells)"

# The result is kept, and shown again.
kept=$(ls -d state/runs/*/ | head -1)
[ -s "$kept/result.json" ] && [ -s "$kept/summary.txt" ] || fail "no result kept in $kept"
"$spindle" report "$kept" --json 2>/dev/null | cmp -s - "$kept/result.json" || fail "report --json differs from what was kept"
"$spindle" report "$(basename "$kept")" --csv 2>/dev/null | head -1 | grep -q '^run,started,stack,layout' || fail "no CSV"
COLUMNS=80 "$spindle" report "$kept" 2>/dev/null | grep -q "Advice" || fail "no advice"
"$spindle" report state/runs/* >out 2>err || fail "two runs of one kind do not compare: $(cat err)"
grep -q "tie" out || fail "equal runs are not called a tie"
"$spindle" compare --clock virtual --model hdd-15k-sas:4 --layouts stripe,raid5 --tests write,read --cpu free --out other >/dev/null 2>err
"$spindle" report "$kept" other >out 2>err
[ $? -eq 4 ] || fail "runs of different disks compare"
"$spindle" report --force "$kept" other >out 2>err || fail "--force did not help"

# Layouts that do not fit are listed, and a table at 80 columns stays within them.
COLUMNS=80 "$spindle" compare --clock virtual --model hdd-7200-2008:2 --tests write --price 80 --link 1GbE >out 2>err
grep -q "raid5: raid5 needs" out || fail "raid5 on two disks is not listed as left out"
[ "$(wc -L <out)" -le 80 ] || fail "a line of $(wc -L <out) columns"
grep -q "per TB" out || fail "no price"

# Directories: a file in each, gone at the end, on Ctrl-C, and after a kill at the next start.
mkdir d1 d2
directories() { "$spindle" compare --size 32MiB --layouts stripe --tests write,read --budget 4s d1 d2 "$@" 2>err; }
directories --json >out
status=$?
[ $status -eq 0 ] || [ $status -eq 3 ] || fail "directories: status $status: $(cat err)"
[ -z "$(ls d1 d2 | grep disk)" ] || fail "files stayed behind: $(ls d1 d2)"
# A shell without job control starts what runs behind it with SIGINT ignored; the program takes it back.
"$spindle" compare --size 32MiB --layouts stripe d1 d2 --json >out 2>err &
pid=$!
n=0
while [ -z "$(ls d1)" ] && [ $n -lt 50 ]; do sleep 0.1; n=$((n + 1)); done
sleep 0.3
kill -INT $pid
wait $pid
status=$?
[ $status -eq 130 ] || fail "interrupted: status $status: $(cat err)"
[ -z "$(ls d1 d2 | grep disk)" ] || fail "files stayed behind after an interrupt: $(ls d1 d2)"
grep -q '"interrupted": true' out || fail "no partial result after an interrupt"
touch d1/spindle-compare-mine.txt d1/other.disk
"$spindle" compare --size 32MiB --layouts stripe d1 d2 >out 2>err &
pid=$!
n=0
while [ -z "$(ls d2)" ] && [ $n -lt 50 ]; do sleep 0.1; n=$((n + 1)); done
kill -KILL $pid
wait $pid 2>/dev/null
[ -n "$(ls d2)" ] || fail "the kill came too late to be a test"
directories --csv >out
grep -q "was left by an earlier run" err || fail "nothing said of what was left: $(cat err)"
[ "$(ls d1 d2 | grep -c disk)" -eq 1 ] || fail "leftovers: $(ls d1 d2)"
[ -e d1/spindle-compare-mine.txt ] && [ -e d1/other.disk ] || fail "files of others were removed"

[ $failures -eq 0 ]
