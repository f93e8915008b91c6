#!/bin/sh
# `make interleave-faults`: each line of interleave_faults.tsv changes one line
# of the runtime in a copy: a test's name, a file, what stands there, what
# stands there then. The test must find it. FAULTS: only these, by name.
: "${FS_SRCDIR:?}" "${FS_BUILDDIR:?}" "${PLANTED_CC:?}" "${PLANTED_LD:?}"
dir=$FS_BUILDDIR/tests/planted
tab=$(printf '\t')
bad=0

# The first line of FILE that holds OLD has NEW in its place.
plant() { # plant FILE OLD NEW
    OLD=$2 NEW=$3 awk '
        !done && (at = index($0, ENVIRON["OLD"])) {
            $0 = substr($0, 1, at - 1) ENVIRON["NEW"] \
                substr($0, at + length(ENVIRON["OLD"]))
            done = 1
        }
        { print }
        END { exit !done }' "$FS_SRCDIR/src/$1" > "$dir/planted.c"
}

try() { # try NAME TEST FILE OLD NEW
    if ! plant "$3" "$4" "$5"; then
        echo "$1: $3 has no such line any more"
        return 1
    fi
    # shellcheck disable=SC2086 # lists of words
    $PLANTED_CC -w -c -o "$dir/planted.o" "$dir/planted.c" || return 1
    rm -f "$dir/test"
    eval "objects=\$PLANTED_$2"
    # shellcheck disable=SC2086
    $PLANTED_LD -o "$dir/test" $objects "$dir/planted.o" $PLANTED_LIBS ||
        return 1
    FS_ONCE=1 timeout 100 "$dir/test" > "$dir/$1.log" 2>&1
    status=$?
    case $status in
    0) how='NOT FOUND' ;;
    *) how=$(sed -n 's/^# \(seed [0-9]*: .*\)/\1/p
            s/^# \(interleaving [0-9]* of all: .*\)/\1/p
            s/^# FS_SEED=\([0-9]*\).*_test: \(.*\)/seed \1: \2/p
            s/^# FS_SEED=\([0-9]*\).*repeats it (\(.*\))/seed \1: \2/p' \
        "$dir/$1.log" | head -n 1 | cut -c 1-70) ;;
    esac
    tried=$(sed -n 's/^not ok.* \([0-9][0-9]*\) interleavings.*/\1/p' \
        "$dir/$1.log" | head -n 1)
    printf '%-16s %-11s %-18s %6s  %s\n' "$1" "$2" "$3" "${tried:--}" "$how"
    [ "$status" -ne 0 ]
}

cd "$FS_BUILDDIR" && mkdir -p "$dir" || exit 1
printf '%-16s %-11s %-18s %6s  %s\n' fault test file tried 'found as'
while IFS=$tab read -r name test file old new; do
    case " ${FAULTS:-$name} " in
    *" $name "*) try "$name" "$test" "$file" "$old" "$new" || bad=1 ;;
    esac
done < "$FS_SRCDIR/tests/interleave_faults.tsv"
exit $bad
