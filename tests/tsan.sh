#!/bin/sh
# The programs that have threads, built with ThreadSanitizer in tsan/ of the
# build tree, one line each: what it reports of this project's code is a
# failure, what tests/tsan.supp leaves out is counted.
: "${FS_SRCDIR:?}" "${FS_BUILDDIR:?}" "${MAKE:=make}" "${MPIRUN:=mpirun}"
dir=$FS_BUILDDIR/tsan
alone='exec_act exec_bell exec_data exec_recorder exec_checkpoint exec_equal
exec_train exec_probe exec_endless'
together='exec_transfer exec_train exec_space'
commands='cli_checkpoint cli_data cli_supervise'
bad=0

mkdir -p "$dir" && cd "$dir" || exit 1
[ -f config.status ] ||
    "$FS_SRCDIR/configure" -q --enable-sanitizers=thread --with-cuda=no \
        CFLAGS="${TSAN_CFLAGS:--O1 -g}" || exit 1
programs=$(for test in $alone $together $commands; do
    echo "tests/${test}_test"; done | sort -u)
# shellcheck disable=SC2086 # a list of words
"$MAKE" -s all $programs || exit 1
rm -rf reports
mkdir reports
# Under ThreadSanitizer measuring this host takes minutes: the program that is
# not built with it does.
FS_MEASURED=$dir/measured.db
"$FS_BUILDDIR/flowsearch" plan zoo:mlp --cluster local --ranks 4 --dp 4 \
    --batch 8 -o "$dir/measured.json" --db "$FS_MEASURED" > /dev/null || exit 1
FS_BUILDDIR=$dir
FS_CASES=${FS_CASES:-30}
OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
export FS_BUILDDIR FS_CASES FS_MEASURED OMPI_MCA_rmaps_base_oversubscribe \
    OMPI_MCA_hwloc_base_binding_policy

# Reports of ours in the files of a name.
count() {
    cat reports/"$1".* 2>/dev/null | grep -c 'WARNING: ThreadSanitizer'
}

# A rank that a fault ends takes its threads with it: no leak is told.
run() { # run NAME RANKS COMMAND...
    name=$1-$2 ranks=$2
    shift 2
    begin=$(date +%s)
    TSAN_OPTIONS="suppressions=$FS_SRCDIR/tests/tsan.supp:log_path=$dir/reports/$name:print_suppressions=1:report_thread_leaks=0:exitcode=66" \
        timeout 600 "$@" > "reports/$name-said" 2>&1
    status=$?
    ours=$(count "$name")
    checks=$(grep -c '^ok' "reports/$name-said")
    left=$(cat reports/"$name".* "reports/$name-said" 2>/dev/null |
        awk '/Matched [0-9]+ suppressions/ { n += $3 } END { print n + 0 }')
    printf '%-22s %5s %7s %8s %10s %5s\n' "${name%-*}" "$ranks" "$checks" \
        "$ours" "$left" "$(($(date +%s) - begin))"
    if [ "$status" -ne 0 ] || [ "$ours" -gt 0 ]; then
        bad=1
        echo "  status $status; see $dir/reports/$name*"
    fi
}

printf '%-22s %5s %7s %8s %10s %5s\n' program ranks checks reports \
    'left out' s
for test in $alone; do
    run "$test" 1 "tests/${test}_test"
done
for test in $together; do
    for ranks in 2 4; do
        run "$test" $ranks "$MPIRUN" -n $ranks "tests/${test}_test"
    done
done
for test in $commands; do
    run "$test" 1 "tests/${test}_test"
done
exit $bad
