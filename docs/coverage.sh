#!/bin/sh
# docs/coverage.md from what was measured: coverage.sh OPS.tsv DATASETS OPS.def
# OPS.tsv: `flowsearch conformance DIR --by-op OPS.tsv` of several folders, one
# after the other: of an operator the first row with cases holds. OPS.def: our
# own ops.
set -eu
ops=$1
data=$2/onnx
own=$3

cat <<'END'
# Coverage of ONNX and PyTorch

Written by `make coverage` from the node cases of the ONNX backend tests that
Debian's `libonnx-testdata` brings (release 1.12), those of younger operators in
`datasets/onnx/node/`, and the tables in `datasets/onnx/`. Do not edit.

**run**: cases that give their record, of all there are. **gradient**: the loss
"sum of the float outputs" has one with respect to a float input. **cuts**: ways
to cut the operator on one mesh axis besides replicating it (of the node with
the fewest when it becomes several). **no case**: there is none of this operator
alone whose record can be compared, so nothing here measured it.

## ONNX operators

| operator | tier | imports | run | gradient | cuts |
|---|---|---|---|---|---|
END
awk -F'\t' -v csv="$data/onnx_ops.csv" '
    $6 == "yes" { differentiable[$1] = 1 }
    ($1 in cases) && (cases[$1] > 0 || $2 == 0) { next }
    { cases[$1] = $2; passed[$1] = $3; refused[$1] = $5; gradient[$1] = $6
      cuts[$1] = $7 }
    END {
        while ((getline line < csv) > 0) {
            split(line, f, ",")
            name = f[2]
            if (f[1] != "ai.onnx" && f[1] != "ai.onnx.preview.training") continue
            total++
            imports = name in cases && (cases[name] == 0 ||
                      refused[name] < cases[name]) ? "yes" : "no"
            known += imports == "yes"
            run = name in cases && cases[name] ? passed[name] " of " cases[name] : imports == "yes" ? "no case" : "-"
            slope = name in differentiable ? "yes" : gradient[name]
            printf "| %s | %s | %s | %s | %s | %s |\n", name,
                substr(f[15], 1, 1), imports, run,
                imports == "yes" ? slope : "-",
                imports == "yes" ? cuts[name] : "-"
        }
        printf "\n%d of %d operators import.\n", known, total
    }' "$ops"

cat <<'END'

## Node cases that cannot pass

Their record (of Debian's release, 1.12) is not what the operator's definition
gives; `tests/cli_onnx_test` reads this list from `datasets/onnx/excused.tsv` and
fails when one of them passes.

| case | reason |
|---|---|
END
awk -F'\t' 'NR > 1 { printf "| %s | %s |\n", $1, $2 }' "$data/excused.tsv"

cat <<'END'

## PyTorch (ATen)

A name is covered when some way of writing it in ONNX uses only operators that
import and of whose cases that are not refused (of strings, sequences) at least half
give their record; or when it is what a gradient or an update is made of, and
`datasets/onnx/aten_own.tsv` names our ops that do it.

| ATen | as ONNX | covered |
|---|---|---|
END
awk -F'\t' -v csv="$data/aten_onnx.csv" -v tsv="$data/aten_own.tsv" \
    -v def="$own" '
    ($1 in cases) && (cases[$1] > 0 || $2 == 0) { next }
    { cases[$1] = $2
      good[$1] = $3 >= ($2 - $5) / 2 && ($3 > 0 || $2 == 0) }
    # Commas within quotes are none between fields.
    function plain(line,   n, i, part, out) {
        n = split(line, part, "\"")
        for (i = 1; i <= n; i++) {
            if (i % 2 == 0) gsub(/,/, ";", part[i])
            out = out part[i]
        }
        return out
    }
    # One of "A/B"; words in small letters are prose.
    function any_of(words,   n, i, word) {
        n = split(words, word, "/")
        for (i = 1; i <= n; i++) if (word[i] in good && good[word[i]]) return 1
        return 0
    }
    function fits(way,   n, i, ops, any) {
        gsub(/\([^)]*\)/, "", way)
        n = split(way, ops, /[ ;]+/)
        for (i = 1; i <= n; i++) {
            if (ops[i] !~ /^[A-Z]/) continue
            if (!any_of(ops[i])) return 0
            any = 1
        }
        return any
    }
    function read_own(   line, f, word, n, i, is) {
        while ((getline line < def) > 0)
            if (match(line, /^IR_OP\([a-z_]+/))
                is[substr(line, 7, RLENGTH - 6)] = 1
        getline line < tsv
        while ((getline line < tsv) > 0) {
            split(line, f, "\t")
            n = split(f[2], word, " ")
            for (i = 1; i <= n; i++)
                if (!(word[i] in is)) {
                    print "coverage: no op " word[i] > "/dev/stderr"
                    exit 1
                }
            made_of[f[1]] = f[2]
        }
    }
    END {
        read_own()
        getline line < csv
        while ((getline line < csv) > 0) {
            split(plain(line), f, ",")
            total++
            n = split(f[2], ways, "|")
            yes = "no"
            for (i = 1; i <= n; i++) if (fits(ways[i])) yes = "yes"
            if (f[1] in made_of) yes = "yes"
            covered += yes == "yes"
            as = f[1] in made_of ? "our own " made_of[f[1]] : f[2]
            gsub(/\|/, "or", as)
            printf "| %s | %s | %s |\n", f[1], as, yes
        }
        printf "\n%d of %d names are covered.\n", covered, total
    }' "$ops"
