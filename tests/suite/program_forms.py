"""Programs written out: orchestration, InCore, Opaque, Group and Inline functions, shared functions, attributes, scalars."""
# pl.Tuple and bare parameters of inline functions are no types.
# pyright: reportReturnType=false, reportMissingParameterType=false

from __future__ import annotations

from typing import Any

import numpy as np

import tilejit.language as pl
from tests.suite.harness import Cases, data, f16, f32, i32

CASES = Cases()
Array = np.ndarray[Any, Any]
M, N = 9, 22
ROWS = pl.dynamic("ROWS")


@pl.function(type=pl.FunctionType.InCore)
def shared_scale(x: pl.Tensor[[M, N], pl.FP32], factor: pl.Scalar[pl.FP32], out: pl.Out[pl.Tensor[[M, N], pl.FP32]]) -> pl.Tensor[[M, N], pl.FP32]:
    return pl.store(pl.mul(pl.load(x, [0, 0], [M, N]), factor), [0, 0], out)


@CASES(f32(M, N), f32(M, N), expected=lambda a, b: (a * 2 + b) * 0.5, tol=1e-6)
@pl.program
class ScaleAddScale:
    """A module-level function used twice, between them a method."""

    @pl.function(type=pl.FunctionType.InCore)
    def add(self, a: pl.Tensor[[M, N], pl.FP32], b: pl.Tensor[[M, N], pl.FP32], out: pl.Out[pl.Tensor[[M, N], pl.FP32]]) -> pl.Tensor[[M, N], pl.FP32]:
        ta: pl.Tile[[M, N], pl.FP32] = pl.load(a, [0, 0], [M, N])
        tb: pl.Tile[[M, N], pl.FP32] = pl.load(b, [0, 0], [M, N])
        out = pl.store(pl.add(ta, tb), [0, 0], out)
        return out

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, a: pl.Tensor[[M, N], pl.FP32], b: pl.Tensor[[M, N], pl.FP32], out: pl.Out[pl.Tensor[[M, N], pl.FP32]]) -> pl.Tensor[[M, N], pl.FP32]:
        t1: pl.Tensor[[M, N], pl.FP32] = pl.create_tensor([M, N], dtype=pl.FP32)
        t2: pl.Tensor[[M, N], pl.FP32] = pl.create_tensor([M, N], dtype=pl.FP32)
        t1 = shared_scale(a, 2.0, t1)
        t2 = self.add(t1, b, t2)
        out = shared_scale(t2, 0.5, out)
        return out


@CASES(f32(M, N), expected=lambda a: np.tanh(a) * 2, tol=1e-5)
@pl.program
class OpaqueMain:
    """One unplaced function with two regions."""

    @pl.function
    def main(self, a: pl.Tensor[[M, N], pl.FP32], out: pl.Out[pl.Tensor[[M, N], pl.FP32]]):
        t = pl.create_tensor([M, N], dtype=pl.FP32)
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.store(pl.tanh(pl.load(a, [0, 0], [M, N])), [0, 0], t)
        with pl.at(level=pl.Level.CORE_GROUP):
            u = pl.load(t, [0, 0], [M, N])
            out = pl.store(pl.add(u, u), [0, 0], out)
        return out


