"""Loops with carried state, branches, break and continue at any depth, while in both forms, unrolled and pipelined loops."""

from __future__ import annotations

import numpy as np
from numpy import float32

import tilejit.language as pl
from tests.suite.harness import Array, Cases, f32, i32

CASES = Cases()


@CASES(f32(12, 9), expected=lambda x: x[::-1].cumsum(0), tol=1e-5)
@pl.jit
def descending_loop(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        acc = pl.tile.full([1, 9], dtype=pl.FP32, value=0.0)
        for i in pl.range(11, -1, -1):
            acc = acc + pl.load(x, [i, 0], [1, 9])
            out = pl.store(acc, [11 - i, 0], out)
    return out


def _nested(x: Array) -> Array:
    total = np.zeros(7, np.float32)
    for i in range(4):
        row = np.zeros(7, np.float32)
        for j in range(3):
            row = row * float32(0.5) + x[i * 3 + j]
        total = total * float32(0.25) + row
    return total.reshape(1, 7)


@CASES(f32(12, 7), expected=_nested, tol=1e-6)
@pl.jit
def nested_carried_tiles(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        total = pl.tile.full([1, 7], dtype=pl.FP32, value=0.0)
        for i in pl.range(4):
            row = pl.tile.full([1, 7], dtype=pl.FP32, value=0.0)
            for j in pl.range(3):
                row = row * 0.5 + pl.load(x, [i * 3 + j, 0], [1, 7])
            total = total * 0.25 + row
        pl.store(total, [0, 0], out)
    return out


@CASES(f32(12, 7), expected=_nested, tol=1e-6)
@pl.jit
def nested_yields(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        zero = pl.tile.full([1, 7], dtype=pl.FP32, value=0.0)
        for i, (total,) in pl.range(4, init_values=(zero,)):
            for j, (row,) in pl.range(3, init_values=(zero,)):
                row_out = pl.yield_(pl.add(pl.mul(row, 0.5), pl.load(x, [i * 3 + j, 0], [1, 7])))
            total_out = pl.yield_(pl.add(pl.mul(total, 0.25), row_out))
        pl.store(total_out, [0, 0], out)
    return out


@CASES(f32(1, 8), expected=lambda x: (x, x + float32(10)), tol=1e-6)
@pl.jit
def init_names_keep_their_values(x: pl.Tensor, before: pl.Out[pl.Tensor], after: pl.Out[pl.Tensor]):
    """After the loop the name of the initial value still holds it; the yielded name holds the result."""
    with pl.at(level=pl.Level.CORE_GROUP):
        start = pl.load(x, [0, 0], [1, 8])
        for i, (acc,) in pl.range(5, init_values=(start,)):
            done = pl.yield_(pl.add(acc, pl.cast(i, pl.FP32)))
        pl.store(start, [0, 0], before)
        pl.store(done, [0, 0], after)
    return before, after


@CASES(f32(4, 8), expected=lambda x: (x * float32(8), x + float32(6)), tol=1e-6)
@pl.jit
def two_values_without_yield(x: pl.Tensor, a: pl.Out[pl.Tensor], b: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [4, 8])
        for i, (p, q) in pl.range(4, init_values=(t, t)):
            if i > 0:
                p = p * 2.0
            q = q + pl.cast(i, pl.FP32)
        pl.store(p, [0, 0], a)
        pl.store(q, [0, 0], b)
    return a, b


def _breaks(x: Array, n: Array) -> Array:
    out = np.zeros((3, 6), np.float32)
    for i in range(3):
        acc = np.zeros(6, np.float32)
        for j in range(5):
            if j == n[i]:
                break
            if j == 1:
                continue
            acc = acc + x[j]
        if acc[0] > 100:
            break
        out[i] = acc
    return out


@CASES(f32(5, 6), np.array([0, 3, 9], np.int32), expected=_breaks, tol=1e-6, more=[(f32(5, 6), np.array([5, 1, 2], np.int32))])
@pl.jit
def break_and_continue(x: pl.Tensor, stops: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(3):
            stop = pl.cast(pl.read(stops, [i]), pl.INDEX)
            acc = pl.tile.full([1, 6], dtype=pl.FP32, value=0.0)
            for j in pl.range(5):
                if j == stop:
                    break
                if j == 1:
                    continue
                acc = acc + pl.load(x, [j, 0], [1, 6])
            if pl.read(acc, [0, 0]) > 100.0:
                break
            out = pl.store(acc, [i, 0], out)
    return out


@CASES(i32(20, low=0, high=10), expected=lambda a: np.array([np.flatnonzero(np.append(a, 3) == 3)[0]], np.int32), more=[(i32(20, low=4, high=9),)])
@pl.jit
def first_position(a: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        found = pl.const(20, pl.INT32)
        for i in pl.range(20):
            if pl.read(a, [i]) == 3:
                found = pl.cast(i, pl.INT32)
                break
        pl.write(out, [0], found)
    return out


@CASES(i32(1, low=1, high=99), expected=lambda a: np.array([_collatz(int(a[0]))], np.int32), more=[(np.array([27], np.int32),), (np.array([1], np.int32),)])
@pl.jit
def collatz(a: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        n = pl.cast(pl.read(a, [0]), pl.INT64)
        steps = pl.const(0, pl.INT32)
        while n != 1:
            if n % 2 == 0:
                n = n // 2
            else:
                n = n * 3 + 1
            steps = steps + 1
        pl.write(out, [0], steps)
    return out


def _collatz(n: int) -> int:
    steps = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


@CASES(f32(4, 10), i32(1, low=3, high=9), expected=lambda x, n: x * float32(0.5 ** int(n[0])))
@pl.jit
def while_with_initial_values(x: pl.Tensor, n: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        steps = pl.cast(pl.read(n, [0]), pl.INDEX)
        t0 = pl.load(x, [0, 0], [4, 10])
        for (t, i) in pl.while_(init_values=(t0, 0)):
            pl.cond(i < steps)
            t_next, _ = pl.yield_(pl.mul(t, 0.5), i + 1)
        pl.store(t_next, [0, 0], out)
    return out


@CASES(f32(4, 10), expected=lambda x: x + float32(0 + 1 + 2 + 5 + 6), tol=1e-6)
@pl.jit
def while_with_break_and_continue(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [4, 10])
        i = 0
        while i < 100:
            i = i + 1
            if i == 4 or i == 5:
                continue
            if i > 7:
                break
            t = t + pl.cast(i - 1, pl.FP32)
        pl.store(t, [0, 0], out)
    return out


@CASES(f32(5, 8), i32(1, low=0, high=1), expected=lambda x, k: [x, -x, x * float32(2), x * float32(0)][int(k[0])],
       more=[(f32(5, 8), np.array([n], np.int32)) for n in (1, 2, 3)])
@pl.jit
def four_ways(x: pl.Tensor, k: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        kind = pl.read(k, [0])
        t = pl.load(x, [0, 0], [5, 8])
        if kind == 0:
            r = pl.yield_(t)
        elif kind == 1:
            r = pl.yield_(pl.neg(t))
        elif kind == 2:
            r = pl.yield_(pl.add(t, t))
        else:
            r = pl.yield_(pl.tile.full([5, 8], dtype=pl.FP32, value=0.0))
        pl.store(r, [0, 0], out)
    return out


@CASES(f32(6, 7), expected=lambda x: np.where(np.arange(6)[:, None] % 2 == 0, np.exp(x), np.abs(x)), tol=1e-6)
@pl.jit
def branch_carries_a_tile(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(6):
            t = pl.load(x, [i, 0], [1, 7])
            if i % 2 == 0:
                t = pl.exp(t)
            else:
                t = pl.abs(t)
            out = pl.store(t, [i, 0], out)
    return out


@CASES(f32(8, 8), i32(8, low=-2, high=3), expected=lambda x, s: x[(s > 0) & (np.arange(8) > 1)].sum(0, keepdims=True), tol=1e-5)
@pl.jit
def conditional_accumulation(x: pl.Tensor, signs: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        acc = pl.tile.full([1, 8], dtype=pl.FP32, value=0.0)
        for i in pl.range(8):
            s = pl.read(signs, [i])
            if s > 0 and i > 1:
                acc = acc + pl.load(x, [i, 0], [1, 8])
        pl.store(acc, [0, 0], out)
    return out


@CASES(f32(6, 16), expected=lambda x: np.stack([x[i] * float32(i + 1) for i in range(6)]))
@pl.jit
def unrolled(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.unroll(0, 6, 2):
            for j in pl.unroll(2):
                t = pl.load(x, [i + j, 0], [1, 16])
                pl.store(t * (i + j + 1), [i + j, 0], out)
    return out


@CASES(f32(64, 10), f32(10, 6), expected=lambda a, b: a @ b, tol=1e-5)
@pl.jit
def pipelined(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        tb = pl.load(b, [0, 0], [10, 6])
        for i in pl.pipeline(0, 64, 16, stage=3):
            ta = pl.load(a, [i, 0], [16, 10])
            out = pl.store(pl.matmul(ta, tb), [i, 0], out)
    return out


@CASES(f32(40, 9), expected=lambda x: x.reshape(5, 8, 9).sum(0), tol=1e-5)
@pl.jit
def pipelined_with_carried_state(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        start = pl.load(x, [0, 0], [8, 9])
        for i, (acc,) in pl.pipeline(1, 5, init_values=(start,), stage=2):
            total = pl.yield_(pl.add(acc, pl.load(x, [i * 8, 0], [8, 9])))
        pl.store(total, [0, 0], out)
    return out


@CASES(f32(9, 6), expected=lambda x: x * float32(2) + 1, threads=(1, 2))
@pl.jit
def parallel_loop_of_regions(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    for i in pl.parallel(0, 9, 3):
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.load(x, [i, 0], [3, 6])
            out = pl.store(t * 2.0 + 1.0, [i, 0], out)
    return out


@CASES(f32(4, 6), 3, True, expected=lambda x, n, flip: (-x if flip else x) * float32(2**n), more=[(f32(4, 6), 0, False)])
@pl.jit
def loop_and_branch_at_compile_time(x: pl.Tensor, n: pl.INT32, flip: pl.BOOL, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [4, 6])
        for _ in pl.range(n):
            t = t + t
        if flip:
            t = -t
        pl.store(t, [0, 0], out)
    return out


@CASES(i32(6, low=-50, high=50), expected=lambda a: np.array([_scalars(*map(int, a[:2]))], np.int64).reshape(-1))
@pl.jit
def python_scalar_operators(a: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        x = pl.cast(pl.read(a, [0]), pl.INT64)
        y = pl.cast(pl.read(a, [1]), pl.INT64)
        pl.write(out, [0], x // 7 + y % 5)
        pl.write(out, [1], min(x, y) - max(x, y) + abs(x))
        pl.write(out, [2], (x & y) | (x ^ 3))
        pl.write(out, [3], (x << 2) + (y >> 1))
        pl.write(out, [4], ~x + -y)
        between = -10 < x < 10 or not y > 0
        if between:
            z = x * x
        else:
            z = y
        pl.write(out, [5], z)
    return out


def _scalars(x: int, y: int) -> list[int]:
    return [x // 7 + y % 5, min(x, y) - max(x, y) + abs(x), (x & y) | (x ^ 3), (x << 2) + (y >> 1), ~x + -y, x * x if -10 < x < 10 or not y > 0 else y]


@CASES(f32(4, 5), expected=lambda x: (x * float32(3), np.array([6], np.int32)))
@pl.jit
def loop_variable_after_the_loop_is_carried(x: pl.Tensor, out: pl.Out[pl.Tensor], count: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [4, 5])
        u = t
        n = pl.const(0, pl.INT32)
        for i in pl.range(4):
            if i < 2:
                u = u + t
            n = n + pl.cast(i, pl.INT32)
        pl.store(u, [0, 0], out)
        pl.write(count, [0], n)
    return out, count


def _fibonacci(x: Array) -> Array:
    a, b = x, x * float32(2)
    for _ in range(6):
        a, b = b, a + b
    return a


@CASES(f32(3, 4), expected=_fibonacci, tol=1e-6)
@pl.jit
def tuple_assignment_in_a_loop(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        a = pl.load(x, [0, 0], [3, 4])
        b = pl.mul(a, 2.0)
        for _ in pl.range(6):
            a, b = b, pl.add(a, b)
        pl.store(a, [0, 0], out)
    return out


@CASES(f32(4, 6), f32(4, 6), i32(1, low=1, high=2), expected=lambda a, b, c: a if c[0] == 1 else b, more=[(f32(4, 6), f32(4, 6), np.array([0], np.int32))])
@pl.jit
def buffer_chosen_on_the_control_plane(a: pl.Tensor, b: pl.Tensor, c: pl.Tensor, out: pl.Out[pl.Tensor]):
    """A name may hold one of two buffers outside regions."""
    flag = pl.read(c, [0])
    source = b
    if flag == 1:
        source = a
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = source
    return out


@CASES(f32(8, 4), expected=lambda x: x.cumsum(0), tol=1e-5)
@pl.program
class PrefixSum:
    @pl.function(type=pl.FunctionType.InCore)
    def step(
        self, x: pl.Tensor[[8, 4], pl.FP32], row: pl.Scalar[pl.INDEX], out: pl.InOut[pl.Tensor[[8, 4], pl.FP32]]
    ) -> pl.Tensor[[8, 4], pl.FP32]:
        t = pl.load(x, [row, 0], [1, 4])
        if row > 0:
            previous = pl.load(out, [row - 1, 0], [1, 4])
            t = pl.add(t, previous)
        out = pl.store(t, [row, 0], out)
        return out

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, x: pl.Tensor[[8, 4], pl.FP32], out: pl.Out[pl.Tensor[[8, 4], pl.FP32]]) -> pl.Tensor[[8, 4], pl.FP32]:
        for i in pl.range(8):
            out = self.step(x, i, out)
        return out
