#!/bin/sh
# The programs of exec that talk to other ranks, on 2 and 4 of them (any plan
# equals one device: on 8 too): rank 0 prints TAP, which is renumbered here.
: "${FS_BUILDDIR:=.}" "${MPIRUN:=mpirun}"
OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
export OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM
export OMPI_MCA_rmaps_base_oversubscribe OMPI_MCA_hwloc_base_binding_policy
# Open MPI unloads its components before the leak check, which then cannot tell
# whose leaks they are; each program is checked for its own when it runs alone.
ASAN_OPTIONS=detect_leaks=0
export ASAN_OPTIONS
log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
count=0

# A job that dies or hangs counts as one failure.
run_job()
{
    timeout 120 "$MPIRUN" -n "$1" "$FS_BUILDDIR/tests/$2" > "$log" 2>&1
    status=$?
    awk -v n="$count" '
        /^(not )?ok [0-9]+/ { sub(/ok [0-9]+/, "ok " ++n) }
        /^1\.\./ { next }
        /^(not )?ok / || /^#/ { print; next }
        { print "# " $0 }' "$log"
    count=$((count + $(grep -Ec '^(not )?ok [0-9]+' "$log")))
    count=$((count + 1))
    if [ "$status" -eq 0 ]; then
        echo "ok $count - $2 on $1 ranks ends well"
    else
        echo "not ok $count - $2 on $1 ranks ends well (status $status)"
    fi
}

for ranks in 2 4; do
    run_job $ranks exec_transfer_test
    run_job $ranks exec_train_test
    run_job $ranks exec_space_test
done
for ranks in 2 4 8; do
    run_job $ranks exec_equal_test
done
# Calls that come before what they tell of, messages in parts.
run_job 2 exec_bell_test
export OMPI_MCA_btl_vader_single_copy_mechanism=none
run_job 2 exec_bell_test
export OMPI_MCA_btl=tcp,self
run_job 2 exec_bell_test
echo "1..$count"
