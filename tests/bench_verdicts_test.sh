#!/bin/sh
# What make bench-sim tells of its figures, of a small made-up answer; and that
# the tables it reads are whole. Prints TAP.
set -u
: "${FS_SRCDIR:=.}" "${FS_DATA:=$FS_SRCDIR/datasets}"
if ! python3 -c '' 2> /dev/null; then
    echo 'ok 1 # SKIP verdicts of make bench-sim: no python3'
    echo 1..1
    exit 0
fi
PYTHONDONTWRITEBYTECODE=1 exec python3 \
    "$FS_SRCDIR/tests/bench_verdicts_check.py" "$FS_SRCDIR" "$FS_DATA"
