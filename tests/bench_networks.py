"""Networks of `make bench-exec`, their data, our plans of them."""
import json
import math
import os
import re
import struct
import subprocess

import bench_sim

GPT = {"layers": 4, "hidden": 256, "heads": 8, "vocab": 2048, "seq": 128}
GPT2 = {"layers": 12, "hidden": 768, "heads": 12, "vocab": 50257, "seq": 256}
RESNET = {"depth": 18, "size": 32, "classes": 10}
WIDE = {"fields": 26, "wide": 26, "dense": 13, "rows": 50000, "embedding": 16,
        "hidden": 1024, "layers": 4}
BERT = {"layers": 4, "hidden": 512, "heads": 8, "vocab": 30522, "seq": 128}
# name, model of the zoo, its keys, batch, optimizer
NETWORKS = [("GPT", "gpt", GPT, 8, "adamw"),
            ("GPT-2 124M", "gpt", GPT2, 4, "adamw"),
            ("ResNet-18", "resnet", RESNET, 64, "momentum"),
            ("Wide&Deep", "wide_deep", WIDE, 512, "adam"),
            ("BERT-small", "bert", BERT, 8, "adamw")]


class Bench(bench_sim.Bench):
    name = "bench-exec"

    def __init__(self, source, build):
        super().__init__(source, build)
        self.folder = f"{build}/bench-exec"
        os.makedirs(self.folder, exist_ok=True)
        own = f"{build}/bench-torch/bin/python"
        self.python = os.environ.get("BENCH_TORCH") or (
            own if os.path.exists(own) else "python3")

    def flowsearch(self, *words, figures="figures"):
        """Figures of this machine are kept from one call to the next."""
        return subprocess.run(
            [self.program, *words, "--db", f"{self.folder}/{figures}.db"],
            env={**os.environ, "FS_DATA": self.datasets}, check=True,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout


def write_tensor(path, shape, kind):
    """A TensorProto of ones; PyTorch too is given its data, not draws."""
    code, form, one = {"f32": (1, "f", 1.0), "i64": (7, "q", 1),
                       "bool": (9, "?", True)}[kind]
    raw = struct.pack("<" + form, one) * math.prod(shape)

    def varint(n):
        out = b""
        while n > 127:
            out, n = out + bytes([n & 127 | 128]), n >> 7
        return out + bytes([n])
    with open(path, "wb") as f:
        f.write(b"".join(b"\x08" + varint(d) for d in shape) + b"\x10" +
                varint(code) + b"\x4a" + varint(len(raw)) + raw)


def inputs_of(model, k, batch):
    words = (batch, k.get("seq", 1)), "i64"
    if model == "gpt":
        return [words, words]
    if model == "bert":
        return [words, words, words, ((batch,), "i64")]
    if model == "resnet":
        return [((batch, 3, k["size"], k["size"]), "f32"), ((batch,), "i64")]
    return [((batch, k["wide"]), "i64"), ((batch, k["fields"]), "i64"),
            ((batch, k["dense"]), "f32"), ((batch, 1), "bool")]


def words_of(network):
    """What search, plan and calibrate are told of it."""
    _, model, keys, batch, optimizer = network
    said = ",".join(f"{key}={x}" for key, x in keys.items())
    return [f"zoo:{model},{said}", "--ranks", "2", "--batch", str(batch),
            "--optimizer", optimizer]


class Flowsearch:
    """A plan of a network, made with the figures of a database and run."""

    def __init__(self, b, network, recipe, figures="figures"):
        self.b, self.figures, self.recipe = b, figures, recipe
        self.words = words_of(network)
        self.data = f"{b.folder}/{re.sub('[^A-Za-z0-9]', '', network[0])}"
        self.plan = f"{self.data}-{figures}-{recipe[0]}.json"
        os.makedirs(self.data, exist_ok=True)
        inputs = inputs_of(network[1], network[2], network[3])
        for i, (shape, kind) in enumerate(inputs):
            write_tensor(f"{self.data}/input_{i}.pb", shape, kind)
        self.make()

    def make(self):
        self.b.flowsearch(self.recipe[0], *self.words, "--cluster", "local",
                          *self.recipe[1:], "-o", self.plan,
                          figures=self.figures)

    def run(self, n):
        return json.loads(self.b.flowsearch(
            "run", self.plan, "--data", self.data, "--steps", str(n),
            "--json", figures=self.figures))

    def steps(self, _, n):
        told = self.run(n)
        return [told["step_s"]["median"], told["step_s"]["min"]]
