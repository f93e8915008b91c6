#!/usr/bin/env python3
"""make bench-exec: plans that run, beside what else runs the same here.

    bench_exec.py SOURCES BUILD

BENCH_EXEC: which parts (all): torch llmc sim matmul act handover idle overlap.
BENCH_NETWORKS: a pattern of the networks of `torch` and `sim`. BENCH_ROUNDS: how
often each is measured in turn (3). BENCH_LLMC: a checkout of llm.c.
BENCH_TORCH: the Python that has PyTorch (BUILD/bench-torch/bin/python, else
python3); what is missing is said with how to install it, and left out.
BENCH_PAGES=rewrite: the tables of datasets/measurements/exec.md are those of
this run. Ends with status 0 whatever the verdicts are.
"""
import json
import math
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import bench_llmc
import bench_predicted
import bench_sim
import bench_verdicts as v
from bench_networks import NETWORKS, Bench, Flowsearch

LEAST, LEAST_MEAN, GOAL_MEAN = 0.95, 1.1, 1.3
LEAST_MATMUL = 0.97
OURS, THEIRS = ("search", "dp 2"), ("1 thread", "2 threads", "DDP")
SECONDS = 4  # of each, in a round
INSTALL = """PyTorch is not there; to install it (some 3 GB, or 200 MB where the
second index can be reached):
  python3 -m venv bench-torch && bench-torch/bin/pip install torch numpy
  (or: ... install torch numpy --index-url https://download.pytorch.org/whl/cpu)
in the folder of the build, or name a Python that has it in BENCH_TORCH."""


def say_verdict(value, least):
    return "holds" if value >= least else "FAILS"


# ---- PyTorch ----

# MKL, whose products PyTorch's are, takes AVX-512 of Intel's processors alone
# (some 110 Gflop/s for 250 of a core of an AMD EPYC with AVX-512, MKL 2024.0):
# it asks this, which a library that comes before it may answer.
AS_INTEL = "int mkl_serv_intel_cpu_true(void) { return 1; }"


def at_its_best(b):
    """The environment in which PyTorch is as fast as it can be here."""
    env = {**os.environ, "GLOO_SOCKET_IFNAME": "lo"}
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        if "GenuineIntel" in f.read():
            return env
    library = os.path.abspath(f"{b.folder}/as_intel.so")
    subprocess.run(
        [*os.environ.get("CC", "cc").split(), "-shared", "-fPIC", "-x", "c",
         "-o", library, "-"], input=AS_INTEL, text=True, check=True)
    return {**env, "LD_PRELOAD": library}


class Torch:
    """Processes that make steps when they are told to: one, or two (DDP)."""

    def __init__(self, b, network, n):
        _, model, keys, batch, optimizer = network
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = str(s.getsockname()[1])
        words = [b.python, f"{b.source}/tests/bench_torch.py", model,
                 json.dumps(keys), str(batch), optimizer]
        env = at_its_best(b)
        self.log = tempfile.TemporaryFile("w+")
        self.ranks = [subprocess.Popen(
            words + ([str(i), port] if n > 1 else []), env=env,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=self.log, text=True) for i in range(n)]

    def steps(self, threads, n):
        for rank in self.ranks:
            rank.stdin.write(f"{threads} {n}\n")
            rank.stdin.flush()
        answers = [rank.stdout.readline() for rank in self.ranks]
        if not all(answers):
            self.close()
            self.log.seek(0)
            raise OSError("PyTorch ended: " + ([""] + [
                line.strip() for line in self.log if line.strip()])[-1])
        return [max(map(float, one))
                for one in zip(*(a.split() for a in answers))]

    def close(self):
        for rank in self.ranks:
            rank.stdin.close()
            rank.wait()
            rank.stdout.close()


def one_network(b, network):
    """Medians of rounds, and the least: {who: [seconds, one per round]}."""
    alone, pair = Torch(b, network, 1), Torch(b, network, 2)
    who = [("search", Flowsearch(b, network, ["search"]), 1),
           ("dp 2", Flowsearch(b, network, ["plan", "--dp", "2"]), 1),
           ("1 thread", alone, 1), ("2 threads", alone, 2), ("DDP", pair, 1)]
    took = {name: [] for name, _, _ in who}
    least = {name: math.inf for name in took}
    for _, one, threads in who:
        one.steps(threads, 3)
    for k in range(int(os.environ.get("BENCH_ROUNDS", "3"))):
        for name, one, threads in who:
            last = took[name][-1] if k else statistics.median(
                one.steps(threads, 2))
            n = max(3, min(200, int(SECONDS / last)))
            steps = one.steps(threads, n)
            least[name] = min(least[name], *steps)
            took[name].append(steps[0] if isinstance(one, Flowsearch)
                              else statistics.median(steps))
        b.say(network[0] + ": " + ", ".join(
            f"{name} {1e3 * t[-1]:.1f}" for name, t in took.items()) + " ms")
    alone.close()
    pair.close()
    return took, least


