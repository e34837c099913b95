# For the tests of verdicts, beside functions.sh.

# verdict VERDICT PATTERN-OF-REASON WORD…: bench on these words gives this verdict, for this reason, with its status.
verdict() {
  wanted=$1
  pattern=$2
  shift 2
  run bench --json "$@"
  grep -q "\"verdict\": \"$wanted\"" out || { show; fail "no $wanted from: bench $*"; }
  grep -E '"reason": ' out | grep -qE "$pattern" || { show; fail "the reason does not say '$pattern': bench $*"; }
  case $wanted in
    VALID) [ "$status" -eq 0 ] ;;
    FAILED) [ "$status" -eq 1 ] ;;
    *) [ "$status" -eq 3 ] ;;
  esac || fail "status $status with $wanted"
}

# first VERDICT: the verdict of the only cell
first() {
  [ "$(json verdict)" = "$1" ] || { show; fail "the verdict is $(json verdict) instead of $1"; }
}
