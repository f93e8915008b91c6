"""Measures one NVIDIA GPU with the kernels that PyTorch runs on it: products,
element-wise kernels, attention, launches, compute beside copying, whole
training steps.

    python3 gpu_points.py OUT_DIR [part ...]

Writes OUT_DIR/points.csv (kernels) and OUT_DIR/steps.csv (training steps, in
the columns of datasets/validation/published_runs.csv). Seconds are medians
over `count` timings by CUDA events, each of enough launches for 2 ms;
`deviation` is their standard deviation. Buffers rotate over more bytes than
the L2 cache holds unless `warm` says 1.
"""
import csv, math, statistics, sys, time, os
import torch

OUT = sys.argv[1]
PARTS = sys.argv[2:] or ["gemm", "move", "launch", "attention", "adam",
                         "overlap", "sustained", "steps"]
DT = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32,
      "tf32": torch.float32}
dev = torch.device("cuda")
points = open(os.path.join(OUT, "points.csv"), "w", newline="")
P = csv.writer(points)
P.writerow("part op dtype m n k batch bytes flop warm beside seconds deviation count".split())


def row(part, op, dtype, m=0, n=0, k=0, batch=1, nbytes=0, flop=0, warm=0,
        beside="", t=(0, 0, 0)):
    P.writerow([part, op, dtype, m, n, k, batch, nbytes, flop, warm, beside,
                "%.4g" % t[0], "%.3g" % t[1], t[2]])
    points.flush()


def timed(f, count=7, span=2e-3, stream=None):
    """f(i) launches once; i counts up."""
    for i in range(3):
        f(i)
    torch.cuda.synchronize()
    a, b = torch.cuda.Event(True), torch.cuda.Event(True)
    a.record(); f(0); b.record(); torch.cuda.synchronize()
    one = max(a.elapsed_time(b) * 1e-3, 2e-6)
    n = max(1, min(400, int(span / one)))
    # launches of small kernels are replayed: the host would be what is timed
    graph = None
    if one < 100e-6:
        graph = torch.cuda.CUDAGraph()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            f(0)
        torch.cuda.current_stream().wait_stream(side)
        with torch.cuda.graph(graph):
            for i in range(n):
                f(i)
        graph.replay()
    got = []
    for _ in range(count):
        torch.cuda.synchronize()
        a.record()
        if graph:
            graph.replay()
        else:
            for i in range(n):
                f(i)
        b.record()
        torch.cuda.synchronize()
        got.append(a.elapsed_time(b) * 1e-3 / n)
    return statistics.median(got), statistics.pstdev(got), count


def rotating(make, nbytes, most=48):
    n = max(1, min(most, int(160e6 / max(nbytes, 1)) + 1))
    return [make() for _ in range(n)]


