#!/bin/sh
# two_hosts.sh make|remove A B: two network namespaces joined by a cable, each
# a host to Open MPI. Wants root.
set -e
case $1 in
make)
    ip netns add "$2"
    ip netns add "$3"
    ip link add "$2" type veth peer name "$3"
    n=1
    for host in "$2" "$3"; do
        ip link set "$host" netns "$host"
        ip -n "$host" addr add 10.77.9.$n/24 dev "$host"
        ip -n "$host" link set "$host" up
        ip -n "$host" link set lo up
        n=$((n + 1))
    done
    ;;
remove)
    ip netns del "$2" 2>/dev/null || true
    ip netns del "$3" 2>/dev/null || true
    ;;
esac
