"""Attention: prefill in blocks with carried state, causal and not, grouped heads, windows, decoding, paged caches, split keys."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import torch

import tilejit.language as pl
from tests.suite.harness import Cases, data, f32
from tilejit.jit.function import JITFunction

CASES = Cases()
Array = np.ndarray[Any, Any]
BF16 = ml_dtypes.bfloat16
NEG = -1e30


def attention(q: Array, k: Array, v: Array, causal: bool = False, window: int = 0, bias: Array | None = None) -> Array:
    """Of [heads, tokens, d] and [kv heads, keys, d], in double precision; the last query sees the last key."""
    q64, k64, v64 = (torch.from_numpy(item.astype(np.float64)) for item in (q, k, v))
    group = q.shape[0] // k.shape[0]
    k64, v64 = k64.repeat_interleave(group, 0), v64.repeat_interleave(group, 0)
    scores = q64 @ k64.transpose(1, 2) / math.sqrt(q.shape[-1])
    if bias is not None:
        scores = scores + torch.from_numpy(bias.astype(np.float64))
    ahead = torch.arange(k.shape[1])[None] - torch.arange(q.shape[1])[:, None] - (k.shape[1] - q.shape[1])
    if causal:
        scores = scores.masked_fill(ahead > 0, -math.inf)
    if window:
        scores = scores.masked_fill(ahead <= -window, -math.inf)
    return (torch.softmax(scores, -1) @ v64).numpy().astype(q.dtype)


# prefill ----------------------------------------------------------------------------------------------------------------


def prefill(heads: int, kv_heads: int, causal: bool, rows: int, cols: int) -> JITFunction:
    """Flash attention: blocks of queries on a grid, blocks of keys in a loop; tokens must divide by the blocks."""
    group = heads // kv_heads

    @pl.jit
    def flash(q: pl.Tensor, k: pl.Tensor, v: pl.Tensor, out: pl.Out[pl.Tensor]):
        tokens, d = q.shape[1], q.shape[2]
        blocks = tokens // rows
        for b in pl.spmd(heads * blocks):
            h = b // blocks
            row = (b % blocks) * rows
            kv = h // group
            tq = pl.mul(pl.reshape(pl.load(q, [h, row, 0], [1, rows, d]), [rows, d]), 1.0 / math.sqrt(d))
            tmp = pl.create_tile([rows, cols], dtype=pl.FP32)
            m = pl.tile.full([rows, 1], dtype=pl.FP32, value=NEG)
            l = pl.tile.full([rows, 1], dtype=pl.FP32, value=0.0)
            o = pl.tile.full([rows, d], dtype=pl.FP32, value=0.0)
            last = k.shape[1] // cols
            if causal:
                last = (row + rows + cols - 1) // cols
            for j in pl.range(last):
                tk = pl.reshape(pl.load(k, [kv, j * cols, 0], [1, cols, d]), [cols, d])
                tv = pl.reshape(pl.load(v, [kv, j * cols, 0], [1, cols, d]), [cols, d])
                s = pl.matmul(tq, pl.transpose(tk, 0, 1))
                if causal:
                    mask = pl.tile.cmps(pl.tri(row - j * cols, [rows, cols], dtype=pl.INT32), 1, cmp_type=0)
                    s = pl.tile.sels(mask, s, tmp, NEG)
                top = pl.maximum(m, pl.row_max(s, tmp))
                p = pl.row_expand_expdif(s, top)
                fade = pl.exp(pl.sub(m, top))
                l = pl.add(pl.mul(l, fade), pl.row_sum(p, tmp))
                o = pl.add(pl.row_expand_mul(o, fade), pl.matmul(p, tv))
                m = top
            pl.store(pl.reshape(pl.row_expand_div(o, l), [1, rows, d]), [h, row, 0], out)
        return out

    return flash


for _heads, _kv, _causal, _tokens, _d, _rows, _cols in (
    (2, 2, False, 32, 16, 16, 16),
    (2, 2, True, 48, 13, 16, 16),
    (4, 2, True, 32, 8, 16, 8),
    (6, 2, False, 24, 20, 8, 12),
    (4, 1, True, 32, 16, 8, 16),
):
    _kind = "mha" if _heads == _kv else "mqa" if _kv == 1 else f"gqa{_heads // _kv}"
    CASES(
        f32(_heads, _tokens, _d),
        f32(_kv, _tokens, _d),
        f32(_kv, _tokens, _d),
        expected=lambda q, k, v, causal=_causal: attention(q, k, v, causal),
        tol=1e-4,
        name=f"prefill_{_kind}{'_causal' * _causal}",
    )(prefill(_heads, _kv, _causal, _rows, _cols))


TOKENS, KEYS = pl.dynamic("TOKENS"), pl.dynamic("KEYS")


@CASES(
    f32(2, 19, 8),
    f32(2, 27, 8),
    f32(2, 27, 8),
    more=[(f32(2, 1, 8), f32(2, 3, 8), f32(2, 3, 8)), (f32(2, 40, 8), f32(2, 64, 8), f32(2, 64, 8))],
    compiles=1,
    expected=lambda q, k, v: attention(q, k, v, causal=True),
    tol=1e-4,
)
@pl.jit
def prefill_dynamic_causal(
    q: pl.Tensor[[2, TOKENS, 8], pl.FP32],
    k: pl.Tensor[[2, KEYS, 8], pl.FP32],
    v: pl.Tensor[[2, KEYS, 8], pl.FP32],
    out: pl.Out[pl.Tensor[[2, TOKENS, 8], pl.FP32]],
):
    """Any number of queries and keys; the last query sees the last key; valid regions cover both tails."""
    n = pl.tensor.dim(q, 1)
    keys = pl.tensor.dim(k, 1)
    past = keys - n
    blocks = (n + 15) // 16
    for b in pl.spmd(2 * blocks):
        h = b // blocks
        row = (b % blocks) * 16
        here = pl.min(n - row, 16)
        tq = pl.reshape(pl.load(q, [h, row, 0], [1, 16, 8], valid_shape=[1, here, 8]), [16, 8])
        tq = pl.fillpad(pl.mul(tq, 1.0 / math.sqrt(8)))
        tmp = pl.create_tile([16, 16], dtype=pl.FP32)
        m = pl.tile.full([16, 1], dtype=pl.FP32, value=NEG)
        l = pl.tile.full([16, 1], dtype=pl.FP32, value=0.0)
        o = pl.tile.full([16, 8], dtype=pl.FP32, value=0.0)
        for col in pl.range(0, pl.min(past + row + 16, keys), 16):
            some = pl.min(keys - col, 16)
            tk = pl.fillpad(pl.reshape(pl.load(k, [h, col, 0], [1, 16, 8], valid_shape=[1, some, 8]), [16, 8]))
            tv = pl.fillpad(pl.reshape(pl.load(v, [h, col, 0], [1, 16, 8], valid_shape=[1, some, 8]), [16, 8]))
            s = pl.matmul(tq, pl.transpose(tk, 0, 1))
            mask = pl.tile.cmps(pl.tri(past + row - col, [16, 16], dtype=pl.INT32), 1, cmp_type=0)
            s = pl.tile.sels(mask, s, tmp, NEG)
            top = pl.maximum(m, pl.row_max(s, tmp))
            p = pl.row_expand_expdif(s, top)
            fade = pl.exp(pl.sub(m, top))
            l = pl.add(pl.mul(l, fade), pl.row_sum(p, tmp))
            o = pl.add(pl.row_expand_mul(o, fade), pl.matmul(p, tv))
            m = top
        y = pl.set_validshape(pl.row_expand_div(o, l), here, 8)
        pl.store(y, [h, row, 0], out)
    return out


@CASES(f32(3, 10, 6), f32(3, 14, 6), f32(3, 14, 6), expected=attention, tol=1e-4)
@pl.jit
def cross_attention_of_batched_tensors(q: pl.Tensor, k: pl.Tensor, v: pl.Tensor, out: pl.Out[pl.Tensor]):
    """Whole tensors of rank 3, batched products, no tiles."""
    with pl.at(level=pl.Level.CORE_GROUP):
        s = pl.mul(pl.matmul(q, k, b_trans=True), 1.0 / math.sqrt(6))
        e = pl.exp(pl.sub(s, pl.row_max(s)))
        out[:] = pl.matmul(pl.div(e, pl.row_sum(e)), v)
    return out


@CASES(
    data(np.float16, 2, 16, 16),
    data(np.float16, 2, 32, 16),
    data(np.float16, 2, 32, 16),
    expected=attention,
    tol=4e-3,
)
@pl.jit
def prefill_fp16_inputs_fp32_sums(q: pl.Tensor, k: pl.Tensor, v: pl.Tensor, out: pl.Out[pl.Tensor]):
    heads, tokens, d = q.shape
    for h in pl.spmd(heads):
        tq = pl.load(q, [h, 0, 0], [1, tokens, d])
        tq2 = pl.reshape(tq, [tokens, d])
        tmp = pl.create_tile([tokens, 16], dtype=pl.FP32)
        m0 = pl.tile.full([tokens, 1], dtype=pl.FP32, value=NEG)
        l0 = pl.tile.full([tokens, 1], dtype=pl.FP32, value=0.0)
        o0 = pl.tile.full([tokens, d], dtype=pl.FP32, value=0.0)
        for j, (m, l, o) in pl.pipeline(2, stage=2, init_values=(m0, l0, o0)):
            tk = pl.reshape(pl.load(k, [h, j * 16, 0], [1, 16, d]), [16, d])
            tv = pl.reshape(pl.load(v, [h, j * 16, 0], [1, 16, d]), [16, d])
            s = pl.mul(pl.matmul(tq2, pl.transpose(tk, 0, 1)), 1.0 / math.sqrt(d))
            top = pl.maximum(m, pl.row_max(s, tmp))
            p = pl.row_expand_expdif(s, top)
            fade = pl.exp(pl.sub(m, top))
            pv = pl.matmul(pl.cast(p, pl.FP16, mode="rint"), tv)
            _, l1, o1 = pl.yield_(top, pl.add(pl.mul(l, fade), pl.row_sum(p, tmp)), pl.add(pl.row_expand_mul(o, fade), pv))
        y = pl.cast(pl.row_expand_div(o1, l1), pl.FP16, mode="rint")
        pl.store(pl.reshape(y, [1, tokens, d]), [h, 0, 0], out)
    return out


@CASES(data(BF16, 1, 12, 8), data(BF16, 1, 20, 8), data(BF16, 1, 20, 8), expected=attention, tol=3e-2)
@pl.jit
def attention_bf16(q: pl.Tensor, k: pl.Tensor, v: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        tq = pl.slice(q, [1, 12, 8], [0, 0, 0], drop_dims=[0])
        s = pl.mul(pl.matmul(tq, k[0], out_dtype=pl.FP32, b_trans=True), 1.0 / math.sqrt(8))
        e = pl.row_expand_expdif(s, pl.row_max(s))
        p = pl.row_expand_div(e, pl.row_sum(e))
        out[0] = pl.matmul(p, pl.cast(v[0], pl.FP32))
    return out


@CASES(f32(2, 24, 8), f32(2, 24, 8), f32(2, 24, 8), expected=lambda q, k, v: attention(q, k, v, causal=True, window=6), tol=1e-4)
@pl.jit
def sliding_window(q: pl.Tensor, k: pl.Tensor, v: pl.Tensor, out: pl.Out[pl.Tensor]):
    """Each query sees itself and five before it: the band of two triangles."""
    for b in pl.spmd(2 * 3):
        h = b // 3
        row = (b % 3) * 8
        tq = pl.mul(pl.reshape(pl.load(q, [h, row, 0], [1, 8, 8]), [8, 8]), 1.0 / math.sqrt(8))
        tmp = pl.create_tile([8, 8], dtype=pl.FP32)
        m = pl.tile.full([8, 1], dtype=pl.FP32, value=NEG)
        l = pl.tile.full([8, 1], dtype=pl.FP32, value=0.0)
        o = pl.tile.full([8, 8], dtype=pl.FP32, value=0.0)
        for col in pl.range(pl.max(row - 8, 0), row + 8, 8):
            tk = pl.reshape(pl.load(k, [h, col, 0], [1, 8, 8]), [8, 8])
            tv = pl.reshape(pl.load(v, [h, col, 0], [1, 8, 8]), [8, 8])
            band = pl.mul(pl.tri(row - col, [8, 8], dtype=pl.FP32), pl.tri(row - col - 5, [8, 8], dtype=pl.FP32, upper=True))
            s = pl.add(pl.matmul(tq, pl.transpose(tk, 0, 1)), pl.mul(pl.sub(band, 1.0), 1e30))
            top = pl.maximum(m, pl.row_max(s, tmp))
            p = pl.mul(pl.row_expand_expdif(s, top), band)
            fade = pl.exp(pl.sub(m, top))
            l = pl.add(pl.mul(l, fade), pl.row_sum(p, tmp))
            o = pl.add(pl.row_expand_mul(o, fade), pl.matmul(p, tv))
            m = top
        pl.store(pl.reshape(pl.row_expand_div(o, l), [1, 8, 8]), [h, row, 0], out)
    return out


def alibi(q: Array, k: Array, v: Array) -> Array:
    slopes = np.array([[[2.0 ** -(h + 1)]] for h in range(q.shape[0])])
    return attention(q, k, v, causal=True, bias=slopes * np.arange(k.shape[1])[None, None])


@CASES(f32(3, 9, 8), f32(3, 9, 8), f32(3, 9, 8), expected=alibi, tol=1e-4)
@pl.jit
def linear_biases(q: pl.Tensor, k: pl.Tensor, v: pl.Tensor, out: pl.Out[pl.Tensor]):
    for h in pl.unroll(3):
        with pl.at(level=pl.Level.CORE_GROUP):
            s = pl.mul(pl.matmul(q[h], k[h], b_trans=True), 1.0 / math.sqrt(8))
            places = pl.cast(pl.arange(0, [1, 9], dtype=pl.INT32), pl.FP32)
            s = pl.col_expand_add(s, pl.mul(places, 2.0 ** -(h + 1)))
            t = pl.create_tensor([9, 9], dtype=pl.FP32)
            t[:] = s
            for i in pl.range(8):
                for j in pl.range(i + 1, 9):
                    t[i, j] = NEG
            e = pl.row_expand_expdif(t, pl.row_max(t))
            out[h] = pl.matmul(pl.row_expand_div(e, pl.row_sum(e)), v[h])
    return out


# decoding ---------------------------------------------------------------------------------------------------------------


def decode_one(q: Array, k: Array, v: Array, length: Array) -> Array:
    n = int(length[0])
    return attention(q[:, None], k[:, :n], v[:, :n])[:, 0]


@CASES(
    f32(8, 16), f32(2, 40, 16), f32(2, 40, 16), np.array([33], np.int32),
    more=[(f32(8, 16), f32(2, 40, 16), f32(2, 40, 16), np.array([1], np.int32)), (f32(8, 16), f32(2, 40, 16), f32(2, 40, 16), np.array([40], np.int32))],
    compiles=1, expected=decode_one, tol=1e-4, threads=(1, 2),
)  # fmt: skip
@pl.jit
def decode_grouped_heads(q: pl.Tensor, k: pl.Tensor, v: pl.Tensor, length: pl.Tensor, out: pl.Out[pl.Tensor]):
    """The four query heads of one key head make one matrix."""
    n = pl.cast(pl.read(length, [0]), pl.INDEX)
    for kv in pl.spmd(2):
        tq = pl.mul(pl.load(q, [kv * 4, 0], [4, 16]), 0.25)
        tmp = pl.create_tile([4, 8], dtype=pl.FP32)
        m = pl.tile.full([4, 1], dtype=pl.FP32, value=NEG)
        l = pl.tile.full([4, 1], dtype=pl.FP32, value=0.0)
        o = pl.tile.full([4, 16], dtype=pl.FP32, value=0.0)
        for j in pl.range((n + 7) // 8):
            some = pl.min(n - j * 8, 8)
            tk = pl.reshape(pl.load(k, [kv, j * 8, 0], [1, 8, 16], valid_shape=[1, some, 16]), [8, 16])
            tv = pl.reshape(pl.load(v, [kv, j * 8, 0], [1, 8, 16], valid_shape=[1, some, 16]), [8, 16])
            s = pl.matmul(tq, pl.transpose(tk, 0, 1))
            top = pl.maximum(m, pl.row_max(s, tmp))
            p = pl.row_expand_expdif(s, top)
            fade = pl.exp(pl.sub(m, top))
            l = pl.add(pl.mul(l, fade), pl.row_sum(p, tmp))
            o = pl.add(pl.row_expand_mul(o, fade), pl.matmul(p, tv))
            m = top
        pl.store(pl.row_expand_div(o, l), [kv * 4, 0], out)
    return out


@CASES(f32(3, 16), f32(3, 64, 16), f32(3, 64, 16), expected=lambda q, k, v: attention(q[:, None], k, v)[:, 0], tol=1e-4, threads=(1, 2))
@pl.jit
def decode_split_keys(q: pl.Tensor, k: pl.Tensor, v: pl.Tensor, out: pl.Out[pl.Tensor]):
    """Every quarter of the keys is a block of its own; a second kernel merges their maxima, sums and outputs."""
    parts_o = pl.create_tensor([3, 4, 16], dtype=pl.FP32)
    parts_m = pl.create_tensor([3, 4], dtype=pl.FP32)
    parts_l = pl.create_tensor([3, 4], dtype=pl.FP32)
    for b in pl.spmd(12):
        h = b // 4
        part = b % 4
        tq = pl.mul(pl.load(q, [h, 0], [1, 16]), 0.25)
        tk = pl.reshape(pl.load(k, [h, part * 16, 0], [1, 16, 16]), [16, 16])
        tv = pl.reshape(pl.load(v, [h, part * 16, 0], [1, 16, 16]), [16, 16])
        tmp = pl.create_tile([1, 16], dtype=pl.FP32)
        s = pl.gemv(tq, pl.transpose(tk, 0, 1))
        top = pl.row_max(s, tmp)
        p = pl.row_expand_expdif(s, top)
        pl.store(pl.reshape(pl.gemv(p, tv), [1, 1, 16]), [h, part, 0], parts_o)
        pl.store(top, [h, part], parts_m)
        pl.store(pl.row_sum(p, tmp), [h, part], parts_l)
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="merge"):
        weights = pl.row_expand_expdif(parts_m, pl.row_max(parts_m))
        total = pl.row_sum(pl.mul(weights, parts_l))
        for h in pl.range(3):
            o = pl.matmul(pl.slice(weights, [1, 4], [h, 0]), parts_o[h])
            out[h : h + 1, :] = pl.row_expand_div(o, pl.slice(total, [1, 1], [h, 0]))
    return out


# paged caches -----------------------------------------------------------------------------------------------------------

PAGE = 8


def paged(q: Array, keys: Array, values: Array, table: Array, lengths: Array) -> Array:
    out = np.empty_like(q)
    for b, n in enumerate(lengths):
        rows = (table[b][:, None] * PAGE + np.arange(PAGE)).ravel()[:n]
        k, v = keys.reshape(-1, *keys.shape[2:])[rows], values.reshape(-1, *values.shape[2:])[rows]
        out[b] = attention(q[b][:, None], k.transpose(1, 0, 2), v.transpose(1, 0, 2))[:, 0]
    return out


def page_table(seed: int, requests: int, pages: int, pool: int) -> Array:
    return np.random.default_rng(seed).permutation(pool)[: requests * pages].reshape(requests, pages).astype(np.int32)


@CASES(
    f32(3, 4, 16), f32(14, PAGE, 2, 16), f32(14, PAGE, 2, 16), page_table(1, 3, 4, 14), np.array([30, 1, 17], np.int32),
    more=[(f32(3, 4, 16), f32(14, PAGE, 2, 16), f32(14, PAGE, 2, 16), page_table(2, 3, 4, 14), np.array([8, 32, 9], np.int32))],
    compiles=1, expected=paged, tol=1e-4, threads=(1, 2),
)  # fmt: skip
@pl.jit
def paged_attention_of_a_batch(q: pl.Tensor, keys: pl.Tensor, values: pl.Tensor, table: pl.Tensor, lengths: pl.Tensor, out: pl.Out[pl.Tensor]):
    requests, heads, d = q.shape
    kv_heads = keys.shape[2]
    group = heads // kv_heads
    for b in pl.spmd(requests * kv_heads):
        r = b // kv_heads
        kv = b % kv_heads
        n = pl.cast(pl.read(lengths, [r]), pl.INDEX)
        tq = pl.mul(pl.reshape(pl.load(q, [r, kv * group, 0], [1, group, d]), [group, d]), 1.0 / math.sqrt(d))
        tmp = pl.create_tile([group, PAGE], dtype=pl.FP32)
        m = pl.tile.full([group, 1], dtype=pl.FP32, value=NEG)
        l = pl.tile.full([group, 1], dtype=pl.FP32, value=0.0)
        o = pl.tile.full([group, d], dtype=pl.FP32, value=0.0)
        for j in pl.range((n + PAGE - 1) // PAGE):
            page = pl.cast(pl.read(table, [r, j]), pl.INDEX)
            some = pl.min(n - j * PAGE, PAGE)
            tk = pl.reshape(pl.load(keys, [page, 0, kv, 0], [1, PAGE, 1, d], valid_shape=[1, some, 1, d]), [PAGE, d])
            tv = pl.reshape(pl.load(values, [page, 0, kv, 0], [1, PAGE, 1, d], valid_shape=[1, some, 1, d]), [PAGE, d])
            s = pl.matmul(tq, pl.transpose(tk, 0, 1))
            top = pl.maximum(m, pl.row_max(s, tmp))
            p = pl.row_expand_expdif(s, top)
            fade = pl.exp(pl.sub(m, top))
            l = pl.add(pl.mul(l, fade), pl.row_sum(p, tmp))
            o = pl.add(pl.row_expand_mul(o, fade), pl.matmul(p, tv))
            m = top
        pl.store(pl.reshape(pl.row_expand_div(o, l), [1, group, d]), [r, kv * group, 0], out)
    return out


REQUESTS, POOL, PAGES = pl.dynamic("REQUESTS"), pl.dynamic("POOL"), pl.dynamic("PAGES")


def paged_flat(q: Array, keys: Array, values: Array, table: Array, lengths: Array) -> Array:
    return paged(q, keys.reshape(-1, PAGE, 1, q.shape[2]), values.reshape(-1, PAGE, 1, q.shape[2]), table, lengths)


@CASES(
    f32(2, 4, 12), f32(9 * PAGE, 12), f32(9 * PAGE, 12), page_table(3, 2, 3, 9), np.array([24, 11], np.int32),
    more=[(f32(5, 4, 12), f32(10 * PAGE, 12), f32(10 * PAGE, 12), page_table(4, 5, 2, 10), np.array([16, 1, 9, 8, 15], np.int32))],
    compiles=1, expected=paged_flat, tol=1e-4,
)  # fmt: skip
@pl.jit
def paged_attention_all_dynamic(
    q: pl.Tensor[[REQUESTS, 4, 12], pl.FP32],
    keys: pl.Tensor[[POOL, 12], pl.FP32],
    values: pl.Tensor[[POOL, 12], pl.FP32],
    table: pl.Tensor[[REQUESTS, PAGES], pl.INT32],
    lengths: pl.Tensor[[REQUESTS], pl.INT32],
    out: pl.Out[pl.Tensor[[REQUESTS, 4, 12], pl.FP32]],
):
    for r in pl.parallel(pl.tensor.dim(q, 0)):
        with pl.at(level=pl.Level.CORE_GROUP):
            n = pl.cast(pl.read(lengths, [r]), pl.INDEX)
            tq = pl.mul(pl.reshape(pl.load(q, [r, 0, 0], [1, 4, 12]), [4, 12]), 1.0 / math.sqrt(12))
            tmp = pl.create_tile([4, PAGE], dtype=pl.FP32)
            m = pl.tile.full([4, 1], dtype=pl.FP32, value=NEG)
            l = pl.tile.full([4, 1], dtype=pl.FP32, value=0.0)
            o = pl.tile.full([4, 12], dtype=pl.FP32, value=0.0)
            j = 0
            while j * PAGE < n:
                row = pl.cast(pl.read(table, [r, j]), pl.INDEX) * PAGE
                some = pl.min(n - j * PAGE, PAGE)
                tk = pl.load(keys, [row, 0], [PAGE, 12], valid_shape=[some, 12])
                tv = pl.load(values, [row, 0], [PAGE, 12], valid_shape=[some, 12])
                s = pl.matmul(tq, pl.transpose(tk, 0, 1))
                top = pl.maximum(m, pl.row_max(s, tmp))
                p = pl.row_expand_expdif(s, top)
                fade = pl.exp(pl.sub(m, top))
                l = pl.add(pl.mul(l, fade), pl.row_sum(p, tmp))
                o = pl.add(pl.row_expand_mul(o, fade), pl.matmul(p, tv))
                m = top
                j = j + 1
            pl.store(pl.reshape(pl.row_expand_div(o, l), [1, 4, 12]), [r, 0, 0], out)
    return out


def sparse(q: Array, keys: Array, values: Array, table: Array, chosen: Array) -> Array:
    rows = table[0][chosen[0] // PAGE] * PAGE + chosen[0] % PAGE
    return attention(q[:, None], keys[rows][None], values[rows][None])[:, 0]


@CASES(f32(4, 16), f32(6 * PAGE, 16), f32(6 * PAGE, 16), page_table(5, 1, 4, 6), np.array([[3, 30, 8, 17, 0, 21]], np.int32), expected=sparse, tol=1e-4)
@pl.jit
def sparse_attention_by_paged_gather(q: pl.Tensor, keys: pl.Tensor, values: pl.Tensor, table: pl.Tensor, chosen: pl.Tensor, out: pl.Out[pl.Tensor]):
    """Only chosen tokens are read, through the page table."""
    with pl.at(level=pl.Level.CORE_GROUP):
        k = pl.paged_gather(keys, chosen, table, PAGE, 16, 6)
        v = pl.paged_gather(values, chosen, table, PAGE, 16, 6)
        s = pl.mul(pl.matmul(q, k, b_trans=True), 0.25)
        e = pl.row_expand_expdif(s, pl.row_max(s))
        out[:] = pl.matmul(pl.row_expand_div(e, pl.row_sum(e)), v)
    return out


# kernels of a graph -------------------------------------------------------------------------------------------------------


@pl.jit.incore
def scores_of(q: pl.Tensor, k: pl.Tensor, scale: pl.FP32, out: pl.Out[pl.Tensor]):
    out[:] = pl.mul(pl.matmul(q, k, b_trans=True), scale)
    return out


@pl.jit.incore
def softmax_in_place(s: pl.InOut[pl.Tensor]):
    e = pl.row_expand_expdif(s, pl.row_max(s))
    s[:] = pl.row_expand_div(e, pl.row_sum(e))
    return s


@pl.jit.incore
def product(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = pl.matmul(a, b)
    return out


@CASES(f32(11, 8), f32(17, 8), f32(17, 8), expected=lambda q, k, v: attention(q[None], k[None], v[None])[0], tol=1e-4)
@pl.jit
def three_kernels(q: pl.Tensor, k: pl.Tensor, v: pl.Tensor, out: pl.Out[pl.Tensor]):
    s = pl.create_tensor([q.shape[0], k.shape[0]], dtype=pl.FP32)
    s = scores_of(q, k, 1.0 / math.sqrt(q.shape[1]), s)
    s = softmax_in_place(s)
    out = product(s, v, out)
    return out


@CASES(f32(11, 8), f32(17, 8), f32(17, 8), expected=lambda q, k, v: attention(q[None], k[None], v[None])[0], tol=1e-4)
@pl.jit
def three_tasks(q: pl.Tensor, k: pl.Tensor, v: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.manual_scope():
        s, first = pl.submit(scores_of, q, k, 1.0 / math.sqrt(q.shape[1]))
        s, second = pl.submit(softmax_in_place, s, deps=[first])
        out, _ = pl.submit(product, s, v, out, deps=[second])
    return out
