#!/bin/sh
# A planted flaw gets its verdict, with the figure that decided, and status 3; without it the figure is valid.
. "$(dirname "$0")/verdict.sh"
. "$(dirname "$0")/functions.sh"

disk=mem:256MiB+model=hdd-7200-2008
verdict VALID 'no rule' --clock virtual --test write array:raid5 "$disk*4"
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
verdict TOOL-BOUND 'with its text' mem:64MiB --rw write --bs 1MiB --payload text --time 600ms --repeats 1

# A disk that answers late now and then: its windows do not agree, though it is neither slow nor in decay.
noisy=mem:640MiB+model=ssd-sata,mb_s=55
for late in 12 30 55 70 85; do
  noisy=$noisy+fault=slow,op=read,nth=$late,ms=300
done
verdict UNSTABLE '95 % interval' --clock virtual --limit 55 --rw read --bs 1MiB --repeats 1 "$noisy"
first UNSTABLE
verdict VALID 'no rule' --clock virtual --limit 55 --rw read --bs 1MiB --repeats 1 mem:640MiB+model=ssd-sata,mb_s=55

# A disk that starts fast and cannot go on: shingled, or with a flash cache. One phase tells it; several come to what it
# sustains, and say how it began.
for decay in mem:192MiB+model=hdd-smr,burst_mib=64 mem:192MiB+model=ssd-sata,burst_mib=64,after_mb_s=60; do
  verdict NOT-STEADY 'burst .*sustained .*a step' --clock virtual --test write --repeats 1 "$decay"
  first NOT-STEADY
done
verdict VALID 'no rule' --clock virtual --test write mem:192MiB+model=hdd-smr,burst_mib=64
json options | grep -q 'began at' || { show; fail "nothing is said of the burst of a shingled disk"; }

# What was said to be the limit, or to lie between, bounds the figure.
verdict IMPOSSIBLE 'each alone, gave 10.0 MB/s' --clock virtual --limit 10 --test write "$disk"
refuses 'in this machine' bench --link 1GbE --clock virtual --test write "$disk"
refuses '1GbE' bench --link 3GbE .
mkdir cached
verdict CACHED 'cache' --buffered --rw read --size 16MiB --bs 1MiB --time 1s --repeats 1 cached
[ -z "$(ls cached)" ] || fail "the file of the bench is left"

# A layout that does not fit is listed with the reason.
run compare --clock virtual --model hdd-7200-2008:3 --tests write --json
{ [ "$status" -eq 0 ] || [ "$status" -eq 3 ]; } || { show; fail "three disks: status $status"; }
grep -q 'raid6' out || { show; fail "raid6 over three disks is not listed"; }
