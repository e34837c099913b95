#!/bin/sh
# What is installed is enough for another program: the example of spindle(3) builds against it and runs.
#   install.sh PROGRAM SOURCE_ROOT BUILD_ROOT
. "$(dirname "$0")/functions.sh"

require_tool cc "build the example"
DESTDIR="$WORK/root" meson install -C "$3" --no-rebuild >install.log 2>&1 || { cat install.log; fail "meson install"; }
root=$WORK/root
prefix=$(sed -n 's/^prefix=//p' "$(find "$root" -name spindle.pc)")
[ -x "$root$prefix/bin/spindle" ] || fail "no program in $prefix/bin"
find "$root" -name 'spindle' -path '*bash-completion*' | grep -q . || fail "no bash completion"
if command -v scdoc >/dev/null 2>&1 && [ -e "$3/man/spindle.1" ]; then
  for page in spindle.1 spindle-compare.1 spindle-array.1 spindle-bench.1 spindle-survey.1 spindle.3 spindle-disks.7; do
    find "$root" -name $page | grep -q . || fail "$page is not installed"
  done
fi

# Only the names of spindle.h leave the library.
library=$(find "$root" -name 'libspindle.so' | head -1)
nm -D --defined-only "$library" | awk '$2 == "T" && $3 !~ /^spindle_/ { print $3 }' >others
grep -vE '^(_init|_fini)$' others >foreign && fail "the library shows $(head -3 foreign | tr '\n' ' ')"

awk '/^# EXAMPLE/ { here = 1 } here && /^```/ { n++; next } here && n == 1' "$2/man/spindle.3.scd" >example.c
grep -q 'int main' example.c || fail "no example in the manual page"
PKG_CONFIG_PATH=$(dirname "$(find "$root" -name spindle.pc)") PKG_CONFIG_SYSROOT_DIR=$root
export PKG_CONFIG_PATH PKG_CONFIG_SYSROOT_DIR
# shellcheck disable=SC2046
cc -Wall -Werror -o example example.c $(pkg-config --cflags --libs spindle) || fail "the example does not build"
disks 3 32M
LD_LIBRARY_PATH=$(dirname "$library") ./example || fail "the example ends with $?"
expect 0 array status -d d1 -d d2 -d d3 --json
[ "$(json state)" = healthy ] || { show; fail "the array of the example is $(json state)"; }
