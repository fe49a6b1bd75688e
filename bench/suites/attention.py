"""Attention on the CPU as users write it, against torch's own: blocks of queries over blocks of keys, and one query over a long cache."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from measure import Pair, Target
from torch.nn.functional import scaled_dot_product_attention

import tilejit.language as pl

HEADS, WIDTH = 16, 64


@pl.jit
def attention(q: pl.Tensor, k: pl.Tensor, v: pl.Tensor, heads: int, queries: int, keys: int, out: pl.Out[pl.Tensor]):
    d = q.shape[1]
    for block in pl.spmd(q.shape[0] // queries):
        first = block * queries // (q.shape[0] // heads) * (k.shape[0] // heads)
        tq = pl.mul(pl.load(q, [block * queries, 0], [queries, d]), 1.0 / math.sqrt(d))
        scratch = pl.create_tile([queries, keys], dtype=pl.FP32)
        most = pl.tile.full([queries, 1], dtype=pl.FP32, value=-1e30)
        total = pl.tile.full([queries, 1], dtype=pl.FP32, value=0.0)
        sums = pl.tile.full([queries, d], dtype=pl.FP32, value=0.0)
        for j in pl.range(k.shape[0] // heads // keys):
            tk = pl.load(k, [first + j * keys, 0], [keys, d])
            tv = pl.load(v, [first + j * keys, 0], [keys, d])
            scores = pl.matmul(tq, pl.transpose(tk, 0, 1))
            top = pl.maximum(most, pl.row_max(scores, scratch))
            weights = pl.row_expand_expdif(scores, top)
            fade = pl.exp(pl.sub(most, top))
            total = pl.add(pl.mul(total, fade), pl.row_sum(weights, scratch))
            sums = pl.add(pl.row_expand_mul(sums, fade), pl.matmul(weights, tv))
            most = top
        pl.store(pl.row_expand_div(sums, total), [block * queries, 0], out)


def pair(case: str, length: int, cache: int, blocks: tuple[int, int], least: float) -> Pair:
    """So many queries and keys per head, in blocks of queries and keys; `least`: the ratio that is wanted."""
    q, out = torch.randn(HEADS * length, WIDTH), torch.empty(HEADS * length, WIDTH)
    k, v = torch.randn(HEADS * cache, WIDTH), torch.randn(HEADS * cache, WIDTH)
    by_head = (q.view(1, HEADS, -1, WIDTH), k.view(1, HEADS, -1, WIDTH), v.view(1, HEADS, -1, WIDTH))

    def theirs() -> torch.Tensor:
        return scaled_dot_product_attention(*by_head)

    def check() -> None:
        torch.testing.assert_close(out, theirs().view(-1, WIDTH), rtol=1e-4, atol=1e-4)

    return Pair(case, "torch scaled_dot_product", lambda: attention(q, k, v, HEADS, *blocks, out), theirs, check=check, target=Target(1 / least))


def cases(threads: int) -> Iterator[Pair]:
    """With several threads a step of decoding waits for memory, whoever asks for it."""
    torch.manual_seed(0)
    yield pair("attention 16x1024x64, 64x128 blocks", 1024, 1024, (64, 128), 1.0)
    yield pair("attention 16x1024x64, 32x64 blocks", 1024, 1024, (32, 64), 0.95)
    yield pair("decode attention, cache of 8192", 1, 8192, (1, 256), 1.0 if threads == 1 else 0.9)
