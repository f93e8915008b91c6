#!/bin/sh
# Runs the fuzzing targets of `make fuzz`, each for its part of FUZZ_SECONDS, in
# the build tree. A finding is left in fuzz/found-TARGET/.
set -eu
data=$FS_SRCDIR/datasets
export FS_DATA

# seeds TARGET DIR: real files, small ones.
seeds() {
    case $1 in
    onnx)
        for file in "$data"/train_cases/*/model.onnx "$data"/models/*.onnx \
            /usr/share/libonnx-testdata/data/*/*/model.onnx; do
            [ ! -f "$file" ] || [ "$(wc -c <"$file")" -gt 131072 ] ||
                cp "$file" "$2/$(cksum <"$file" | tr ' ' -)"
        done
        ;;
    cluster)
        cp "$data"/clusters/*.json "$2"
        printf s2x8:a100-sxm4-80g >"$2/homogeneous"
        printf s1x8:h100-sxm5-80g+2x4:l4 >"$2/mixed"
        ;;
    *) ;; # written by the target
    esac
}

n=$(echo "$FUZZ_TARGETS" | wc -w)
failed=
for target in $FUZZ_TARGETS; do
    corpus=fuzz/corpus-$target found=fuzz/found-$target
    mkdir -p "$corpus" "$corpus.seeds" "$found"
    seeds "$target" "$corpus.seeds"
    echo "fuzz_$target: $((FUZZ_SECONDS / n)) s, logged in fuzz/$target.log"
    FUZZ_SEEDS=$corpus.seeds fuzz/fuzz_"$target" \
        -max_total_time=$((FUZZ_SECONDS / n)) -timeout=5 \
        -malloc_limit_mb="$FUZZ_MALLOC_MB" -rss_limit_mb="$FUZZ_RSS_MB" \
        -max_len=131072 -print_final_stats=1 \
        -artifact_prefix="$found/" "$corpus" "$corpus.seeds" \
        >"fuzz/$target.log" 2>&1 || failed="$failed $target"
    grep -E '^(stat::number_of_executed_units|stat::peak_rss_mb|SUMMARY)' \
        "fuzz/$target.log" || :
done
[ -z "$failed" ] || {
    echo "make fuzz: findings of$failed; inputs in fuzz/found-*" >&2
    exit 1
}