@CASES(f32(M, N), f32(M, N), expected=lambda a, b: np.maximum(a, b) - np.minimum(a, b), tol=1e-6)
@pl.program
class OpaqueCalledByOrchestration:
    """Orchestration calls an Opaque function, which calls InCore functions."""

    @pl.function(type=pl.FunctionType.InCore)
    def extremes(
        self,
        a: pl.Tensor[[M, N], pl.FP32],
        b: pl.Tensor[[M, N], pl.FP32],
        low: pl.Out[pl.Tensor[[M, N], pl.FP32]],
        high: pl.Out[pl.Tensor[[M, N], pl.FP32]],
    ) -> pl.Tuple[pl.Tensor[[M, N], pl.FP32], pl.Tensor[[M, N], pl.FP32]]:
        ta = pl.load(a, [0, 0], [M, N])
        tb = pl.load(b, [0, 0], [M, N])
        low = pl.store(pl.minimum(ta, tb), [0, 0], low)
        high = pl.store(pl.maximum(ta, tb), [0, 0], high)
        return low, high

    @pl.function(type=pl.FunctionType.Opaque)
    def spread(self, a: pl.Tensor[[M, N], pl.FP32], b: pl.Tensor[[M, N], pl.FP32], out: pl.Out[pl.Tensor[[M, N], pl.FP32]]) -> pl.Tensor[[M, N], pl.FP32]:
        low = pl.create_tensor([M, N], dtype=pl.FP32)
        high = pl.create_tensor([M, N], dtype=pl.FP32)
        low, high = self.extremes(a, b, low, high)
        with pl.at(level=pl.Level.CORE_GROUP):
            out = pl.store(pl.sub(pl.load(high, [0, 0], [M, N]), pl.load(low, [0, 0], [M, N])), [0, 0], out)
        return out

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, a: pl.Tensor[[M, N], pl.FP32], b: pl.Tensor[[M, N], pl.FP32], out: pl.Out[pl.Tensor[[M, N], pl.FP32]]) -> pl.Tensor[[M, N], pl.FP32]:
        return self.spread(a, b, out)


@CASES(f16(16, 32), f16(32, 16), f32(1, 16), expected=lambda a, b, c: np.maximum(a.astype(np.float32) @ b.astype(np.float32) + c, 0), tol=1e-3)
@pl.program
class GroupOfCubeAndVector:
    """A cube kernel and a vector kernel of one group, through global memory."""

    @pl.function(type=pl.FunctionType.AIC)
    def cube(self, a: pl.Tensor[[16, 32], pl.FP16], b: pl.Tensor[[32, 16], pl.FP16], acc: pl.Out[pl.Tensor[[16, 16], pl.FP32]]) -> pl.Tensor[[16, 16], pl.FP32]:
        left = pl.move(pl.load(a, [0, 0], [16, 32], target_memory=pl.Mem.Mat), target_memory=pl.Mem.Left)
        right = pl.move(pl.load(b, [0, 0], [32, 16], target_memory=pl.Mem.Mat), target_memory=pl.Mem.Right)
        return pl.store(pl.matmul(left, right), [0, 0], acc)

    @pl.function(type=pl.FunctionType.AIV)
    def vector(
        self, acc: pl.Tensor[[16, 16], pl.FP32], bias: pl.Tensor[[1, 16], pl.FP32], out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]
    ) -> pl.Tensor[[16, 16], pl.FP32]:
        t = pl.col_expand_add(pl.load(acc, [0, 0], [16, 16]), pl.load(bias, [0, 0], [1, 16]))
        return pl.store(pl.relu(t), [0, 0], out)

    @pl.function(type=pl.FunctionType.Group)
    def pair(
        self,
        a: pl.Tensor[[16, 32], pl.FP16],
        b: pl.Tensor[[32, 16], pl.FP16],
        bias: pl.Tensor[[1, 16], pl.FP32],
        acc: pl.Out[pl.Tensor[[16, 16], pl.FP32]],
        out: pl.Out[pl.Tensor[[16, 16], pl.FP32]],
    ) -> pl.Tensor[[16, 16], pl.FP32]:
        acc = self.cube(a, b, acc)
        out = self.vector(acc, bias, out)
        return out

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(
        self, a: pl.Tensor[[16, 32], pl.FP16], b: pl.Tensor[[32, 16], pl.FP16], bias: pl.Tensor[[1, 16], pl.FP32], out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]
    ) -> pl.Tensor[[16, 16], pl.FP32]:
        acc = pl.create_tensor([16, 16], dtype=pl.FP32)
        out = self.pair(a, b, bias, acc, out)
        return out