def gemm():
    def one(dtype, m, n, k, batch, op):
        d = DT[dtype]
        torch.backends.cuda.matmul.allow_tf32 = dtype == "tf32"
        size = d.itemsize * batch * (m * k + k * n + m * n)
        if size > 20e9:
            return
        def make():
            sh = (batch,) if batch > 1 else ()
            a = torch.randn(*sh, *((k, m) if op[0] == "t" else (m, k)), device=dev, dtype=d)
            b = torch.randn(*sh, *((n, k) if op[1] == "t" else (k, n)), device=dev, dtype=d)
            c = torch.empty(*sh, m, n, device=dev, dtype=d)
            return a, b, c
        bufs = rotating(make, size, 8)
        def run(i):
            a, b, c = bufs[i % len(bufs)]
            a = a.transpose(-1, -2) if op[0] == "t" else a
            b = b.transpose(-1, -2) if op[1] == "t" else b
            torch.matmul(a, b, out=c)
        row("gemm", op, dtype, m, n, k, batch, size, 2 * batch * m * n * k,
            t=timed(run, 5))
    shapes = set()
    for h in (512, 1024, 2048, 4096, 8192):
        for tp in (1, 2, 8):
            for m in (512, 2048, 8192):
                for n, k in ((3 * h // tp, h), (h, h // tp), (4 * h // tp, h), (h, 4 * h // tp)):
                    shapes.add((m, n, k))
    for m, n, k in sorted(shapes):
        one("bf16", m, n, k, 1, "nt")
    for m, n, k in sorted(shapes)[::4]:
        one("bf16", m, n, k, 1, "nn")
        one("bf16", n, k, m, 1, "tn")
        one("tf32", m, n, k, 1, "nt")
    for m, n, k in sorted(shapes)[::10]:
        one("fp32", m, n, k, 1, "nt")
        one("fp16", m, n, k, 1, "nt")
    for s in (128, 256, 512, 1000, 1024, 1536, 2048, 3000, 4096, 6144, 8192, 12288):
        one("bf16", s, s, s, 1, "nn")
    for b in (16, 64, 256):
        for s in (512, 1024, 2048):
            for d in (64, 128):
                one("bf16", s, s, d, b, "nt")
                one("bf16", s, d, s, b, "nn")


def move():
    F = torch.nn.functional
    for dtype in ("bf16", "fp32"):
        d = DT[dtype]
        for e in range(10, 29, 1):
            n = 1 << e
            for warm in (0, 1):
                if warm and n * d.itemsize * 3 > 40e6:
                    continue
                bufs = rotating(lambda: [torch.randn(n, device=dev).to(d) for _ in range(3)],
                                3 * n * d.itemsize, 1 if warm else 48)
                def add(i):
                    x, y, z = bufs[i % len(bufs)]
                    torch.add(x, y, out=z)
                def copy(i):
                    x, y, z = bufs[i % len(bufs)]
                    z.copy_(x)
                row("move", "add", dtype, n, nbytes=3 * n * d.itemsize, warm=warm, t=timed(add, 5))
                row("move", "copy", dtype, n, nbytes=2 * n * d.itemsize, warm=warm, t=timed(copy, 5))
        for rows in (256, 1024, 4096, 16384):
            for w in (1024, 4096, 12288):
                nb = rows * w * d.itemsize
                bufs = rotating(lambda: [torch.randn(rows, w, device=dev).to(d).requires_grad_() for _ in range(2)], 2 * nb, 16)
                g = torch.ones(w, device=dev, dtype=d); b = torch.zeros(w, device=dev, dtype=d)
                with torch.no_grad():
                    row("move", "layer_norm", dtype, rows, w, nbytes=2 * nb,
                        t=timed(lambda i: F.layer_norm(bufs[i % len(bufs)][0], (w,), g, b), 5))
                    row("move", "softmax", dtype, rows, w, nbytes=2 * nb,
                        t=timed(lambda i: torch.softmax(bufs[i % len(bufs)][0], -1), 5))
                    row("move", "gelu", dtype, rows, w, nbytes=2 * nb,
                        t=timed(lambda i: F.gelu(bufs[i % len(bufs)][0]), 5))
                    row("move", "sum_rows", dtype, rows, w, nbytes=nb,
                        t=timed(lambda i: bufs[i % len(bufs)][0].sum(0), 5))


def launch():
    x = torch.zeros(256, device=dev)
    def eager(n):
        torch.cuda.synchronize()
        t = time.perf_counter()
        for _ in range(n):
            x.add_(1)
        torch.cuda.synchronize()
        return (time.perf_counter() - t) / n
    eager(1000)
    got = [eager(5000) for _ in range(7)]
    row("launch", "eager_add", "fp32", t=(statistics.median(got), statistics.pstdev(got), 7))
    row("launch", "graph_add", "fp32", t=timed(lambda i: x.add_(1), 7))
    lin = torch.nn.Linear(256, 256, device=dev)
    y = torch.zeros(8, 256, device=dev)
    def fwdbwd(n):
        torch.cuda.synchronize()
        t = time.perf_counter()
        for _ in range(n):
            lin(y).sum().backward()
        torch.cuda.synchronize()
        return (time.perf_counter() - t) / n
    fwdbwd(200)
    got = [fwdbwd(1000) for _ in range(5)]
    row("launch", "linear_sum_backward", "fp32", t=(statistics.median(got), statistics.pstdev(got), 5))


def attention():
    F = torch.nn.functional
    for b, h, s, d in ((8, 16, 1024, 64), (4, 16, 2048, 64), (4, 32, 2048, 128), (1, 32, 4096, 128), (2, 12, 2048, 128), (16, 12, 512, 64)):
        q, k, v = (torch.randn(b, h, s, d, device=dev, dtype=torch.bfloat16, requires_grad=True) for _ in range(3))
        o = torch.randn(b, h, s, d, device=dev, dtype=torch.bfloat16)
        with torch.no_grad():
            row("attention", "flash_forward", "bf16", s, d, h, b, flop=4 * b * h * s * s * d,
                t=timed(lambda i: F.scaled_dot_product_attention(q, k, v, is_causal=True), 5))
        def both(i):
            F.scaled_dot_product_attention(q, k, v, is_causal=True).backward(o)
            q.grad = k.grad = v.grad = None
        for i in range(3):
            both(i)
        torch.cuda.synchronize()
        got = []
        for _ in range(7):
            a, e = torch.cuda.Event(True), torch.cuda.Event(True)
            a.record()
            for i in range(10):
                both(i)
            e.record(); torch.cuda.synchronize()
            got.append(a.elapsed_time(e) * 1e-4)
        row("attention", "flash_both", "bf16", s, d, h, b, flop=14 * b * h * s * s * d,
            t=(statistics.median(got), statistics.pstdev(got), 7))


def adam():
    for n in (10**7, 10**8, 10**9):
        ps = [torch.randn(n // 100, device=dev, requires_grad=True) for _ in range(100)]
        for p in ps:
            p.grad = torch.randn_like(p)
        for kind in ("fused", "foreach"):
            o = torch.optim.AdamW(ps, **{kind: True})
            o.step()
            torch.cuda.synchronize()
            got = []
            for _ in range(5):
                a, e = torch.cuda.Event(True), torch.cuda.Event(True)
                a.record(); o.step(); e.record(); torch.cuda.synchronize()
                got.append(a.elapsed_time(e) * 1e-3)
            row("adam", kind, "fp32", n, nbytes=28 * n, t=(statistics.median(got), statistics.pstdev(got), 5))
            del o
        del ps
        torch.cuda.empty_cache()


COPY = r'''
extern "C" __global__ void channels(const float4* x, float4* y, long n, int rounds) {
  long step = gridDim.x * (long)blockDim.x;
  for (int r = 0; r < rounds; r++)
    for (long i = blockIdx.x * (long)blockDim.x + threadIdx.x; i < n; i += step)
      y[i] = x[i];
}
extern "C" __global__ void waits(long ns) {
  long long begin, now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
  do {
    __nanosleep(1000);
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  } while (now - begin < ns);
}'''


def overlap():
    """Compute beside blocks that copy, as the channels of a collective do; and
    beside blocks that only sit on their processors."""
    import cupy
    module = cupy.RawModule(code=COPY)
    channels, waits = module.get_function("channels"), module.get_function("waits")
    d = torch.bfloat16
    n = 1 << 24
    x = torch.zeros(n * 4, device=dev); y = torch.zeros(n * 4, device=dev)
    side = torch.cuda.Stream(priority=-1)
    A = torch.randn(8192, 4096, device=dev, dtype=d); B = torch.randn(4096, 12288, device=dev, dtype=d)
    C = torch.empty(8192, 12288, device=dev, dtype=d)
    a2 = torch.randn(2048, 1024, device=dev, dtype=d); b2 = torch.randn(1024, 4096, device=dev, dtype=d)
    c2 = torch.empty(2048, 4096, device=dev, dtype=d)
    E = [torch.randn(1 << 26, device=dev).to(d) for _ in range(3)]
    q, k, v = (torch.randn(4, 32, 2048, 128, device=dev, dtype=d) for _ in range(3))
    L = torch.randn(8192, 4096, device=dev, dtype=d); g = torch.ones(4096, device=dev, dtype=d)
    F = torch.nn.functional
    work = {"gemm_8192x12288x4096": (lambda: torch.matmul(A, B, out=C), 10),
            "gemm_2048x4096x1024": (lambda: torch.matmul(a2, b2, out=c2), 200),
            "flash_4x32x2048x128": (lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True), 20),
            "layer_norm_8192x4096": (lambda: F.layer_norm(L, (4096,), g, g), 60),
            "add_67M": (lambda: torch.add(E[0], E[1], out=E[2]), 40)}
    a, e = torch.cuda.Event(True), torch.cuda.Event(True)
    s0, s1 = torch.cuda.Event(True), torch.cuda.Event(True)
    def beside(f, n, blocks, copying, rounds):
        """Seconds of f beside the blocks, of the blocks; whether they outlasted f."""
        torch.cuda.synchronize()
        if blocks:
            with torch.cuda.stream(side):
                s0.record()
                with cupy.cuda.ExternalStream(side.cuda_stream):
                    if copying:
                        channels((blocks,), (512,), (cupy.uint64(x.data_ptr()), cupy.uint64(y.data_ptr()), cupy.int64(n_copy), cupy.int32(rounds)))
                    else:
                        waits((blocks,), (512,), (cupy.int64(rounds),))
                s1.record()
            time.sleep(0.0005)
        a.record()
        for _ in range(n):
            f()
        e.record()
        torch.cuda.synchronize()
        t = a.elapsed_time(e) * 1e-3
        if not blocks:
            return t / n, 0, True
        return t / n, s0.elapsed_time(s1) * 1e-3, a.elapsed_time(s1) > a.elapsed_time(e)
    n_copy = n
    for name, (f, n_work) in work.items():
        for _ in range(20):
            f()
        for blocks in (0, 2, 4, 8, 16, 24, 32):
            for copying in (True, False) if blocks else (True,):
                # so long that f ends first: three times what it may take
                alone = beside(f, n_work, 0, True, 0)[0] * n_work
                span = 4 * alone + 0.01
                per_round = 16 * n * 2 / (78e9 * blocks) if blocks else 1
                rounds = int(span / per_round) + 1 if copying else int(span * 1e9)
                got = [beside(f, n_work, blocks, copying, rounds) for _ in range(5)]
                ts = [t for t, _, outlasts in got if outlasts]
                if not ts:
                    continue
                moved = 2 * 16 * n * rounds / statistics.median(s for _, s, _ in got) if blocks and copying else 0
                row("overlap", name, "bf16", nbytes=int(moved), beside="%d blocks %s" % (blocks, "copying" if copying else "waiting") if blocks else "",
                    t=(statistics.median(ts), statistics.pstdev(ts), len(ts)))
    for blocks in (2, 4, 8, 16, 24, 32):
        t = beside(lambda: None, 1, blocks, True, 8)[1]
        row("overlap", "copy_alone", "fp32", nbytes=int(2 * 16 * n * 8 / t), beside="%d blocks" % blocks, t=(t, 0, 1))


def sustained():
    """Clocks fall under load: the same product in a burst and after seconds."""
    d = torch.bfloat16
    for m, n, k in ((8192, 8192, 8192), (8192, 12288, 4096), (2048, 3072, 1024)):
        A = torch.randn(m, k, device=dev, dtype=d); B = torch.randn(k, n, device=dev, dtype=d); C = torch.empty(m, n, device=dev, dtype=d)
        time.sleep(3)
        f = lambda: torch.matmul(A, B, out=C)
        f(); torch.cuda.synchronize()
        t0 = time.time(); k_ = 0
        while time.time() - t0 < 8:
            a, e = torch.cuda.Event(True), torch.cuda.Event(True)
            r = max(1, int(0.05 / (2 * m * n * k / 600e12)))
            a.record()
            for _ in range(r):
                f()
            e.record(); torch.cuda.synchronize()
            if k_ in (0, 1, 2, 5, 10, 20, 40, 80, 120):
                row("sustained", "nn", "bf16", m, n, k, flop=2 * m * n * k, beside="after %.2f s" % (time.time() - t0),
                    t=(a.elapsed_time(e) * 1e-3 / r, 0, r))
            k_ += 1


def count_kernels(step, tag):
    """Kernels of a step by name, and what its host takes when nothing waits."""
    from torch.profiler import profile, ProfilerActivity
    step(); torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as prof:
        step(); torch.cuda.synchronize()
    with open(os.path.join(OUT, "kernels_%s.csv" % tag), "w", newline="") as f:
        w = csv.writer(f)
        w.writerow("kernel count seconds".split())
        for e in sorted(prof.key_averages(), key=lambda e: -e.device_time_total):
            if e.device_time_total > 0:
                w.writerow([e.key[:120], e.count, "%.4g" % (e.device_time_total * 1e-6)])


def steps():
    import torch.nn as nn
    F = nn.functional
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cudnn.allow_tf32 = True
    torch.backends.cudnn.benchmark = True

    class Block(nn.Module):
        def __init__(s, w, h, causal):
            super().__init__()
            s.h, s.causal = h, causal
            s.n1, s.n2 = nn.LayerNorm(w), nn.LayerNorm(w)
            s.qkv, s.proj = nn.Linear(w, 3 * w), nn.Linear(w, w)
            s.up, s.down = nn.Linear(w, 4 * w), nn.Linear(4 * w, w)
        def forward(s, x):
            b, t, w = x.shape
            q, k, v = s.qkv(s.n1(x)).view(b, t, 3, s.h, w // s.h).permute(2, 0, 3, 1, 4)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=s.causal)
            x = x + s.proj(y.transpose(1, 2).reshape(b, t, w))
            return x + s.down(F.gelu(s.up(s.n2(x)), approximate="tanh"))

    class GPT(nn.Module):
        def __init__(s, l, w, h, t, v, causal=True):
            super().__init__()
            s.wte, s.wpe = nn.Embedding(v, w), nn.Embedding(t, w)
            s.blocks = nn.ModuleList(Block(w, h, causal) for _ in range(l))
            s.norm = nn.LayerNorm(w)
            s.head = nn.Linear(w, v, bias=False)
            s.head.weight = s.wte.weight
        def forward(s, ids, targets):
            x = s.wte(ids) + s.wpe.weight[:ids.shape[1]]
            for b in s.blocks:
                x = b(x)
            return F.cross_entropy(s.head(s.norm(x)).flatten(0, 1), targets.flatten())

    class Bottleneck(nn.Module):
        def __init__(s, i, w, stride):
            super().__init__()
            o = 4 * w
            s.a = nn.Sequential(nn.Conv2d(i, w, 1, bias=False), nn.BatchNorm2d(w), nn.ReLU(True),
                                nn.Conv2d(w, w, 3, stride, 1, bias=False), nn.BatchNorm2d(w), nn.ReLU(True),
                                nn.Conv2d(w, o, 1, bias=False), nn.BatchNorm2d(o))
            s.s = nn.Identity() if i == o and stride == 1 else nn.Sequential(nn.Conv2d(i, o, 1, stride, bias=False), nn.BatchNorm2d(o))
        def forward(s, x):
            return F.relu(s.a(x) + s.s(x))

    class ResNet50(nn.Module):
        def __init__(s):
            super().__init__()
            m = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(True), nn.MaxPool2d(3, 2, 1)]
            i = 64
            for w, n, st in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
                for j in range(n):
                    m.append(Bottleneck(i, w, st if j == 0 else 1)); i = 4 * w
            s.m = nn.Sequential(*m, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))
        def forward(s, x, y):
            return F.cross_entropy(s.m(x), y)

    f = open(os.path.join(OUT, "steps.csv"), "w", newline="")
    W = csv.writer(f)
    W.writerow("id model arch params_b layers hidden heads seq vocab micro_batch precision iter_time_s deviation count peak_mem_gb".split())
    def measure(tag, model, batch, precision, meta, opt="adamw", kernels=False):
        torch.cuda.empty_cache(); torch.cuda.reset_peak_memory_stats()
        model = model.to(dev)
        o = torch.optim.AdamW(model.parameters(), fused=True) if opt == "adamw" else torch.optim.SGD(model.parameters(), lr=.1, momentum=.9)
        amp = precision == "bf16"
        def step():
            with torch.autocast("cuda", torch.bfloat16, enabled=amp):
                loss = model(*batch)
            loss.backward()
            o.step(); o.zero_grad(set_to_none=True)
        try:
            for _ in range(4):
                step()
            torch.cuda.synchronize()
            got = []
            t_end = time.time() + 4
            while len(got) < 12 and (time.time() < t_end or len(got) < 5):
                t = time.perf_counter(); step(); torch.cuda.synchronize()
                got.append(time.perf_counter() - t)
            t = time.perf_counter()
            for _ in range(5):
                step()
            torch.cuda.synchronize()
            whole = (time.perf_counter() - t) / 5
            W.writerow([tag, *meta, precision, "%.5g" % whole, "%.3g" % statistics.pstdev(got), 5, "%.4g" % (torch.cuda.max_memory_allocated() / 2**30)])
            if kernels:
                count_kernels(step, tag)
        except torch.OutOfMemoryError:
            W.writerow([tag, *meta, precision, "", "", 0, "oom"])
        f.flush()
        del o, model

    V = 50304
    for l, w, h, t, b, prec in ((12, 768, 12, 1024, 4, "bf16"), (12, 768, 12, 1024, 16, "bf16"), (12, 768, 12, 1024, 32, "bf16"),
                          (12, 768, 12, 1024, 8, "tf32"), (24, 1024, 16, 1024, 2, "bf16"), (24, 1024, 16, 1024, 8, "bf16"), (24, 1024, 16, 1024, 16, "bf16"),
                          (24, 1024, 16, 1024, 8, "tf32"), (24, 1024, 16, 2048, 8, "bf16"), (24, 2048, 16, 2048, 1, "bf16"), (24, 2048, 16, 2048, 4, "bf16"),
                          (24, 2048, 16, 2048, 8, "bf16"), (16, 4096, 32, 2048, 1, "bf16"), (16, 4096, 32, 2048, 2, "bf16")):
        torch.manual_seed(0)
        ids = torch.randint(0, V, (b, t), device=dev)
        measure("gpt-%dl-%dw-%ds-b%d-%s" % (l, w, t, b, prec), GPT(l, w, h, t, V), (ids, ids), prec,
                ["gpt", "gpt", "", l, w, h, t, V, b], kernels=(l, w, b) in ((24, 1024, 2), (24, 1024, 16), (24, 2048, 4)))
    for l, w, h, t, b, prec in ((12, 768, 12, 512, 16, "bf16"), (24, 1024, 16, 512, 8, "bf16"), (24, 1024, 16, 512, 32, "bf16"), (24, 1024, 16, 512, 8, "tf32")):
        ids = torch.randint(0, 30592, (b, t), device=dev)
        measure("bert-%dl-%dw-%ds-b%d-%s" % (l, w, t, b, prec), GPT(l, w, h, t, 30592, False), (ids, ids), prec,
                ["bert", "bert", "", l, w, h, t, 30592, b])
    for b, prec in ((32, "bf16"), (128, "bf16"), (256, "bf16"), (128, "tf32")):
        x = torch.randn(b, 3, 224, 224, device=dev).to(memory_format=torch.channels_last)
        y = torch.randint(0, 1000, (b,), device=dev)
        measure("resnet50-b%d-%s" % (b, prec), ResNet50().to(memory_format=torch.channels_last), (x, y), prec,
                ["resnet50", "cnn", "", "", "", "", "", "", b], "sgd")


print(torch.cuda.get_device_name(), torch.__version__, torch.version.cuda)
for part in PARTS:
    t = time.time()
    try:
        globals()[part]()
    except Exception as e:
        print(part, "failed:", repr(e)[:500])
    torch.cuda.empty_cache()
    print(part, "%.1f s" % (time.time() - t), flush=True)
