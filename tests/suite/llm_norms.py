"""Normalisations, softmax in its variants, rotary embedding, activations, losses: the small blocks of language models."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import torch

import tilejit.language as pl
from tests.suite.harness import Cases, data, f16, f32, i32

CASES = Cases()
Array = np.ndarray[Any, Any]
BF16 = ml_dtypes.bfloat16
ROWS = pl.dynamic("ROWS")


def rms_norm(x: Array, w: Array, eps: float = 1e-6) -> Array:
    return torch.nn.functional.rms_norm(torch.from_numpy(x), x.shape[-1:], torch.from_numpy(w).reshape(-1), eps).numpy()


def layer_norm(x: Array, w: Array, b: Array) -> Array:
    return torch.nn.functional.layer_norm(torch.from_numpy(x), x.shape[-1:], torch.from_numpy(w[0]), torch.from_numpy(b[0])).numpy()


def softmax(x: Array) -> Array:
    return torch.softmax(torch.from_numpy(x), -1).numpy()


def prefix_softmax(x: Array) -> Array:
    out = np.zeros_like(x)
    for i, row in enumerate(x):
        out[i, : i + 1] = softmax(row[: i + 1])
    return out


# rmsnorm ----------------------------------------------------------------------------------------------------------------


@CASES(f32(13, 40), f32(1, 40), expected=rms_norm, tol=1e-5)
@pl.jit
def rmsnorm_whole(x: pl.Tensor, w: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        ms = pl.mul(pl.row_sum(pl.mul(x, x)), 1.0 / x.shape[1])
        out[:] = pl.col_expand_mul(pl.row_expand_mul(x, pl.rsqrt(pl.add(ms, 1e-6))), w)
    return out


@CASES(f32(13, 40), f32(1, 40), more=[(f32(1, 40), f32(1, 40)), (f32(64, 40), f32(1, 40))], compiles=1, expected=rms_norm, tol=1e-5, threads=(1, 2))
@pl.jit
def rmsnorm_rows_over_blocks(x: pl.Tensor[[ROWS, 40], pl.FP32], w: pl.Tensor, out: pl.Out[pl.Tensor[[ROWS, 40], pl.FP32]]):
    n = pl.tensor.dim(x, 0)
    for b in pl.spmd((n + 3) // 4):
        t = pl.load(x, [b * 4, 0], [4, 40], clamp=True)
        tmp = pl.create_tile([4, 40], dtype=pl.FP32)
        ms = pl.mul(pl.row_sum(pl.mul(t, t), tmp), 1.0 / 40)
        y = pl.row_expand_mul(t, pl.rsqrt(pl.add(ms, 1e-6)))
        pl.store(pl.col_expand_mul(y, pl.load(w, [0, 0], [1, 40])), [b * 4, 0], out)
    return out


@CASES(f32(6, 96), f32(1, 96), expected=rms_norm, tol=1e-5)
@pl.jit
def rmsnorm_hidden_in_chunks(x: pl.Tensor, w: pl.Tensor, out: pl.Out[pl.Tensor]):
    """Two passes over chunks of the hidden dimension, with the sum of squares carried."""
    with pl.at(level=pl.Level.CORE_GROUP):
        tmp = pl.create_tile([6, 32], dtype=pl.FP32)
        sq = pl.tile.full([6, 1], dtype=pl.FP32, value=0.0)
        for k in pl.range(0, 96, 32):
            t = pl.load(x, [0, k], [6, 32])
            sq = pl.add(sq, pl.row_sum(pl.mul(t, t), tmp))
        inv = pl.recip(pl.sqrt(pl.add(pl.mul(sq, 1.0 / 96), 1e-6)))
        for k in pl.range(0, 96, 32):
            t = pl.row_expand_mul(pl.load(x, [0, k], [6, 32]), inv)
            pl.store(pl.col_expand_mul(t, pl.load(w, [0, k], [1, 32])), [0, k], out)
    return out


def rms_bf16(x: Array, w: Array) -> Array:
    wide = x.astype(np.float32)
    normed = wide / np.sqrt((wide * wide).mean(-1, keepdims=True) + 1e-6)
    return (normed * w.astype(np.float32)).astype(BF16)


@CASES(data(BF16, 9, 48), data(BF16, 1, 48), expected=rms_bf16, tol=2e-2)
@pl.jit
def rmsnorm_bf16(x: pl.Tensor, w: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        wide = pl.cast(x, pl.FP32)
        ms = pl.mul(pl.row_sum(pl.mul(wide, wide)), 1.0 / x.shape[1])
        y = pl.row_expand_mul(wide, pl.rsqrt(pl.add(ms, 1e-6)))
        out[:] = pl.cast(pl.col_expand_mul(y, pl.cast(w, pl.FP32)), pl.BF16)
    return out


@CASES(f32(7, 24), f32(7, 24), f32(1, 24), expected=lambda x, r, w: (rms_norm(x + r, w), x + r), tol=1e-5)
@pl.jit
def rmsnorm_with_residual(x: pl.Tensor, residual: pl.Tensor, w: pl.Tensor, out: pl.Out[pl.Tensor], total: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        s = pl.add(x, residual)
        total[:] = s
        ms = pl.mul(pl.row_sum(pl.mul(s, s)), 1.0 / 24)
        out[:] = pl.col_expand_mul(pl.row_expand_mul(s, pl.rsqrt(pl.add(ms, 1e-6))), w)
    return out, total


@CASES(f32(5, 4, 16), f32(1, 16), expected=rms_norm, tol=1e-5)
@pl.jit
def rmsnorm_per_head(x: pl.Tensor, w: pl.Tensor, out: pl.Out[pl.Tensor]):
    """Query and key norms: each head of each token on its own, on rank 3."""
    tokens, heads, d = x.shape
    with pl.at(level=pl.Level.CORE_GROUP):
        flat = pl.reshape(x, [tokens * heads, d])
        ms = pl.mul(pl.row_sum(pl.mul(flat, flat)), 1.0 / d)
        y = pl.col_expand_mul(pl.row_expand_mul(flat, pl.rsqrt(pl.add(ms, 1e-6))), w)
        out[:] = pl.reshape(y, [tokens, heads, d])
    return out


# layernorm --------------------------------------------------------------------------------------------------------------


@CASES(f32(11, 37), f32(1, 37), f32(1, 37), expected=layer_norm, tol=1e-4)
@pl.jit
def layernorm_two_passes(x: pl.Tensor, w: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        n = x.shape[1]
        d = pl.row_expand_sub(x, pl.mul(pl.row_sum(x), 1.0 / n))
        var = pl.mul(pl.row_sum(pl.mul(d, d)), 1.0 / n)
        y = pl.row_expand_mul(d, pl.rsqrt(pl.add(var, 1e-5)))
        out[:] = pl.col_expand_add(pl.col_expand_mul(y, w), b)
    return out


@CASES(f32(4, 64), f32(1, 64), f32(1, 64), expected=layer_norm, tol=1e-4)
@pl.jit
def layernorm_moments_merged(x: pl.Tensor, w: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    """Chan's rule: count, mean and sum of squares of chunks merge into those of the whole."""
    with pl.at(level=pl.Level.CORE_GROUP):
        tmp = pl.create_tile([4, 16], dtype=pl.FP32)
        first = pl.load(x, [0, 0], [4, 16])
        mean0 = pl.mul(pl.row_sum(first, tmp), 1.0 / 16)
        d0 = pl.row_expand_sub(first, mean0)
        m20 = pl.row_sum(pl.mul(d0, d0), tmp)
        for i, (mean, m2) in pl.range(1, 4, init_values=(mean0, m20)):
            t = pl.load(x, [0, i * 16], [4, 16])
            chunk = pl.mul(pl.row_sum(t, tmp), 1.0 / 16)
            d = pl.row_expand_sub(t, chunk)
            gap = pl.sub(chunk, mean)
            n = pl.cast(i, pl.FP32)
            share = 1.0 / (n + 1.0)
            mean_next = pl.add(mean, pl.mul(gap, share))
            spread = pl.mul(pl.mul(gap, gap), 16.0 * n * share)
            m2_next = pl.add(pl.add(m2, pl.row_sum(pl.mul(d, d), tmp)), spread)
            mean_end, m2_end = pl.yield_(mean_next, m2_next)
        inv = pl.rsqrt(pl.add(pl.mul(m2_end, 1.0 / 64), 1e-5))
        for i in pl.range(4):
            y = pl.row_expand_mul(pl.row_expand_sub(pl.load(x, [0, i * 16], [4, 16]), mean_end), inv)
            y = pl.col_expand_add(pl.col_expand_mul(y, pl.load(w, [0, i * 16], [1, 16])), pl.load(b, [0, i * 16], [1, 16]))
            pl.store(y, [0, i * 16], out)
    return out


