#!/bin/sh
# What no compiler checks. Prints every breach and fails when there is one.
#   tidy.sh SOURCE_ROOT
set -u
cd "$1" || exit 1
breach() { # NAME, then the offending lines on stdin
  lines=$(cat)
  [ -n "$lines" ] || return 0
  printf '%s:\n%s\n' "$1" "$lines"
  : >"$work/failed" # a variable would be gone with the subshell of the pipe
}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

# Comments and strings taken away, so that words in them do not count; line numbers stay.
strip() {
  awk -v name="$1" '{
    line = $0
    if (open && match(line, /\*\//)) { line = substr(line, RSTART + 2); open = 0 }
    else if (open) line = ""
    gsub(/\\\\|\\"/, "", line)
    gsub(/"[^"]*"/, "\"\"", line)
    while (match(line, /\/\*([^*]|\*+[^*\/])*\*+\//))
      line = substr(line, 1, RSTART - 1) " " substr(line, RSTART + RLENGTH)
    if (match(line, /\/\*/)) { line = substr(line, 1, RSTART - 1); open = 1 }
    sub(/\/\/.*/, "", line)
    print name ":" FNR ": " line
  }' "$1"
}
for file in $(find src include -name '*.[ch]' | sort); do
  strip "$file"
done >"$work/code"

grep -v '^src/os/' "$work/code" |
  grep -E '[^a-z_0-9](pthread_[a-z_]+|clock_gettime|gettimeofday|u?sleep|nanosleep|s?rand|random|[sd]rand48|time) *\(' |
  breach 'time, threads and randomness come through os'
grep -Ev '^src/(cli|os|base)/' "$work/code" | grep -E '[^a-z_0-9](thrd_|mtx_|cnd_)' | breach 'threads come through os'

# report prints to the FILE that it is given; nothing else in a library prints, and none ends the program.
grep -Ev '^src/cli/|/tools/' "$work/code" |
  grep -E '[^a-z_0-9](printf|puts|putchar|vprintf|perror|exit|_exit|err|errx|warn|warnx) *\(' |
  breach 'library code never prints and never exits'
grep -Ev '^src/(cli|report)/' "$work/code" |
  grep -E '[^a-z_0-9](fprintf|fputs|fputc|stdout|stderr)([^a-z_0-9]|$)' |
  grep -v '^src/base/.*assert' | grep -v 'src/base/error.c' | grep -v 'src/base/base.c' |
  breach 'only report writes to streams'
grep -E '[^a-z_0-9](strcpy|strcat|sprintf|gets|alloca|strtok|atoi|atol|atof) *\(' "$work/code" |
  breach 'calls that cannot be used safely'

# Every function that a part declares for others is used by another file, and every .c file is built.
grep -hoE '^(src/[a-z]+/.*|include/.*)\.h:[0-9]+: .*' "$work/code" |
  sed -E 's/^[^:]*:[0-9]+: //' |
  grep -E '^[A-Za-z_].*[a-z_0-9]+\(' | grep -vE '^(#|static|typedef|extern|return|struct [a-z_]+ \{)' |
  sed -E 's/^[^(]*[^a-z_0-9A-Z]([a-z_0-9]+)\(.*/\1/' | grep -E '^[a-z_0-9]+$' | sort -u >"$work/declared"
sed -E 's/^[^:]*:[0-9]+: //' "$work/code" >"$work/all"
find tests fuzz perf -name '*.[ch]' -exec cat {} + >>"$work/all"
tr -c 'A-Za-z0-9_' '\n' <"$work/all" | sort | uniq -c | awk '{ print $2, $1 }' >"$work/words"
# Its declaration and its definition are two; a third place is a use. What spindle.h offers is for other programs.
awk 'NR == FNR { seen[$1] = $2; next }
  !/^spindle_/ && seen[$1] < 3 { print "  " $1 }' "$work/words" "$work/declared" |
  breach 'declared in a header and used nowhere'

find src tests fuzz perf -name '*.c' 2>/dev/null | sort | while read -r file; do
  folder=$(dirname "$file")
  name=$(basename "$file")
  while [ "$folder" != . ]; do
    if [ -f "$folder/meson.build" ]; then
      # By its name, or by the part of it that a list there puts together: t_bench_limit from 'limit'.
      stem=${name%.c}
      grep -qE "['/]$name'|\\b$stem\\b|'${stem#t_*_}'" "$folder/meson.build" && continue 2
    fi
    folder=$(dirname "$folder")
  done
  echo "  $file"
done | breach 'C files that no meson.build names'

for file in Makefile meson.build \
  $(find src include tests fuzz perf tools .ci -type f ! -path '*/corpus/*' ! -path '*/golden/*' 2>/dev/null); do
  # In characters, whatever the locale: the later bytes of UTF-8 do not count. A tab counts as 8. 120 is what make
  # format aims at; up to 140 is left to comments beside code that are better in one piece.
  LC_ALL=C awk -v name="$file" '
    { line = $0; gsub(/[\200-\277]/, "", line)
      width = 0
      for (i = 1; i <= length(line); i++) width += substr(line, i, 1) == "\t" ? 8 - width % 8 : 1
      if (width > 140) print "  " name ":" FNR ": " width " columns (make format)" }
    END { if (FNR > 1200) print "  " name ": " FNR " lines" }' "$file"
done | breach 'lines over 140 columns or files over 1200 lines'

grep -rnE '(TO''DO|FIX''ME|XX''X:|HA''CK:)' src include tests fuzz perf tools man Makefile meson.build 2>/dev/null |
  breach 'unfinished work'
grep -rnE 'typedef[[:space:]]+struct' src include | breach 'no typedef of structs'
find src tests tools fuzz perf -type f \( -name '*.orig' -o -name '*.rej' -o -name '*~' -o -name '*.o' \) 2>/dev/null |
  breach 'files left over'

[ ! -e "$work/failed" ]
