"""Whole small algorithms, as they are brought from other frameworks: stencils, optimisers, losses, scans, sampling, quantisation."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from numpy import float32

import tilejit.language as pl
from tests.suite.harness import Array, Cases, data, f32, i32

CASES = Cases()
CG = pl.Level.CORE_GROUP


def _conv(x: Array, w: Array) -> Array:
    out = np.zeros((6, 9, 4), np.float64)
    for i in range(3):
        for j in range(3):
            out += x[i : i + 6, j : j + 9].astype(np.float64) @ w[i, j]
    return out


@CASES(f32(8, 11, 5), f32(3, 3, 5, 4), expected=_conv, tol=1e-5)
@pl.jit
def convolution(x: pl.Tensor, w: pl.Tensor, out: pl.Out[pl.Tensor]):
    """3 by 3, channels last: nine shifted products."""
    with pl.at(level=CG):
        for row in pl.range(6):
            acc = pl.tensor.full([9, 4], dtype=pl.FP32, value=0.0)
            for i in pl.unroll(3):
                for j in pl.unroll(3):
                    acc = pl.matmul_acc(acc, x[row + i, j : j + 9, :], w[i, j])
            out[row] = acc
    return out


def _life(x: Array) -> Array:
    p = np.pad(x, 1)
    n = sum(p[1 + i : 1 + i + x.shape[0], 1 + j : 1 + j + x.shape[1]] for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0))
    return ((n == 3) | ((x == 1) & (n == 2))).astype(np.int32)


@CASES(i32(9, 14, low=0, high=2), expected=lambda x: _life(_life(x)))
@pl.jit
def game_of_life(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    board = pl.create_tensor([11, 16], dtype=pl.INT32, init_value=0)
    with pl.at(level=CG):
        board[1:10, 1:15] = x
    for _ in pl.range(2):
        with pl.at(level=CG):
            n = pl.tensor.full([9, 14], dtype=pl.INT32, value=0)
            for i in pl.unroll(3):
                for j in pl.unroll(3):
                    if i != 1 or j != 1:
                        n = n + board[i : i + 9, j : j + 14]
            alive = board[1:10, 1:15]
            born = n == 3
            stays = (n == 2) * alive
            board[1:10, 1:15] = pl.maximum(born, stays)
    with pl.at(level=CG):
        out[:] = board[1:10, 1:15]
    return out


@CASES(f32(4, 30), expected=lambda x: x.astype(np.float64).cumsum(1), tol=1e-5)
@pl.jit
def scan_by_product(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    """Prefix sums of rows as a product with a triangle of ones."""
    with pl.at(level=CG):
        ones = pl.tri(0, [30, 30], dtype=pl.FP32, upper=True)
        pl.store(pl.matmul(pl.load(x, [0, 0], [4, 30]), ones), [0, 0], out)
    return out


def _adam(p: Array, g: Array, m: Array, v: Array) -> Any:
    m = 0.9 * m + 0.1 * g
    v = 0.999 * v + 0.001 * g * g
    return (p - 0.01 * (m / (1 - 0.9**3)) / (np.sqrt(v / (1 - 0.999**3)) + 1e-8)).astype(float32), m.astype(float32), v.astype(float32)


@CASES(f32(7, 19), f32(7, 19), f32(7, 19), f32(7, 19, low=0.1, high=1), expected=_adam, tol=1e-5)
@pl.jit
def adam_step(p: pl.InOut[pl.Tensor], g: pl.Tensor, m: pl.InOut[pl.Tensor], v: pl.InOut[pl.Tensor]):
    lr, b1, b2, step = 0.01, 0.9, 0.999, 3
    with pl.at(level=CG):
        m[:] = m * b1 + g * (1 - b1)
        v[:] = v * b2 + g * g * (1 - b2)
        scale = lr / (1 - b1**step)
        p[:] = p - m * scale / (pl.sqrt(v / (1 - b2**step)) + 1e-8)
    return p, m, v


def _cross_entropy(x: Array, y: Array) -> Any:
    x = x.astype(np.float64)
    e = np.exp(x - x.max(1, keepdims=True))
    p = e / e.sum(1, keepdims=True)
    one = np.eye(x.shape[1])[y[:, 0]]
    return -np.log((p * one).sum(1, keepdims=True)), (p - one) / len(x)


@CASES(f32(6, 17), i32(6, 1, low=0, high=17), expected=_cross_entropy, tol=1e-5)
@pl.jit
def cross_entropy_and_gradient(x: pl.Tensor, labels: pl.Tensor, loss: pl.Out[pl.Tensor], grad: pl.Out[pl.Tensor]):
    with pl.at(level=CG):
        top = pl.row_max(x)
        e = pl.exp(pl.row_expand_sub(x, top))
        total = pl.row_sum(e)
        picked = pl.gather(x, dim=1, index=labels)
        loss[:] = pl.log(total) + top - picked
        p = pl.row_expand_div(e, total)
        columns = pl.tensor.arange(0, [1, 17], dtype=pl.INT32)
        one = pl.cast(columns == labels, pl.FP32)
        grad[:] = (p - one) * (1 / 6)
    return loss, grad


def _softmax_backward(y: Array, g: Array) -> Array:
    return y * (g - (y * g).sum(1, keepdims=True))


@CASES(f32(5, 23, low=0, high=1), f32(5, 23), expected=_softmax_backward, tol=1e-5)
@pl.jit
def softmax_backward(y: pl.Tensor, g: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=CG):
        ty, tg = pl.load(y, [0, 0], [5, 23]), pl.load(g, [0, 0], [5, 23])
        tmp = pl.create_tile([5, 23], dtype=pl.FP32)
        inner = pl.row_sum(ty * tg, tmp)
        pl.store(ty * pl.row_expand_sub(tg, inner), [0, 0], out)
    return out


def _mandelbrot(re: Array, im: Array) -> Array:
    x, y, n = re * 0, im * 0, np.zeros(re.shape, np.int32)
    for _ in range(4):
        alive = x * x + y * y <= float32(4)
        x, y = np.where(alive, x * x - y * y + re, x), np.where(alive, float32(2) * x * y + im, y)
        n += alive
    return n


@CASES(
    (np.random.default_rng(1).integers(-8, 4, (6, 33)) / 4).astype(np.float32), (np.random.default_rng(2).integers(-4, 5, (6, 33)) / 4).astype(np.float32),
    expected=_mandelbrot,
)
@pl.jit
def mandelbrot(re: pl.Tensor, im: pl.Tensor, out: pl.Out[pl.Tensor]):
    """Quarters and four rounds: every number is exact, so that every count is."""
    with pl.at(level=CG):
        cr, ci = pl.load(re, [0, 0], [6, 33]), pl.load(im, [0, 0], [6, 33])
        x = pl.tile.full([6, 33], dtype=pl.FP32, value=0.0)
        y = x
        n = pl.tile.full([6, 33], dtype=pl.INT32, value=0)
        tmp = pl.create_tile([6, 64], dtype=pl.UINT8)
        for _ in pl.range(4):
            alive = pl.cmps(x * x + y * y, 4.0, cmp_type=3)
            new_x = x * x - y * y + cr
            new_y = 2.0 * x * y + ci
            x, y = pl.sel(alive, new_x, x, tmp), pl.sel(alive, new_y, y, tmp)
            n = pl.sel(alive, n + 1, n, tmp)
        pl.store(n, [0, 0], out)
    return out


@CASES(i32(17), expected=np.sort)
@pl.jit
def insertion_sort(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=CG):
        for i in pl.range(17):
            v = pl.read(x, [i])
            j = i
            while j > 0:
                before = pl.read(out, [j - 1])
                if before <= v:
                    break
                pl.write(out, [j], before)
                j = j - 1
            pl.write(out, [j], v)
    return out


def _dequantised(q: Array, s: Array, x: Array) -> Array:
    low, high = (q & 15).astype(np.int32) - 8, (q >> 4).astype(np.int32) - 8
    w = np.stack([low, high], 2).reshape(q.shape[0], -1) * np.repeat(s, 8, 1)
    return x.astype(np.float64) @ w.T


@CASES(data(np.uint8, 6, 16), f32(6, 4), f32(3, 32), expected=_dequantised, tol=1e-4)
@pl.jit
def packed_four_bit_weights(q: pl.Tensor, scales: pl.Tensor, x: pl.Tensor, out: pl.Out[pl.Tensor]):
    """Two weights per byte, one scale for every eight of them."""
    with pl.at(level=CG):
        wide = pl.cast(q, pl.INT32)
        low = pl.cast(pl.ands(wide, 15) - 8, pl.FP32)
        high = pl.cast(pl.shrs(wide, 4) - 8, pl.FP32)
        base = pl.tensor.full([6, 32], dtype=pl.FP32, value=0.0)
        w = pl.scatter(high, mask_pattern=2, dst=pl.scatter(low, mask_pattern=1, dst=base))
        grouped = pl.reshape(w, [24, 8])
        w = pl.reshape(pl.row_expand_mul(grouped, pl.reshape(scales, [24, 1])), [6, 32])
        out[:] = pl.matmul(x, w, b_trans=True)
    return out


def _rotated(x: Array, c: Array, s: Array) -> Array:
    out = np.empty_like(x)
    out[:, 0::2] = x[:, 0::2] * c - x[:, 1::2] * s
    out[:, 1::2] = x[:, 0::2] * s + x[:, 1::2] * c
    return out


@CASES(f32(5, 16), f32(5, 8), f32(5, 8), expected=_rotated, tol=1e-6)
@pl.jit
def interleaved_rotation(x: pl.Tensor, cos: pl.Tensor, sin: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=CG):
        even = pl.gather(x, mask_pattern=pl.tile.MaskPattern.P0101)
        odd = pl.gather(x, mask_pattern=pl.tile.MaskPattern.P1010)
        y = pl.scatter(even * cos - odd * sin, mask_pattern=1, dst=x)
        out[:] = pl.scatter(even * sin + odd * cos, mask_pattern=2, dst=y)
    return out


def _kmeans(x: Array, c: Array) -> Any:
    d = ((x[:, None].astype(np.float64) - c[None]) ** 2).sum(2)
    k = d.argmin(1)
    one = np.eye(len(c))[k]
    return k.astype(np.int32)[:, None], one.T @ x / np.maximum(one.sum(0)[:, None], 1)


@CASES(f32(40, 3), f32(5, 3), expected=_kmeans, tol=1e-5)
@pl.jit
def k_means_step(x: pl.Tensor, centres: pl.Tensor, nearest: pl.Out[pl.Tensor], moved: pl.Out[pl.Tensor]):
    with pl.at(level=CG):
        xx = pl.row_sum(x * x)
        cc = pl.transpose(pl.row_sum(centres * centres), 0, 1)
        d = pl.col_expand_add(pl.row_expand_add(pl.matmul(x, centres, b_trans=True) * -2.0, xx), cc)
        k = pl.row_argmin(d)
        nearest[:] = k
        one = pl.cast(pl.tensor.arange(0, [1, 5], dtype=pl.INT32) == k, pl.FP32)
        counts = pl.transpose(pl.col_sum(one), 0, 1)
        moved[:] = pl.row_expand_div(pl.matmul(one, x, a_trans=True), pl.maximum(counts, 1.0))
    return nearest, moved


def _lu(a: Array) -> Array:
    a = a.astype(np.float64).copy()
    for k in range(len(a)):
        a[k + 1 :, k] /= a[k, k]
        a[k + 1 :, k + 1 :] -= np.outer(a[k + 1 :, k], a[k, k + 1 :])
    return a


@CASES((np.random.default_rng(2).standard_normal((7, 7)) + 7 * np.eye(7)).astype(np.float32), expected=_lu, tol=1e-4)
@pl.jit
def lu_in_place(a: pl.InOut[pl.Tensor]):
    with pl.at(level=CG):
        for k in pl.range(6):
            pivot = pl.read(a, [k, k])
            for i in pl.range(k + 1, 7):
                factor = pl.read(a, [i, k]) / pivot
                pl.write(a, [i, k], factor)
                for j in pl.range(k + 1, 7):
                    pl.write(a, [i, j], pl.read(a, [i, j]) - factor * pl.read(a, [k, j]))
    return a


def _top_p(x: Array) -> Array:
    e = np.exp(x - x.max(1, keepdims=True))
    p = e / e.sum(1, keepdims=True)
    order = np.argsort(-p, axis=1, kind="stable")
    kept = np.take_along_axis(p, order, 1)
    before = kept.cumsum(1) - kept
    return (before < 0.8).sum(1, keepdims=True).astype(np.int32)


@CASES(f32(3, 32), expected=_top_p)
@pl.jit
def nucleus_size(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    """How many of the likeliest tokens make up 80 %."""
    with pl.at(level=CG):
        t = pl.load(x, [0, 0], [3, 32])
        tmp = pl.create_tile([3, 32], dtype=pl.FP32)
        e = pl.exp(pl.row_expand_sub(t, pl.row_max(t, tmp)))
        p = pl.row_expand_div(e, pl.row_sum(e, tmp))
        index = pl.cast(pl.tile.full([3, 32], dtype=pl.INT32, value=0), pl.UINT32)
        ordered = pl.tile.gather_mask(pl.sort32(p, index), 1)
        before = pl.matmul(ordered, pl.tri(1, [32, 32], dtype=pl.FP32, upper=True))
        inside = pl.cmps(before, 0.8, cmp_type=2)
        one = pl.tile.full([3, 32], dtype=pl.INT32, value=1)
        tmp_int = pl.create_tile([3, 32], dtype=pl.INT32)
        pl.store(pl.row_sum(pl.sels(inside, one, tmp_int, 0), tmp_int), [0, 0], out)
    return out


def _dropout(x: Array) -> Array:
    from tests.suite.movement import philox

    kept = philox((5, 6), (0, 0, 0, 0), x.size, 10).reshape(x.shape).view(np.int32) > -(2**30)
    return np.where(kept, x / float32(0.75), 0).astype(np.float32)


@CASES(f32(6, 20), expected=_dropout, tol=1e-6)
@pl.jit
def dropout(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=CG):
        t = pl.load(x, [0, 0], [6, 20])
        bits = pl.tile.random(5, 6, 0, 0, 0, 0, [6, 20], dtype=pl.INT32)
        kept = pl.cmps(bits, -(2**30), cmp_type=4)
        tmp = pl.create_tile([6, 20], dtype=pl.FP32)
        pl.store(pl.sels(kept, t / 0.75, tmp, 0.0), [0, 0], out)
    return out


def _pooled(x: Array) -> Any:
    blocks = x.reshape(4, 2, 6, 2, 3)
    return blocks.max((1, 3)), blocks.astype(np.float64).mean((1, 3))


@CASES(f32(8, 12, 3), expected=_pooled, tol=1e-6)
@pl.jit
def pooling(x: pl.Tensor, top: pl.Out[pl.Tensor], mean: pl.Out[pl.Tensor]):
    with pl.at(level=CG):
        pairs = pl.reshape(x, [4, 2, 6, 2, 3])
        rows = pl.maximum(pairs[:, 0], pairs[:, 1])
        top[:] = pl.maximum(rows[:, :, 0], rows[:, :, 1])
        total = pairs[:, 0] + pairs[:, 1]
        mean[:] = (total[:, :, 0] + total[:, :, 1]) * 0.25
    return top, mean


def _group_norm(x: Array, g: Array, b: Array) -> Array:
    y = x.astype(np.float64).reshape(3, 4, 10)
    y = (y - y.mean(2, keepdims=True)) / np.sqrt(y.var(2, keepdims=True) + 1e-5)
    return y.reshape(3, 40) * g + b


@CASES(f32(3, 40), f32(40), f32(40), expected=_group_norm, tol=1e-5)
@pl.jit
def group_norm(x: pl.Tensor, g: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=CG):
        y = pl.reshape(x, [12, 10])
        mean = pl.row_sum(y) / 10.0
        d = pl.row_expand_sub(y, mean)
        y = pl.row_expand_mul(d, pl.rsqrt(pl.row_sum(d * d) / 10.0 + 1e-5))
        out[:] = pl.reshape(y, [3, 40]) * g + b
    return out


def _lstm(x: Array, h: Array, c: Array, w: Array) -> Any:
    z = np.hstack([x, h]).astype(np.float64) @ w
    i, f, g, o = np.split(z, 4, 1)
    c = c / (1 + np.exp(-f)) + np.tanh(g) / (1 + np.exp(-i))
    return np.tanh(c) / (1 + np.exp(-o)), c


@CASES(f32(4, 6), f32(4, 5), f32(4, 5), f32(11, 20), expected=_lstm, tol=1e-5)
@pl.jit
def lstm_cell(x: pl.Tensor, h: pl.Tensor, c: pl.Tensor, w: pl.Tensor, new_h: pl.Out[pl.Tensor], new_c: pl.Out[pl.Tensor]):
    with pl.at(level=CG):
        z = pl.matmul(pl.concat(x, h), w)
        i, f, g, o = z[:, 0:5], z[:, 5:10], z[:, 10:15], z[:, 15:20]
        cell = pl.sigmoid(f) * c + pl.sigmoid(i) * pl.tanh(g)
        new_c[:] = cell
        new_h[:] = pl.sigmoid(o) * pl.tanh(cell)
    return new_h, new_c


def _ssm(x: Array, a: Array, b: Array) -> Array:
    h = np.zeros(x.shape[1])
    out = []
    for row in x.astype(np.float64):
        h = h * a[0] + row * b[0]
        out.append(h)
    return np.stack(out)


@CASES(f32(20, 9), f32(1, 9, low=0.5, high=0.9), f32(1, 9), expected=_ssm, tol=1e-5)
@pl.jit
def state_space_scan(x: pl.Tensor, a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=CG):
        ta, tb = pl.load(a, [0, 0], [1, 9]), pl.load(b, [0, 0], [1, 9])
        zero = pl.tile.full([1, 9], dtype=pl.FP32, value=0.0)
        for t, (h,) in pl.range(20, init_values=(zero,)):
            state = pl.add(pl.mul(h, ta), pl.mul(pl.load(x, [t, 0], [1, 9]), tb))
            out = pl.store(state, [t, 0], out)
            last = pl.yield_(state)
        pl.store(last, [19, 0], out)
    return out


def _fp8_block(x: Array) -> Any:
    blocks = x.reshape(4, 4, 8)
    scale = np.abs(blocks).max(2, keepdims=True) / float32(448)
    return (blocks / scale).astype(ml_dtypes.float8_e4m3fn).reshape(4, 32), scale.reshape(4, 4)


@CASES(f32(4, 32), expected=_fp8_block, tol=1e-6)
@pl.jit
def block_quantisation(x: pl.Tensor, q: pl.Out[pl.Tensor], scales: pl.Out[pl.Tensor]):
    with pl.at(level=CG):
        blocks = pl.reshape(x, [16, 8])
        s = pl.row_max(pl.abs(blocks)) / 448.0
        q[:] = pl.reshape(pl.cast(pl.row_expand_div(blocks, s), pl.FP8E4M3FN, mode="rint"), [4, 32])
        scales[:] = pl.reshape(s, [4, 4])
    return q, scales


def _power_iteration(a: Array) -> Array:
    v = np.ones((1, 6))
    for _ in range(12):
        v = v @ a.astype(np.float64)
        v = v / np.sqrt((v * v).sum())
    return v


@CASES(f32(6, 6, low=0.1, high=1), expected=_power_iteration, tol=1e-5)
@pl.program
class PowerIteration:
    @pl.function(type=pl.FunctionType.InCore)
    def step(
        self, v: pl.Tensor[[1, 6], pl.FP32], a: pl.Tensor[[6, 6], pl.FP32], out: pl.Out[pl.Tensor[[1, 6], pl.FP32]]
    ) -> pl.Tensor[[1, 6], pl.FP32]:
        w = pl.matmul(pl.load(v, [0, 0], [1, 6]), pl.load(a, [0, 0], [6, 6]))
        tmp = pl.create_tile([1, 6], dtype=pl.FP32)
        norm = pl.rsqrt(pl.row_sum(w * w, tmp))
        out = pl.store(pl.row_expand_mul(w, norm), [0, 0], out)
        return out

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, a: pl.Tensor[[6, 6], pl.FP32], out: pl.Out[pl.Tensor[[1, 6], pl.FP32]]) -> pl.Tensor[[1, 6], pl.FP32]:
        cur: pl.Tensor[[1, 6], pl.FP32] = pl.create_tensor([1, 6], dtype=pl.FP32, init_value=1.0)
        nxt: pl.Tensor[[1, 6], pl.FP32] = pl.create_tensor([1, 6], dtype=pl.FP32)
        for _ in pl.range(11):
            cur, nxt = self.step(cur, a, nxt), cur
        out = self.step(cur, a, out)
        return out
