"""Attention on the CPU as users write it, against torch's own: blocks of queries over blocks of keys, and one query over a long cache."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import torch
from measure import Pair, Target
from torch.nn.functional import scaled_dot_product_attention

import tilejit.language as pl

HEADS, LENGTH, WIDTH, CACHE = 16, 1024, 64, 8192


@pl.jit
def flash(q: pl.Tensor, k: pl.Tensor, v: pl.Tensor, length: int, queries: int, keys: int, out: pl.Out[pl.Tensor]):
    d = q.shape[1]
    for block in pl.spmd(q.shape[0] // queries):
        first = block * queries // length * length
        tq = pl.mul(pl.load(q, [block * queries, 0], [queries, d]), 1.0 / math.sqrt(d))
        scratch = pl.create_tile([queries, keys], dtype=pl.FP32)
        m = pl.tile.full([queries, 1], dtype=pl.FP32, value=-1e30)
        l = pl.tile.full([queries, 1], dtype=pl.FP32, value=0.0)
        o = pl.tile.full([queries, d], dtype=pl.FP32, value=0.0)
        for j in pl.range(length // keys):
            tk = pl.load(k, [first + j * keys, 0], [keys, d])
            tv = pl.load(v, [first + j * keys, 0], [keys, d])
            s = pl.matmul(tq, pl.transpose(tk, 0, 1))
            top = pl.maximum(m, pl.row_max(s, scratch))
            p = pl.row_expand_expdif(s, top)
            fade = pl.exp(pl.sub(m, top))
            l = pl.add(pl.mul(l, fade), pl.row_sum(p, scratch))
            o = pl.add(pl.row_expand_mul(o, fade), pl.matmul(p, tv))
            m = top
        pl.store(pl.row_expand_div(o, l), [block * queries, 0], out)


@pl.jit
def decode(q: pl.Tensor, k: pl.Tensor, v: pl.Tensor, keys: int, out: pl.Out[pl.Tensor]):
    heads, d = q.shape
    length = k.shape[0] // heads
    for head in pl.spmd(heads):
        tq = pl.mul(pl.load(q, [head, 0], [1, d]), 1.0 / math.sqrt(d))
        scratch = pl.create_tile([1, keys], dtype=pl.FP32)
        m = pl.tile.full([1, 1], dtype=pl.FP32, value=-1e30)
        l = pl.tile.full([1, 1], dtype=pl.FP32, value=0.0)
        o = pl.tile.full([1, d], dtype=pl.FP32, value=0.0)
        for j in pl.range(length // keys):
            tk = pl.load(k, [head * length + j * keys, 0], [keys, d])
            tv = pl.load(v, [head * length + j * keys, 0], [keys, d])
            s = pl.matmul(tq, pl.transpose(tk, 0, 1))
            top = pl.maximum(m, pl.row_max(s, scratch))
            p = pl.row_expand_expdif(s, top)
            fade = pl.exp(pl.sub(m, top))
            l = pl.add(pl.mul(l, fade), pl.row_sum(p, scratch))
            o = pl.add(pl.row_expand_mul(o, fade), pl.matmul(p, tv))
            m = top
        pl.store(pl.row_expand_div(o, l), [head, 0], out)


def pair(case: str, heads: int, queries: int, keys: int, ours: Callable[..., object], least: float) -> Pair:
    """`ours` is given rows of all heads; `least`: the ratio that is wanted."""
    q, out = torch.randn(heads * queries, WIDTH), torch.empty(heads * queries, WIDTH)
    k, v = torch.randn(heads * keys, WIDTH), torch.randn(heads * keys, WIDTH)
    by_head = [x.view(1, heads, -1, WIDTH) for x in (q, k, v)]

    def theirs() -> torch.Tensor:
        return scaled_dot_product_attention(*by_head)

    def check() -> None:
        torch.testing.assert_close(out, theirs().view(-1, WIDTH), rtol=1e-4, atol=1e-4)

    return Pair(case, "torch scaled_dot_product", lambda: ours(q, k, v, out), theirs, check=check, target=Target(1 / least))


def cases() -> Iterator[Pair]:
    torch.manual_seed(0)
    for queries, keys, least in ((64, 128, 1.0), (32, 64, 0.95)):
        yield pair(
            f"attention {HEADS}x{LENGTH}x{WIDTH}, {queries}x{keys} blocks", HEADS, LENGTH, LENGTH,
            lambda q, k, v, out, blocks=(queries, keys): flash(q, k, v, LENGTH, *blocks, out), least,
        )  # fmt: skip
    yield pair(f"decode attention, cache of {CACHE}", HEADS, 1, CACHE, lambda q, k, v, out: decode(q, k, v, 128, out), 1.0)