@CASES(f32(M, N), expected=lambda a: (a * a + a) * (a * a + a), tol=1e-5)
@pl.program
class InlineMethods:
    """Inline functions of the program, one calling the other."""

    @pl.function(type=pl.FunctionType.Inline)
    def square(self, t: pl.Tile[[M, N], pl.FP32]):
        return pl.mul(t, t)

    @pl.function(type=pl.FunctionType.Inline)
    def bump(self, t: pl.Tile[[M, N], pl.FP32]):
        return pl.add(self.square(t), t)

    @pl.function
    def main(self, a: pl.Tensor[[M, N], pl.FP32], out: pl.Out[pl.Tensor[[M, N], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out = pl.store(self.square(self.bump(pl.load(a, [0, 0], [M, N]))), [0, 0], out)
        return out


@pl.inline
def swish(t, beta):
    """Expanded where it is called."""
    return pl.mul(t, pl.recip(pl.add(pl.exp(pl.mul(pl.neg(t), beta)), 1.0)))


@CASES(f32(M, N), expected=lambda a: a / (1 + np.exp(-a)) + a / (1 + np.exp(-2 * a)), tol=1e-5)
@pl.program
class InlineOfTheModule:
    @pl.function
    def main(self, a: pl.Tensor[[M, N], pl.FP32], out: pl.Out[pl.Tensor[[M, N], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.load(a, [0, 0], [M, N])
            out = pl.store(pl.add(swish(t, 1.0), swish(t, beta=2.0)), [0, 0], out)
        return out


@CASES(f32(M, N), f32(M, N), 0.75, 3, expected=lambda a, b, alpha, times: a + b * np.float32(alpha) * times, tol=1e-5)
@pl.program
class RuntimeScalars:
    """Scalars of a program are parameters at run time; tensors come first in a call."""

    @pl.function(type=pl.FunctionType.InCore)
    def axpy(
        self,
        a: pl.Tensor[[M, N], pl.FP32],
        b: pl.Tensor[[M, N], pl.FP32],
        alpha: pl.Scalar[pl.FP32],
        times: pl.Scalar[pl.INDEX],
        out: pl.Out[pl.Tensor[[M, N], pl.FP32]],
    ) -> pl.Tensor[[M, N], pl.FP32]:
        t = pl.load(a, [0, 0], [M, N])
        step = pl.mul(pl.load(b, [0, 0], [M, N]), alpha)
        for _ in pl.range(times):
            t = pl.add(t, step)
        return pl.store(t, [0, 0], out)

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(
        self,
        a: pl.Tensor[[M, N], pl.FP32],
        b: pl.Tensor[[M, N], pl.FP32],
        out: pl.Out[pl.Tensor[[M, N], pl.FP32]],
        alpha: pl.Scalar[pl.FP32],
        times: pl.Scalar[pl.INDEX],
    ) -> pl.Tensor[[M, N], pl.FP32]:
        out = self.axpy(a, b, alpha, times, out)
        return out


@CASES(f32(11, 8), more=[(f32(1, 8),), (f32(40, 8),)], expected=lambda a: a.sum(0, keepdims=True), tol=1e-4)
@pl.program
class DynamicRows:
    """Any number of rows in tiles of 16, the accumulator carried by the loop."""

    @pl.function(type=pl.FunctionType.InCore)
    def total(self, a: pl.Tensor[[ROWS, 8], pl.FP32], out: pl.Out[pl.Tensor[[1, 8], pl.FP32]]) -> pl.Tensor[[1, 8], pl.FP32]:
        n = pl.tensor.dim(a, 0)
        start = pl.tile.full([1, 8], dtype=pl.FP32, value=0.0)
        for i, (acc,) in pl.range(0, n, 16, init_values=(start,)):
            t = pl.load(a, [i, 0], [16, 8], valid_shape=[pl.min(n - i, 16), 8])
            acc_next = pl.yield_(pl.add(acc, pl.col_sum(t)))
        return pl.store(acc_next, [0, 0], out)

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, a: pl.Tensor[[ROWS, 8], pl.FP32], out: pl.Out[pl.Tensor[[1, 8], pl.FP32]]) -> pl.Tensor[[1, 8], pl.FP32]:
        out = self.total(a, out)
        return out


@CASES(f32(3, 6, 10), expected=lambda a: a.transpose(0, 2, 1).copy())
@pl.program
class RankThree:
    """Rank-3 tensors, one page at a time."""

    @pl.function(type=pl.FunctionType.InCore)
    def page(self, a: pl.Tensor[[3, 6, 10], pl.FP32], i: pl.Scalar[pl.INDEX], out: pl.Out[pl.Tensor[[3, 10, 6], pl.FP32]]) -> pl.Tensor[[3, 10, 6], pl.FP32]:
        t = pl.load(a, [i, 0, 0], [1, 6, 10])
        return pl.store(pl.transpose(t, 1, 2), [i, 0, 0], out)

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, a: pl.Tensor[[3, 6, 10], pl.FP32], out: pl.Out[pl.Tensor[[3, 10, 6], pl.FP32]]) -> pl.Tensor[[3, 10, 6], pl.FP32]:
        for i in pl.range(3):
            out = self.page(a, i, out)
        return out


@CASES(f32(M, N), f32(M, N), expected=lambda a, s: a + s + 1)
@pl.program
class PlainTensorIsWritten:
    """A plain tensor parameter that a kernel writes is one that the caller sees."""

    @pl.function(type=pl.FunctionType.InCore)
    def bump(self, a: pl.Tensor[[M, N], pl.FP32], s: pl.Tensor[[M, N], pl.FP32]):
        s[:] = pl.add(pl.add(a, s), 1.0)

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, a: pl.Tensor[[M, N], pl.FP32], s: pl.Tensor[[M, N], pl.FP32]):
        self.bump(a, s)


@CASES(f32(M, N), expected=lambda a: (a.max(1, keepdims=True), a.argmax(1)[:, None].astype(np.int32)))
@pl.program
class FunctionAttributes:
    """`pl.func_attr` and decorator options are kept and change no number."""

    @pl.function(type=pl.FunctionType.InCore, level=pl.Level.CORE_GROUP)
    def top(
        self, a: pl.Tensor[[M, N], pl.FP32], value: pl.Out[pl.Tensor[[M, 1], pl.FP32]], place: pl.Out[pl.Tensor[[M, 1], pl.INT32]]
    ) -> pl.Tuple[pl.Tensor[[M, 1], pl.FP32], pl.Tensor[[M, 1], pl.INT32]]:
        pl.func_attr({"split": pl.SplitMode.UP_DOWN})
        pl.func_attr({"dual_aiv_dispatch": True})
        t = pl.load(a, [0, 0], [M, N])
        tmp = pl.create_tile([M, N], dtype=pl.FP32)
        value = pl.store(pl.row_max(t, tmp), [0, 0], value)
        place = pl.store(pl.row_argmax(t, tmp), [0, 0], place)
        return value, place

    @pl.function(type=pl.FunctionType.Orchestration, auto_scope=False)
    def main(
        self, a: pl.Tensor[[M, N], pl.FP32], value: pl.Out[pl.Tensor[[M, 1], pl.FP32]], place: pl.Out[pl.Tensor[[M, 1], pl.INT32]]
    ) -> pl.Tuple[pl.Tensor[[M, 1], pl.FP32], pl.Tensor[[M, 1], pl.INT32]]:
        with pl.scope(mode=pl.ScopeMode.AUTO):
            value, place = self.top(a, value, place)
        return value, place


@CASES(f32(4, 12), f32(12, 5), f32(5, 7), expected=lambda a, b, c: a @ b @ c, tol=1e-4)
@pl.program
class TensorOperatorsOnly:
    """Tensor-level operators on the control plane get regions of their own."""

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(
        self, a: pl.Tensor[[4, 12], pl.FP32], b: pl.Tensor[[12, 5], pl.FP32], c: pl.Tensor[[5, 7], pl.FP32], out: pl.Out[pl.Tensor[[4, 7], pl.FP32]]
    ) -> pl.Tensor[[4, 7], pl.FP32]:
        ab = pl.matmul(a, b)
        out[:] = pl.matmul(ab, c)
        return out


@CASES(i32(6, 16, low=-50, high=50), expected=lambda a: np.where(a.sum(1, keepdims=True) > 0, a, -a))
@pl.program
class BranchOnData:
    """The control plane branches on an element that a kernel wrote."""

    @pl.function(type=pl.FunctionType.InCore)
    def row_total(self, a: pl.Tensor[[6, 16], pl.INT32], i: pl.Scalar[pl.INDEX], total: pl.Out[pl.Tensor[[1, 1], pl.INT32]]) -> pl.Tensor[[1, 1], pl.INT32]:
        t = pl.load(a, [i, 0], [1, 16])
        tmp = pl.create_tile([1, 16], dtype=pl.INT32)
        return pl.store(pl.row_sum(t, tmp), [0, 0], total)

    @pl.function(type=pl.FunctionType.InCore)
    def copy(
        self, a: pl.Tensor[[6, 16], pl.INT32], i: pl.Scalar[pl.INDEX], sign: pl.Scalar[pl.INT32], out: pl.Out[pl.Tensor[[6, 16], pl.INT32]]
    ) -> pl.Tensor[[6, 16], pl.INT32]:
        return pl.store(pl.mul(pl.load(a, [i, 0], [1, 16]), sign), [i, 0], out)

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, a: pl.Tensor[[6, 16], pl.INT32], out: pl.Out[pl.Tensor[[6, 16], pl.INT32]]) -> pl.Tensor[[6, 16], pl.INT32]:
        total = pl.create_tensor([1, 1], dtype=pl.INT32)
        for i in pl.range(6):
            total = self.row_total(a, i, total)
            n = pl.read(total, [0, 0])
            if n > 0:
                out = self.copy(a, i, 1, out)
            else:
                out = self.copy(a, i, -1, out)
        return out


def layers(x: Array, w: Array) -> Array:
    for i in range(w.shape[0]):
        x = np.maximum(x @ w[i], 0)
    return x


@CASES(f32(7, 6), f32(4, 6, 6, low=-0.6, high=0.6), expected=layers, tol=1e-4)
@pl.program
class BuffersSwapped:
    """A stack of layers that swaps two buffers in a loop."""

    @pl.function(type=pl.FunctionType.InCore)
    def layer(
        self, x: pl.Tensor[[7, 6], pl.FP32], w: pl.Tensor[[4, 6, 6], pl.FP32], i: pl.Scalar[pl.INDEX], out: pl.Out[pl.Tensor[[7, 6], pl.FP32]]
    ) -> pl.Tensor[[7, 6], pl.FP32]:
        tw = pl.reshape(pl.load(w, [i, 0, 0], [1, 6, 6]), [6, 6])
        return pl.store(pl.relu(pl.matmul(pl.load(x, [0, 0], [7, 6]), tw)), [0, 0], out)

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, x: pl.Tensor[[7, 6], pl.FP32], w: pl.Tensor[[4, 6, 6], pl.FP32], out: pl.Out[pl.Tensor[[7, 6], pl.FP32]]):
        cur = pl.create_tensor([7, 6], dtype=pl.FP32)
        nxt = pl.create_tensor([7, 6], dtype=pl.FP32)
        with pl.at(level=pl.Level.CORE_GROUP):
            cur = pl.store(pl.load(x, [0, 0], [7, 6]), [0, 0], cur)
        for i in pl.range(4):
            cur, nxt = self.layer(cur, w, i, nxt), cur
        with pl.at(level=pl.Level.CORE_GROUP):
            out = pl.store(pl.load(cur, [0, 0], [7, 6]), [0, 0], out)
        return out


@CASES(data(np.int64, 2, low=0, high=4), f32(8, 10), expected=lambda at, a: a[at[0] : at[0] + 3, at[1] : at[1] + 5].copy())
@pl.program
class IndexTensor:
    """A tensor of INDEX holds offsets; int64 arrays bind to it."""

    @pl.function
    def main(self, at: pl.Tensor[[2], pl.INDEX], a: pl.Tensor[[8, 10], pl.FP32], out: pl.Out[pl.Tensor[[3, 5], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out = pl.store(pl.load(a, [pl.read(at, [0]), pl.read(at, [1])], [3, 5]), [0, 0], out)
        return out
