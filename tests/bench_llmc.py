"""The part `llmc` of `make bench-exec`: GPT-2 124M beside llm.c's trainer on
the same cores.

BENCH_LLMC: a checkout of llm.c. It is built as its Makefile says, in copies of
our own; weights and tokens are made here, of the formats that it reads, for
neither changes what a step takes."""
import array
import os
import random
import re
import shutil
import signal
import statistics
import subprocess

import bench_verdicts as v
from bench_networks import GPT2, Flowsearch

LEAST = 7
BATCH = 4  # its own, and ours
LENGTHS = (64, 256)  # its own, ours
STEPS, WARM_UP = 3, 1
CONTEXT, PADDED = 1024, 50304
MODEL_MAGIC, MODEL_VERSION = 20240326, 3
TOKENS_MAGIC, TOKENS_VERSION = 20240520, 1
INSTALL = """llm.c is not there; to have it beside (some MB):
  git clone --depth 1 https://github.com/karpathy/llm.c
and name the folder in BENCH_LLMC."""


def header(*values):
    return array.array("i", list(values) + [0] * (256 - len(values)))


def write_model(path):
    """Tensors in its order: those of norms are 1 and 0, the rest is drawn."""
    layers, width = GPT2["layers"], GPT2["hidden"]
    draw = random.Random(1)
    some = array.array("f", (draw.gauss(0, 0.02) for _ in range(1 << 20)))
    drawn, one, zero = some.tobytes(), array.array("f", [1]), bytes(4)
    per_layer = [(one, width), (zero, width), (drawn, 3 * width * width),
                 (zero, 3 * width), (drawn, width * width), (zero, width),
                 (one, width), (zero, width), (drawn, 4 * width * width),
                 (zero, 4 * width), (drawn, 4 * width * width), (zero, width)]
    tensors = [(drawn, PADDED * width), (drawn, CONTEXT * width)]
    tensors += [(what, layers * n) for what, n in per_layer]
    tensors += [(one, width), (zero, width)]
    with open(path, "wb") as f:
        header(MODEL_MAGIC, MODEL_VERSION, CONTEXT, GPT2["vocab"], layers,
               GPT2["heads"], width, PADDED).tofile(f)
        for what, n in tensors:
            block = bytes(what) * (1 if what is drawn else 1 << 10)
            for at in range(0, 4 * n, len(block)):
                f.write(block[:4 * n - at])


def write_tokens(path, n):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    draw = random.Random(2)
    with open(path, "wb") as f:
        header(TOKENS_MAGIC, TOKENS_VERSION, n).tofile(f)
        array.array("H", (draw.randrange(GPT2["vocab"])
                          for _ in range(n))).tofile(f)


class Llmc:
    """A copy of its sources for one sequence length, built."""

    def __init__(self, b, source, length):
        self.folder = f"{b.folder}/llmc-{length}"
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.folder)
        shutil.copytree(f"{source}/llmc", f"{self.folder}/llmc")
        shutil.copy(f"{source}/Makefile", self.folder)
        with open(f"{source}/train_gpt2.c", encoding="utf-8") as f:
            text = f.read()
        if f"model_header[1] != {MODEL_VERSION}" not in text:
            raise ValueError(f"{source}/train_gpt2.c reads another version of "
                             f"weights than {MODEL_VERSION}")
        text, found = re.subn(r"int T = \d+;", f"int T = {length};", text)
        if found != 1 or f"int B = {BATCH};" not in text:
            raise ValueError(f"{source}/train_gpt2.c: where are B and T?")
        with open(f"{self.folder}/train_gpt2.c", "w", encoding="utf-8") as f:
            f.write(text)
        subprocess.run(["make", "-C", self.folder, "train_gpt2",
                        f"CC={os.environ.get('BENCH_LLMC_CC', 'gcc')}"],
                       stdout=subprocess.DEVNULL, check=True)
        os.symlink(os.path.abspath(f"{b.folder}/gpt2_124M.bin"),
                   f"{self.folder}/gpt2_124M.bin")
        data = f"{self.folder}/dev/data/tinyshakespeare/tiny_shakespeare"
        for part in ("train", "val"):
            write_tokens(f"{data}_{part}.bin", 64 * BATCH * length + 1)

    def steps(self):
        """Its output goes to a terminal, line by line: it is ended early."""
        ours, its = os.openpty()
        cores = len(os.sched_getaffinity(0))
        child = subprocess.Popen(
            ["./train_gpt2"], cwd=self.folder, stdout=its, stderr=its,
            env={**os.environ, "OMP_NUM_THREADS": str(cores)})
        os.close(its)
        took = []
        with open(ours, encoding="utf-8", errors="replace") as lines:
            try:
                for line in lines:
                    found = re.search(r"^step \d+:.*took ([\d.]+) ms", line)
                    took += [1e-3 * float(found.group(1))] if found else []
                    if len(took) == STEPS + WARM_UP:
                        break
            except OSError:
                pass  # it has ended
        child.send_signal(signal.SIGKILL)
        child.wait()
        if len(took) <= WARM_UP:
            raise OSError("llm.c ended before its second step")
        return statistics.median(took[WARM_UP:])


def one_length(b, source, length):
    network = (f"GPT-2 {length}", "gpt", {**GPT2, "seq": length}, BATCH,
               "adamw")
    theirs = Llmc(b, source, length)
    ours = [Flowsearch(b, network, ["search"]),
            Flowsearch(b, network, ["plan", "--dp", "2"])]
    took = []
    for k in range(int(os.environ.get("BENCH_ROUNDS", "3"))):
        best = min(one.steps(1, 2 * STEPS)[0] for one in ours)
        took.append((best, theirs.steps()))
        b.say(f"llm.c, round {k + 1}, {BATCH} x {length}: ours "
              f"{1e3 * took[-1][0]:.0f}, its {1e3 * took[-1][1]:.0f} ms")
    shutil.rmtree(theirs.folder)
    return took


def llmc(b):
    source = os.environ.get("BENCH_LLMC")
    if not source:
        b.missing.append("llm.c")
        print("\n" + INSTALL, flush=True)
        return
    weights = f"{b.folder}/gpt2_124M.bin"
    write_model(weights)
    rows = []
    for length in LENGTHS:
        took = one_length(b, os.path.abspath(source), length)
        ratio = statistics.median(its / own for own, its in took)
        rows.append([f"{BATCH} x {length}"] +
                    [f"{1e3 * statistics.median(t):.0f}" for t in zip(*took)] +
                    [f"{ratio:.1f}", "holds" if ratio >= LEAST else "FAILS"])
    os.remove(weights)
    b.show("GPT-2 124M beside llm.c", "llmc",
           v.table(["batch x tokens", "ours, ms", "llm.c, ms", "ratio",
                    f">= {LEAST}"], rows) +
           "\n\nThe better of a plan of search and one of dp 2 on two ranks; "
           "llm.c's train_gpt2 as its Makefile builds it, with OpenMP on the "
           "same cores; ratios are medians of rounds that take turns, steps "
           "without the first.")
