#!/bin/sh
# The list of models is there, and so is what each cites.
. "$(dirname "$0")/functions.sh"

expect 0 models
for model in hdd-7200-2008 hdd-10k-raptor hdd-7200-2011 hdd-5400-512e hdd-15k-sas hdd-7200-2024 hdd-smr \
  ssd-sata ssd-nvme; do
  grep -q "^$model " out || fail "$model is not listed"
done
expect 0 models --json
[ "$(json schema)" = 1 ] || fail "no schema in the JSON"
[ "$(grep -c '"source": "..*"' out)" -ge 9 ] || fail "a model cites nothing"
expect 0 models --sources
