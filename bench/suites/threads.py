"""Kernels on two threads: against torch with two threads, and against themselves on one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import torch
from measure import Pair, rested

import tilejit.language as pl
from suites import products
from suites.cpu import row_kernels
from tilejit import RunConfig

COUNT = 2


@pl.jit
def blocks(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    for i in pl.spmd(64):
        rows = pl.load(x, [i * 16, 0], [16, 512])
        out = pl.store(pl.exp(pl.mul(rows, 0.5)), [i * 16, 0], out)
    return out


@pl.jit
def attention(q: pl.Tensor, k: pl.Tensor, v: pl.Tensor, out: pl.Out[pl.Tensor]):
    for i in pl.parallel(0, 1024, 64):
        with pl.at(level=pl.Level.CORE_GROUP):
            keys = pl.transpose(pl.load(k, [0, 0], [1024, 64]), 0, 1)
            scores = pl.mul(pl.matmul(pl.load(q, [i, 0], [64, 64]), keys), 0.125)
            scratch = pl.create_tile([64, 1024], dtype=pl.FP32)
            weights = pl.exp(pl.row_expand_sub(scores, pl.row_max(scores, scratch)))
            total = pl.row_sum(weights, scratch)
            out = pl.store(pl.row_expand_div(pl.matmul(weights, pl.load(v, [0, 0], [1024, 64])), total), [i, 0], out)
    return out


@pl.jit
def little(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    for i in pl.spmd(4):
        out = pl.store(pl.mul(pl.load(x, [i * 4, 0], [4, 64]), 2.0), [i * 4, 0], out)
    return out


def speedup(name: str, kernel: Any, inputs: tuple[torch.Tensor, ...], out: torch.Tensor) -> Pair:
    """Two threads against one, with the same result bit for bit."""
    compiled = kernel.compile(*inputs, out)
    one, two = RunConfig(num_threads=1), RunConfig(num_threads=COUNT)
    alone = torch.empty_like(out)

    def check() -> None:
        compiled(*inputs, out, config=two)
        compiled(*inputs, alone, config=one)
        assert torch.equal(out, alone)

    return Pair(name, "one thread", lambda: compiled(*inputs, out, config=two), lambda: compiled(*inputs, alone, config=one), check=check)


def cases() -> Iterator[Pair]:
    return map(rested, pairs())


def pairs() -> Iterator[Pair]:
    torch.manual_seed(0)
    torch.set_num_threads(COUNT)
    os.environ["TILEJIT_NUM_THREADS"] = str(COUNT)
    yield speedup("pl.spmd, 64 blocks of 16x512", blocks, (torch.randn(1024, 512),), torch.empty(1024, 512))
    yield speedup("pl.parallel, attention 1024x64", attention, tuple(torch.randn(1024, 64) for _ in range(3)), torch.empty(1024, 64))
    yield speedup("pl.spmd, 4 blocks of 4x64", little, (torch.randn(16, 64),), torch.empty(16, 64))
    for rows, columns in ((4096, 4096), (1000, 1001)):
        yield from row_kernels(rows, columns)
    yield from products.floats(COUNT)
    os.environ["TILEJIT_NUM_THREADS"] = "1"
    torch.set_num_threads(1)
