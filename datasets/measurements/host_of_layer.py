#!/usr/bin/env python3
"""What a host takes to run a transformer layer as Megatron-LM wrote it in 2021
and 2022 (autograd functions of tensor parallel regions, dropout under a fork of
the random state, activation checkpoints): on tensors so small that kernels take
next to nothing, so that what remains is Python, dispatch and autograd.

    host_of_layer.py          # PyTorch on a CPU, one thread

Measured on an AMD EPYC 9004 (Zen 4, 2.6 GHz at least), Python 3.11, PyTorch
2.15: 0.33 ms a layer forward and 0.98 ms backward with the checkpoint's second
forward, the least of 300. A DGX A100's cores (EPYC 7742, Zen 2, 3.4 GHz at
most) take about 1.5 times as long: AMD tells 1.19 and 1.14 times the work per
clock for the generations between, and 3.7 GHz. That is 1.95 ms; the some 90
kernels of the layer's three passes are launched in 5 us each (device files):
2.4 ms a layer and micro-batch, 38 us for each of the 63 kernels that the plan
of such a layer has. On the host of an H100 PyTorch took some 30 us for each of
the kernels, more in number, of a GPT's step (gpu_h100.md).
"""
import time

import torch
import torch.nn.functional as F
from torch import nn

LAYERS, WIDTH, HEADS, WORDS = 12, 16, 2, 4


class Region(torch.autograd.Function):
    """Copies to, or reduces from, the tensor parallel ranks: of one rank."""

    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        return g


class NormFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w, b):
        y, m, r = torch.native_layer_norm(x, (x.shape[-1],), w, b, 1e-5)
        ctx.save_for_backward(x, w, b, m, r)
        return y

    @staticmethod
    def backward(ctx, g):
        x, w, b, m, r = ctx.saved_tensors
        return torch.ops.aten.native_layer_norm_backward(
            g.contiguous(), x, (x.shape[-1],), m, r, w, b, [True, True, True])


class Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.softmax(x, -1)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return torch._softmax_backward_data(g, y, -1, y.dtype)


class Linear(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outer, inner) * 0.02)
        self.bias = nn.Parameter(torch.zeros(outer))


class Column(Linear):
    def forward(self, x, skip_bias=False):
        x = Region.apply(x)
        if skip_bias:
            return F.linear(x, self.weight), self.bias
        return F.linear(x, self.weight, self.bias), None


class Row(Linear):
    def forward(self, x):
        return Region.apply(F.linear(x, self.weight)), self.bias


class Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x):
        return NormFunction.apply(x, self.weight, self.bias)


@torch.jit.script
def bias_dropout_add(x, bias, residual, p: float):
    return residual + F.dropout(x + bias, p, True)


class Fork:
    """The tensor parallel ranks' own random state."""

    state = torch.get_rng_state()

    def __enter__(self):
        self.was = torch.get_rng_state()
        torch.set_rng_state(Fork.state)

    def __exit__(self, *_):
        Fork.state = torch.get_rng_state()
        torch.set_rng_state(self.was)


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.dense = Column(width, 3 * width), Row(width, width)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x):
        y, _ = self.qkv(x)
        words, batch = y.shape[:2]
        y = y.view(words, batch, self.heads, -1)
        q, k, v = torch.split(y, y.shape[-1] // 3, dim=3)
        groups = batch * self.heads
        q, k = q.reshape(words, groups, -1), k.reshape(words, groups, -1)
        s = torch.empty(groups, words, words)
        s = torch.baddbmm(s, q.transpose(0, 1),
                          k.transpose(0, 1).transpose(1, 2), beta=0.0, alpha=0.1)
        s = s.view(batch, self.heads, words, words)
        p = Softmax.apply(s.view(-1, words, words)).view(s.shape)
        with Fork():
            p = self.dropout(p)
        v = v.reshape(words, groups, -1)
        c = torch.bmm(p.view(groups, words, words), v.transpose(0, 1))
        c = c.view(batch, self.heads, words, -1).permute(2, 0, 1, 3)
        return self.dense(c.contiguous().view(words, batch, -1))


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.first, self.second = Norm(width), Norm(width)
        self.attention = Attention(width, heads)
        self.inner, self.outer = Column(width, 4 * width), Row(4 * width, width)

    def forward(self, x):
        y, b = self.attention(self.first(x))
        with torch.enable_grad():
            x = bias_dropout_add(y, b.expand_as(x), x, 0.1)
        y, b = self.inner(self.second(x), True)
        y, b = self.outer(F.gelu(y + b))
        with torch.enable_grad():
            return bias_dropout_add(y, b.expand_as(x), x, 0.1)


class Checkpoint(torch.autograd.Function):
    @staticmethod
    def forward(ctx, layer, x):
        ctx.layer, ctx.random = layer, torch.get_rng_state()
        with torch.no_grad():
            y = layer(x)
        ctx.save_for_backward(x)
        return y

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        now = torch.get_rng_state()
        torch.set_rng_state(ctx.random)
        x = x.detach()
        x.requires_grad = True
        with torch.enable_grad():
            y = ctx.layer(x)
        torch.set_rng_state(now)
        torch.autograd.backward(y, g)
        return None, x.grad


def step(layers, checkpoints):
    x = torch.randn(WORDS, 1, WIDTH, requires_grad=True)
    begin = time.perf_counter()
    for layer in layers:
        x = Checkpoint.apply(layer, x) if checkpoints else layer(x)
    middle = time.perf_counter()
    x.sum().backward()
    return middle - begin, time.perf_counter() - middle


def main():
    torch.set_num_threads(1)
    layers = [Layer(WIDTH, HEADS) for _ in range(LAYERS)]
    for checkpoints in (False, True):
        for _ in range(30):
            step(layers, checkpoints)
        times = zip(*(step(layers, checkpoints) for _ in range(300)))
        forward, backward = (1e6 * min(t) / LAYERS for t in times)
        print(f"{'checkpoints' if checkpoints else 'all kept'}: {forward:.0f} us "
              f"a layer forward, {backward:.0f} us backward")


main()
