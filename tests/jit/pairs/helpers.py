"""Helpers: incore, inline, opaque, nested, with several outputs, specialised more than once, with dynamic extents."""

from __future__ import annotations

import numpy as np

import tilejit.language as pl
from tests.jit.pairs import Pair, f32

TOKENS = pl.dynamic("TOKENS")
H = 16


@pl.jit.incore
def double(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = pl.add(x, x)
    return out


@pl.jit.incore
def square(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    t = pl.load(x, [0, 0], [x.shape[0], x.shape[1]])
    pl.store(pl.mul(t, t), [0, 0], out)
    return out


@pl.jit
def two_kernels(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    tmp = pl.create_tensor([x.shape[0], x.shape[1]], dtype=pl.FP32)
    tmp = double(x, tmp)
    out = square(tmp, out)
    return out


@pl.program
class TwoKernels:
    @pl.function(type=pl.FunctionType.InCore)
    def double(self, x: pl.Tensor[[6, 16], pl.FP32], out: pl.Out[pl.Tensor[[6, 16], pl.FP32]]) -> pl.Tensor[[6, 16], pl.FP32]:
        out[:] = pl.add(x, x)
        return out

    @pl.function(type=pl.FunctionType.InCore)
    def square(self, x: pl.Tensor[[6, 16], pl.FP32], out: pl.Out[pl.Tensor[[6, 16], pl.FP32]]) -> pl.Tensor[[6, 16], pl.FP32]:
        t = pl.load(x, [0, 0], [6, 16])
        pl.store(pl.mul(t, t), [0, 0], out)
        return out

    @pl.function(type=pl.FunctionType.Orchestration)
    def two_kernels(self, x: pl.Tensor[[6, 16], pl.FP32], out: pl.Out[pl.Tensor[[6, 16], pl.FP32]]) -> pl.Tensor[[6, 16], pl.FP32]:
        tmp: pl.Tensor[[6, 16], pl.FP32] = pl.create_tensor([6, 16], dtype=pl.FP32)
        tmp = self.double(x, tmp)
        out = self.square(tmp, out)
        return out


@pl.jit.incore
def min_max(x: pl.Tensor, low: pl.Out[pl.Tensor], high: pl.Out[pl.Tensor]):
    low[:] = pl.row_min(x)
    high[:] = pl.row_max(x)
    return low, high


@pl.jit
def multi_output(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    a = pl.create_tensor([x.shape[0], 1], dtype=pl.FP32)
    b = pl.create_tensor([x.shape[0], 1], dtype=pl.FP32)
    a, b = min_max(x, high=b, low=a)
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.sub(b, a)
    return out


@pl.program
class MultiOutput:
    @pl.function(type=pl.FunctionType.InCore)
    def min_max(self, x: pl.Tensor[[6, 16], pl.FP32], low: pl.Out[pl.Tensor[[6, 1], pl.FP32]], high: pl.Out[pl.Tensor[[6, 1], pl.FP32]]):
        low[:] = pl.row_min(x)
        high[:] = pl.row_max(x)
        return low, high

    @pl.function(type=pl.FunctionType.Orchestration)
    def multi_output(self, x: pl.Tensor[[6, 16], pl.FP32], out: pl.Out[pl.Tensor[[6, 1], pl.FP32]]):
        a = pl.create_tensor([6, 1], dtype=pl.FP32)
        b = pl.create_tensor([6, 1], dtype=pl.FP32)
        low, high = self.min_max(x, a, b)
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.sub(high, low)
        return out


@pl.jit.inline
def scaled(t: pl.Tensor, by: pl.FP32):
    return pl.mul(t, by)


@pl.jit.inline
def scaled_and_shifted(t: pl.Tensor, by: pl.FP32, shift: pl.FP32 = 1.0):
    return pl.add(scaled(t, by), shift)


@pl.jit
def nested_inline(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = scaled_and_shifted(x, 3.0) * scaled_and_shifted(x, by=0.5, shift=-2.0)
    return out


@pl.program
class NestedInline:
    @pl.function(type=pl.FunctionType.Orchestration)
    def nested_inline(self, x: pl.Tensor[[6, 16], pl.FP32], out: pl.Out[pl.Tensor[[6, 16], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            first = pl.add(pl.mul(x, 3.0), 1.0)
            second = pl.add(pl.mul(x, 0.5), -2.0)
            out[:] = pl.mul(first, second)
        return out


@pl.jit.opaque
def chunked(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    for i in pl.range(x.shape[0] // 2):
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.load(x, [i * 2, 0], [2, H])
            pl.store(pl.exp(t), [i * 2, 0], out)
    return out


@pl.jit
def opaque_helper(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out = chunked(x, out)
    return out


@pl.program
class OpaqueHelper:
    @pl.function(type=pl.FunctionType.Opaque)
    def chunked(self, x: pl.Tensor[[6, 16], pl.FP32], out: pl.Out[pl.Tensor[[6, 16], pl.FP32]]):
        for i in pl.range(3):
            with pl.at(level=pl.Level.CORE_GROUP):
                t = pl.load(x, [i * 2, 0], [2, 16])
                pl.store(pl.exp(t), [i * 2, 0], out)
        return out

    @pl.function(type=pl.FunctionType.Orchestration)
    def opaque_helper(self, x: pl.Tensor[[6, 16], pl.FP32], out: pl.Out[pl.Tensor[[6, 16], pl.FP32]]):
        return self.chunked(x, out)


@pl.jit
def two_sizes(x: pl.Tensor, y: pl.Tensor, a: pl.Out[pl.Tensor], b: pl.Out[pl.Tensor]):
    a = double(x, a)
    b = double(y, b)
    return a, b


@pl.program
class TwoSizes:
    @pl.function(type=pl.FunctionType.InCore)
    def double(self, x: pl.Tensor[[6, 16], pl.FP32], out: pl.Out[pl.Tensor[[6, 16], pl.FP32]]):
        out[:] = pl.add(x, x)
        return out

    @pl.function(type=pl.FunctionType.InCore)
    def double_1(self, x: pl.Tensor[[3, 5], pl.FP32], out: pl.Out[pl.Tensor[[3, 5], pl.FP32]]):
        out[:] = pl.add(x, x)
        return out

    @pl.function(type=pl.FunctionType.Orchestration)
    def two_sizes(
        self, x: pl.Tensor[[6, 16], pl.FP32], y: pl.Tensor[[3, 5], pl.FP32], a: pl.Out[pl.Tensor[[6, 16], pl.FP32]], b: pl.Out[pl.Tensor[[3, 5], pl.FP32]]
    ):
        self.double(x, a)
        self.double_1(y, b)
        return a, b


@pl.jit.incore
def norm(x: pl.Tensor[[TOKENS, H], pl.FP32], out: pl.Out[pl.Tensor[[TOKENS, H], pl.FP32]]):
    out[:] = pl.row_expand_div(x, pl.row_sum(pl.abs(x)))
    return out


@pl.jit
def token_loop(x: pl.Tensor, rounds: pl.INDEX, out: pl.Out[pl.Tensor]):
    tokens = pl.tensor.dim(x, 0)
    cur = pl.create_tensor([tokens, H], dtype=pl.FP32)
    nxt = pl.create_tensor([tokens, H], dtype=pl.FP32)
    cur = norm(x, cur)
    for _ in pl.range(rounds):
        nxt = norm(cur, nxt)
        cur = double(nxt, cur)
    out = norm(cur, out)
    return out


@pl.program
class TokenLoop:
    @pl.function(type=pl.FunctionType.InCore)
    def norm(self, x: pl.Tensor[[TOKENS, 16], pl.FP32], out: pl.Out[pl.Tensor[[TOKENS, 16], pl.FP32]]):
        out[:] = pl.row_expand_div(x, pl.row_sum(pl.abs(x)))
        return out

    @pl.function(type=pl.FunctionType.InCore)
    def double(self, x: pl.Tensor[[TOKENS, 16], pl.FP32], out: pl.Out[pl.Tensor[[TOKENS, 16], pl.FP32]]):
        out[:] = pl.add(x, x)
        return out

    @pl.function(type=pl.FunctionType.Orchestration)
    def token_loop(self, x: pl.Tensor[[TOKENS, 16], pl.FP32], out: pl.Out[pl.Tensor[[TOKENS, 16], pl.FP32]]):
        tokens = pl.tensor.dim(x, 0)
        cur = pl.create_tensor([tokens, 16], dtype=pl.FP32)
        nxt = pl.create_tensor([tokens, 16], dtype=pl.FP32)
        self.norm(x, cur)
        for _ in pl.range(3):
            self.norm(cur, nxt)
            self.double(nxt, cur)
        self.norm(cur, out)
        return out


def np_norm(x: np.ndarray) -> np.ndarray:
    return x / abs(x).sum(1, keepdims=True)


PAIRS = [
    Pair(two_kernels, TwoKernels, (f32(6, 16),), lambda x: 4 * x * x),
    Pair(multi_output, MultiOutput, (f32(6, 16),), lambda x: x.max(1, keepdims=True) - x.min(1, keepdims=True)),
    Pair(nested_inline, NestedInline, (f32(6, 16),), lambda x: (x * 3 + 1) * (x * 0.5 - 2)),
    Pair(opaque_helper, OpaqueHelper, (f32(6, 16), f32(6, 16)), lambda x, out: np.exp(x)),
    Pair(two_sizes, TwoSizes, (f32(6, 16), f32(3, 5)), lambda x, y: (2 * x, 2 * y)),
    Pair(token_loop, TokenLoop, (f32(6, 16),), lambda x: np_norm(np_norm(x)), scalars={"rounds": 3}),
]
