#!/usr/bin/env python3
"""make bench-serve: requests answered a second, beside what the plan computes.

    bench_serve.py SOURCES BUILD

Clients are threads that ask again as soon as they are answered, one sample a
request, over connections that stay open. `of run`: samples answered a second,
as a part of those that `run` of the same plan computes, whose batches are full.
The clients share the cores with server and ranks.
BENCH_SERVE_S: seconds of each row (3).
"""
import http.client
import json
import os
import re
import signal
import statistics
import struct
import subprocess
import sys
import threading
import time

import bench_verdicts as v

SECONDS = float(os.environ.get("BENCH_SERVE_S", "3"))
# name, model, elements and kind of a sample, batch
NETWORKS = [("ResNet-18", "zoo:resnet,depth=18,size=32,classes=10",
             3 * 32 * 32, "f", 16),
            ("GPT", "zoo:gpt,layers=4,hidden=128,heads=4,vocab=256,seq=64",
             64, "q", 8)]
PLANS = ["--ranks 1", "--ranks 2 --dp 2",
         "--ranks 2 --pp 2 --micro-batches 2"]
RAW = {"Content-Type": "application/octet-stream",
       "Accept": "application/octet-stream"}


class Bench:
    def __init__(self, source, build):
        self.program = f"{build}/flowsearch"
        self.folder = f"{build}/bench-serve"
        os.makedirs(self.folder, exist_ok=True)
        self.plan = f"{self.folder}/plan.json"
        self.env = {"FS_DATA": f"{source}/datasets", **os.environ}

    def words(self, *words):
        return [self.program, *words, "--db", f"{self.folder}/figures.db"]

    def flowsearch(self, *words):
        return subprocess.run(self.words(*words), env=self.env, check=True,
                              stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True).stdout


class Server:
    def __init__(self, b):
        self.child = subprocess.Popen(
            b.words("serve", b.plan, "--port", "0"), env=b.env,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        line = self.child.stdout.readline()
        self.port = int(re.search(r"127\.0\.0\.1:(\d+)", line).group(1))

    def metrics(self):
        c = http.client.HTTPConnection("127.0.0.1", self.port)
        c.request("GET", "/metrics")
        lines = c.getresponse().read().decode().splitlines()
        c.close()
        return {name: float(value) for name, value in
                (line.split() for line in lines if not line.startswith("#"))}

    def close(self):
        self.child.send_signal(signal.SIGTERM)
        self.child.communicate()
        return self.child.returncode


def client(port, body, until, took):
    c = http.client.HTTPConnection("127.0.0.1", port)
    while time.monotonic() < until:
        start = time.monotonic()
        c.request("POST", "/v1/infer", body, RAW)
        answer = c.getresponse()
        answer.read()
        if answer.status == 200:
            took.append(time.monotonic() - start)
    c.close()


def ask(server, body, n):
    """Latencies of n clients, samples a second and the mean fill."""
    took = [[] for _ in range(n)]
    before, start = server.metrics(), time.monotonic()
    threads = [threading.Thread(target=client, args=(
        server.port, body, start + SECONDS, one)) for one in took]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    passed, after = time.monotonic() - start, server.metrics()
    samples, batches = (after[k] - before[k] for k in (
        "flowsearch_samples_total", "flowsearch_batches_total"))
    took = sorted(t for one in took for t in one)
    return took, len(took) / passed, samples / max(batches, 1)


def measure(b, network, recipe, rows):
    name, model, elements, kind, batch = network
    b.flowsearch("plan", model, "--mode", "infer", "--cluster", "local",
                 "--batch", str(batch), *recipe.split(), "-o", b.plan)
    ran = json.loads(b.flowsearch("run", b.plan, "--data", "synthetic",
                                  "--steps", "40", "--json"))
    body = struct.pack(f"<{elements}{kind}", *([1] * elements))
    server = Server(b)
    ask(server, body, 1)  # warm
    for n in (1, 2, batch, 2 * batch):
        took, rate, fill = ask(server, body, n)
        p99 = took[min(len(took) - 1, int(0.99 * len(took)))]
        rows.append([name, recipe, str(n), f"{rate:.0f}",
                     f"{ran['samples_per_s']:.0f}",
                     f"{rate / ran['samples_per_s']:.2f}",
                     f"{fill:.1f} of {batch}",
                     f"{1e3 * statistics.median(took):.1f}",
                     f"{1e3 * p99:.1f}",
                     f"{1e3 * ran['step_s']['median']:.1f}"])
    if server.close() != 0:
        raise ValueError(f"{name} {recipe}: the server failed")


def main():
    b = Bench(sys.argv[1], sys.argv[2])
    rows = []
    for network in NETWORKS:
        for recipe in PLANS:
            print(f"bench-serve: {network[0]} {recipe}", file=sys.stderr,
                  flush=True)
            measure(b, network, recipe, rows)
    print("\n## Requests of one sample, beside the steps of `run`\n")
    print(v.table(["network", "plan", "clients", "requests/s", "run, samples/s",
                   "of run", "batch", "p50, ms", "p99, ms", "step, ms"], rows))
    print(f"\nLoad at the end: {os.getloadavg()[0]:.1f}, "
          f"{len(os.sched_getaffinity(0))} cores.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
