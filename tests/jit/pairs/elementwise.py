"""Elementwise kernels, activations, normalisations."""

from __future__ import annotations

from math import erf

import numpy as np

import tilejit.language as pl
from tests.jit.pairs import Pair, f32

T = 16, 24


@pl.jit
def add(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        rows, columns = a.shape
        ta = pl.load(a, [0, 0], [rows, columns])
        tb = pl.load(b, [0, 0], [rows, columns])
        pl.store(pl.add(ta, tb), [0, 0], out)
    return out


@pl.program
class Add16:
    @pl.function(type=pl.FunctionType.Orchestration)
    def add(self, a: pl.Tensor[[16, 24], pl.FP32], b: pl.Tensor[[16, 24], pl.FP32], out: pl.Out[pl.Tensor[[16, 24], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            ta = pl.load(a, [0, 0], [16, 24])
            tb = pl.load(b, [0, 0], [16, 24])
            pl.store(pl.add(ta, tb), [0, 0], out)
        return out


@pl.program
class Add5:
    @pl.function(type=pl.FunctionType.Orchestration)
    def add(self, a: pl.Tensor[[5, 7], pl.FP32], b: pl.Tensor[[5, 7], pl.FP32], out: pl.Out[pl.Tensor[[5, 7], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            ta = pl.load(a, [0, 0], [5, 7])
            tb = pl.load(b, [0, 0], [5, 7])
            pl.store(pl.add(ta, tb), [0, 0], out)
        return out


@pl.jit
def multiply(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = a * b
    return out


@pl.program
class Multiply16:
    @pl.function(type=pl.FunctionType.Orchestration)
    def multiply(self, a: pl.Tensor[[16, 24], pl.FP32], b: pl.Tensor[[16, 24], pl.FP32], out: pl.Out[pl.Tensor[[16, 24], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.mul(a, b)
        return out


@pl.program
class Multiply3:
    @pl.function(type=pl.FunctionType.Orchestration)
    def multiply(self, a: pl.Tensor[[3, 33], pl.FP32], b: pl.Tensor[[3, 33], pl.FP32], out: pl.Out[pl.Tensor[[3, 33], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.mul(a, b)
        return out


@pl.jit
def add_scale(a: pl.Tensor, b: pl.Tensor, scale: pl.FP32, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.add(pl.load(a, [0, 0], [16, 24]), pl.load(b, [0, 0], [16, 24]))
        t = pl.mul(t, scale)
        pl.store(t, [0, 0], out)
    return out


@pl.program
class AddScale:
    @pl.function(type=pl.FunctionType.Orchestration)
    def add_scale(self, a: pl.Tensor[[16, 24], pl.FP32], b: pl.Tensor[[16, 24], pl.FP32], out: pl.Out[pl.Tensor[[16, 24], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.add(pl.load(a, [0, 0], [16, 24]), pl.load(b, [0, 0], [16, 24]))
            u = pl.mul(t, 0.375)
            pl.store(u, [0, 0], out)
        return out


@pl.jit
def add_relu(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(a, [0, 0], list(T))
        t = pl.add(t, pl.load(b, [0, 0], list(T)))
        pl.store(pl.maximum(t, 0.0), [0, 0], out)
    return out


@pl.program
class AddRelu:
    @pl.function(type=pl.FunctionType.Orchestration)
    def add_relu(self, a: pl.Tensor[[16, 24], pl.FP32], b: pl.Tensor[[16, 24], pl.FP32], out: pl.Out[pl.Tensor[[16, 24], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            ta = pl.load(a, [0, 0], [16, 24])
            tb = pl.load(b, [0, 0], [16, 24])
            pl.store(pl.maximum(pl.add(ta, tb), 0.0), [0, 0], out)
        return out


@pl.jit
def silu(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x / (pl.exp(-x) + 1.0)
    return out


@pl.program
class Silu:
    @pl.function(type=pl.FunctionType.Orchestration)
    def silu(self, x: pl.Tensor[[9, 20], pl.FP32], out: pl.Out[pl.Tensor[[9, 20], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.div(x, pl.add(pl.exp(pl.neg(x)), 1.0))
        return out


SQRT_HALF = 0.5**0.5


@pl.jit
def gelu(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x * 0.5 * (pl.erf(x * SQRT_HALF) + 1.0)
    return out


@pl.program
class Gelu:
    @pl.function(type=pl.FunctionType.Orchestration)
    def gelu(self, x: pl.Tensor[[9, 20], pl.FP32], out: pl.Out[pl.Tensor[[9, 20], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            half = pl.mul(x, 0.5)
            inner = pl.add(pl.erf(pl.mul(x, 0.7071067811865476)), 1.0)
            out[:] = pl.mul(half, inner)
        return out


@pl.jit
def swiglu(x: pl.Tensor, gate: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        g = pl.load(gate, [0, 0], [8, 40])
        s = pl.div(g, pl.add(pl.exp(pl.neg(g)), 1.0))
        pl.store(pl.mul(pl.load(x, [0, 0], [8, 40]), s), [0, 0], out)
    return out


@pl.program
class Swiglu:
    @pl.function(type=pl.FunctionType.Orchestration)
    def swiglu(self, x: pl.Tensor[[8, 40], pl.FP32], gate: pl.Tensor[[8, 40], pl.FP32], out: pl.Out[pl.Tensor[[8, 40], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            g = pl.load(gate, [0, 0], [8, 40])
            down = pl.add(pl.exp(pl.neg(g)), 1.0)
            s = pl.div(g, down)
            t = pl.load(x, [0, 0], [8, 40])
            pl.store(pl.mul(t, s), [0, 0], out)
        return out


@pl.jit.inline
def gelu_tanh(t):  # pyright: ignore[reportMissingParameterType]
    inner = pl.mul(pl.add(t, pl.mul(pl.mul(pl.mul(t, t), t), 0.044715)), 0.7978845608)
    return pl.mul(pl.mul(t, 0.5), pl.add(pl.tanh(inner), 1.0))


@pl.jit
def geglu(x: pl.Tensor, gate: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        g = pl.load(gate, [0, 0], [8, 40])
        t = pl.load(x, [0, 0], [8, 40])
        pl.store(pl.mul(t, gelu_tanh(g)), [0, 0], out)
    return out


@pl.program
class Geglu:
    @pl.function(type=pl.FunctionType.Orchestration)
    def geglu(self, x: pl.Tensor[[8, 40], pl.FP32], gate: pl.Tensor[[8, 40], pl.FP32], out: pl.Out[pl.Tensor[[8, 40], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            g = pl.load(gate, [0, 0], [8, 40])
            t = pl.load(x, [0, 0], [8, 40])
            inner = pl.mul(pl.add(g, pl.mul(pl.mul(pl.mul(g, g), g), 0.044715)), 0.7978845608)
            gelu = pl.mul(pl.mul(g, 0.5), pl.add(pl.tanh(inner), 1.0))
            pl.store(pl.mul(t, gelu), [0, 0], out)
        return out


@pl.jit
def softmax(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [x.shape[0], x.shape[1]])
        tmp = pl.create_tile([x.shape[0], x.shape[1]], dtype=x.dtype)
        e = pl.exp(pl.row_expand_sub(t, pl.row_max(t, tmp)))
        pl.store(pl.row_expand_div(e, pl.row_sum(e, tmp)), [0, 0], out)
    return out


@pl.program
class Softmax:
    @pl.function(type=pl.FunctionType.Orchestration)
    def softmax(self, x: pl.Tensor[[12, 30], pl.FP32], out: pl.Out[pl.Tensor[[12, 30], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            t: pl.Tile[[12, 30], pl.FP32] = pl.load(x, [0, 0], [12, 30])
            tmp: pl.Tile[[12, 30], pl.FP32] = pl.create_tile([12, 30], dtype=pl.FP32)
            top: pl.Tile[[12, 1], pl.FP32] = pl.row_max(t, tmp)
            e = pl.exp(pl.row_expand_sub(t, top))
            total = pl.row_sum(e, tmp)
            pl.store(pl.row_expand_div(e, total), [0, 0], out)
        return out


EPS = 1e-6


@pl.jit
def rmsnorm(x: pl.Tensor, w: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        ms = pl.mul(pl.row_sum(pl.mul(x, x)), 1.0 / x.shape[1])
        y = pl.row_expand_mul(x, pl.rsqrt(pl.add(ms, EPS)))
        out[:] = pl.col_expand_mul(y, w)
    return out


@pl.program
class Rmsnorm:
    @pl.function(type=pl.FunctionType.Orchestration)
    def rmsnorm(self, x: pl.Tensor[[10, 32], pl.FP32], w: pl.Tensor[[1, 32], pl.FP32], out: pl.Out[pl.Tensor[[10, 32], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            squares = pl.mul(x, x)
            ms = pl.mul(pl.row_sum(squares), 0.03125)
            y = pl.row_expand_mul(x, pl.rsqrt(pl.add(ms, 1e-06)))
            out[:] = pl.col_expand_mul(y, w)
        return out


@pl.jit
def layernorm(x: pl.Tensor, w: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        n = x.shape[1]
        d = pl.row_expand_sub(x, pl.mul(pl.row_sum(x), 1.0 / n))
        var = pl.mul(pl.row_sum(pl.mul(d, d)), 1.0 / n)
        y = pl.row_expand_mul(d, pl.rsqrt(pl.add(var, EPS * 10)))
        out[:] = pl.col_expand_add(pl.col_expand_mul(y, w), b)
    return out


@pl.program
class Layernorm:
    @pl.function(type=pl.FunctionType.Orchestration)
    def layernorm(
        self, x: pl.Tensor[[10, 32], pl.FP32], w: pl.Tensor[[1, 32], pl.FP32], b: pl.Tensor[[1, 32], pl.FP32], out: pl.Out[pl.Tensor[[10, 32], pl.FP32]]
    ):
        with pl.at(level=pl.Level.CORE_GROUP):
            mean = pl.mul(pl.row_sum(x), 0.03125)
            d = pl.row_expand_sub(x, mean)
            var = pl.mul(pl.row_sum(pl.mul(d, d)), 0.03125)
            y = pl.row_expand_mul(d, pl.rsqrt(pl.add(var, 9.999999999999999e-06)))
            scaled = pl.col_expand_mul(y, w)
            out[:] = pl.col_expand_add(scaled, b)
        return out


@pl.jit
def dag(a: pl.Tensor, b: pl.Tensor, c: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        left = a + b
        right = b - c
        both = left * right
        out[:] = pl.maximum(both, left) - pl.minimum(right, both * 0.5)
    return out


@pl.program
class Dag:
    @pl.function(type=pl.FunctionType.Orchestration)
    def dag(
        self, a: pl.Tensor[[6, 50], pl.FP32], b: pl.Tensor[[6, 50], pl.FP32], c: pl.Tensor[[6, 50], pl.FP32], out: pl.Out[pl.Tensor[[6, 50], pl.FP32]]
    ):
        with pl.at(level=pl.Level.CORE_GROUP):
            left = pl.add(a, b)
            right = pl.sub(b, c)
            both = pl.mul(left, right)
            upper = pl.maximum(both, left)
            lower = pl.minimum(right, pl.mul(both, 0.5))
            out[:] = pl.sub(upper, lower)
        return out


def np_softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def np_layernorm(x: np.ndarray, w: np.ndarray, b: np.ndarray) -> np.ndarray:
    d = x - x.mean(1, keepdims=True)
    return d / np.sqrt((d * d).mean(1, keepdims=True) + 1e-5) * w + b


def np_dag(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    both = (a + b) * (b - c)
    return np.maximum(both, a + b) - np.minimum(b - c, both * 0.5)


def np_gelu_tanh(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3)))


PAIRS = [
    Pair(add, Add16, (f32(16, 24), f32(16, 24)), lambda a, b: a + b, name="add_16"),
    Pair(add, Add5, (f32(5, 7), f32(5, 7)), lambda a, b: a + b, name="add_5"),
    Pair(multiply, Multiply16, (f32(16, 24), f32(16, 24)), lambda a, b: a * b, name="multiply_16"),
    Pair(multiply, Multiply3, (f32(3, 33), f32(3, 33)), lambda a, b: a * b, name="multiply_3"),
    Pair(add_scale, AddScale, (f32(16, 24), f32(16, 24)), lambda a, b: (a + b) * 0.375, scalars={"scale": 0.375}),
    Pair(add_relu, AddRelu, (f32(16, 24), f32(16, 24)), lambda a, b: np.maximum(a + b, 0)),
    Pair(silu, Silu, (f32(9, 20),), lambda x: x / (1 + np.exp(-x))),
    Pair(gelu, Gelu, (f32(9, 20),), lambda x: 0.5 * x * (1 + np.vectorize(erf)(x * SQRT_HALF))),
    Pair(swiglu, Swiglu, (f32(8, 40), f32(8, 40)), lambda x, g: x * g / (1 + np.exp(-g))),
    Pair(geglu, Geglu, (f32(8, 40), f32(8, 40)), lambda x, g: x * np_gelu_tanh(g)),
    Pair(softmax, Softmax, (f32(12, 30),), np_softmax),
    Pair(rmsnorm, Rmsnorm, (f32(10, 32), f32(1, 32)), lambda x, w: x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-6) * w),
    Pair(layernorm, Layernorm, (f32(10, 32), f32(1, 32), f32(1, 32)), np_layernorm),
    Pair(dag, Dag, (f32(6, 50), f32(6, 50), f32(6, 50)), np_dag),
]
