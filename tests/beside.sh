#!/bin/sh
# beside.sh PROGRAM...: a test of `make check -j`, beside others; those that
# TESTS_ALONE names have the machine to themselves, for they ask how soon a
# fault is found, or start more ranks than there are cores.
set -u
for last; do :; done
command -v flock >/dev/null || exec "$@"
exec 8>"$FS_BUILDDIR/tests/beside.lock" 9>"$FS_BUILDDIR/tests/turn.lock"
case " $TESTS_ALONE " in
*" tests/$(basename "$last") "*) how=-x ;;
*) how=-s ;;
esac
# Whoever waits for the machine is next: later ones queue behind the turn.
flock 9
flock "$how" 8
exec 9>&-
"$@" 8>&-
