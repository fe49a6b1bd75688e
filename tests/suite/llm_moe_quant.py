"""Mixtures of experts and quantised products."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import torch

import tilejit.language as pl
from tests.suite.harness import Cases, data, f32, i32

CASES = Cases()
Array = np.ndarray[Any, Any]
E4M3, E5M2, E8M0, FP4 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.float8_e8m0fnu, ml_dtypes.float4_e2m1fn
TOKENS = pl.dynamic("TOKENS")


def softmax(x: Array) -> Array:
    return torch.softmax(torch.from_numpy(x), -1).numpy()


# routing ----------------------------------------------------------------------------------------------------------------


def two_best(logits: Array) -> tuple[Array, Array]:
    values, places = torch.topk(torch.softmax(torch.from_numpy(logits), -1), 2)
    return (values / values.sum(-1, keepdim=True)).numpy(), places.numpy().astype(np.int32)


@CASES(f32(9, 12), expected=two_best, tol=1e-5)
@pl.jit
def route_by_repeated_argmax(logits: pl.Tensor, weights: pl.Out[pl.Tensor], experts: pl.Out[pl.Tensor]):
    """The best expert, then the best of the others."""
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(logits, [0, 0], [9, 12])
        tmp = pl.create_tile([9, 12], dtype=pl.FP32)
        e = pl.row_expand_expdif(t, pl.row_max(t, tmp))
        p = pl.row_expand_div(e, pl.row_sum(e, tmp))
        for k in pl.unroll(2):
            best = pl.row_max(p, tmp)
            place = pl.row_argmax(p, tmp)
            pl.store(best, [0, k], weights)
            pl.store(place, [0, k], experts)
            for i in pl.range(9):
                column = pl.cast(pl.read(place, [i, 0]), pl.INDEX)
                p[i, column] = -1.0
        w = pl.load(weights, [0, 0], [9, 2])
        pl.store(pl.row_expand_div(w, pl.row_sum(w, pl.create_tile([9, 2], dtype=pl.FP32))), [0, 0], weights)
    return weights, experts


def topk_sorted(scores: Array, k: int) -> tuple[Array, Array]:
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(scores, order, 1), order.astype(np.int32)


@CASES(f32(5, 32), expected=lambda s: topk_sorted(s, 4))
@pl.jit
def route_by_sort32(scores: pl.Tensor, values: pl.Out[pl.Tensor], places: pl.Out[pl.Tensor]):
    """32 experts are one block of the sorter; values and places lie interleaved."""
    with pl.at(level=pl.Level.CORE_GROUP):
        for row in pl.range(5):
            t = pl.load(scores, [row, 0], [1, 32])
            order = pl.tile.reinterpret_view(pl.tile.arange(0, [1, 32], dtype=pl.INT32), pl.UINT32)
            pairs = pl.sort32(t, order)
            best = pl.tile.slice(pairs, [1, 8], [0, 0])
            pl.store(pl.tile.gather_mask(best, pl.tile.MaskPattern.P0101), [row, 0], values)
            pl.store(pl.tile.gather_mask(best, pl.tile.MaskPattern.P1010, output_dtype=pl.INT32), [row, 0], places)
    return values, places


@CASES(f32(1, 128), expected=lambda s: topk_sorted(s, 8))
@pl.jit
def topk_of_many_by_merging(scores: pl.Tensor, values: pl.Out[pl.Tensor], places: pl.Out[pl.Tensor]):
    """Four sorted blocks of 32 merge into one list of 128."""
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(scores, [0, 0], [1, 128])
        order = pl.tile.reinterpret_view(pl.tile.arange(0, [1, 128], dtype=pl.INT32), pl.UINT32)
        merged = pl.mrgsort(pl.sort32(t, order), block_len=64)
        best = pl.tile.slice(merged, [1, 16], [0, 0])
        pl.store(pl.tile.gather_mask(best, pl.tile.MaskPattern.P0101), [0, 0], values)
        pl.store(pl.tile.gather_mask(best, pl.tile.MaskPattern.P1010, output_dtype=pl.INT32), [0, 0], places)
    return values, places


def moe(x: Array, gate: Array, w1: Array, w2: Array) -> Array:
    probabilities, experts = two_best(x @ gate)
    out = np.zeros((len(x), w2.shape[2]), np.float32)
    for i, row in enumerate(x):
        for p, e in zip(probabilities[i], experts[i], strict=True):
            out[i] += p * (np.maximum(row @ w1[e], 0) @ w2[e])
    return out


@pl.jit.incore
def choose(x: pl.Tensor, gate: pl.Tensor, weights: pl.Out[pl.Tensor], experts: pl.Out[pl.Tensor]):
    tokens, n = x.shape[0], gate.shape[1]
    p = pl.matmul(pl.load(x, [0, 0], [tokens, x.shape[1]]), pl.load(gate, [0, 0], [gate.shape[0], n]))
    tmp = pl.create_tile([tokens, n], dtype=pl.FP32)
    first = pl.row_max(p, tmp)
    one = pl.row_argmax(p, tmp)
    for i in pl.range(tokens):
        p[i, pl.cast(pl.read(one, [i, 0]), pl.INDEX)] = -1e30
    ratio = pl.exp(pl.sub(pl.row_max(p, tmp), first))
    total = pl.add(ratio, 1.0)
    pl.store(pl.recip(total), [0, 0], weights)
    pl.store(pl.div(ratio, total), [0, 1], weights)
    pl.store(one, [0, 0], experts)
    pl.store(pl.row_argmax(p, tmp), [0, 1], experts)
    return weights, experts


@CASES(f32(7, 8), f32(8, 5), f32(5, 8, 12), f32(5, 12, 8), expected=moe, tol=1e-3)
@pl.jit
def experts_per_token(x: pl.Tensor, gate: pl.Tensor, w1: pl.Tensor, w2: pl.Tensor, out: pl.Out[pl.Tensor]):
    """Every token looks its experts up."""
    tokens, hidden = x.shape
    inner = w1.shape[2]
    weights = pl.create_tensor([tokens, 2], dtype=pl.FP32)
    experts = pl.create_tensor([tokens, 2], dtype=pl.INT32)
    weights, experts = choose(x, gate, weights, experts)
    for i in pl.spmd(tokens):
        t = pl.load(x, [i, 0], [1, hidden])
        acc = pl.tile.full([1, hidden], dtype=pl.FP32, value=0.0)
        for k in pl.range(2):
            e = pl.cast(pl.read(experts, [i, k]), pl.INDEX)
            a = pl.reshape(pl.load(w1, [e, 0, 0], [1, hidden, inner]), [hidden, inner])
            b = pl.reshape(pl.load(w2, [e, 0, 0], [1, inner, hidden]), [inner, hidden])
            h = pl.relu(pl.matmul(t, a))
            acc = pl.add(acc, pl.mul(pl.matmul(h, b), pl.read(weights, [i, k])))
        pl.store(acc, [i, 0], out)
    return out


@CASES(f32(7, 8), f32(8, 5), f32(5, 8, 12), f32(5, 12, 8), expected=moe, tol=1e-3, returned=True)
@pl.jit
def experts_with_dispatched_tokens(x: pl.Tensor, gate: pl.Tensor, w1: pl.Tensor, w2: pl.Tensor, out: pl.Out[pl.Tensor[[7, 8], pl.FP32]]):
    """Tokens are gathered per expert, computed together and added back; experts without tokens are skipped."""
    tokens, hidden = x.shape
    inner, n = w1.shape[2], w1.shape[0]
    weights = pl.create_tensor([tokens, 2], dtype=pl.FP32)
    experts = pl.create_tensor([tokens, 2], dtype=pl.INT32)
    weights, experts = choose(x, gate, weights, experts)
    mine = pl.create_tensor([tokens, hidden], dtype=pl.FP32)
    for e in pl.range(n):
        with pl.at(level=pl.Level.CORE_GROUP):
            rows = pl.array.create(7, pl.INT64)
            share = pl.create_tile([7, 1], dtype=pl.FP32)
            count = 0
            for i in pl.range(tokens):
                for k in pl.range(2):
                    if pl.cast(pl.read(experts, [i, k]), pl.INDEX) == e:
                        mine = pl.store(pl.load(x, [i, 0], [1, hidden]), [count, 0], mine)
                        rows[count] = pl.cast(i, pl.INT64)
                        share[count, 0] = pl.read(weights, [i, k])
                        count = count + 1
            if count > 0:
                t = pl.load(mine, [0, 0], [7, hidden], valid_shape=[count, hidden])
                a = pl.reshape(pl.load(w1, [e, 0, 0], [1, hidden, inner]), [hidden, inner])
                b = pl.reshape(pl.load(w2, [e, 0, 0], [1, inner, hidden]), [inner, hidden])
                y = pl.matmul(pl.relu(pl.matmul(t, a)), b)
                for j in pl.range(count):
                    row = pl.mul(pl.tile.extract(y, j, 0, [1, hidden], target_memory=pl.Mem.Vec), pl.read(share, [j, 0]))
                    out = pl.store(row, [rows[j], 0], out, atomic=pl.AtomicType.Add)
    return out


@CASES(i32(20, 1, low=0, high=6), expected=lambda e: np.bincount(e[:, 0], minlength=6)[None].astype(np.int32))
@pl.jit
def tokens_counted_per_expert(experts: pl.Tensor, counts: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        column = pl.load(experts, [0, 0], [20, 1])
        for e in pl.range(6):
            n = pl.const(0, pl.INT32)
            for i in pl.range(20):
                hit = pl.read(column, [i, 0]) == pl.cast(e, pl.INT32)
                n = n + pl.cast(hit, pl.INT32)
            pl.write(counts, [0, e], n)
    return counts


# quantised products -------------------------------------------------------------------------------------------------------


def int8_linear(x: Array, w: Array, sx: Array, sw: Array) -> Array:
    return (x.astype(np.int64) @ w.astype(np.int64)).astype(np.float32) * sx * sw


@CASES(data(np.int8, 9, 32), data(np.int8, 32, 11), f32(9, 1, low=0.01, high=0.1), f32(1, 11, low=0.01, high=0.1), expected=int8_linear, tol=1e-4)
@pl.jit
def int8_with_scales_per_row_and_column(x: pl.Tensor, w: pl.Tensor, sx: pl.Tensor, sw: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        acc = pl.matmul(pl.load(x, [0, 0], [9, 32]), pl.load(w, [0, 0], [32, 11]))
        y = pl.cast(acc, pl.FP32)
        y = pl.col_expand_mul(pl.row_expand_mul(y, pl.load(sx, [0, 0], [9, 1])), pl.load(sw, [0, 0], [1, 11]))
        pl.store(y, [0, 0], out)
    return out


def dynamic_int8(x: Array, w: Array, sw: Array) -> tuple[Array, Array]:
    scale = np.abs(x).max(1, keepdims=True) / np.float32(127)
    q = np.rint(x / scale).clip(-127, 127).astype(np.int8)
    return q, (q.astype(np.int32) @ w.astype(np.int32)).astype(np.float32) * scale * sw


@CASES(f32(6, 24), data(np.int8, 24, 10), f32(1, 10, low=0.01, high=0.1), expected=dynamic_int8, tol=1e-3)
@pl.jit
def activations_quantised_per_token(x: pl.Tensor, w: pl.Tensor, sw: pl.Tensor, q: pl.Out[pl.Tensor], out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        scale = pl.div(pl.row_max(pl.abs(x)), 127.0)
        rounded = pl.cast(pl.row_expand_div(x, scale), pl.INT32, mode="rint")
        xq = pl.cast(rounded, pl.INT8)
        q[:] = xq
        acc = pl.cast(pl.matmul(xq, w, out_dtype=pl.INT32), pl.FP32)
        out[:] = pl.col_expand_mul(pl.row_expand_mul(acc, scale), sw)
    return q, out


def group_dequant(x: Array, w: Array, s: Array) -> Array:
    return x @ (w.reshape(4, 8, -1).astype(np.float32) * s[:, None]).reshape(32, -1)


@CASES(f32(5, 32), data(np.int8, 32, 12), f32(4, 12, low=0.01, high=0.1), expected=group_dequant, tol=1e-3)
@pl.jit
def int8_weights_in_groups(x: pl.Tensor, w: pl.Tensor, scales: pl.Tensor, out: pl.Out[pl.Tensor]):
    """Weight-only quantisation: one scale per 8 rows and column."""
    with pl.at(level=pl.Level.CORE_GROUP):
        acc = pl.tile.full([5, 12], dtype=pl.FP32, value=0.0)
        for g in pl.range(4):
            tw = pl.cast(pl.cast(pl.load(w, [g * 8, 0], [8, 12]), pl.FP16), pl.FP32)
            tw = pl.col_expand_mul(tw, pl.load(scales, [g, 0], [1, 12]))
            acc = pl.matmul_acc(acc, pl.load(x, [0, g * 8], [5, 8]), tw)
        pl.store(acc, [0, 0], out)
    return out


def unpack4(packed: Array) -> Array:
    low, high = (packed & 15).astype(np.int32), (packed >> 4).astype(np.int32)
    return np.stack([low, high], -1).reshape(packed.shape[0], -1) - 8


@CASES(f32(4, 6), data(np.uint8, 6, 5), f32(1, 10), expected=lambda x, w, s: x @ (unpack4(w) * s).astype(np.float32), tol=1e-3)
@pl.jit
def four_bit_weights_unpacked_by_shifts(x: pl.Tensor, packed: pl.Tensor, scale: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        wide = pl.cast(packed, pl.INT32)
        low = pl.cast(pl.sub(pl.ands(wide, 15), 8), pl.FP32)
        high = pl.cast(pl.sub(pl.shrs(wide, 4), 8), pl.FP32)
        w = pl.create_tensor([6, 10], dtype=pl.FP32)
        for j in pl.range(5):
            w[:, 2 * j : 2 * j + 1] = pl.slice(low, [6, 1], [0, j])
            w[:, 2 * j + 1 : 2 * j + 2] = pl.slice(high, [6, 1], [0, j])
        out[:] = pl.matmul(x, pl.col_expand_mul(w, scale))
    return out


def fp8_linear(x: Array, w: Array) -> Array:
    sx, sw = np.abs(x).max() / 448, np.abs(w).max() / 448
    q = (x / sx).astype(np.float32).astype(E4M3).astype(np.float32) @ (w / sw).astype(np.float32).astype(E4M3).astype(np.float32)
    return (q * (sx * sw)).astype(np.float32)


@CASES(f32(6, 32), f32(32, 8), expected=fp8_linear, tol=2e-2)
@pl.jit
def fp8_with_one_scale_per_tensor(x: pl.Tensor, w: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        sx = pl.mul(pl.col_max(pl.row_max(pl.abs(x))), 1.0 / 448)
        sw = pl.mul(pl.col_max(pl.row_max(pl.abs(w))), 1.0 / 448)
        xq = pl.cast(pl.div(x, pl.read(sx, [0, 0])), pl.FP8E4M3FN, mode="rint")
        wq = pl.cast(pl.div(w, pl.read(sw, [0, 0])), pl.FP8E4M3FN, mode="rint")
        y = pl.matmul(pl.cast(xq, pl.FP32), pl.cast(wq, pl.FP32))
        out[:] = pl.mul(y, pl.read(sx, [0, 0]) * pl.read(sw, [0, 0]))
    return out


def scaled(x: Array, s: Array, axis: int) -> Array:
    return x.astype(np.float32) * np.repeat(s.astype(np.float32), 32, axis)


def mx(x: Array, sx: Array, w: Array, sw: Array) -> Array:
    return scaled(x, sx, 1) @ scaled(w, sw, 0)


def scales(*shape: int) -> Array:
    return np.ldexp(1.0, np.random.default_rng(shape[0]).integers(-3, 4, shape)).astype(E8M0)


@CASES(data(E4M3, 9, 64), scales(9, 2), data(E4M3, 64, 7), scales(2, 7), expected=mx, tol=1e-3)
@pl.jit
def mx_fp8(x: pl.Tensor, sx: pl.Tensor, w: pl.Tensor, sw: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        tx = pl.load(x, [0, 0], [9, 64], target_memory=pl.Mem.Mat)
        tw = pl.load(w, [0, 0], [64, 7], target_memory=pl.Mem.Mat)
        tsx = pl.load(sx, [0, 0], [9, 2], target_memory=pl.Mem.Mat)
        tsw = pl.load(sw, [0, 0], [2, 7], target_memory=pl.Mem.Mat)
        pl.store(pl.matmul_mx(tx, tsx, tw, tsw), [0, 0], out)
    return out


@CASES(data(E5M2, 6, 128), scales(6, 4), data(E5M2, 128, 10), scales(4, 10), f32(1, 10), expected=lambda x, sx, w, sw, b: mx(x, sx, w, sw) + b, tol=1e-3)
@pl.jit
def mx_fp8_in_blocks_of_k_with_bias(x: pl.Tensor, sx: pl.Tensor, w: pl.Tensor, sw: pl.Tensor, bias: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        acc = pl.matmul_mx_bias(
            pl.load(x, [0, 0], [6, 64]), pl.load(sx, [0, 0], [6, 2]), pl.load(w, [0, 0], [64, 10]), pl.load(sw, [0, 0], [2, 10]), pl.load(bias, [0, 0], [1, 10])
        )
        acc = pl.matmul_mx_acc(acc, pl.load(x, [0, 64], [6, 64]), pl.load(sx, [0, 2], [6, 2]), pl.load(w, [64, 0], [64, 10]), pl.load(sw, [2, 0], [2, 10]))
        pl.store(acc, [0, 0], out)
    return out


def mx_quantised(x: Array) -> tuple[Array, Array]:
    blocks = x.reshape(len(x), -1, 32)
    top = np.abs(blocks).max(-1)
    exponent = np.floor(np.log2(top)) - 8
    q = (blocks / np.exp2(exponent)[..., None]).astype(np.float32).astype(E4M3)
    return q.reshape(x.shape), np.exp2(exponent).astype(np.float32).astype(E8M0)


@CASES(f32(5, 64, low=0.3, high=1.0), expected=mx_quantised)
@pl.jit
def mx_quantisation_of_activations(x: pl.Tensor, q: pl.Out[pl.Tensor], s: pl.Out[pl.Tensor]):
    """Blocks of 32 share a power of two, found in the bits of their maximum."""
    with pl.at(level=pl.Level.CORE_GROUP):
        tmp = pl.create_tile([5, 32], dtype=pl.FP32)
        for b in pl.range(2):
            t = pl.load(x, [0, b * 32], [5, 32])
            top = pl.row_max(pl.abs(t), tmp)
            bits = pl.tile.reinterpret_view(top, pl.INT32)
            power = pl.tile.reinterpret_view(pl.shls(pl.sub(pl.shrs(bits, 23), 8), 23), pl.FP32)
            pl.store(pl.cast(pl.row_expand_div(t, power), pl.FP8E4M3FN, mode="rint"), [0, b * 32], q)
            pl.store(pl.cast(power, pl.FP8E8M0), [0, b], s)
    return q, s


@CASES(data(FP4, 4, 64), scales(4, 2), data(FP4, 64, 6), scales(2, 6), expected=mx, tol=1e-4)
@pl.jit
def mx_fp4(x: pl.Tensor, sx: pl.Tensor, w: pl.Tensor, sw: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        acc = pl.matmul_mx(pl.load(x, [0, 0], [4, 64]), pl.load(sx, [0, 0], [4, 2]), pl.load(w, [0, 0], [64, 6]), pl.load(sw, [0, 0], [2, 6]))
        pl.store(acc, [0, 0], out)
    return out
