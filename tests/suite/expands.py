"""Expands: a row or column vector against a matrix, in every operator of the family."""

from __future__ import annotations

import numpy as np
from numpy import float32

import tilejit.language as pl
from tests.suite.harness import Cases, f16, f32, i32

CASES = Cases()


@CASES(
    f32(7, 22), f32(7, 1, low=0.5, high=2),
    expected=lambda x, r: (x + r, x - r, x * r, x / r, np.maximum(x, r), np.minimum(x, r)), tol=1e-6,
)
@pl.jit
def rows_in_six_ways(
    x: pl.Tensor, r: pl.Tensor,
    o1: pl.Out[pl.Tensor], o2: pl.Out[pl.Tensor], o3: pl.Out[pl.Tensor], o4: pl.Out[pl.Tensor], o5: pl.Out[pl.Tensor], o6: pl.Out[pl.Tensor],
):
    with pl.at(level=pl.Level.CORE_GROUP):
        o1[:] = pl.row_expand_add(x, r)
        o2[:] = pl.row_expand_sub(x, r)
        o3[:] = pl.row_expand_mul(x, r)
        o4[:] = pl.tensor.row_expand_div(x, r)
        o5[:] = pl.tensor.row_expand_max(x, r)
        o6[:] = pl.tensor.row_expand_min(x, r)
    return o1, o2, o3, o4, o5, o6


@CASES(
    f32(7, 22), f32(1, 22, low=0.5, high=2),
    expected=lambda x, c: (x + c, x - c, x * c, x / c, np.maximum(x, c), np.minimum(x, c)), tol=1e-6,
)
@pl.jit
def columns_in_six_ways(
    x: pl.Tensor, c: pl.Tensor,
    o1: pl.Out[pl.Tensor], o2: pl.Out[pl.Tensor], o3: pl.Out[pl.Tensor], o4: pl.Out[pl.Tensor], o5: pl.Out[pl.Tensor], o6: pl.Out[pl.Tensor],
):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [7, 22])
        v = pl.load(c, [0, 0], [1, 22])
        pl.store(pl.col_expand_add(t, v), [0, 0], o1)
        pl.store(pl.col_expand_sub(t, v), [0, 0], o2)
        pl.store(pl.tile.col_expand_mul(t, v), [0, 0], o3)
        pl.store(pl.tile.col_expand_div(t, v), [0, 0], o4)
        pl.store(pl.tile.col_expand_max(t, v), [0, 0], o5)
        pl.store(pl.tile.col_expand_min(t, v), [0, 0], o6)
    return o1, o2, o3, o4, o5, o6


@CASES(f32(6, 15), f32(6, 1), f32(1, 15), expected=lambda x, r, c: (np.exp(x - r), np.exp(x - c)), tol=1e-6)
@pl.jit
def exponent_of_difference(x: pl.Tensor, r: pl.Tensor, c: pl.Tensor, o1: pl.Out[pl.Tensor], o2: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [6, 15])
        pl.store(pl.row_expand_expdif(t, pl.load(r, [0, 0], [6, 1])), [0, 0], o1)
        o2[:] = pl.tensor.col_expand_expdif(x, c)
    return o1, o2


@CASES(f32(5, 1), f32(1, 13), expected=lambda r, c: (np.broadcast_to(r, (5, 13)).copy(), np.broadcast_to(c, (5, 13)).copy()))
@pl.jit
def replicated(r: pl.Tensor, c: pl.Tensor, rows: pl.Out[pl.Tensor], columns: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        target = pl.create_tile([5, 13], dtype=pl.FP32)
        pl.store(pl.row_expand(target, pl.load(r, [0, 0], [5, 1])), [0, 0], rows)
        pl.store(pl.col_expand(target, pl.load(c, [0, 0], [1, 13])), [0, 0], columns)
    return rows, columns


@CASES(f32(6, 24), f32(6, 8), expected=lambda x, r: x + np.tile(r, (1, 3)))
@pl.jit
def one_block_per_row(x: pl.Tensor, r: pl.Tensor, out: pl.Out[pl.Tensor]):
    """A row-major second operand of 32 bytes per row is repeated along the row."""
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [6, 24])
        lanes = pl.load(r, [0, 0], [6, 8])
        pl.store(pl.tile.row_expand_add(t, lanes), [0, 0], out)
    return out


@CASES(f16(4, 32), f16(4, 16), expected=lambda x, r: (x.astype(float32) + np.tile(r.astype(float32), (1, 2))).astype(np.float16))
@pl.jit
def one_block_of_halves_per_row(x: pl.Tensor, r: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [4, 32])
        tmp = pl.create_tile([4, 32], dtype=pl.FP16)
        pl.store(pl.row_expand_add(t, pl.load(r, [0, 0], [4, 16]), tmp), [0, 0], out)
    return out


@CASES(f32(5, 9), expected=lambda x: (np.full((5, 9), 2.5, np.float32), np.full((5, 9), 7, np.int32)))
@pl.jit
def filled_like(x: pl.Tensor, a: pl.Out[pl.Tensor], b: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [5, 9])
        pl.store(pl.expands(t, 2.5), [0, 0], a)
        b[:] = pl.tensor.full([5, 9], pl.INT32, 7)
    return a, b


@CASES(f32(1, 3, 1, 8), f32(4, 3, 5, 8), expected=lambda s, t: np.broadcast_to(s, t.shape) * float32(1))
@pl.jit
def cloned_to_a_shape(s: pl.Tensor, like: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.expand_clone(s, like)
    return out


@CASES(f32(8, 40), 21, expected=lambda x, n: x[:, :n] / x[:, :n].sum(1, keepdims=True), tol=1e-5)
@pl.jit
def expand_keeps_the_valid_region(x: pl.Tensor, n: pl.INDEX, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [8, 40], valid_shape=[8, n])
        tmp = pl.create_tile([8, 40], dtype=pl.FP32)
        pl.store(pl.row_expand_div(t, pl.row_sum(t, tmp)), [0, 0], out)
    return out


@CASES(i32(6, 20, low=-99, high=99), i32(6, 1, low=-9, high=9), i32(1, 20, low=-9, high=9), expected=lambda x, r, c: np.maximum(x * r + c, -r))
@pl.jit
def integer_vectors(x: pl.Tensor, r: pl.Tensor, c: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        y = pl.col_expand_add(pl.row_expand_mul(x, r), c)
        out[:] = pl.row_expand_max(y, pl.neg(r))
    return out


@CASES(f32(2, 5, 9), f32(2, 5, 1), f32(2, 1, 9), expected=lambda x, r, c: (x - r) * c)
@pl.jit
def batches_of_vectors(x: pl.Tensor, r: pl.Tensor, c: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.col_expand_mul(pl.row_expand_sub(x, r), c)
    return out


def _softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(0, keepdims=True))
    return e / e.sum(0, keepdims=True)


@CASES(f32(9, 25), expected=_softmax, tol=1e-6)
@pl.program
class ColumnSoftmax:
    @pl.function
    def main(self, x: pl.Tensor[[9, 25], pl.FP32], out: pl.Out[pl.Tensor[[9, 25], pl.FP32]]) -> pl.Tensor[[9, 25], pl.FP32]:
        with pl.at(level=pl.Level.CORE_GROUP, name_hint="softmax"):
            t = pl.load(x, [0, 0], [9, 25])
            e = pl.col_expand_expdif(t, pl.col_max(t))
            out = pl.store(pl.col_expand_div(e, pl.col_sum(e)), [0, 0], out)
        return out
