"""Kernels in the style of NumPy and of first attempts: tuples for lists, keywords, windows by subscripts, scalars that accumulate."""

from __future__ import annotations

import numpy as np
from numpy import float32

import tilejit.language as pl
from tests.suite.harness import Cases, f16, f32, i32

CASES = Cases()


@CASES(f32(8, 16), expected=lambda x: x * 2)
@pl.jit
def tuples_for_lists(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(pl.Level.CORE_GROUP):
        t = pl.load(x, (0, 0), (8, 16))
        pl.store(t * 2, (0, 0), out)


@CASES(f32(8, 16), expected=lambda x: x * 2)
@pl.jit
def everything_by_keyword(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.incore():
        t = pl.load(tensor=x, offsets=[0, 0], shapes=x.shape)
        pl.store(tile=t + t, offsets=[0, 0], output_tensor=out)


@CASES(f32(24, 16), expected=lambda x: x + 1)
@pl.jit
def windows_by_subscripts(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(x.shape[0] // 8):
            out[i * 8 : (i + 1) * 8, :] = x[i * 8 : (i + 1) * 8, :] + 1.0


@CASES(f32(24, 16), expected=lambda x: x + 1)
@pl.jit
def windows_by_names(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    for i in pl.parallel(3):
        lo = i * 8
        hi = lo + 8
        with pl.at(level=pl.Level.CORE_GROUP):
            out[lo:hi] = x[lo:hi] + 1.0


@CASES(f32(8, 16), expected=lambda x: x[3, 4] * np.ones((1, 1), np.float32) + x[3:4, :1])
@pl.jit
def chained_subscripts(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        v = x[3][4]
        out[:] = x[3:4][:, 0:1] + v


@pl.jit.inline
def sq(t: pl.Tensor):
    return t * t


@pl.jit.incore
def cube(x: pl.Tensor, out: pl.Out[pl.Tensor]) -> pl.Tensor:
    out[:] = sq(x) * x
    return out


@CASES(f32(4, 6), f32(4, 6), expected=lambda x, y: x * x + y * y, tol=1e-6)
@pl.jit
def helpers_in_expr(x: pl.Tensor, y: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = sq(x) + sq(y)


@CASES(f32(4, 6), expected=lambda x: x * x * x, tol=1e-5)
@pl.jit
def helper_as_a_statement(x: pl.Tensor, out: pl.Out[pl.Tensor]) -> pl.Tensor:
    cube(x, out)
    return out


@CASES(f32(4, 6), expected=lambda x: x * float32(np.exp(2.0)) * float32(np.sqrt(3.0)), tol=1e-6)
@pl.jit
def scalar_funcs(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        a = pl.exp(2.0)
        b = pl.sqrt(pl.const(3.0, pl.FP32))
        out[:] = x * a * b


@CASES(f32(4, 6), expected=lambda x: x + x.shape[0] * 10 + 6)
@pl.jit
def tile_shape(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [4, 6])
        m, n = t.shape
        u = pl.create_tile([t.shape[0], t.shape[1]], dtype=t.dtype)
        u = pl.expands(u, 0.0)
        pl.store(t + u + (m * 10 + n), [0, 0], out)


@CASES(f32(4, 6), i32(1, low=0, high=1), expected=lambda x, k: x * 2, more=[(f32(4, 6), np.array([7], np.int32))])
@pl.jit
def region_in_a_branch(x: pl.Tensor, k: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x * 2.0
    if pl.read(k, [0]) > 100:
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = x
    return out


@CASES(f32(4, 6), expected=lambda x: (x.max(1), x.sum(0)), tol=1e-5)
@pl.jit
def rank_drop(x: pl.Tensor, a: pl.Out[pl.Tensor], b: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        a[:] = pl.reshape(pl.row_max(x), [4])
        b[:] = pl.reshape(pl.col_sum(x), [6])


@CASES(f32(4, 6), expected=lambda x: x.T @ x, tol=1e-5)
@pl.jit
def product_with_itself(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.matmul(pl.transpose(x, 0, 1), x)


@CASES(f32(2, 4, 6), expected=lambda x: x.sum(axis=(0, 2)).reshape(4, 1), tol=1e-5)
@pl.jit
def two_axes(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        acc = pl.tensor.full([4, 1], dtype=pl.FP32, value=0.0)
        for b in pl.range(2):
            acc += pl.row_sum(x[b])
        out[:] = acc


@CASES(f16(4, 6), expected=lambda x: x.astype(np.float32).sum(1, keepdims=True), tol=1e-3)
@pl.jit
def cast_then_sum(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.row_sum(pl.cast(x, pl.FP32))


@CASES(f32(3, 8), expected=lambda x: np.stack([np.roll(x[i], i) for i in range(3)]))
@pl.jit
def rolled_rows(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.unroll(3):
            if i == 0:
                out[0] = x[0]
            else:
                out[i, 0:i] = x[i, 8 - i : 8]
                out[i, i:8] = x[i, 0 : 8 - i]


@CASES(f32(3, 8), expected=lambda x: x)
@pl.jit
def kernel_with_scratch_tensor(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    ws = pl.create_tensor([2, 3, 8], dtype=pl.FP32)
    with pl.at(level=pl.Level.CORE_GROUP):
        ws[0] = x
        ws[1] = ws[0] * 2.0
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = ws[1] - ws[0]


@CASES(f32(10), expected=lambda x: np.array([x[: k + 1].sum() for k in range(10)]), tol=1e-5)
@pl.jit
def running_sum(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        s = 0.0
        for i in pl.range(10):
            s = s + x[i]
            out[i] = s


@CASES(i32(10, low=0, high=100), expected=lambda x: np.array([x.max(), x.argmax()], np.int32))
@pl.jit
def largest_and_where(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        best = x[0]
        at = 0
        for i in pl.range(1, 10):
            v = x[i]
            if v > best:
                best = v
                at = i
        out[0] = best
        out[1] = pl.cast(at, pl.INT32)


@CASES(f32(4, 4), expected=lambda x: np.triu(x))
@pl.jit
def upper_triangle(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(4):
            for j in pl.range(4):
                out[i, j] = x[i, j] if j >= i else 0.0