@CASES(
    f32(2, 6, 10),
    expected=lambda x: torch.nn.functional.group_norm(torch.from_numpy(x), 3).numpy(),
    tol=1e-4,
)
@pl.jit
def groupnorm(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        flat = pl.reshape(x, [6, 20])
        d = pl.row_expand_sub(flat, pl.mul(pl.row_sum(flat), 1.0 / 20))
        var = pl.mul(pl.row_sum(pl.mul(d, d)), 1.0 / 20)
        out[:] = pl.reshape(pl.row_expand_mul(d, pl.rsqrt(pl.add(var, 1e-5))), [2, 6, 10])
    return out


# softmax ----------------------------------------------------------------------------------------------------------------


@CASES(f32(9, 33), expected=softmax, tol=1e-5)
@pl.jit
def softmax_rows(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        e = pl.row_expand_expdif(x, pl.row_max(x))
        out[:] = pl.row_expand_div(e, pl.row_sum(e))
    return out


@CASES(f32(6, 128), expected=softmax, tol=1e-5)
@pl.jit
def softmax_online(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    """One pass for maximum and sum together, one to write."""
    with pl.at(level=pl.Level.CORE_GROUP):
        tmp = pl.create_tile([6, 32], dtype=pl.FP32)
        m = pl.tile.full([6, 1], dtype=pl.FP32, value=-1e30)
        l = pl.tile.full([6, 1], dtype=pl.FP32, value=0.0)
        for j in pl.range(4):
            t = pl.load(x, [0, j * 32], [6, 32])
            top = pl.maximum(m, pl.row_max(t, tmp))
            l = pl.add(pl.mul(l, pl.exp(pl.sub(m, top))), pl.row_sum(pl.row_expand_expdif(t, top), tmp))
            m = top
        for j in pl.range(4):
            t = pl.row_expand_expdif(pl.load(x, [0, j * 32], [6, 32]), m)
            pl.store(pl.row_expand_div(t, l), [0, j * 32], out)
    return out


def causal_softmax(x: Array) -> Array:
    t = torch.from_numpy(x)
    return torch.softmax(t.masked_fill(torch.triu(torch.ones_like(t, dtype=torch.bool), 1), -math.inf), -1).numpy()


@CASES(f32(17, 17), expected=causal_softmax, tol=1e-5)
@pl.jit
def softmax_causal_by_triangle(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [17, 17])
        tmp = pl.create_tile([17, 17], dtype=pl.FP32)
        keep = pl.tri(0, [17, 17], dtype=pl.INT32)
        mask = pl.tile.cmps(keep, 1, cmp_type=0)
        s = pl.tile.sels(mask, t, tmp, -1e30)
        e = pl.row_expand_expdif(s, pl.row_max(s, tmp))
        pl.store(pl.row_expand_div(e, pl.row_sum(e, tmp)), [0, 0], out)
    return out


@CASES(f32(8, 12), expected=prefix_softmax, tol=1e-5)
@pl.jit
def softmax_causal_by_valid_regions(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    """Row i sees its first i + 1 columns: a valid region per row, no mask."""
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.full([8, 12], dtype=pl.FP32, value=0.0)
        tmp = pl.create_tile([1, 12], dtype=pl.FP32)
        for i in pl.range(8):
            t = pl.load(x, [i, 0], [1, 12], valid_shape=[1, i + 1])
            e = pl.row_expand_expdif(t, pl.row_max(t, tmp))
            pl.store(pl.row_expand_div(e, pl.row_sum(e, tmp)), [i, 0], out)
    return out


@CASES(
    f32(5, 20),
    np.array([20, 1, 7, 19, 12], np.int32),
    expected=lambda x, n: np.stack([np.pad(softmax(r[:k]), (0, 20 - k)) for r, k in zip(x, n, strict=True)]),
    tol=1e-5,
)
@pl.jit
def softmax_of_lengths(x: pl.Tensor, lengths: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        tmp = pl.create_tile([1, 20], dtype=pl.FP32)
        for i in pl.range(5):
            n = pl.cast(pl.read(lengths, [i]), pl.INDEX)
            t = pl.load(x, [i, 0], [1, 20], valid_shape=[1, n])
            t = pl.tile.fillpad(t, pad_value=pl.PadValue.min)
            e = pl.row_expand_expdif(t, pl.row_max(t, tmp))
            pl.store(pl.row_expand_div(e, pl.row_sum(e, tmp)), [i, 0], out)
    return out


@CASES(f32(6, 15), i32(6, 15, low=0, high=2), expected=lambda x, keep: softmax(np.where(keep == 1, x, np.float32(-1e9)) / np.float32(0.7)), tol=1e-5)
@pl.jit
def softmax_masked_with_temperature(x: pl.Tensor, keep: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        s = pl.where(pl.cmp(keep, 1, cmp_type=0), x, -1e9)
        s = pl.mul(s, 1.0 / 0.7)
        e = pl.row_expand_expdif(s, pl.row_max(s))
        out[:] = pl.row_expand_div(e, pl.row_sum(e))
    return out


@CASES(f32(6, 15), expected=lambda x: torch.log_softmax(torch.from_numpy(x), -1).numpy(), tol=1e-5)
@pl.jit
def log_softmax(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        shifted = pl.row_expand_sub(x, pl.row_max(x))
        out[:] = pl.row_expand_sub(shifted, pl.log(pl.row_sum(pl.exp(shifted))))
    return out


@CASES(f16(4, 30), expected=lambda x: torch.softmax(torch.from_numpy(x).float(), 0).half().numpy(), tol=2e-3)
@pl.jit
def softmax_columns_fp16(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        wide = pl.cast(x, pl.FP32)
        e = pl.col_expand_expdif(wide, pl.col_max(wide))
        out[:] = pl.cast(pl.col_expand_div(e, pl.col_sum(e)), pl.FP16)
    return out


# rotary embedding -------------------------------------------------------------------------------------------------------


def rope_half(x: Array, cos: Array, sin: Array) -> Array:
    half = x.shape[-1] // 2
    rotated = np.concatenate([-x[..., half:], x[..., :half]], -1)
    c, s = np.concatenate([cos, cos], -1), np.concatenate([sin, sin], -1)
    return x * c + rotated * s


@CASES(f32(7, 16), f32(7, 8), f32(7, 8), expected=rope_half, tol=1e-5)
@pl.jit
def rope_half_split(x: pl.Tensor, cos: pl.Tensor, sin: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        low = pl.slice(x, [7, 8], [0, 0])
        high = pl.slice(x, [7, 8], [0, 8])
        out[:, 0:8] = pl.sub(pl.mul(low, cos), pl.mul(high, sin))
        out[:, 8:16] = pl.add(pl.mul(high, cos), pl.mul(low, sin))
    return out


def rope_pairs(x: Array, cos: Array, sin: Array) -> Array:
    pairs = torch.view_as_complex(torch.from_numpy(x).reshape(*x.shape[:-1], -1, 2).contiguous())
    turns = torch.complex(torch.from_numpy(cos), torch.from_numpy(sin))
    return torch.view_as_real(pairs * turns).reshape(x.shape).numpy()


@CASES(f32(7, 16), f32(7, 8), f32(7, 8), expected=rope_pairs, tol=1e-5)
@pl.jit
def rope_interleaved(x: pl.Tensor, cos: pl.Tensor, sin: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [7, 16])
        even = pl.tile.gather_mask(t, pl.tile.MaskPattern.P0101)
        odd = pl.tile.gather_mask(t, pl.tile.MaskPattern.P1010)
        c = pl.load(cos, [0, 0], [7, 8])
        s = pl.load(sin, [0, 0], [7, 8])
        new_even = pl.sub(pl.mul(even, c), pl.mul(odd, s))
        new_odd = pl.add(pl.mul(even, s), pl.mul(odd, c))
        y = pl.tile.scatter_mask(t, new_even, pl.tile.MaskPattern.P0101)
        y = pl.tile.scatter_mask(y, new_odd, pl.tile.MaskPattern.P1010)
        pl.store(y, [0, 0], out)
    return out


def rope_heads(x: Array, positions: Array, cos: Array, sin: Array) -> Array:
    return rope_half(x, cos[positions][:, None], sin[positions][:, None])


@CASES(f32(5, 3, 8), np.array([9, 0, 4, 4, 11], np.int32), f32(12, 4), f32(12, 4), expected=rope_heads, tol=1e-5)
@pl.jit
def rope_of_positions(x: pl.Tensor, positions: pl.Tensor, cos: pl.Tensor, sin: pl.Tensor, out: pl.Out[pl.Tensor]):
    tokens, heads, d = x.shape
    half = d // 2
    for t in pl.spmd(tokens):
        p = pl.cast(pl.read(positions, [t]), pl.INDEX)
        c = pl.load(cos, [p, 0], [1, half])
        s = pl.load(sin, [p, 0], [1, half])
        low = pl.reshape(pl.load(x, [t, 0, 0], [1, heads, half]), [heads, half])
        high = pl.reshape(pl.load(x, [t, 0, half], [1, heads, half]), [heads, half])
        new_low = pl.sub(pl.col_expand_mul(low, c), pl.col_expand_mul(high, s))
        new_high = pl.add(pl.col_expand_mul(high, c), pl.col_expand_mul(low, s))
        pl.store(pl.reshape(new_low, [1, heads, half]), [t, 0, 0], out)
        pl.store(pl.reshape(new_high, [1, heads, half]), [t, 0, half], out)
    return out


@CASES(
    f32(1, 6, low=0.05, high=1.0),
    expected=lambda f: (np.cos(np.arange(9)[:, None] * f).astype(np.float32), np.sin(np.arange(9)[:, None] * f).astype(np.float32)),
    tol=1e-5,
)
@pl.jit
def rope_tables(frequencies: pl.Tensor, cos: pl.Out[pl.Tensor], sin: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        f = pl.load(frequencies, [0, 0], [1, 6])
        for p in pl.range(9):
            angle = pl.mul(f, pl.cast(p, pl.FP32))
            pl.store(pl.cos(angle), [p, 0], cos)
            pl.store(pl.sin(angle), [p, 0], sin)
    return cos, sin


# activations and losses ---------------------------------------------------------------------------------------------------


@CASES(f32(6, 20), f32(6, 20), expected=lambda g, u: torch.nn.functional.silu(torch.from_numpy(g)).numpy() * u, tol=1e-5)
@pl.jit
def swiglu(gate: pl.Tensor, up: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.mul(pl.mul(gate, pl.sigmoid(gate)), up)
    return out


@CASES(f32(6, 20), expected=lambda x: torch.nn.functional.gelu(torch.from_numpy(x), approximate="tanh").numpy(), tol=1e-5)
@pl.jit
def gelu_tanh(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    c = math.sqrt(2.0 / math.pi)
    with pl.at(level=pl.Level.CORE_GROUP):
        inner = pl.mul(pl.add(x, pl.mul(pl.mul(pl.mul(x, x), x), 0.044715)), c)
        out[:] = pl.mul(pl.mul(x, 0.5), pl.add(pl.tanh(inner), 1.0))
    return out


@CASES(f32(6, 32), expected=lambda x: torch.nn.functional.gelu(torch.from_numpy(x[:, 16:])).numpy() * x[:, :16], tol=1e-5)
@pl.jit
def geglu_of_packed_halves(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        gate = x[:, 16:32]
        phi = pl.mul(pl.add(pl.erf(pl.mul(gate, 1.0 / math.sqrt(2.0))), 1.0), 0.5)
        out[:] = pl.mul(pl.mul(gate, phi), x[:, 0:16])
    return out


def cross_entropy(logits: Array, labels: Array) -> Array:
    loss = torch.nn.functional.cross_entropy(torch.from_numpy(logits), torch.from_numpy(labels[:, 0]).long(), reduction="none")
    return loss.numpy()[:, None]


@CASES(f32(9, 31), i32(9, 1, low=0, high=31), expected=cross_entropy, tol=1e-5)
@pl.jit
def cross_entropy_by_gather(logits: pl.Tensor, labels: pl.Tensor, loss: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        top = pl.row_max(logits)
        lse = pl.add(pl.log(pl.row_sum(pl.row_expand_expdif(logits, top))), top)
        loss[:] = pl.sub(lse, pl.gather(logits, dim=1, index=labels))
    return loss


@CASES(f32(8, 64), i32(8, 1, low=0, high=64), expected=lambda x, y: cross_entropy(x, y).mean().reshape(1, 1), tol=1e-5)
@pl.jit
def mean_cross_entropy_over_vocabulary_chunks(logits: pl.Tensor, labels: pl.Tensor, loss: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        tmp = pl.create_tile([8, 16], dtype=pl.FP32)
        m = pl.tile.full([8, 1], dtype=pl.FP32, value=-1e30)
        l = pl.tile.full([8, 1], dtype=pl.FP32, value=0.0)
        for j in pl.pipeline(4, stage=2):
            t = pl.load(logits, [0, j * 16], [8, 16])
            top = pl.maximum(m, pl.row_max(t, tmp))
            l = pl.add(pl.mul(l, pl.exp(pl.sub(m, top))), pl.row_sum(pl.row_expand_expdif(t, top), tmp))
            m = top
        lse = pl.add(pl.log(l), m)
        total = 0.0
        for i in pl.range(8):
            label = pl.cast(pl.read(labels, [i, 0]), pl.INDEX)
            total = total + (pl.read(lse, [i, 0]) - pl.read(logits, [i, label]))
        pl.write(loss, [0, 0], total / 8.0)
    return loss
