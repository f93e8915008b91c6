#!/bin/sh
# What mpirun starts its daemons with instead of ssh: rsh_namespace.sh [-x ..]
# HOST COMMAND.. in the network namespace of that name, as a host of that name.
while [ "${1#-}" != "$1" ]; do shift; done
host=$1
shift
[ "$host" != "${FS_DOWN:-}" ] || { echo "$host: no route to it" >&2; exit 255; }
# FS_MOUNT: what mount is told there, so that the host has other files.
exec ip netns exec "$host" unshare --uts --ipc --mount sh -c \
    "hostname $host; ${FS_MOUNT:+mount $FS_MOUNT;} $*"
