#!/bin/sh
# tools/install-deps: silent when all is there, says what it installs, goes through sudo when not root, and gives a list
# and status 2 where there is no apt. Tried with stand-ins for dpkg-query, apt-get, apt-cache, sudo and id.
#   install_deps.sh SOURCE_ROOT
set -u
root=$1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
fail() {
  echo "FAILED: $*" >&2
  cat "$work/out" "$work/log" >&2
  exit 1
}
mkdir "$work/bin"
for tool in sh env cat echo grep rm; do
  ln -s "$(command -v $tool)" "$work/bin/$tool"
done
stand_in() { # NAME, script on stdin
  { echo '#!/bin/sh'; cat; } >"$work/bin/$1"
  chmod +x "$work/bin/$1"
}
run() {
  : >"$work/log"
  PATH="$work/bin" LOG="$work/log" FAKE="$work" "$root/tools/install-deps" "$@" >"$work/out" 2>&1
  status=$?
}

# No apt, nothing there: the list, and 2.
run
[ $status -eq 2 ] || fail "without apt: status $status"
grep -q 'no apt-get' "$work/out" && grep -q 'libisal-dev' "$work/out" || fail "without apt: no list"

# The stand-ins: what is in the file "there" is installed.
stand_in dpkg-query <<'END'
for word; do package=$word; done
grep -qx "$package" "$FAKE/there" && echo installed
END
stand_in apt-cache <<'END'
[ -e "$FAKE/no-lists" ] || echo '  Candidate: 1.0'
END
stand_in apt-get <<'END'
echo "apt-get $*" >>"$LOG"
case "$*" in
  *update*) rm -f "$FAKE/no-lists" ;;
  *install*) [ ! -e "$FAKE/no-lists" ] || exit 100 ;;
esac
END
stand_in id <<'END'
cat "$FAKE/uid"
END
stand_in sudo <<'END'
echo "sudo $1" >>"$LOG"
exec "$@"
END

echo 0 >"$work/uid"
: >"$work/there"
run
[ $status -eq 0 ] || fail "root, all missing: status $status"
grep -q 'installing .*gcc.*meson' "$work/out" || fail "it does not say what it installs"
[ "$(grep -c install "$work/log")" -eq 1 ] || fail "not one install"
grep -q update "$work/log" && fail "lists were fetched though they are there"
grep -q sudo "$work/log" && fail "root goes through sudo"

: >"$work/no-lists"
run
[ $status -eq 0 ] || fail "no lists: status $status"
grep -q update "$work/log" || fail "lists are missing and were not fetched"

echo 1000 >"$work/uid"
run
[ $status -eq 0 ] || fail "not root: status $status"
grep -q '^sudo' "$work/log" || fail "not root, and not through sudo"

# All there: silence.
for package in gcc meson ninja-build pkg-config libisal-dev libxxhash-dev liburing-dev libblkid-dev libsmartcols-dev \
  libjansson-dev liblz4-dev libzstd-dev libssl-dev libcmocka-dev scdoc libc6-dev; do
  echo $package
done >"$work/there"
run build
[ $status -eq 0 ] || fail "all there: status $status"
[ ! -s "$work/out" ] && [ ! -s "$work/log" ] || fail "all there, and it talks or acts"
run perf
grep -q 'installing fio$' "$work/out" || fail "perf does not want fio alone"

rm "$work/bin/sudo"
: >"$work/there"
run
[ $status -eq 2 ] || fail "neither root nor sudo: status $status"
run everything
[ $status -eq 2 ] || fail "an unknown group: status $status"
exit 0
