"""Elementwise kernels on tensors and tiles: ranks 1 to 5, broadcasts, scalars on either side, every spelling."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from numpy import exp, float32, maximum, minimum, sqrt

import tilejit.language as pl
from tests.suite.harness import Cases, data, f16, f32, i32

CASES = Cases()
CG = pl.Level.CORE_GROUP


@CASES(f32(5, 7), f32(1, 7), expected=lambda a, b: a + b)
@pl.jit
def add_row(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = a + b
    return out


@CASES(f32(37), f32(37), expected=lambda a, b: (a - b) * (a + b))
@pl.jit
def rank_one(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.mul(pl.sub(a, b), pl.add(a, b))
    return out


@CASES(f32(3, 1, 5, 1), f32(1, 4, 1, 7), expected=lambda a, b: a * b)
@pl.jit
def outer_of_rank_four(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.tensor.mul(a, b)
    return out


@CASES(f32(2, 3, 1, 5, 7), f32(3, 4, 1, 7), f32(7), expected=lambda a, b, c: (a + b) + c)
@pl.jit
def broadcast_to_rank_five(a: pl.Tensor, b: pl.Tensor, c: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = (a + b) + c
    return out


@CASES(f32(2, 3, 5, 7), f32(2, 3, 5, 7), expected=lambda a, b: maximum(a, b) - minimum(a, b))
@pl.jit
def tile_of_rank_four(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        ta = pl.tile.load(a, [0, 0, 0, 0], [2, 3, 5, 7])
        tb = pl.tile.load(b, [0, 0, 0, 0], [2, 3, 5, 7])
        spread = pl.tile.sub(pl.tile.maximum(ta, tb), pl.tile.minimum(ta, tb))
        pl.tile.store(spread, [0, 0, 0, 0], out)
    return out


@CASES(f32(3, 2, 2, 3, 9), expected=lambda a: a[:, 1] * float32(3) - float32(1))
@pl.jit
def slice_of_rank_five(a: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(3):
            t = pl.load(a, [i, 1, 0, 0, 0], [1, 1, 2, 3, 9])
            t = pl.reshape(t, [1, 2, 3, 9])
            out = pl.store(pl.tile.subs(pl.tile.muls(t, 3.0), 1.0), [i, 0, 0, 0], out)
    return out


@CASES(f32(11, 13, low=0.1, high=9), expected=lambda x: float32(2) / x + (float32(1) - x) * (float32(3) + x), tol=1e-6)
@pl.jit
def scalars_on_the_left(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [11, 13])
        pl.store(2.0 / t + (1.0 - t) * (3.0 + t), [0, 0], out)
    return out


@CASES(f32(6, 10), f32(6, 10), f32(6, 10), expected=lambda a, b, c: (a + b + c, a + float32(0.5) + b, a - b - c, a - float32(0.25) - c), tol=1e-6)
@pl.jit
def three_operands(
    a: pl.Tensor, b: pl.Tensor, c: pl.Tensor, o1: pl.Out[pl.Tensor], o2: pl.Out[pl.Tensor], o3: pl.Out[pl.Tensor], o4: pl.Out[pl.Tensor]
):
    with pl.at(level=pl.Level.CORE_GROUP):
        ta = pl.load(a, [0, 0], [6, 10])
        tb = pl.load(b, [0, 0], [6, 10])
        tc = pl.load(c, [0, 0], [6, 10])
        pl.store(pl.addc(ta, tb, tc), [0, 0], o1)
        pl.store(pl.addsc(ta, 0.5, tb), [0, 0], o2)
        pl.store(pl.tile.subc(ta, tb, tc), [0, 0], o3)
        pl.store(pl.tile.subsc(ta, 0.25, tc), [0, 0], o4)
    return o1, o2, o3, o4


@CASES(f32(9, 12), f32(9, 12), expected=lambda x, s: (maximum(x, 0), np.where(x > 0, x, float32(0.1) * x), np.where(x > 0, x, s * x)))
@pl.jit
def relu_family(x: pl.Tensor, slope: pl.Tensor, a: pl.Out[pl.Tensor], b: pl.Out[pl.Tensor], c: pl.Out[pl.Tensor]):
    with pl.at(level=CG):
        t = pl.load(x, [0, 0], [9, 12])
        s = pl.load(slope, [0, 0], [9, 12])
        tmp = pl.create_tile([9, 12], dtype=pl.UINT8)
        a = pl.store(pl.relu(t), [0, 0], a)
        b = pl.store(pl.lrelu(t, 0.1), [0, 0], b)
        c = pl.store(pl.prelu(t, s, tmp), [0, 0], c)
    return a, b, c


@CASES(
    i32(7, 9), i32(7, 9), i32(7, 9, low=0, high=32),
    expected=lambda a, b, s: (a & b, a | b, a ^ b, np.left_shift(a, s), np.right_shift(a, s), a ^ np.int32(0x55)),
)
@pl.jit
def bits_of_tensors(
    a: pl.Tensor, b: pl.Tensor, s: pl.Tensor,
    o1: pl.Out[pl.Tensor], o2: pl.Out[pl.Tensor], o3: pl.Out[pl.Tensor], o4: pl.Out[pl.Tensor], o5: pl.Out[pl.Tensor], o6: pl.Out[pl.Tensor],
):
    with pl.at(level=pl.Level.CORE_GROUP):
        o1[:] = pl.and_(a, b)
        o2[:] = pl.or_(a, b)
        o3[:] = pl.xor(a, b)
        o4[:] = pl.shl(a, s)
        o5[:] = pl.shr(a, s)
        o6[:] = pl.tensor.xors(a, 0x55)
    return o1, o2, o3, o4, o5, o6


@CASES(
    data(np.uint16, 6, 16), data(np.uint16, 6, 16),
    expected=lambda a, b: (~a, (a ^ b) | np.uint16(3), (a << np.uint16(3)) & np.uint16(0xFF0), a >> np.uint16(5), a ^ np.uint16(21)),
)
@pl.jit
def bits_of_tiles(
    a: pl.Tensor, b: pl.Tensor, o1: pl.Out[pl.Tensor], o2: pl.Out[pl.Tensor], o3: pl.Out[pl.Tensor], o4: pl.Out[pl.Tensor], o5: pl.Out[pl.Tensor]
):
    with pl.at(level=pl.Level.CORE_GROUP):
        ta, tb = pl.load(a, [0, 0], [6, 16]), pl.load(b, [0, 0], [6, 16])
        tmp = pl.create_tile([6, 16], dtype=pl.UINT16)
        pl.store(pl.not_(ta), [0, 0], o1)
        pl.store(pl.ors(pl.xor(ta, tb, tmp), 3), [0, 0], o2)
        pl.store(pl.ands(pl.shls(ta, 3), 0xFF0), [0, 0], o3)
        pl.store(pl.tile.shrs(ta, 5), [0, 0], o4)
        pl.store(pl.xors(ta, 21, tmp), [0, 0], o5)
    return o1, o2, o3, o4, o5


@CASES(
    f32(5, 33, low=-9, high=9), f32(5, 33, low=0.5, high=3),
    expected=lambda a, b: (np.fmod(a, b), a - np.floor(a / b) * b, np.fmod(a, float32(1.5)), a - np.floor(a / float32(-2)) * float32(-2)), tol=2e-5,
)
@pl.jit
def remainders(a: pl.Tensor, b: pl.Tensor, o1: pl.Out[pl.Tensor], o2: pl.Out[pl.Tensor], o3: pl.Out[pl.Tensor], o4: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        ta = pl.load(a, [0, 0], [5, 33])
        tb = pl.load(b, [0, 0], [5, 33])
        tmp = pl.tile.create([5, 33], pl.FP32)
        pl.store(pl.fmod(ta, tb), [0, 0], o1)
        pl.store(pl.rem(ta, tb, tmp), [0, 0], o2)
        pl.store(pl.fmods(ta, 1.5), [0, 0], o3)
        pl.store(pl.rems(ta, -2.0, tmp), [0, 0], o4)
    return o1, o2, o3, o4


@CASES(
    i32(6, 11, low=-50, high=50), i32(6, 11, low=1, high=9),
    expected=lambda a, b: (np.trunc(a / b).astype(np.int32), np.fmod(a, b), np.mod(a, b), np.mod(a, np.int32(-7))),
)
@pl.jit
def integer_remainders(a: pl.Tensor, b: pl.Tensor, q: pl.Out[pl.Tensor], f: pl.Out[pl.Tensor], m: pl.Out[pl.Tensor], n: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        ta, tb = pl.load(a, [0, 0], [6, 11]), pl.load(b, [0, 0], [6, 11])
        tmp = pl.create_tile([6, 11], dtype=pl.INT32)
        pl.store(pl.div(ta, tb), [0, 0], q)
        pl.store(pl.fmod(ta, tb), [0, 0], f)
        pl.store(pl.rem(ta, tb, tmp), [0, 0], m)
        pl.store(pl.rems(ta, -7, tmp), [0, 0], n)
    return q, f, m, n


@CASES(
    f32(4, 50, low=0.05, high=8),
    expected=lambda x: (np.log(x), sqrt(x), 1 / sqrt(x), 1 / x, np.log(x)), tol=1e-6,
)
@pl.jit
def roots_and_logs(
    x: pl.Tensor, o1: pl.Out[pl.Tensor], o2: pl.Out[pl.Tensor], o3: pl.Out[pl.Tensor], o4: pl.Out[pl.Tensor], o5: pl.Out[pl.Tensor]
):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [4, 50])
        precise = pl.create_tile([4, 50], dtype=pl.FP32)
        pl.store(pl.log(t, high_precision=True), [0, 0], o1)
        pl.store(pl.sqrt(t), [0, 0], o2)
        pl.store(pl.tile.rsqrt(t, tmp=precise), [0, 0], o3)
        pl.store(pl.recip(t, high_precision=True), [0, 0], o4)
        o5[:] = pl.tensor.log(x)
    return o1, o2, o3, o4, o5


@CASES(f32(3, 40), expected=lambda x: np.sin(x) * np.sin(x) - np.cos(x), tol=1e-5)
@pl.jit
def sine_and_cosine(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        s = pl.sin(x)
        out[:] = s * s - pl.cos(x)
    return out


@CASES(i32(4, 20, low=1, high=30), expected=lambda x: (exp(x * float32(0.1)), sqrt(x.astype(float32)), float32(1) / x.astype(float32)), tol=1e-5)
@pl.jit
def functions_of_integer_tensors(x: pl.Tensor, e: pl.Out[pl.Tensor], r: pl.Out[pl.Tensor], i: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        e[:] = pl.exp(x * 0.1)
        r[:] = pl.sqrt(x)
        i[:] = pl.recip(x)
    return e, r, i


@CASES(f16(8, 24), expected=lambda x: (x.astype(float32) * float32(2.5), x * np.float16(2), x + np.float16(3)))
@pl.jit
def half_and_literals(x: pl.Tensor, wide: pl.Out[pl.Tensor], same: pl.Out[pl.Tensor], tile: pl.Out[pl.Tensor]):
    """A tensor with a float literal is FP32, with an integer literal FP16; a tile keeps its dtype."""
    with pl.at(level=pl.Level.CORE_GROUP):
        wide[:] = x * 2.5
        same[:] = x * 2
        t = pl.load(x, [0, 0], [8, 24])
        pl.store(t + 3.0, [0, 0], tile)
    return wide, same, tile


@CASES(i32(5, 9, low=-99, high=99), expected=lambda x: (x * float32(2.5), x * 3, (x - 7)))
@pl.jit
def integers_and_literals(x: pl.Tensor, promoted: pl.Out[pl.Tensor], kept: pl.Out[pl.Tensor], less: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        promoted[:] = x * 2.5
        kept[:] = x * 3
        less[:] = pl.tensor.subs(x, 7)
    return promoted, kept, less


@CASES(data(ml_dtypes.bfloat16, 7, 30), f32(7, 30), expected=lambda a, b: a.astype(float32) * b + float32(1))
@pl.jit
def mixed_floats(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.mul(a, b) + 1.0
    return out


@CASES(data(np.int8, 6, 31), data(np.int32, 6, 31), data(np.uint8, 6, 31), expected=lambda a, b, c: (a + b, a + c.astype(np.int8)))
@pl.jit
def mixed_integers(a: pl.Tensor, b: pl.Tensor, c: pl.Tensor, wide: pl.Out[pl.Tensor], signed: pl.Out[pl.Tensor]):
    """The wider one wins; at equal width the signed one."""
    with pl.at(level=pl.Level.CORE_GROUP):
        wide[:] = a + b
        signed[:] = a + c
    return wide, signed


@CASES(data(np.int64, 5, 6), data(np.int64, 5, 6), expected=lambda a, b: a * b + (a - b))
@pl.jit
def sixty_four_bits_wrap(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = a * b + (a - b)
    return out


@CASES(f32(4, 19), 0.75, expected=lambda x, s: (x * float32(s), x + float32(s), maximum(x, float32(s)), minimum(x, float32(-s))))
@pl.jit
def scalar_parameter(x: pl.Tensor, s: pl.Scalar[pl.FP32], a: pl.Out[pl.Tensor], b: pl.Out[pl.Tensor], c: pl.Out[pl.Tensor], d: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [4, 19])
        a = pl.store(pl.mul(t, s), [0, 0], a)
        b = pl.store(pl.tile.adds(t, s), [0, 0], b)
        c = pl.store(pl.maximums(t, s), [0, 0], c)
        d = pl.store(pl.minimums(t, -s), [0, 0], d)
    return a, b, c, d


@CASES(f32(5, 20), 3, expected=lambda x, n: x * float32(n * n + 1), more=[(f32(5, 20), 4), (f32(5, 20), 5)], compiles=1)
@pl.jit(runtime_scalars=("n",))
def run_time_scalar(x: pl.Tensor, n: pl.INT32, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        factor = pl.cast(n * n + 1, pl.FP32)
        out[:] = pl.mul(x, factor)
    return out


@CASES(f32(6, 21), expected=lambda x: (np.tanh(x), 1 / (1 + exp(-x)), np.floor(x), np.ceil(x), np.where(x > 0, x, float32(-1))), tol=1e-6)
@pl.jit
def additional_functions(
    x: pl.Tensor, o1: pl.Out[pl.Tensor], o2: pl.Out[pl.Tensor], o3: pl.Out[pl.Tensor], o4: pl.Out[pl.Tensor], o5: pl.Out[pl.Tensor]
):
    with pl.at(level=pl.Level.CORE_GROUP):
        o1[:] = pl.tanh(x)
        o2[:] = pl.sigmoid(x)
        o3[:] = pl.floor(x)
        o4[:] = pl.ceil(x)
        o5[:] = pl.where(x > 0.0, x, -1.0)
    return o1, o2, o3, o4, o5


def _derived(x: np.ndarray[Any, Any]) -> tuple[object, ...]:
    wide = x.astype(np.float64)
    inner = np.sqrt(2 / np.pi) * (wide + 0.044715 * wide**3)
    return np.logaddexp(0, wide), wide / (1 + np.exp(-wide)), 0.5 * wide * (1 + np.tanh(inner)), np.clip(x, -1, 2)


@CASES(f32(7, 19, low=-30, high=30), expected=_derived, tol=1e-6)
@pl.jit
def derived_functions(x: pl.Tensor, o1: pl.Out[pl.Tensor], o2: pl.Out[pl.Tensor], o3: pl.Out[pl.Tensor], o4: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        o1[:] = pl.softplus(x)
        o2[:] = pl.silu(x)
        o3[:] = pl.gelu(x, approximate="tanh")
        o4[:] = pl.clamp(x, -1, 2)
    return o1, o2, o3, o4


@CASES(f32(6, 21), f32(6, 21), expected=lambda x, y: (*_derived(x)[:2], np.minimum(np.maximum(x, y), 0.5)), tol=1e-6)
@pl.jit
def derived_functions_of_tiles(x: pl.Tensor, y: pl.Tensor, o1: pl.Out[pl.Tensor], o2: pl.Out[pl.Tensor], o3: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t, low = pl.load(x, [0, 0], [6, 21]), pl.load(y, [0, 0], [6, 21])
        o1 = pl.store(pl.softplus(t), [0, 0], o1)
        o2 = pl.store(pl.tile.silu(t), [0, 0], o2)
        o3 = pl.store(pl.clamp(t, low, 0.5), [0, 0], o3)
    return o1, o2, o3


@CASES(f32(4, 15, low=0.1, high=4), f32(4, 15, low=-2, high=2), expected=lambda a, b: (a**b, np.rint(a * 3), np.isnan(a / 0 * 0).astype(float32)), tol=1e-5)
@pl.jit
def powers_and_rounding(a: pl.Tensor, b: pl.Tensor, p: pl.Out[pl.Tensor], r: pl.Out[pl.Tensor], n: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        p[:] = pl.pow(a, b)
        r[:] = pl.round(a * 3.0)
        n[:] = pl.where(pl.isnan((a / 0.0) * 0.0), 1.0, 0.0)
    return p, r, n


@CASES(f32(3, 4, 5), f32(4, 5), expected=lambda a, b: np.stack([a[i] * b + i for i in range(3)]).astype(float32))
@pl.jit
def planes_of_a_batch(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(3):
            plane = a[i]
            out[i] = plane * b + pl.cast(i, pl.FP32)
    return out


@CASES(f32(40, 65), expected=lambda x: x * x * x + x * x - x, tol=1e-6)
@pl.jit
def augmented_assignment(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        y = x * 1.0
        y *= x
        z = y
        y = y * x
        y += z
        y -= x
        out[:] = y
    return out


@CASES(f32(5, 8), f32(5, 8), expected=lambda a, b: (b, a))
@pl.jit
def swapped(a: pl.Tensor, b: pl.Tensor, o1: pl.Out[pl.Tensor], o2: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        x, y = pl.load(a, [0, 0], [5, 8]), pl.load(b, [0, 0], [5, 8])
        x, y = y, x
        pl.store(x, [0, 0], o1)
        pl.store(y, [0, 0], o2)
    return o1, o2


@CASES(f32(5, 7), expected=np.abs)
@pl.program
class AbsProgram:
    @pl.function
    def main(self, a: pl.Tensor[[5, 7], pl.FP32], out: pl.Out[pl.Tensor[[5, 7], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            pl.store(pl.abs(pl.load(a, [0, 0], [5, 7])), [0, 0], out)
        return out


@CASES(f32(3, 5, 7), f32(5, 7), expected=lambda a, b: a / b + b, tol=1e-6)
@pl.program
class BroadcastProgram:
    @pl.function(type=pl.FunctionType.InCore)
    def divide(
        self, a: pl.Tensor[[3, 5, 7], pl.FP32], b: pl.Tensor[[5, 7], pl.FP32], out: pl.Out[pl.Tensor[[3, 5, 7], pl.FP32]]
    ) -> pl.Tensor[[3, 5, 7], pl.FP32]:
        out[:] = pl.div(a, b)
        return out

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(
        self, a: pl.Tensor[[3, 5, 7], pl.FP32], b: pl.Tensor[[5, 7], pl.FP32], out: pl.Out[pl.Tensor[[3, 5, 7], pl.FP32]]
    ) -> pl.Tensor[[3, 5, 7], pl.FP32]:
        q: pl.Tensor[[3, 5, 7], pl.FP32] = pl.create_tensor([3, 5, 7], dtype=pl.FP32)
        q = self.divide(a, b, q)
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.add(q, b)
        return out


@CASES(f32(5, 7), expected=lambda a: -a)
@pl.jit
def returned_value(a: pl.Tensor):
    return pl.neg(a)


@CASES(f32(5, 7), f32(5, 7), expected=lambda a, b: (a + b, a - b))
@pl.jit
def two_returned_values(a: pl.Tensor, b: pl.Tensor):
    total = pl.add(a, b)
    return total, a - b


@CASES(f32(5, 7), expected=lambda a: (a + float32(1), a * float32(2)), returned=True)
@pl.jit
def return_style(a: pl.Tensor, one: pl.Out[pl.Tensor], two: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        one[:] = a + 1.0
        two[:] = a * 2.0
