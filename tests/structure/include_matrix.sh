#!/bin/sh
# Prints which part includes headers of which, and fails where the table (docs/design.md, "Parts") does not allow it.
#   include_matrix.sh SOURCE_ROOT
set -eu
cd "$1"

find src include -name '*.[ch]' | sort | xargs awk '
BEGIN {
	parts = "base os disk layout array pool spindle result bench report cli"
	may["base"] = ""
	may["os"] = "base"
	may["disk"] = "base os"
	may["layout"] = "base"
	may["array"] = "base os disk layout"
	may["pool"] = "base os disk layout"
	may["spindle"] = "base os disk array pool"
	may["result"] = "base"
	may["bench"] = "base os disk result spindle"
	may["report"] = "base result"
	may["cli"] = "base os disk layout array pool spindle result bench report"
	# Libraries that only some parts may stand on.
	only["liburing.h"] = "disk"
	only["blkid/blkid.h"] = "disk"
	only["lz4.h"] = only["zstd.h"] = only["openssl/evp.h"] = only["openssl/sha.h"] = "pool"
	only["jansson.h"] = "report cli"
	only["libsmartcols.h"] = only["libsmartcols/libsmartcols.h"] = "report cli"
	only["xxhash.h"] = only["xxh_x86dispatch.h"] = "base"
	only["isa-l.h"] = only["isa-l/crc.h"] = only["isa-l/raid.h"] = only["isa-l/erasure_code.h"] = "base layout"
	only["isa-l/raid.h"] = "base layout bench" # bench measures what parity costs
	only["pthread.h"] = "os"
	count = split(parts, order, " ")
	for (i = 1; i <= count; i++)
		number[order[i]] = i
}
function has(list, word) { return index(" " list " ", " " word " ") > 0 }
FNR == 1 {
	split(FILENAME, path, "/")
	part = path[1] == "include" ? "spindle" : path[2]
	name = FILENAME
	sub(/.*\//, "", name)
	if (name ~ /\.h$/) {
		is_public = path[1] == "include" || path[3] == "include"
		if (is_public) {
			if (name in home) { print "two parts have a public " name; bad = 1 }
			home[name] = part
		} else
			private[part "/" name] = 1
	}
	if (!(part in number)) { print FILENAME ": a part that is not in the table"; bad = 1 }
}
/^[ \t]*#[ \t]*include[ \t]*[<"]/ {
	header = $0
	sub(/^[^<"]*[<"]/, "", header)
	sub(/[>"].*/, "", header)
	n++
	from[n] = part; what[n] = header; where[n] = FILENAME ":" FNR; quoted[n] = $0 ~ /"/
}
END {
	for (i = 1; i <= n; i++) {
		header = what[i]
		if (header in only && !has(only[header], from[i])) {
			print where[i] ": " from[i] " must not include <" header ">; that is for: " only[header]
			bad = 1
		}
		if (!quoted[i])
			continue
		if (private[from[i] "/" header])
			continue
		if (!(header in home)) {
			print where[i] ": no part offers \"" header "\""
			bad = 1
			continue
		}
		to = home[header]
		if (to == from[i])
			continue
		used[from[i], to]++
		if (!has(may[from[i]], to)) {
			print where[i] ": " from[i] " must not include " header " of " to
			bad = 1
		}
	}
	printf "%-8s may and does include\n%-8s", "", ""
	for (c = 1; c <= count; c++) printf " %-7s", order[c]
	print ""
	for (r = 1; r <= count; r++) {
		printf "%-8s", order[r]
		for (c = 1; c <= count; c++) {
			mark = ""
			if (r == c) mark = "-"
			else if (used[order[r], order[c]]) mark = used[order[r], order[c]]
			else if (has(may[order[r]], order[c])) mark = "."
			printf " %-7s", mark
		}
		print ""
	}
	print "(a number: so many files do; a dot: it may, and does not)"
	exit bad
}'
