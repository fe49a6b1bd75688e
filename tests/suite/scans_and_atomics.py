"""Scans with functions of the user's own, elements that several blocks change, angles, blocks that return, stores across the edges of a tensor."""

from __future__ import annotations

from typing import Any

import numpy as np

import tilejit.language as pl
from tests.suite.harness import Array, Cases, data, f32, i32

CASES = Cases()

# scans ----------------------------------------------------------------------------------------------------------------


@pl.jit.inline
def then(a0: pl.Tensor, b0: pl.Tensor, a1: pl.Tensor, b1: pl.Tensor):
    """x → a0 x + b0, then x → a1 x + b1."""
    return a1 * a0, a1 * b0 + b1


def recurrence(a: Array, b: Array, axis: int) -> Array:
    """h = a h + b, one step after the other."""
    a, b = np.moveaxis(a, axis, 0), np.moveaxis(b, axis, 0)
    h = [b[0]]
    for i in range(1, len(a)):
        h.append(a[i] * h[-1] + b[i])
    return np.moveaxis(np.stack(h), 0, axis)


@CASES(f32(6, 45, low=0.5, high=1), f32(6, 45), expected=lambda a, b: recurrence(a, b, 1), tol=1e-5, more=[(f32(5, 1), f32(5, 1)), (f32(2, 2), f32(2, 2))])
@pl.jit
def linear_recurrence(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    _, h = pl.scan(then, a, b)
    out[:] = h


@CASES(f32(3, 20, 7, low=0.5, high=1), f32(3, 20, 7), expected=lambda a, b: recurrence(a, b, 1), tol=1e-5)
@pl.jit
def along_an_axis_inside(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = pl.scan(then, a, b, axis=1)[1]


@CASES(f32(32, 24, low=0.5, high=1), f32(32, 24), expected=lambda a, b: recurrence(a, b, 0).reshape(32, 24), tol=1e-5)
@pl.jit
def tiles_in_blocks(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    for j in pl.spmd(3):
        x, y = pl.load(a, [0, j * 8], [32, 8]), pl.load(b, [0, j * 8], [32, 8])
        pl.store(pl.scan(then, x, y, axis=0)[1], [0, j * 8], out)


@CASES(i32(4, 37), expected=lambda x: np.maximum.accumulate(x[:, ::-1], axis=1)[:, ::-1], more=[(f32(4, 37),)])
@pl.jit
def an_op_from_the_end(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = pl.scan(pl.maximum, x, axis=-1, reverse=True)


@pl.jit.inline
def better(v0: pl.Tensor, i0: pl.Tensor, v1: pl.Tensor, i1: pl.Tensor):
    return pl.maximum(v0, v1), pl.where(v1 > v0, i1, i0)


def _leaders(x: Array) -> tuple[Array, Array]:
    best = np.maximum.accumulate(x, axis=1)
    return best, np.array([[np.argmax(row[: j + 1]) for j in range(len(row))] for row in x], np.int32)


@CASES(f32(5, 23), expected=_leaders)
@pl.jit
def pairs_of_two_types(x: pl.Tensor, best: pl.Out[pl.Tensor], where: pl.Out[pl.Tensor]):
    values, places = pl.scan(better, x, pl.iota([5, 23], axis=1), axis=1)
    best[:] = values
    where[:] = places


# atomics --------------------------------------------------------------------------------------------------------------


@CASES(i32(16, 20, low=0, high=7), expected=lambda x: np.bincount(x.ravel(), minlength=7).astype(np.int32), threads=(1, 2))
@pl.jit
def counted_by_all_blocks(x: pl.Tensor, out: pl.Out[pl.Tensor[[7], pl.INT32]]):
    out[:] = 0
    for b in pl.spmd(16):
        for j in pl.range(20):
            pl.atomic_add(out, [x[b, j]], 1)


def _extremes(x: Array) -> Array:
    return np.array([x.max(), x.min(), np.bitwise_and.reduce(x, None), np.bitwise_or.reduce(x, None), np.bitwise_xor.reduce(x, None)], x.dtype)


@CASES(i32(6, 9), expected=_extremes, threads=(1, 2), more=[(data(np.uint32, 6, 9),), (data(np.int64, 6, 9),)])
@pl.jit
def folded_by_all_blocks(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for k in pl.range(5):
            out[k] = x[0, 0]
        out[4] = x[0, 0] ^ x[0, 0]
    for b in pl.spmd(6):
        for j in pl.range(9):
            pl.atomic_max(out, [0], x[b, j])
            pl.atomic_min(out, [1], x[b, j])
            pl.atomic_and(out, [2], x[b, j])
            pl.atomic_or(out, [3], x[b, j])
            pl.atomic_xor(out, [4], x[b, j])


@CASES(i32(6), expected=lambda x: (np.array([x[0], 7, x[2], x[3] + 1, x[4], x[5]], np.int32), np.array([x[1], x[2], x[3]], np.int32)))
@pl.jit
def exchanged_and_compared(x: pl.Tensor, out: pl.Out[pl.Tensor], old: pl.Out[pl.Tensor[[3], pl.INT32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x
        old[0] = pl.atomic_exchange(out, [1], 7)
        old[1] = pl.atomic_cas(out, [2], out[2] + 1, 9)
        old[2] = pl.atomic_cas(out, [3], x[3], x[3] + 1)


# angles, edges, returns -----------------------------------------------------------------------------------------------


@CASES(f32(6, 11), f32(6, 11), expected=lambda y, x: (np.arctan2(y, x), np.arctan(y)), tol=3e-7)
@pl.jit
def angles(y: pl.Tensor, x: pl.Tensor, out: pl.Out[pl.Tensor], alone: pl.Out[pl.Tensor]):
    out[:] = pl.atan2(y, x)
    alone[:] = pl.atan(y)


def _blurred(x: Array) -> Array:
    wide = np.zeros((x.shape[0] + 12, x.shape[1] + 12), np.float32)
    for i in range(0, x.shape[0], 4):
        for j in range(0, x.shape[1], 4):
            wide[6 + i - 2 : 6 + i + 6, 6 + j - 2 : 6 + j + 6] += x[i, j]
    return wide[6:-6, 6:-6]


@CASES(f32(11, 14), expected=_blurred, tol=1e-5)
@pl.jit
def stamps_across_the_edges(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x * 0.0
        for i in pl.range(0, 11, 4):
            for j in pl.range(0, 14, 4):
                stamp = pl.tile.full([8, 8], pl.FP32, x[i, j])
                pl.store(stamp, [i - 2, j - 2], out, clamp=True, atomic=pl.AtomicType.Add)


def _until_large(x: Array, first: Any) -> Array:
    out = x * 0
    for i, row in enumerate(x):
        for j, cell in enumerate(row):
            if cell > 0.5:
                break
            out[i, j] = cell
        else:
            out[i, 0] = 50
    out[0, 0] = first
    return out


@CASES(f32(6, 5), expected=lambda x: _until_large(x, 99))
@pl.jit
def each_block_returns(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = x * 0.0
    for i in pl.spmd(6):
        for j in pl.range(5):
            if x[i, j] > 0.5:
                return
            out[i, j] = x[i, j]
        out[i, 0] = 50.0
    with pl.at(level=pl.Level.CORE_GROUP):
        out[0, 0] = 99.0
