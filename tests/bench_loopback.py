"""The loopback of this network namespace as a slow link, for a command:

    unshare -n python3 bench_loopback.py RATE COMMAND ...

RATE as `tc` has it (2gbit). Packets of up to 512 KiB: the shaper takes an
interrupt and the stack its way for each, where an adapter would be handed large
ones and cut them itself. ip(8) cannot say so of IPv4 before 6.3, the kernel
can since then; an older one keeps its 64 KiB.
"""
import os
import socket
import struct
import subprocess
import sys

PACKET = 512 << 10
NEWLINK, REQUEST_ACK, LOOPBACK = 16, 5, 1
GSO_MAX, GRO_MAX, GSO_IPV4_MAX, GRO_IPV4_MAX = 41, 58, 63, 64


def send_large():
    """Whether the kernel took it."""
    body = struct.pack("=BBHiII", 0, 0, 0, LOOPBACK, 0, 0) + b"".join(
        struct.pack("=HHI", 8, kind, PACKET - 8192)
        for kind in (GSO_MAX, GRO_MAX, GSO_IPV4_MAX, GRO_IPV4_MAX))
    head = struct.pack("=IHHII", 16 + len(body), NEWLINK, REQUEST_ACK, 1, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as s:
        s.bind((0, 0))
        s.send(head + body)
        return struct.unpack("=i", s.recv(4096)[16:20])[0] == 0


def main():
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    if not send_large():
        print("bench_loopback: packets of 64 KiB", file=sys.stderr)
    subprocess.run(["tc", "qdisc", "add", "dev", "lo", "root", "tbf", "rate",
                    sys.argv[1], "burst", "1mb", "limit", "64mb"], check=True)
    os.execvp(sys.argv[2], sys.argv[2:])


main()
