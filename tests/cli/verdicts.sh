#!/bin/sh
# A planted flaw gets its verdict, with the figure that decided, and status 3; without it the figure is valid.
. "$(dirname "$0")/functions.sh"

disk=mem:256MiB+model=hdd-7200-2008
verdict() { # VERDICT PATTERN-OF-REASON WORD…
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
verdict VALID 'no rule' --clock virtual --test write array:raid5 "$disk*8"
[ "$(grep -c '"limit_mb_per_s": [0-9]' out)" -eq 1 ] || fail "a valid cell without its limit"
verdict BUS-BOUND 'together.*alone' --clock virtual --test write array:stripe "$disk,bus=pci,bus_mb_s=120*4"
verdict SLOW-DISK '#3.*median' --clock virtual --test write array:stripe "$disk*3" "$disk,mb_s=30"
verdict FLUSH-LIE 'flush' --clock virtual --test write array:stripe "$disk+fault=lieflush*3"
verdict CPU-BOUND 'busy' --clock virtual --cpus 1 --test write array:raid6 'mem:256MiB+model=ssd-nvme*8'
verdict TOO-SHORT '0\.[0-9]+ s' --clock virtual --rw read --time 200ms "$disk"
verdict DEGRADED 'degraded' --clock virtual --test read array:raid5 "$disk*3" "$disk+fault=vanish,nth=300"
# The limit takes some 280 reads of each disk before the array gets its turn, which takes some 340.
verdict FAILED 'fail|fault' --clock virtual --test read array:stripe "$disk*3" "$disk+fault=eio,op=read,nth=450,sticky=1"
verdict TOOL-BOUND 'nothing' null: --rw read --time 600ms --repeats 1
mkdir cached
verdict CACHED 'cache' --buffered --rw read --size 16MiB --bs 1MiB --time 1s --repeats 1 cached
[ -z "$(ls cached)" ] || fail "the file of the bench is left"

# A layout that does not fit is listed with the reason.
run compare --clock virtual --model hdd-7200-2008:3 --tests write --json
{ [ "$status" -eq 0 ] || [ "$status" -eq 3 ]; } || { show; fail "three disks: status $status"; }
grep -q 'raid6' out || { show; fail "raid6 over three disks is not listed"; }