def ratio_of(took):
    """PyTorch's best by ours, round by round; the median of these."""
    middle = {name: statistics.median(t) for name, t in took.items()}
    ours = min(OURS, key=middle.get)
    theirs = min(THEIRS, key=middle.get)
    return ours, theirs, statistics.median(
        b / a for a, b in zip(took[ours], took[theirs]))


def torch(b):
    found = subprocess.run(
        [b.python, "-c", "import torch; print(torch.__version__)"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        check=False)
    if found.returncode != 0:
        b.missing.append("PyTorch")
        print("\n" + INSTALL, flush=True)
        return
    rows, ratios = [], []
    asked = os.environ.get("BENCH_NETWORKS", "")
    for network in NETWORKS:
        if not re.search(asked, network[0]):
            continue
        try:
            took, least = one_network(b, network)
        except (subprocess.CalledProcessError, OSError) as fault:
            b.missing.append(f"{network[0]}: {fault}")
            continue
        ours, theirs, ratio = ratio_of(took)
        ratios.append(ratio)
        rows.append([network[0], network[3], network[4]] +
                    [f"{1e3 * statistics.median(t):.1f}"
                     for t in took.values()] +
                    [ours, theirs, f"{ratio:.2f}", say_verdict(ratio, LEAST),
                     f"{min(least[k] for k in THEIRS) / min(least[k] for k in OURS):.2f}"])
    if not rows:
        return
    mean = math.exp(statistics.mean(map(math.log, ratios)))
    b.show("Training steps beside PyTorch", "torch",
           v.table(["network", "batch", "optimizer", "plan of search, ms",
                    "plan of dp 2, ms", "PyTorch 1 thread, ms",
                    "2 threads, ms", "DDP, ms", "ours", "its", "ratio",
                    f">= {LEAST}", "of the least steps"], rows) +
           f"\n\nGeometric mean of {len(rows)} networks {mean:.2f} (at least {LEAST_MEAN}: "
           f"{say_verdict(mean, LEAST_MEAN)}; goal {GOAL_MEAN}). PyTorch "
           f"{found.stdout.strip()}, whose MKL takes all of this processor's "
           "instructions; ratios are its best by the better of our two, "
           "medians of rounds that take turns.")


# ---- products ----


def matmul(b):
    told = subprocess.run([f"{b.build}/tests/bench_exec", "matmul"], check=True,
                          stdout=subprocess.PIPE, text=True).stdout
    rows = []
    for line in told.splitlines():
        m, n, k, tb, plan_s, bare_s = line.split()
        rate = 2e-9 * int(m) * int(n) * int(k)
        ratio = float(bare_s) / float(plan_s)
        rows.append([f"{m} x {n} x {k}" + (", B transposed" if tb == "1" else ""),
                     f"{rate / float(plan_s):.0f}",
                     f"{rate / float(bare_s):.0f}", f"{ratio:.3f}",
                     say_verdict(ratio, LEAST_MATMUL)])
    b.show("Products in a plan beside oneDNN called bare", "matmul",
           v.table(["rows x columns x terms", "in the plan, Gflop/s",
                    "dnnl_sgemm, Gflop/s", "ratio", f">= {LEAST_MATMUL}"],
                   rows) + "\n\nOne core, its thread's own time; the least of turns.")


# ---- acts ----

# What fires a task, by file; the kernel, the data and waiting are not of it.
OF_ACTS = (r"src/(exec/(run|rank|alone|loader|parker|stop)|"
           r"plan/(actor|actor_\w+|places)|base/ticker)\.[ch]")
TURNS = 3
OF_MESSAGES = r"src/plan/(actor|actor_\w+|places)\.[ch]"


def instructions(b, steps):
    """Of a run: by what fires, by its messages alone, clock included."""
    out = f"{b.folder}/callgrind.out"
    told = subprocess.run(
        ["valgrind", "-q", "--tool=callgrind", f"--callgrind-out-file={out}",
         f"{b.build}/tests/bench_exec", "act", str(steps)], check=True,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    acts, messages = map(int, told.split())
    listed = subprocess.run(
        ["callgrind_annotate", "--threshold=100", out], check=True,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    sums = [0, 0]
    for line in listed.splitlines():
        found = re.match(r"\s*([\d,]+) \([^)]*\)\s+(\S+):(\S+)", line)
        if not found:
            continue
        count, where = int(found.group(1).replace(",", "")), found.group(2)
        if re.search(OF_ACTS, where) or "clock_gettime" in found.group(3) or \
                "base/clock" in where:
            sums[0] += count
        if re.search(OF_MESSAGES, where):
            sums[1] += count
    return acts, messages, sums


def act(b):
    first, second = 2, 6
    steps, turns = second - first, []
    for _ in range(TURNS):
        acts, messages, low = instructions(b, first)
        high = instructions(b, second)[2]
        turns.append([(high[0] - low[0]) / steps / acts,
                      (high[1] - low[1]) / steps / messages])
    rows = [["an act, beyond its kernel", min(of for of, _ in turns), 250],
            ["a message", min(of for _, of in turns), 60]]
    took_ns = float(subprocess.run(
        [f"{b.build}/tests/bench_exec", "firing"], check=True,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout)
    b.show("Instructions of the loop", "act",
           v.table(["what", "instructions", "at most", "verdict"],
                   [[what, f"{n:.0f}", most, "holds" if n <= most else "FAILS"]
                    for what, n, most in rows] +
                   [["ns of an act, beyond its kernel", f"{took_ns:.0f}", 60,
                     "holds" if took_ns <= 60 else "FAILS"]]) +
           f"\n\nBy callgrind, the difference of {second} and {first} steps of "
           f"{acts} acts and {messages} messages (each input is told of and "
           "told back; those along a stream, whose order its program gives, "
           "are not sent and cost nothing) on one rank, flight recorder on, in "
           "micro-batches: what stands in the loop, the actor protocol and the "
           "clock; the kernels' own is left out. The least of "
           f"{TURNS} turns: rounds in which a rank waits for its loader, which "
           "a busy host makes more of, are no acts. Nanoseconds: the least step "
           "of such a plan, less what its kernels take between the readings "
           "of the clock around them; the middle of several turns.")


# ---- threads ----

MOST_HANDOVER_NS = 600


def handover(b):
    told = subprocess.run(
        [f"{b.build}/tests/bench_exec", "handover"], check=True,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    cold_there, cold_back, there, back, wake = map(float, told.split())
    rows = [["to the loader's thread", there, cold_there],
            ["back to the polling thread", back, cold_back]]
    b.show("Handing a job over", "handover",
           v.table(["medians", "while it spins, ns", "when it sleeps, ns",
                    f"spinning <= {MOST_HANDOVER_NS}"],
                   [[what, f"{hot:.0f}", f"{cold:.0f}",
                     "holds" if hot <= MOST_HANDOVER_NS else "FAILS"]
                    for what, hot, cold in rows]) +
           "\n\n20,000 jobs one upon the other, 300 that find the thread "
           f"asleep. It spins as long as waking it has taken: {wake:.0f} ns "
           "by its own measure.")


MOST_IDLE = 0.03


def idle(b):
    """Ranks that do nothing but wait, on cores of their own and on one."""
    mpirun = os.environ.get("MPIRUN", "mpirun")
    one_core = str(min(os.sched_getaffinity(0)))
    rows = []
    for load_ms, steps in ((1, 400), (10, 80), (50, 16)):
        words = [f"{b.build}/tests/bench_idle", str(load_ms), str(steps)]
        for name, before in (
                ("loader", []),
                ("message", [mpirun, "-n", "2"]),
                ("message, cores shared",
                 ["taskset", "-c", one_core, mpirun, "-n", "2", "--bind-to",
                  "none"])):
            told = subprocess.run(
                before + words, check=True, stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL, text=True, timeout=100,
                env={**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1",
                     "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}).stdout
            _, wall, cpu, late, wake = map(
                float, max(told.splitlines()).split())
            rows.append([name, load_ms, f"{100 * cpu / wall:.1f}",
                         f"{1e6 * late:.0f}",
                         f"{1e6 * wake:.0f}",
                         "holds" if cpu <= MOST_IDLE * wall else "FAILS"])
    b.show("Ranks that wait", "idle",
           v.table(["for", "ms", "of a core, %", "late, us", "a wake, us",
                    f"<= {100 * MOST_IDLE:.0f} %"], rows) +
           "\n\nA rank whose steps are a few small products and whose data "
           "takes so long to load; or the second of two stages, whose first "
           "loads. Late: the median step less that time, work included, or "
           "from when a message is sent, so long after the last, to when it "
           "is seen. A wake: by the rank's own measure.")


# ---- overlap ----

LEAST_OVERLAP = 0.9
RATES = ("2gbit", "4gbit")
TCP = ("--mca btl tcp,self --mca btl_tcp_if_include lo "
       "--mca oob_tcp_if_include lo")


def overlap(b):
    """Two ranks in a network namespace of their own, whose loopback is slow."""
    mpirun = os.environ.get("MPIRUN", "mpirun")
    rows = []
    for rate in RATES:
        told = subprocess.run(
            ["unshare", "-n", sys.executable,
             f"{b.source}/tests/bench_loopback.py", rate, mpirun, "-n", "2",
             "--bind-to", "core", *TCP.split(),
             f"{b.build}/tests/bench_overlap", "240", "512", "0"],
            env={**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1",
                 "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"},
            check=True, stdout=subprocess.PIPE, text=True, timeout=300).stdout
        turns = [list(map(float, line.split())) for line in told.splitlines()]
        reduce, step, both, lost, bare = zip(*turns)
        alone = statistics.median(reduce)
        ratio = statistics.median((alone + s - t) / min(alone, s)
                                  for s, t in zip(step, both))
        limit = 1 - statistics.median(bare) / alone
        rows.append([rate] + [
            f"{1e3 * min(t):.0f}-{1e3 * max(t):.0f}"
            for t in (reduce, step, both)] +
            [f"{1e3 * statistics.median(lost):.1f}",
             f"{1e3 * statistics.median(bare):.1f}", f"{ratio:.2f}",
             f"{limit:.2f}", f"{ratio / limit:.2f}",
             say_verdict(ratio, LEAST_OVERLAP)])
    b.show("An all-reduce of 16 MB hidden behind kernels", "overlap",
           v.table(["loopback", "all-reduce, ms", "step without it, ms",
                    "step with it, ms", "a core loses, ms",
                    "by bare sockets, ms", "ratio", "limit", "ratio / limit",
                    f">= {LEAST_OVERLAP}"], rows) +
           "\n\nTwo ranks on two cores, TCP in a private network namespace "
           "limited by `tc tbf`, in packets of up to 512 KiB; both "
           "directions share the rate. Ratio: "
           "(all-reduce + step without it - step with it) / the lesser of the "
           "first two, the middle of fifteen turns. A core loses: what a loop "
           "in registers takes longer while the bytes move, looked after "
           "every 100 us; bare sockets move as many bytes, and sum nothing. "
           "Limit: 1 - what bare sockets lose / the all-reduce.")


PARTS = {"torch": torch, "llmc": bench_llmc.llmc, "sim": bench_predicted.sim,
         "matmul": matmul, "act": act, "handover": handover, "idle": idle,
         "overlap": overlap}


def processor():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as f:
            told = f.read()
        name = re.search(r"model name\s*: (.*)", told).group(1)
        flags = re.search(r"flags\s*: (.*)", told).group(1).split()
    except (OSError, AttributeError):
        return "unknown processor"
    return name + next((f" with {said}" for flag, said in (
        ("avx512f", "AVX-512"), ("avx2", "AVX2")) if flag in flags), "")


def main():
    b = Bench(sys.argv[1], sys.argv[2])
    asked = os.environ.get("BENCH_EXEC", "").split() or list(PARTS)
    unknown = [part for part in asked if part not in PARTS]
    if unknown:
        print(f"BENCH_EXEC={' '.join(unknown)}: there are {' '.join(PARTS)}",
              file=sys.stderr)
        return 2
    for part in asked:
        b.say(part)
        try:
            PARTS[part](b)
        except (subprocess.CalledProcessError, OSError, ValueError) as fault:
            b.missing.append(f"{part}: {fault}")
    if b.missing:
        print(f"\nNot there: {'; '.join(b.missing)}.")
    b.show("Where", "where",
           f"{time.strftime('%d %B %Y')}, {processor()}, "
           f"{len(os.sched_getaffinity(0))} cores, load "
           f"{os.getloadavg()[0]:.1f} at the end; "
           f"`make bench-exec BENCH_EXEC=\"{' '.join(asked)}\"`.")
    if os.environ.get("BENCH_PAGES") == "rewrite":
        bench_sim.rewrite_page(f"{b.datasets}/measurements/exec.md", b.tables)
    b.say("done")
    return 0


if __name__ == "__main__":
    sys.exit(main())
