"""Python as users write it in kernels: compile-time objects, closures, conditional expressions, chained and nested assignments, scalars of every kind."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import ml_dtypes
import numpy as np
from numpy import float32

import tilejit.language as pl
from tests.suite.harness import Cases, data, f32, i32

CASES = Cases()
SIZES = (3, 5, 8)
WEIGHTS = {"a": 2.0, "b": -1.5}


@dataclass(frozen=True)
class Config:
    rows: int = 6
    scale: float = 0.25

    def width(self, times: int = 2) -> int:
        return self.rows * times


CONFIG = Config()
CONFIGS = [Config(1, 2.0), Config(2, 0.5)]


class Mode(IntEnum):
    FAST = 1
    SLOW = 2


def weighted(k: int, factor: float = 0.5) -> float:
    return k * factor


@CASES(f32(6, 12), expected=lambda x: x * float32(0.25) * float32(2) + float32(-1.5))
@pl.jit
def objects_of_the_module(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [CONFIG.rows, CONFIG.width()])
        t = t * CONFIG.scale * WEIGHTS["a"]
        if Mode.FAST == 1:
            t = t + WEIGHTS["b"]
        pl.store(t, [0, 0], out)
    return out


@CASES(f32(4, 6), expected=lambda x: x * float32(1 / math.sqrt(12)) * float32(0.5) + float32(5 + 2 + 12 * 1.5), tol=1e-6)
@pl.jit
def objects_through_locals(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    """What a local names is known while compiling, also when it indexes something outside."""
    rows, columns = x.shape[0], x.shape[1]
    twice = columns * 2
    which = rows - 3
    config = CONFIGS[which]
    with pl.at(level=pl.Level.CORE_GROUP):
        t = x * (1.0 / math.sqrt(twice)) * config.scale
        out[:] = t + (SIZES[which] + config.rows + weighted(twice, factor=1.5))
    return out


@CASES(f32(16, 4), expected=lambda x: np.concatenate([x[0:3] * 1, x[3:8] * 2, x[8:16] * 3]))
@pl.jit
def table_in_an_unrolled_loop(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for k in pl.unroll(3):
            start = sum(SIZES[:k])
            t = pl.load(x, [start, 0], [SIZES[k], 4])
            pl.store(t * (k + 1), [start, 0], out)
    return out


@CASES(f32(4, 6), expected=lambda x: x + float32(math.sqrt(1) + math.sqrt(2) + math.sqrt(3)), tol=1e-6)
@pl.jit
def functions_in_an_unrolled_loop(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = x
        for k in pl.unroll(3):
            following = k + 1
            t = t + math.sqrt(following)
        out[:] = t
    return out


@CASES(f32(5, 9), expected=lambda x: x[:, :4] * float32(1))
@pl.jit
def dtype_and_shape_of_a_parameter(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    m, n = x.shape
    half = n // 2
    with pl.at(level=pl.Level.CORE_GROUP):
        one = pl.tile.full([m, half], dtype=x.dtype, value=1.0)
        pl.store(pl.mul(pl.load(x, [0, 0], [m, half]), one), [0, 0], out)
    return out


@CASES(
    i32(4, low=-5, high=5), f32(3, 4), expected=lambda k, x: x * float32(max(int(k[0]), 0)) if k[1] > 0 else x - float32(int(k[2])),
    more=[(np.array([2, 1, 0, 0], np.int32), f32(3, 4)), (np.array([2, -1, 7, 0], np.int32), f32(3, 4))],
)
@pl.jit
def conditional_expressions(k: pl.Tensor, x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        a = pl.read(k, [0])
        s = pl.cast(a if a > 0 else 0, pl.FP32)
        t = pl.load(x, [0, 0], [3, 4])
        u = t * s if k[1] > 0 else t - pl.cast(k[2], pl.FP32)
        pl.store(u, [0, 0], out)
    return out


@CASES(f32(4, 6), expected=lambda x: (x + float32(1), (x + float32(1)) * float32(3)))
@pl.jit
def chained_and_nested_assignment(x: pl.Tensor, o1: pl.Out[pl.Tensor], o2: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        a = b = pl.load(x, [0, 0], [4, 6]) + 1.0
        c, (d, e) = a, (b, 3)
        pl.store(c, [0, 0], o1)
        pl.store(d * e, [0, 0], o2)
    return o1, o2


@CASES(f32(6, 5), expected=lambda x: np.where((np.arange(6) % 2 == 1)[:, None], x * float32(2), x))
@pl.jit
def rows_of_a_tile(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    """A tile that lost a dimension has one row."""
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [6, 5])
        for i in pl.unroll(6):
            row = t[i : i + 1]
            if i % 2 == 1:
                row = row * 2.0
            pl.store(row, [i, 0], out)
    return out


@CASES(f32(6, 5), f32(2, 5), expected=lambda x, s: (x, np.vstack([s, x[2:]])))
@pl.jit
def a_write_changes_one_name(x: pl.Tensor, s: pl.Tensor, a: pl.Out[pl.Tensor], b: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [6, 5])
        u = t
        u[0:2, :] = pl.load(s, [0, 0], [2, 5])
        pl.store(t, [0, 0], a)
        pl.store(u, [0, 0], b)
    return a, b


@CASES(f32(6, 5), expected=lambda x: np.vstack([x[:2] * float32(6), x[2:] * float32(2)]))
@pl.jit
def output_read_back(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x * 2.0
    with pl.at(level=pl.Level.CORE_GROUP):
        top = out[0:2]
        out[0:2] = top * 3.0
    return out


@CASES(f32(6, 5), expected=lambda x: (x + float32(1)) + float32(2))
@pl.jit
def two_names_of_one_buffer(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        same = pl.store(pl.load(x, [0, 0], [6, 5]), [0, 0], out)
        same[:] = same + 1.0
        out[:] = out + 2.0
    return out


@CASES(f32(9, 4), 2, expected=lambda x, s: np.where((np.arange(9) % s == 0)[:, None], -x, x), more=[(f32(9, 4), 3), (f32(9, 4), 20)], compiles=1)
@pl.jit(runtime_scalars=("s",))
def run_time_step(x: pl.Tensor, s: pl.INT32, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x
        for i in pl.range(0, 9, s):
            pl.store(-pl.load(x, [i, 0], [1, 4]), [i, 0], out)
    return out


@CASES(f32(4, 4), 0, expected=lambda x, n: x, more=[(f32(4, 4), -3)])
@pl.jit(runtime_scalars=("n",))
def loop_that_never_runs(x: pl.Tensor, n: pl.INT64, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [4, 4])
        for _ in pl.range(n):
            t = t * 100.0
        pl.store(t, [0, 0], out)
    return out


@pl.jit.inline
def both_ends(x: pl.Tensor, n: pl.INDEX):
    return x[0:n], x[x.shape[0] - n :]


@CASES(f32(10, 4), expected=lambda x: x[:3] - x[7:])
@pl.jit
def helper_with_two_results(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        a, b = both_ends(x, 3)
        out[:] = a - b
    return out


@pl.inline
def clipped(t: Any):
    return pl.minimum(pl.maximum(t, 0.0), 1.0)


@CASES(f32(4, 7), expected=lambda x: np.clip(x, 0, 1))
@pl.program
class WithInline:
    @pl.function
    def main(self, x: pl.Tensor[[4, 7], pl.FP32], out: pl.Out[pl.Tensor[[4, 7], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out = pl.store(clipped(pl.load(x, [0, 0], [4, 7])), [0, 0], out)
        return out


@CASES(data(np.uint64, 4, 5), data(np.uint64, 4, 5), expected=lambda a, b: (a * b, np.maximum(a, b), a ^ b))
@pl.jit
def unsigned_sixty_four_bits(a: pl.Tensor, b: pl.Tensor, m: pl.Out[pl.Tensor], h: pl.Out[pl.Tensor], x: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        m[:] = a * b
        h[:] = pl.maximum(a, b)
        x[:] = pl.xor(a, b)
    return m, h, x


@CASES(
    data(ml_dtypes.int4, 4, 6, low=-8, high=8), data(ml_dtypes.int4, 4, 3, low=-8, high=8),
    expected=lambda a, b: (np.hstack([a, b]), a.T.copy(), a.astype(np.int32) + 1),
)
@pl.jit
def four_bit_integers_move(a: pl.Tensor, b: pl.Tensor, c: pl.Out[pl.Tensor], t: pl.Out[pl.Tensor], w: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        c[:] = pl.concat(a, b)
        t[:] = pl.transpose(a, 0, 1)
        w[:] = pl.cast(a, pl.INT32) + 1
    return c, t, w


@CASES(f32(23), expected=lambda x: (x.sum(keepdims=True), x.max(keepdims=True)), tol=1e-5)
@pl.jit
def reductions_of_rank_one(x: pl.Tensor, s: pl.Out[pl.Tensor], m: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        s[:] = pl.row_sum(x)
        t = pl.load(x, [0], [23])
        tmp = pl.create_tile([23], dtype=pl.FP32)
        pl.store(pl.row_max(t, tmp), [0], m)
    return s, m


@CASES(data(np.bool_, 4, 9), data(np.bool_, 4, 9), expected=lambda a, b: (np.where(a, float32(1), float32(2)), a == b))
@pl.jit
def tensors_of_flags(a: pl.Tensor, b: pl.Tensor, w: pl.Out[pl.Tensor], e: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        w[:] = pl.where(a, 1.0, 2.0)
        e[:] = a == b
    return w, e


@CASES(f32(4, 6), 2.5, True, -3, expected=lambda x, s, f, k: x * float32(s) * float32(k) if f else x, more=[(f32(4, 6), 2.5, False, 1)], compiles=1)
@pl.jit(runtime_scalars=("s", "flag", "k"))
def run_time_scalars_of_three_kinds(x: pl.Tensor, s: pl.FP32, flag: pl.BOOL, k: pl.INT8, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [4, 6])
        if flag:
            t = t * s * pl.cast(k, pl.FP32)
        pl.store(t, [0, 0], out)
    return out


@CASES(data(np.int8, 6), expected=lambda x: np.array([x[0] * x[1] + x[2]], np.int8))
@pl.jit
def narrow_scalars_wrap(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.write(out, [0], pl.read(x, [0]) * pl.read(x, [1]) + x[2])
    return out


@CASES(f32(4, 8), expected=lambda x: x + float32(1))
@pl.jit
def statements_that_say_nothing(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    """A docstring."""
    # a comment
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [4, 8])  # another one
        pl.static_assert(x.shape[1] == 8, f"8 columns, not {x.shape[1]}")
        pl.device_assert(pl.read(x, [0, 0]) < 1e9, "too large")
        pl.store(t + 1.0, [0, 0], out)
    return out


@CASES(f32(6, 8), expected=lambda x: x[:, ::-1])
@pl.jit
def reversed_columns(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for j in pl.range(x.shape[1] - 1, -1, -1):
            out[:, 7 - j : 8 - j] = x[:, j : j + 1]
    return out


@CASES(f32(8, 8), expected=lambda x: np.where(x > 0, np.sqrt(np.abs(x)), x * x), tol=1e-6)
@pl.jit
def element_by_element(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(8):
            for j in pl.range(8):
                v = x[i, j]
                if v > 0.0:
                    r = pl.sqrt(v)
                else:
                    r = v * v
                out[i, j] = r
    return out


@CASES(f32(5, 6), expected=lambda x: (np.floor(x / float32(0.5)), x - np.floor(x / float32(0.5)) * float32(0.5), x**2 + float32(8)), tol=1e-6)
@pl.jit
def floor_remainder_and_power(x: pl.Tensor, a: pl.Out[pl.Tensor], b: pl.Out[pl.Tensor], c: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        a[:] = x // 0.5
        b[:] = x % 0.5
        c[:] = x**2 + 2**3
    return a, b, c
