#!/bin/sh
# Every header compiles alone. Prints TAP.
set -u
cd "$FS_SRCDIR" || exit 1
n=0
bad=0
flags=$(pkg-config --cflags jansson sqlite3 hwloc libgvc ompi-c 2>/dev/null)
for header in src/*/*.h src/*/*/*.h; do
    n=$((n + 1))
    # shellcheck disable=SC2086 # flags and CC are lists of words
    if why=$($CC -std=gnu11 -D_GNU_SOURCE -I. -Isrc -I"$FS_BUILDDIR" $flags \
        -fsyntax-only -x c "$header" 2>&1); then
        echo "ok $n - $header compiles alone"
    else
        bad=1
        echo "not ok $n - $header compiles alone"
        printf '%s\n' "$why" | sed 's/^/# /'
    fi
done
echo "1..$n"
exit $bad
