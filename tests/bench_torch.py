"""One process of PyTorch on the processor, for bench_exec.py.

    bench_torch.py MODEL KEYS BATCH OPTIMIZER [RANK PORT]

MODEL and KEYS (a JSON object) as the zoo takes them, which builds the same
network. Reads lines "THREADS STEPS" and answers with the seconds of each step,
in one line. With RANK it is one of two processes of DistributedDataParallel
over gloo, each with half of the batch.
"""
import json
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    """Attention and a feed-forward part; norms before (GPT) or behind."""

    def __init__(self, k, before):
        super().__init__()
        h = k["hidden"]
        self.heads, self.before = k["heads"], before
        epsilon = 1e-5 if before else 1e-12
        self.qkv, self.out = nn.Linear(h, 3 * h), nn.Linear(h, h)
        self.up, self.down = nn.Linear(h, 4 * h), nn.Linear(4 * h, h)
        self.one, self.two = nn.LayerNorm(h, epsilon), nn.LayerNorm(h, epsilon)

    def attend(self, x):
        b, t, h = x.shape
        q, k, v = (part.view(b, t, self.heads, -1).transpose(1, 2)
                   for part in self.qkv(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.before)
        return self.out(y.transpose(1, 2).reshape(b, t, h))

    def forward(self, x):
        if self.before:
            x = x + self.attend(self.one(x))
            return x + self.down(F.gelu(self.up(self.two(x))))
        x = self.one(x + self.attend(x))
        return self.two(x + self.down(F.gelu(self.up(x))))


class Gpt(nn.Module):
    def __init__(self, k):
        super().__init__()
        h, self.k = k["hidden"], k
        self.tok, self.pos = nn.Embedding(k["vocab"], h), nn.Embedding(k["seq"], h)
        self.blocks = nn.Sequential(*(Block(k, True) for _ in range(k["layers"])))
        self.norm = nn.LayerNorm(h)

    def data(self, batch):
        return [torch.randint(self.k["vocab"], (batch, self.k["seq"]))
                for _ in range(2)]

    def forward(self, ids, targets):
        x = self.norm(self.blocks(self.tok(ids) + self.pos.weight))
        x = F.linear(x, self.tok.weight)
        return F.cross_entropy(x.flatten(0, 1), targets.flatten())


class Bert(nn.Module):
    def __init__(self, k):
        super().__init__()
        h, self.k = k["hidden"], k
        self.tok, self.pos = nn.Embedding(k["vocab"], h), nn.Embedding(k["seq"], h)
        self.kinds, self.norm = nn.Embedding(2, h), nn.LayerNorm(h, 1e-12)
        self.blocks = nn.Sequential(*(Block(k, False) for _ in range(k["layers"])))
        self.fc, self.words = nn.Linear(h, h), nn.LayerNorm(h, 1e-12)
        self.bias = nn.Parameter(torch.zeros(k["vocab"]))
        self.pool, self.sentence = nn.Linear(h, h), nn.Linear(h, 2)

    def data(self, batch):
        shape = batch, self.k["seq"]
        return [torch.randint(self.k["vocab"], shape), torch.randint(2, shape),
                torch.randint(self.k["vocab"], shape), torch.randint(2, shape[:1])]

    def forward(self, ids, types, labels, following):
        x = self.tok(ids) + self.kinds(types) + self.pos.weight
        x = self.blocks(self.norm(x))
        y = self.words(F.gelu(self.fc(x)))
        y = F.linear(y, self.tok.weight, self.bias)
        loss = F.cross_entropy(y.flatten(0, 1), labels.flatten())
        y = self.sentence(torch.tanh(self.pool(x[:, 0])))
        return loss + F.cross_entropy(y, following)


class Basic(nn.Module):
    def __init__(self, width, out, stride):
        super().__init__()
        self.one = nn.Conv2d(width, out, 3, stride, 1, bias=False)
        self.two = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(out), nn.BatchNorm2d(out)
        self.down = nn.Sequential(
            nn.Conv2d(width, out, 1, stride, bias=False),
            nn.BatchNorm2d(out)) if stride > 1 or width != out else nn.Identity()

    def forward(self, x):
        y = F.relu(self.norm1(self.one(x)))
        return F.relu(self.norm2(self.two(y)) + self.down(x))


class Resnet(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.k, blocks, width = k, [], 64
        for out in (64, 128, 256, 512):
            for i in range(2):
                blocks.append(Basic(width, out, 2 if i == 0 and out > 64 else 1))
                width = out
        self.stem = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.norm, self.blocks = nn.BatchNorm2d(64), nn.Sequential(*blocks)
        self.head = nn.Linear(512, k["classes"])

    def data(self, batch):
        return [torch.randn(batch, 3, self.k["size"], self.k["size"]),
                torch.randint(self.k["classes"], (batch,))]

    def forward(self, x, labels):
        x = F.max_pool2d(F.relu(self.norm(self.stem(x))), 3, 2, 1)
        return F.cross_entropy(self.head(self.blocks(x).mean((2, 3))), labels)


class WideDeep(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.k, sizes = k, [k["fields"] * k["embedding"] + k["dense"]]
        self.wide = nn.Embedding(k["rows"], 1)
        self.deep = nn.Embedding(k["rows"], k["embedding"])
        sizes += [k["hidden"]] * k["layers"]
        parts = []
        for before, after in zip(sizes, sizes[1:]):
            parts += [nn.Linear(before, after), nn.ReLU()]
        self.mlp = nn.Sequential(*parts, nn.Linear(sizes[-1], 1))

    def data(self, batch):
        k = self.k
        return [torch.randint(k["rows"], (batch, k["wide"])),
                torch.randint(k["rows"], (batch, k["fields"])),
                torch.randn(batch, k["dense"]),
                torch.randint(2, (batch, 1)).float()]

    def forward(self, wide, deep, dense, labels):
        y = self.mlp(torch.cat([self.deep(deep).flatten(1), dense], 1))
        return F.binary_cross_entropy_with_logits(
            y + self.wide(wide).sum(1), labels)


MODELS = {"gpt": Gpt, "bert": Bert, "resnet": Resnet, "wide_deep": WideDeep}


def optimizer_of(name, parameters):
    """The fused form, which is PyTorch's fastest."""
    if name == "momentum":
        return torch.optim.SGD(parameters, 1e-2, momentum=0.9, fused=True)
    kind = torch.optim.AdamW if name == "adamw" else torch.optim.Adam
    return kind(parameters, 1e-3, fused=True)


def main():
    model, keys, batch, kind = sys.argv[1:5]
    torch.manual_seed(1)
    net, batch = MODELS[model](json.loads(keys)), int(batch)
    data = net.data
    if len(sys.argv) > 5:
        torch.distributed.init_process_group(
            "gloo", rank=int(sys.argv[5]), world_size=2,
            init_method=f"tcp://127.0.0.1:{sys.argv[6]}")
        torch.set_num_threads(1)
        net, batch = nn.parallel.DistributedDataParallel(net), batch // 2
    optimizer = optimizer_of(kind, net.parameters())
    data = data(batch)
    for line in sys.stdin:
        threads, steps = map(int, line.split())
        torch.set_num_threads(threads)
        took = []
        for _ in range(steps):
            begin = time.perf_counter()
            net(*data).backward()
            optimizer.step()
            optimizer.zero_grad()
            took.append(time.perf_counter() - begin)
        print(*took, flush=True)


if __name__ == "__main__":
    main()
