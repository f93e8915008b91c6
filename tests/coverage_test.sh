#!/bin/sh
# docs/coverage.md is what the tables and the ONNX backend tests give now.
# FS_GOLDEN=rewrite (or `make coverage`) writes it anew. Prints TAP.
set -u
: "${FS_SRCDIR:=.}" "${FS_BUILDDIR:=.}" "${FS_DATA:=$FS_SRCDIR/datasets}"
: "${ONNX_TESTS:=/usr/share/libonnx-testdata/data/node}"
export FS_DATA
fact='docs/coverage.md is what `make coverage` writes'
found=$FS_BUILDDIR/tests/coverage

if [ ! -d "$ONNX_TESTS" ]; then
    echo "ok 1 # SKIP $fact: no $ONNX_TESTS (Debian: libonnx-testdata)"
    echo 1..1
    exit 0
fi
trap 'rm -f "$found.tsv" "$found.part" "$found.log" "$found.md"' EXIT
# Status 1: cases failed, which is the table's to say.
measure()
{
    "$FS_BUILDDIR/flowsearch" conformance "$1" --by-op "$found.part" \
        --db none >> "$found.log" 2>&1
    status=$?
    cat "$found.part" >> "$found.tsv"
    [ $status -le 1 ]
}
: > "$found.tsv"
: > "$found.log"
measure "$ONNX_TESTS" && measure "$FS_DATA/onnx/node"
if [ $status -gt 1 ] || ! sh "$FS_SRCDIR/docs/coverage.sh" "$found.tsv" \
    "$FS_SRCDIR/datasets" "$FS_SRCDIR/src/ir/ops.def" > "$found.md"; then
    sed 's/^/# /' "$found.log"
    echo "not ok 1 - $fact (status $status)"
elif [ "${FS_GOLDEN:-}" = rewrite ]; then
    cp "$found.md" "$FS_SRCDIR/docs/coverage.md"
    echo "ok 1 - $fact"
elif diff "$FS_SRCDIR/docs/coverage.md" "$found.md" > "$found.log"; then
    echo "ok 1 - $fact"
else
    sed 's/^/# /' "$found.log"
    echo "not ok 1 - $fact"
fi
echo 1..1
