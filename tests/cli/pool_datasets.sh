#!/bin/sh
# Datasets, volumes, snapshots, rollback, clones, properties, history: as in zfs.
. "$(dirname "$0")/functions.sh"

disks 3 64M
expect 0 create -o compression=lz4 tank parity1 d1 d2 d3
expect 0 create tank/a
expect 0 create -V 8M -b 8K tank/a/v
expect 0 create -V 8M -s -o compression=off tank/w
refuses 'exist' create tank/a
refuses '.' create -V 8M tank/none/v
refuses '.' create -V 8M -b 5000 tank/x
expect 1 create -V 900G tank/x
grep -q 'sparse' err || { show; fail "no word of sparse volumes"; }
refuses '.' create tank/a@s
expect 0 list -H -o name -r -t all tank
[ "$(tr '\n' ' ' <out)" = 'tank tank/a tank/a/v tank/w ' ] || { show; fail "list -r"; }

expect 0 get -H -o value,source compression tank/a/v
[ "$(cat out)" = "$(printf 'lz4\tinherited from tank')" ] || { show; fail "inherited compression"; }
expect 0 get -H -o value,source compression tank/w
[ "$(cat out)" = "$(printf 'off\tlocal')" ] || { show; fail "local compression"; }
expect 0 set compression=zstd-3 tank/a
expect 0 get -H -o value compression tank/a/v
[ "$(cat out)" = zstd-3 ] || { show; fail "compression below tank/a"; }
expect 0 inherit compression tank/a
expect 0 get -H -o value compression tank/a/v
[ "$(cat out)" = lz4 ] || { show; fail "compression after inherit"; }
refuses '.' set compression=fast tank
refuses '.' set checksum=crc tank
refuses '.' set colour=red tank
refuses '.' set used=1 tank
expect 0 set 'comment=a box under the desk' tank
expect 0 get all tank
grep -q 'a box under the desk' out || { show; fail "comment"; }

random_file one 3000000
random_file two 3000000
"$SPINDLE" volume write tank/a/v <one || fail "write one"
expect 0 snapshot tank/a/v@first
refuses 'exist' snapshot tank/a/v@first
"$SPINDLE" volume write tank/a/v <two || fail "write two"
"$SPINDLE" volume read --length 3000000 tank/a/v@first >back || fail "read the snapshot"
same one back
expect 1 volume write tank/a/v@first
grep -q snapshot err || { show; fail "a snapshot was written to"; }
expect 0 clone tank/a/v@first tank/c
"$SPINDLE" volume read --length 3000000 tank/c >back || fail "read the clone"
same one back
"$SPINDLE" volume write --offset 100000 tank/c <two || fail "write the clone"
"$SPINDLE" volume read --length 3000000 tank/a/v@first >back || fail "read the snapshot again"
same one back
refuses 'clone' destroy tank/a/v@first
expect 0 snapshot tank/a/v@second
refuses 'newer|second' rollback tank/a/v@first
expect 0 destroy -r tank/c
expect 0 rollback -r tank/a/v@first
"$SPINDLE" volume read --length 3000000 tank/a/v >back || fail "read after the rollback"
same one back
expect 0 list -H -o name -t snapshot tank
[ "$(cat out)" = tank/a/v@first ] || { show; fail "snapshots after the rollback"; }
expect 0 rename tank/a/v tank/a/vm
"$SPINDLE" volume read --length 3000000 tank/a/vm@first >back || fail "read after the rename"
same one back
refuses '.' destroy tank/a
expect 0 check --data tank
before=$("$SPINDLE" list -H -p -o alloc tank)
expect 0 destroy -r tank/a
expect 0 list -H -o name -r -t all tank
[ "$(tr '\n' ' ' <out)" = 'tank tank/w ' ] || { show; fail "list after destroy"; }
for round in 1 2 3 4; do "$SPINDLE" set comment=$round tank; done
after=$("$SPINDLE" list -H -p -o alloc tank)
[ "$after" -lt $((before - 2500000)) ] || fail "destroying freed nothing: $before, then $after"
expect 0 check --data tank
expect 0 history tank
grep -q 'rollback -r tank/a/v@first' out || { show; fail "history"; }
