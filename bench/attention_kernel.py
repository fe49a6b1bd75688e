"""Attention as a user writes it: a block of queries of one head per program, keys and values in blocks, sums kept in FP32."""

from __future__ import annotations

import math

import tilejit.language as pl

LENGTH, QUERIES, KEYS = 4096, 128, 128
PAGE, KV_HEADS, GROUP = 64, 8, 8


@pl.jit
def full_attention(q: pl.Tensor, k: pl.Tensor, v: pl.Tensor, out: pl.Out[pl.Tensor]):
    rows, d = q.shape
    for block in pl.spmd(rows // QUERIES):
        first = block * QUERIES // LENGTH * LENGTH
        tq = pl.load(q, [block * QUERIES, 0], [QUERIES, d])
        scratch = pl.create_tile([QUERIES, KEYS], dtype=pl.FP32)
        m = pl.tile.full([QUERIES, 1], dtype=pl.FP32, value=-1e30)
        l = pl.tile.full([QUERIES, 1], dtype=pl.FP32, value=0.0)
        o = pl.tile.full([QUERIES, d], dtype=pl.FP32, value=0.0)
        for j in pl.range(LENGTH // KEYS):
            tk = pl.load(k, [first + j * KEYS, 0], [KEYS, d])
            tv = pl.load(v, [first + j * KEYS, 0], [KEYS, d])
            s = pl.mul(pl.matmul(tq, pl.transpose(tk, 0, 1)), 1.0 / math.sqrt(d))
            top = pl.maximum(m, pl.row_max(s, scratch))
            p = pl.row_expand_expdif(s, top)
            fade = pl.exp(pl.sub(m, top))
            l = pl.add(pl.mul(l, fade), pl.row_sum(p, scratch))
            o = pl.add(pl.row_expand_mul(o, fade), pl.matmul(pl.cast(p, pl.BF16, mode="rint"), tv))
            m = top
        pl.store(pl.cast(pl.row_expand_div(o, l), pl.BF16, mode="rint"), [block * QUERIES, 0], out)


@pl.jit
def causal_attention(q: pl.Tensor, k: pl.Tensor, v: pl.Tensor, out: pl.Out[pl.Tensor]):
    rows, d = q.shape
    for block in pl.spmd(rows // QUERIES):
        first = block * QUERIES // LENGTH * LENGTH
        here = block * QUERIES - first
        tq = pl.load(q, [block * QUERIES, 0], [QUERIES, d])
        scratch = pl.create_tile([QUERIES, KEYS], dtype=pl.FP32)
        m = pl.tile.full([QUERIES, 1], dtype=pl.FP32, value=-1e30)
        l = pl.tile.full([QUERIES, 1], dtype=pl.FP32, value=0.0)
        o = pl.tile.full([QUERIES, d], dtype=pl.FP32, value=0.0)
        for j in pl.range(here // KEYS + 1):
            tk = pl.load(k, [first + j * KEYS, 0], [KEYS, d])
            tv = pl.load(v, [first + j * KEYS, 0], [KEYS, d])
            s = pl.mul(pl.matmul(tq, pl.transpose(tk, 0, 1)), 1.0 / math.sqrt(d))
            if j * KEYS == here:
                later = pl.tri(1, [QUERIES, KEYS], dtype=pl.FP32, upper=True)
                s = pl.sub(s, pl.mul(later, 1e30))
            top = pl.maximum(m, pl.row_max(s, scratch))
            p = pl.row_expand_expdif(s, top)
            fade = pl.exp(pl.sub(m, top))
            l = pl.add(pl.mul(l, fade), pl.row_sum(p, scratch))
            o = pl.add(pl.row_expand_mul(o, fade), pl.matmul(pl.cast(p, pl.BF16, mode="rint"), tv))
            m = top
        pl.store(pl.cast(pl.row_expand_div(o, l), pl.BF16, mode="rint"), [block * QUERIES, 0], out)


@pl.jit
def paged_decode(q: pl.Tensor, keys: pl.Tensor, values: pl.Tensor, table: pl.Tensor, out: pl.Out[pl.Tensor]):
    batch, pages = table.shape
    d = q.shape[1]
    for block in pl.spmd(batch * KV_HEADS):
        tq = pl.load(q, [block * GROUP, 0], [GROUP, d])
        scratch = pl.create_tile([GROUP, PAGE], dtype=pl.FP32)
        m = pl.tile.full([GROUP, 1], dtype=pl.FP32, value=-1e30)
        l = pl.tile.full([GROUP, 1], dtype=pl.FP32, value=0.0)
        o = pl.tile.full([GROUP, d], dtype=pl.FP32, value=0.0)
        for j in pl.range(pages):
            row = pl.cast(pl.read(table, [block // KV_HEADS, j]), pl.INDEX) * PAGE
            tk = pl.load(keys, [row, block % KV_HEADS * d], [PAGE, d])
            tv = pl.load(values, [row, block % KV_HEADS * d], [PAGE, d])
            s = pl.mul(pl.matmul(tq, pl.transpose(tk, 0, 1)), 1.0 / math.sqrt(d))
            top = pl.maximum(m, pl.row_max(s, scratch))
            p = pl.row_expand_expdif(s, top)
            fade = pl.exp(pl.sub(m, top))
            l = pl.add(pl.mul(l, fade), pl.row_sum(p, scratch))
            o = pl.add(pl.row_expand_mul(o, fade), pl.matmul(pl.cast(p, pl.BF16, mode="rint"), tv))
            m = top
        pl.store(pl.cast(pl.row_expand_div(o, l), pl.BF16, mode="rint"), [block * GROUP, 0], out)
