#!/bin/sh
# Every option that --help lists is in the manual page of its verb and in the completion, and no page has others.
#   docs.sh PROGRAM SOURCE_ROOT
. "$(dirname "$0")/functions.sh"
root=$2

check() { # PAGE, then the verb's words
  page=$root/man/$1
  shift
  expect 0 "$@" --help
  sed -nE 's/^ +(-., )?(--[a-z0-9-]+).*/\2/p' out >options
  while read -r option; do
    grep -q -F -- "*$option*" "$page" || fail "$option of 'spindle $*' is not in $page"
    grep -q -F -- "$option" "$root/completions/spindle.bash" || fail "$option of 'spindle $*' is not completed"
  done <options
}
check spindle-compare.1.scd compare
check spindle-compare.1.scd report
check spindle-bench.1.scd bench
check spindle-survey.1.scd survey
check spindle.1.scd models
for verb in create status read write check replace attach detach destroy; do
  check spindle-array.1.scd array $verb
done

for verb in create destroy rename list get set inherit snapshot rollback clone status iostat history scrub import \
  export hold volume check dump; do
  check spindle-pool.1.scd $verb
done

# The other way: an option that a page names is one that its verb takes.
for verb in compare bench survey; do
  grep -oE -- '\*--[a-z0-9-]+\*' "$root/man/spindle-$verb.1.scd" | tr -d '*' | sort -u | while read -r option; do
    # With a value and a wrong option behind it, nothing ever runs.
    run $verb "$option=x" --no-such-option
    if grep -q -e "no option $option[; ]" err; then
      run report "$option=x" --no-such-option
      if [ $verb != compare ] || grep -q -e "no option $option;" err; then
        echo "$option in the page of $verb is no option"
      fi
    fi
  done >strange
  [ ! -s strange ] || fail "$(cat strange)"
done

if command -v scdoc >/dev/null 2>&1; then
  for page in "$root"/man/*.scd; do
    scdoc <"$page" >page.out || fail "$page is no good scdoc"
  done
fi
if command -v bash >/dev/null 2>&1; then
  bash -n "$root/completions/spindle.bash" || fail "the completion is no good bash"
fi
