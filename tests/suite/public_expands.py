"""Forms of public programs about expands: vectors that are valid in part, vectors without the leading dims."""

from __future__ import annotations

import numpy as np

import tilejit.language as pl
from tests.suite.harness import Array, Cases, f32, i32

CASES = Cases()


def part(like: Array, box: Array) -> Array:
    """`box` in the corner of zeros of the shape of `like`."""
    out = np.zeros(like.shape, box.dtype)
    out[tuple(slice(0, n) for n in box.shape)] = box
    return out


# valid where both are -------------------------------------------------------------------------------------------------


@CASES(f32(8, 8), f32(8, 1), expected=lambda x, v: part(x, x[:4] * v[:4]))
@pl.jit
def a_vector_valid_in_part(x: pl.Tensor, v: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        a = pl.slice(x, [8, 8], [0, 0], valid_shape=[6, 8])
        b = pl.slice(v, [8, 1], [0, 0], valid_shape=[4, 1])
        out[:] = pl.fillpad(pl.row_expand_mul(a, b))
    return out


@CASES(
    f32(6, 20), f32(1, 20), 4, 13, expected=lambda x, v, r, n: part(x, (x - v)[:r, :n]),
    more=[(f32(6, 20), f32(1, 20), 6, 20), (f32(6, 20), f32(1, 20), 2, 0)], compiles=1,
)
@pl.jit(runtime_scalars=("r", "n"))
def a_column_vector_of_the_run(x: pl.Tensor, v: pl.Tensor, r: pl.INDEX, n: pl.INDEX, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [6, 20], valid_shape=[r, 20])
        c = pl.load(v, [0, 0], [1, 20], valid_shape=[1, n])
        pl.store(pl.fillpad(pl.col_expand_sub(t, c)), [0, 0], out)
    return out


@CASES(
    f32(6, 20), f32(6, 1), 4, expected=lambda x, v, n: (x[:n] / v[:n] + x[:n]).sum(1, keepdims=True), tol=1e-5,
    more=[(f32(6, 20, low=1, high=2), f32(6, 1, low=1, high=2), 3)],
)
@pl.jit
def what_follows_sees_the_common_region(x: pl.Tensor, v: pl.Tensor, n: pl.INDEX, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [6, 20])
        vector = pl.load(v, [0, 0], [6, 1], valid_shape=[n, 1])
        q = pl.add(pl.row_expand_div(t, vector), t)
        pl.store(pl.row_sum(q, pl.create_tile([6, 20], pl.FP32)), [0, 0], out)
    return out


@CASES(f32(6, 20), f32(1, 20), i32(1, low=0, high=2), expected=lambda x, v, n: part(x, np.broadcast_to(v, x.shape)[: 6 * n[0], :9]))
@pl.jit
def spread_over_a_target(x: pl.Tensor, v: pl.Tensor, n: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        target = pl.slice(x, [6, 20], [0, 0], valid_shape=[6, 9])
        vector = pl.slice(v, [1, 20], [0, 0], valid_shape=[n[0], 20])
        out[:] = pl.fillpad(pl.col_expand(target, vector))
    return out


@CASES(f32(6, 20), 3, expected=lambda x, n: part(x, np.exp(x[:n] - x[:n].max(1, keepdims=True))), tol=1e-6)
@pl.jit(runtime_scalars=("n",))
def a_softmax_of_some_rows(x: pl.Tensor, n: pl.INDEX, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [6, 20])
        top = pl.row_max(pl.tile.set_validshape(t, n, 20), pl.create_tile([6, 20], pl.FP32))
        pl.store(pl.fillpad(pl.row_expand_expdif(t, top)), [0, 0], out)
    return out


# the last two dims decide ---------------------------------------------------------------------------------------------


@CASES(f32(2, 3, 5, 7), f32(5, 1), f32(1, 7), expected=lambda x, r, c: (x * r, x + c))
@pl.jit
def vectors_without_leading_dims(x: pl.Tensor, r: pl.Tensor, c: pl.Tensor, a: pl.Out[pl.Tensor], b: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        a[:] = pl.row_expand_mul(x, r)
        b[:] = pl.col_expand_add(x, c)
    return a, b


@CASES(f32(2, 3, 5, 7), f32(1, 3, 5, 1), f32(3, 1, 7), expected=lambda x, r, c: np.maximum(x - r, c))
@pl.jit
def vectors_with_some_leading_dims(x: pl.Tensor, r: pl.Tensor, c: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.col_expand_max(pl.row_expand_sub(x, r), c)
    return out


@CASES(f32(3, 5, 8), f32(5, 1), expected=lambda x, r: (x + r) * r)
@pl.jit
def a_stack_of_tiles(x: pl.Tensor, r: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0, 0], [3, 5, 8])
        v = pl.load(r, [0, 0], [5, 1])
        pl.store(pl.row_expand_mul(pl.row_expand_add(t, v), v), [0, 0, 0], out)
    return out


@CASES(f32(2, 3, 6, 7), f32(6, 1), 4, expected=lambda x, r, n: part(x, (x / r)[:, :, :n]), more=[(f32(2, 3, 6, 7), f32(6, 1), 6)], tol=1e-6)
@pl.jit(runtime_scalars=("n",))
def a_short_vector_without_leading_dims(x: pl.Tensor, r: pl.Tensor, n: pl.INDEX, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        v = pl.slice(r, [6, 1], [0, 0], valid_shape=[n, 1])
        out[:] = pl.fillpad(pl.row_expand_div(x, v))
    return out
