"""Forms of public programs about loops: names that only a body binds and that are read after the loop, indices that outlive it."""

from __future__ import annotations

import numpy as np
from numpy import float32

import tilejit.language as pl
from tests.suite.harness import Cases, f32, i32

CASES = Cases()


@CASES(f32(32, 8), np.array([3], np.int32), expected=lambda x, n: x[8:12])
@pl.jit
def the_last_tile_of_a_loop(x: pl.Tensor, n: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(n[0]):
            t = pl.load(x, [i * 4, 0], [4, 8])
        pl.store(t, [0, 0], out)
    return out


@CASES(f32(32, 8), expected=lambda x: (x[12:16] * float32(2), np.array([[3, 14]], np.int32)))
@pl.jit
def constant_trips(x: pl.Tensor, out: pl.Out[pl.Tensor], found: pl.Out[pl.Tensor[[1, 2], pl.INT32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(4):
            t = pl.load(x, [i * 4, 0], [4, 8])
            u = pl.add(t, t)
            k = i * 4 + 2
        pl.store(u, [0, 0], out)
        pl.write(found, [0, 0], pl.cast(i, pl.INT32))
        pl.write(found, [0, 1], pl.cast(k, pl.INT32))
    return out, found


@CASES(
    f32(32, 8), 3, expected=lambda x, n: x[4 * (n - 1) : 4 * n] - float32(1),
    more=[(f32(32, 8), 1), (f32(32, 8), 8)], compiles=1,
)
@pl.jit(runtime_scalars=("n",))
def the_last_round_of_a_while(x: pl.Tensor, n: pl.INDEX, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        i = 0
        while i < n:
            t = pl.load(x, [i * 4, 0], [4, 8])
            less = pl.sub(t, 1.0)
            i = i + 1
        pl.store(less, [0, 0], out)
    return out


@CASES(i32(9, low=1, high=5), expected=lambda n: np.array([np.flatnonzero(n > 2)[0], n[n > 2][0]], np.int32))
@pl.jit
def what_a_break_leaves(n: pl.Tensor, out: pl.Out[pl.Tensor[[2], pl.INT32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(9):
            value = n[i]
            if value > 2:
                break
        out[0] = pl.cast(i, pl.INT32)
        out[1] = value
    return out


@CASES(i32(9, low=1, high=5), f32(9, 8), expected=lambda n, x: x[np.flatnonzero(n > 2)[-1]][None])
@pl.jit
def bound_in_some_rounds(n: pl.Tensor, x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(9):
            if n[i] > 2:
                row = pl.load(x, [i, 0], [1, 8])
        pl.store(row, [0, 0], out)
    return out


@CASES(f32(6, 8), np.array([2, 3], np.int32), expected=lambda x, n: x[5:6] + x[2:3])
@pl.jit
def loops_in_loops(x: pl.Tensor, n: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(n[0]):
            for j in pl.range(n[1]):
                row = pl.load(x, [i * 3 + j, 0], [1, 8])
        first = pl.load(x, [j, 0], [1, 8])
        pl.store(pl.add(row, first), [0, 0], out)
    return out


@CASES(f32(8, 8), np.array([0], np.int32), expected=lambda x, n: x * float32(3))
@pl.jit
def not_read_when_there_was_no_round(x: pl.Tensor, n: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        factor = 3.0
        for i in pl.range(n[0]):
            late = pl.cast(i, pl.FP32)
        if n[0] > 0:
            factor = factor + late
        out[:] = pl.mul(x, factor)
    return out


@CASES(f32(12, 8), 2, expected=lambda x, n: (x[4 * (n - 1) : 4 * n] + float32(1)) * float32(2), more=[(f32(12, 8), 3)])
@pl.jit(runtime_scalars=("n",))
def tensors_between_regions(x: pl.Tensor, n: pl.INDEX, out: pl.Out[pl.Tensor]):
    for i in pl.range(n):
        with pl.at(level=pl.Level.CORE_GROUP):
            more = x[i * 4 : i * 4 + 4, :] + 1.0
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = more * 2.0
    return out


@CASES(f32(12, 8), 2, expected=lambda x, n: x[4 * (n - 1) : 4 * n, 2:6], more=[(f32(12, 8), 3)])
@pl.jit(runtime_scalars=("n",))
def a_window_outlives_its_loop(x: pl.Tensor, n: pl.INDEX, out: pl.Out[pl.Tensor]):
    for i in pl.range(n):
        part = x[i * 4 : i * 4 + 4, 2:6]
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = part
    return out


@CASES(f32(12, 8), np.array([2], np.int32), expected=lambda x, n: -x)
@pl.jit
def a_written_tensor_outlives_its_loop(x: pl.Tensor, n: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(n[0] + 1):
            same = pl.store(pl.load(x, [i * 4, 0], [4, 8]), [i * 4, 0], out)
        t = pl.load(same, [0, 0], [12, 8])
        pl.store(pl.neg(t), [0, 0], same)
    return out


@CASES(f32(12, 8), 5, 3, expected=lambda x, r, n: np.where(np.arange(8)[None] < n, x[:, :8], 0).astype(float32), more=[(f32(12, 8), 2, 4)])
@pl.jit(runtime_scalars=("r",))
def a_partly_valid_tile(x: pl.Tensor, r: pl.INDEX, n: pl.INDEX, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for _ in pl.range(r):
            t = pl.load(x, [0, 0], [12, 8], valid_shape=[12, n])
            pair = (t, pl.fillpad(t))
        pl.store(pair[1], [0, 0], out)
    return out


@CASES(f32(4, 8), np.array([0], np.int32), expected=lambda x, n: (x, np.array([7], np.int32)))
@pl.jit
def an_index_that_had_a_value(x: pl.InOut[pl.Tensor], n: pl.Tensor, out: pl.Out[pl.Tensor[[1], pl.INT32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        i = 7
        for i in pl.range(n[0]):
            x[i, 0] = 1.0
        out[0] = pl.cast(i, pl.INT32)
    return out


# yields with annotated names ------------------------------------------------------------------------------------------


@CASES(f32(4, 6), np.array([1], np.int32), expected=lambda x, c: x + float32(4))
@pl.jit
def an_annotated_yield_in_branches(x: pl.Tensor, c: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        if c[0] > 0:
            n: pl.Scalar[pl.INDEX] = pl.yield_(4)  # pyright: ignore[reportRedeclaration]
        else:
            n: pl.Scalar[pl.INDEX] = pl.yield_(2)
        out[:] = x + pl.cast(n, pl.FP32)
    return out


@CASES(f32(4, 6), np.array([5], np.int32), expected=lambda x, c: x * float32(2 * c[0] + 3))
@pl.jit
def an_annotated_yield_in_one_of_three_arms(x: pl.Tensor, c: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [4, 6])
        if c[0] > 7:
            factor: pl.Scalar[pl.FP32] = pl.yield_(1.0)  # pyright: ignore[reportRedeclaration]
        elif c[0] > 4:
            factor = pl.yield_(pl.cast(c[0], pl.FP32) * 2.0 + 3.0)
        else:
            factor: pl.FP32 = pl.yield_(0.5)
        pl.store(pl.mul(t, factor), [0, 0], out)
    return out


@CASES(f32(4, 6), np.array([3], np.int32), expected=lambda x, n: x * float32(8))
@pl.jit
def an_annotated_yield_in_a_loop(x: pl.Tensor, n: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        start = pl.load(x, [0, 0], [4, 6])
        for _, (t,) in pl.range(n[0], init_values=(start,)):
            doubled: pl.Tile[[4, 6], pl.FP32] = pl.yield_(pl.add(t, t))
        pl.store(doubled, [0, 0], out)
    return out


@CASES(i32(6, low=1, high=9), expected=lambda n: np.array([n.sum(), 6], np.int32))
@pl.jit
def an_annotated_yield_in_a_while(n: pl.Tensor, out: pl.Out[pl.Tensor[[2], pl.INT32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for _, (total,) in pl.range(6, init_values=(pl.const(0, pl.INT32),)):
            more: pl.Scalar[pl.INT32] = pl.yield_(total + n[_])
        out[0] = more
        for (i,) in pl.while_(init_values=(0,)):
            pl.cond(i < 6)
            i: pl.Scalar[pl.INDEX] = pl.yield_(i + 1)
        out[1] = pl.cast(i, pl.INT32)
    return out


@CASES(f32(4, 6), np.array([3, 2], np.int32), expected=lambda x, n: x * float32(4))
@pl.jit
def annotated_yields_behind_a_break(x: pl.Tensor, n: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        start = pl.load(x, [0, 0], [4, 6])
        for i, (t,) in pl.range(n[0], init_values=(start,)):
            if i == n[1]:
                break
            doubled: pl.Tile[[4, 6], pl.FP32] = pl.yield_(pl.add(t, t))
        for i, (k,) in pl.range(5, init_values=(0,)):
            if i > 2:
                continue
            rounds: pl.Scalar[pl.INDEX] = pl.yield_(k + 1)
        pl.store(pl.mul(doubled, pl.cast(rounds - 2, pl.FP32)), [0, 0], out)
    return out


@pl.program
class AnnotatedInStrictForm:
    @pl.function(type=pl.FunctionType.InCore, strict_ssa=True)
    def main(self, x: pl.Tensor[[4, 6], pl.FP32], c: pl.Tensor[[1], pl.INT32], out: pl.Out[pl.Tensor[[4, 6], pl.FP32]]) -> pl.Tensor[[4, 6], pl.FP32]:
        t = pl.load(x, [0, 0], [4, 6])
        if c[0] > 0:
            n: pl.Scalar[pl.INT32] = pl.yield_(3)  # pyright: ignore[reportRedeclaration]
            u: pl.Tile[[4, 6], pl.FP32] = pl.yield_(pl.neg(t))  # pyright: ignore[reportRedeclaration]
        else:
            n: pl.Scalar[pl.INT32] = pl.yield_(c[0])
            u: pl.Tile[[4, 6], pl.FP32] = pl.yield_(t)
        return pl.store(pl.mul(u, pl.cast(n, pl.FP32)), [0, 0], out)


CASES(f32(4, 6), np.array([1], np.int32), expected=lambda x, c: x * float32(-3))(AnnotatedInStrictForm)
