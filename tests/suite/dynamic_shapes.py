"""Dynamic extents: one compilation for many sizes, through annotations, bindings, locals and helpers."""

from __future__ import annotations

import numpy as np
from numpy import float32

import tilejit.language as pl
from tests.suite.harness import Cases, f16, f32, i32

CASES = Cases()

M = pl.dynamic("M")
N = pl.dynamic("N")
K = pl.dynamic("K")
TOKENS = pl.dynamic("TOKENS")
HIDDEN = 24


@CASES(f32(5, 7), expected=lambda x: x * float32(2), more=[(f32(1, 1),), (f32(300, 3),), (f32(2, 513),)], compiles=1)
@pl.jit
def both_extents(x: pl.Tensor[[M, N], pl.FP32], out: pl.Out[pl.Tensor[[M, N], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x * 2.0
    return out


@CASES(f32(9, 24), expected=lambda x: x - x.max(1, keepdims=True), more=[(f32(1, 24),), (f32(77, 24),)], compiles=1)
@pl.jit
def bound_in_the_body(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    rows = pl.dynamic("ROWS")
    x.bind_dynamic(0, rows)
    out.bind_dynamic(0, rows)
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.row_expand_sub(x, pl.row_max(x))
    return out


@CASES(f32(6, 9), f32(9, 4), expected=lambda a, b: a @ b, more=[(f32(1, 33), f32(33, 2)), (f32(40, 5), f32(5, 70))], tol=1e-4, compiles=1)
@pl.jit
def product_of_any_size(a: pl.Tensor[[M, K], pl.FP32], b: pl.Tensor[[K, N], pl.FP32], out: pl.Out[pl.Tensor[[M, N], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.matmul(a, b)
    return out


@CASES(f32(50, 12), expected=lambda x: np.tanh(x), more=[(f32(1, 12),), (f32(16, 12),), (f32(33, 12),)], tol=1e-6, compiles=1)
@pl.jit
def tiles_with_a_ragged_tail(x: pl.Tensor[[M, 12], pl.FP32], out: pl.Out[pl.Tensor[[M, 12], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        rows = x.shape[0]
        for i in pl.range(0, rows, 16):
            left = pl.min(rows - i, 16)
            t = pl.load(x, [i, 0], [16, 12], valid_shape=[left, 12])
            out = pl.store(pl.tanh(t), [i, 0], out)
    return out


@CASES(f32(20, 12), expected=lambda x: (x[: len(x) // 2], x[len(x) // 2 :]), more=[(f32(2, 12),), (f32(64, 12),)], compiles=1)
@pl.jit
def halves_of_a_dynamic_extent(x: pl.Tensor[[TOKENS, 12], pl.FP32], first: pl.Out[pl.Tensor], second: pl.Out[pl.Tensor]):
    half = pl.dynamic("HALF")
    first.bind_dynamic(0, half)
    second.bind_dynamic(0, half)
    with pl.at(level=pl.Level.CORE_GROUP):
        n = pl.tensor.dim(x, 0) // 2
        first[:] = x[0:n, :]
        second[:] = x[n:, :]
    return first, second


@CASES(f32(7, HIDDEN), expected=lambda x: (x * x) + float32(1), more=[(f32(1, HIDDEN),), (f32(130, HIDDEN),)], compiles=1)
@pl.jit
def local_with_a_dynamic_extent(x: pl.Tensor[[TOKENS, HIDDEN], pl.FP32], out: pl.Out[pl.Tensor[[TOKENS, HIDDEN], pl.FP32]]):
    tokens = pl.tensor.dim(x, 0)
    squared = pl.create_tensor([tokens, HIDDEN], dtype=pl.FP32)
    with pl.at(level=pl.Level.CORE_GROUP):
        squared[:] = x * x
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = squared + 1.0
    return out


@CASES(f32(6, HIDDEN), expected=lambda x: x + x, more=[(f32(31, HIDDEN),)], compiles=1)
@pl.jit
def local_shaped_by_the_symbol(x: pl.Tensor[[TOKENS, HIDDEN], pl.FP32], out: pl.Out[pl.Tensor[[TOKENS, HIDDEN], pl.FP32]]):
    twice = pl.create_tensor([TOKENS, HIDDEN], dtype=pl.FP32)
    with pl.at(level=pl.Level.CORE_GROUP):
        twice[:] = x + x
        out[:] = twice
    return out


@pl.jit.incore
def scaled_rows(x: pl.Tensor[[TOKENS, HIDDEN], pl.FP32], s: pl.Tensor[[TOKENS, 1], pl.FP32], out: pl.Out[pl.Tensor[[TOKENS, HIDDEN], pl.FP32]]):
    out[:] = pl.row_expand_mul(x, s)
    return out


@pl.jit.inline
def sum_of_rows(x: pl.Tensor, out: pl.Tensor):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.row_sum(x)
    return out


@CASES(f32(9, HIDDEN), expected=lambda x: x * x.sum(1, keepdims=True), more=[(f32(2, HIDDEN),), (f32(65, HIDDEN),)], tol=1e-5, compiles=1)
@pl.jit
def extents_declared_in_a_helper(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    """Only the helper says that rows are dynamic; the entry inherits it."""
    n = pl.tensor.dim(x, 0)
    sums = pl.create_tensor([n, 1], dtype=pl.FP32)
    sums = sum_of_rows(x, sums)
    out = scaled_rows(x, sums, out)
    return out


@CASES(f32(8, HIDDEN), expected=lambda x: x * float32(16), more=[(f32(3, HIDDEN),)], compiles=1)
@pl.jit
def buffers_swapped_in_a_loop(x: pl.Tensor, out: pl.Out[pl.Tensor[[TOKENS, HIDDEN], pl.FP32]]):
    tokens = pl.tensor.dim(x, 0)
    twos = pl.create_tensor([tokens, 1], dtype=pl.FP32, init_value=2.0)
    cur = pl.create_tensor([tokens, HIDDEN], dtype=pl.FP32)
    nxt = pl.create_tensor([tokens, HIDDEN], dtype=pl.FP32)
    cur = scaled_rows(x, twos, cur)
    for _ in pl.range(3):
        cur, nxt = scaled_rows(cur, twos, nxt), cur
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = cur
    return out


@CASES(f32(4, 6), expected=lambda x: np.array([[x.shape[0] * 10 + x.shape[1]]], np.float32) + x[-1:, -1:], more=[(f32(9, 3),)], compiles=1)
@pl.jit
def extents_as_numbers(x: pl.Tensor[[M, N], pl.FP32], out: pl.Out[pl.Tensor[[1, 1], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        rows, columns = x.shape
        last = pl.read(x, [rows - 1, columns - 1])
        code = pl.cast(rows * 10 + columns, pl.FP32)
        pl.write(out, [0, 0], code + last)
    return out


@CASES(f32(4, 3, 8), expected=lambda x: x.transpose(1, 0, 2).copy(), more=[(f32(1, 7, 8),), (f32(6, 2, 8),)], compiles=1)
@pl.jit
def batch_and_heads(x: pl.Tensor[[M, N, 8], pl.FP32], out: pl.Out[pl.Tensor[[N, M, 8], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.transpose(x, 0, 1)
    return out


@CASES(f32(30, 8), i32(4, low=0, high=7), expected=lambda x, n: np.stack([x[: n.sum()].sum(0), x[n.sum() :].sum(0)]), tol=1e-4,
       more=[(f32(64, 8), i32(4, low=0, high=16))], compiles=1)
@pl.jit
def bounds_from_data(x: pl.Tensor[[M, 8], pl.FP32], lengths: pl.Tensor[[4], pl.INT32], out: pl.Out[pl.Tensor[[2, 8], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        split = pl.const(0, pl.INDEX)
        for k in pl.range(4):
            split = split + pl.cast(pl.read(lengths, [k]), pl.INDEX)
        head = pl.tile.full([1, 8], dtype=pl.FP32, value=0.0)
        tail = pl.tile.full([1, 8], dtype=pl.FP32, value=0.0)
        for i in pl.range(split):
            head = head + pl.load(x, [i, 0], [1, 8])
        for i in pl.range(split, pl.tensor.dim(x, 0)):
            tail = tail + pl.load(x, [i, 0], [1, 8])
        pl.store(head, [0, 0], out)
        pl.store(tail, [1, 0], out)
    return out


@CASES(f16(3, 40), expected=lambda x: (x.astype(float32) * float32(0.5)).astype(np.float16), more=[(f16(3, 8),), (f16(3, 129),)], compiles=1)
@pl.jit
def dynamic_columns(x: pl.Tensor[[3, N], pl.FP16], out: pl.Out[pl.Tensor[[3, N], pl.FP16]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for j in pl.range(0, pl.tensor.dim(x, 1), 64):
            t = pl.load(x, [0, j], [3, 64], clamp=True)
            pl.store(pl.mul(t, 0.5), [0, j], out)
    return out


@CASES(f32(12, 5), expected=lambda x: x.reshape(-1, 20).max(1, keepdims=True), more=[(f32(4, 5),), (f32(80, 5),)], compiles=1)
@pl.jit
def reshaped_dynamic_extent(x: pl.Tensor[[M, 5], pl.FP32], out: pl.Out[pl.Tensor]):
    groups = pl.dynamic("GROUPS")
    out.bind_dynamic(0, groups)
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.row_max(pl.reshape(x, [x.shape[0] // 4, 20]))
    return out


@CASES(f32(0, 6), expected=lambda x: (x * float32(2), x.sum(0, keepdims=True)), more=[(f32(3, 6),)], tol=1e-5, compiles=1)
@pl.jit
def extent_of_zero(x: pl.Tensor[[M, 6], pl.FP32], out: pl.Out[pl.Tensor[[M, 6], pl.FP32]], total: pl.Out[pl.Tensor[[1, 6], pl.FP32]]):
    """No rows: nothing happens, and the sum of nothing is 0."""
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x * 2.0
        total[:] = pl.col_sum(x)
    return out, total


@CASES(f32(6, 10), f32(1, 10), expected=lambda x, b: x @ x.T + b[:, :1], more=[(f32(11, 10), f32(1, 10))], tol=1e-5, compiles=1)
@pl.jit
def symbol_twice_in_one_shape(x: pl.Tensor[[M, 10], pl.FP32], b: pl.Tensor, out: pl.Out[pl.Tensor[[M, M], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.matmul(x, x, b_trans=True) + b[:, 0:1]
    return out


@CASES(f32(7, 16), f32(7, 16), expected=lambda a, b: a * b - a)
@pl.program
class DynamicProgram:
    @pl.function(type=pl.FunctionType.InCore)
    def kernel(
        self, a: pl.Tensor[[M, 16], pl.FP32], b: pl.Tensor[[M, 16], pl.FP32], row: pl.Scalar[pl.INDEX], out: pl.Out[pl.Tensor[[M, 16], pl.FP32]]
    ) -> pl.Tensor[[M, 16], pl.FP32]:
        ta = pl.load(a, [row, 0], [1, 16])
        tb = pl.load(b, [row, 0], [1, 16])
        out = pl.store(pl.sub(pl.mul(ta, tb), ta), [row, 0], out)
        return out

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, a: pl.Tensor[[M, 16], pl.FP32], b: pl.Tensor[[M, 16], pl.FP32], out: pl.Out[pl.Tensor[[M, 16], pl.FP32]]) -> pl.Tensor[[M, 16], pl.FP32]:
        for i in pl.range(pl.tensor.dim(a, 0)):
            out = self.kernel(a, b, i, out)
        return out
