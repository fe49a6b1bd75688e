"""Reductions over rows and columns of tensors and tiles, positions of extremes, valid regions, partial operands."""

from __future__ import annotations

import ml_dtypes
import numpy as np
from numpy import float32

import tilejit.language as pl
from tests.suite.harness import Cases, data, f16, f32, i32

CASES = Cases()


@CASES(
    f32(11, 37),
    expected=lambda x: (x.sum(1, keepdims=True), x.max(1, keepdims=True), x.min(1, keepdims=True), x.prod(1, keepdims=True)), tol=1e-5,
)
@pl.jit
def rows_of_a_tensor(x: pl.Tensor, s: pl.Out[pl.Tensor], hi: pl.Out[pl.Tensor], lo: pl.Out[pl.Tensor], p: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        s[:] = pl.row_sum(x)
        hi[:] = pl.row_max(x)
        lo[:] = pl.tensor.row_min(x)
        p[:] = pl.row_prod(x)
    return s, hi, lo, p


@CASES(
    f32(13, 29),
    expected=lambda x: (x.sum(0, keepdims=True), x.max(0, keepdims=True), x.min(0, keepdims=True), x.prod(0, keepdims=True)), tol=1e-5,
)
@pl.jit
def columns_of_a_tensor(x: pl.Tensor, s: pl.Out[pl.Tensor], hi: pl.Out[pl.Tensor], lo: pl.Out[pl.Tensor], p: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        s[:] = pl.col_sum(x)
        hi[:] = pl.col_max(x)
        lo[:] = pl.col_min(x)
        p[:] = pl.tensor.col_prod(x)
    return s, hi, lo, p


@CASES(f32(8, 50), expected=lambda x: np.concatenate([x.max(1, keepdims=True), x.min(1, keepdims=True), x.sum(1, keepdims=True)], 1), tol=1e-5)
@pl.jit
def rows_of_a_tile(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [8, 50])
        scratch = pl.create_tile([8, 50], dtype=pl.FP32, target_memory=pl.Mem.Vec)
        pl.store(pl.tile.row_max(t, scratch), [0, 0], out)
        pl.store(pl.tile.row_min(t, tmp_tile=scratch), [0, 1], out)
        pl.store(pl.row_sum(t, tmp_tile=scratch), [0, 2], out)
    return out


@CASES(f32(9, 14), expected=lambda x: np.concatenate([x.sum(0, keepdims=True), x.sum(0, keepdims=True), x.max(0, keepdims=True)]), tol=1e-5)
@pl.jit
def columns_of_a_tile(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [9, 14])
        tree = pl.create_tile([9, 14], dtype=pl.FP32)
        pl.store(pl.col_sum(t), [0, 0], out)
        pl.store(pl.col_sum(t, tree), [1, 0], out)
        pl.store(pl.tile.col_max(t), [2, 0], out)
    return out


@CASES(
    i32(7, 45, low=-6, high=6),
    expected=lambda x: (
        x.argmax(1, keepdims=True).astype(np.int32), x.argmin(1, keepdims=True).astype(np.int32),
        x.argmax(0, keepdims=True).astype(np.int32), x.argmin(0, keepdims=True).astype(np.int32),
    ),
)
@pl.jit
def positions_with_ties(x: pl.Tensor, a: pl.Out[pl.Tensor], b: pl.Out[pl.Tensor], c: pl.Out[pl.Tensor], d: pl.Out[pl.Tensor]):
    """Small integers: nearly every row has ties, the first position counts."""
    with pl.at(level=pl.Level.CORE_GROUP):
        a[:] = pl.row_argmax(x)
        b[:] = pl.row_argmin(x)
        c[:] = pl.col_argmax(x)
        d[:] = pl.tensor.col_argmin(x)
    return a, b, c, d


@CASES(f32(6, 33), expected=lambda x: (x.argmax(1, keepdims=True).astype(np.int32), x.argmin(0, keepdims=True).astype(np.int32)))
@pl.jit
def positions_in_a_tile(x: pl.Tensor, rows: pl.Out[pl.Tensor], columns: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [6, 33])
        scratch = pl.create_tile([6, 33], dtype=pl.FP32)
        pl.store(pl.row_argmax(t, scratch), [0, 0], rows)
        pl.store(pl.tile.col_argmin(t, scratch), [0, 0], columns)
    return rows, columns


@CASES(f32(2, 3, 5, 7), expected=lambda x: (x.sum(-1, keepdims=True), x.max(-2, keepdims=True)), tol=1e-5)
@pl.jit
def last_axes_of_rank_four(x: pl.Tensor, s: pl.Out[pl.Tensor], m: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        s[:] = pl.row_sum(x)
        m[:] = pl.col_max(x)
    return s, m


@CASES(f32(4, 3, 9), expected=lambda x: (x.sum(0, keepdims=True), x.sum(-1, keepdims=True)), tol=1e-5)
@pl.jit
def tile_of_rank_three(x: pl.Tensor, first: pl.Out[pl.Tensor], last: pl.Out[pl.Tensor]):
    """A column reduction of a tile of rank > 2 goes over its first axis."""
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0, 0], [4, 3, 9])
        tmp = pl.create_tile([4, 3, 9], dtype=pl.FP32)
        pl.store(pl.tile.col_sum(t), [0, 0, 0], first)
        pl.store(pl.tile.row_sum(t, tmp), [0, 0, 0], last)
    return first, last


@CASES(
    f32(6, 40), 13,
    expected=lambda x, n: (x[:, :n].sum(1, keepdims=True), x[:, :n].max(1, keepdims=True)), tol=1e-5,
    more=[(f32(6, 40), 1), (f32(6, 40), 40)], compiles=1,
)
@pl.jit(runtime_scalars=("n",))
def valid_columns_only(x: pl.Tensor, n: pl.INDEX, s: pl.Out[pl.Tensor], m: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [6, 40], valid_shape=[6, n])
        tmp = pl.create_tile([6, 40], dtype=pl.FP32)
        pl.store(pl.row_sum(t, tmp), [0, 0], s)
        pl.store(pl.row_max(t, tmp), [0, 0], m)
    return s, m


@CASES(f32(16, 12), 5, expected=lambda x, n: (x[:n].min(0, keepdims=True), x[:n].argmax(0, keepdims=True).astype(np.int32)), more=[(f32(16, 12), 16)])
@pl.jit(runtime_scalars=("n",))
def valid_rows_only(x: pl.Tensor, n: pl.INT32, m: pl.Out[pl.Tensor], where: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [16, 12], valid_shape=[n, 12])
        tmp = pl.create_tile([16, 12], dtype=pl.FP32)
        pl.store(pl.col_min(t), [0, 0], m)
        pl.store(pl.col_argmax(t, tmp), [0, 0], where)
    return m, where


@CASES(f16(5, 60, low=-1, high=1), expected=lambda x: x.astype(float32).sum(1, keepdims=True).astype(np.float16), tol=4e-3)
@pl.jit
def half_precision_rows(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [5, 60])
        tmp = pl.create_tile([5, 60], dtype=pl.FP16)
        pl.store(pl.row_sum(t, tmp), [0, 0], out)
    return out


@CASES(data(ml_dtypes.bfloat16, 5, 60), expected=lambda x: x.astype(float32).max(1, keepdims=True).astype(ml_dtypes.bfloat16))
@pl.jit
def brain_float_maximum(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.row_max(x)
    return out


@CASES(data(np.int16, 7, 41), expected=lambda x: (x.min(1, keepdims=True), x.sum(0, keepdims=True, dtype=np.int16)))
@pl.jit
def short_integers(x: pl.Tensor, lo: pl.Out[pl.Tensor], s: pl.Out[pl.Tensor]):
    """Sums of integers wrap in their own dtype."""
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [7, 41])
        tmp = pl.create_tile([7, 41], dtype=pl.INT16)
        pl.store(pl.row_min(t, tmp), [0, 0], lo)
        pl.store(pl.col_sum(t), [0, 0], s)
    return lo, s


@CASES(f32(24, 31), expected=lambda x: x.reshape(3, 8, 31).sum(2).max(0).reshape(8, 1), tol=1e-5)
@pl.jit
def running_maximum_of_sums(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        tmp = pl.create_tile([8, 31], dtype=pl.FP32)
        best = pl.tile.full([8, 1], dtype=pl.FP32, value=-float("inf"))
        for i in pl.range(0, 24, 8):
            best = pl.maximum(best, pl.row_sum(pl.load(x, [i, 0], [8, 31]), tmp))
        pl.store(best, [0, 0], out)
    return out


@CASES(f32(6, 20), f32(6, 20), expected=lambda a, b: np.hstack([a[:, :8] + b[:, :8], a[:, 8:]]))
@pl.jit
def part_add_of_a_shorter_one(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        ta = pl.load(a, [0, 0], [6, 20])
        tb = pl.load(b, [0, 0], [6, 20], valid_shape=[6, 8])
        pl.store(pl.part_add(ta, tb), [0, 0], out)
    return out


def _box(rows: int, columns: int) -> np.ndarray:
    inside = np.zeros((8, 16), bool)
    inside[:rows, :columns] = True
    return inside


@CASES(
    f32(8, 16), f32(8, 16), 3, 11,
    expected=lambda a, b, r, c: tuple(np.where(_box(r, c), f(a, b), a) for f in (np.multiply, np.maximum, np.minimum)),
    more=[(f32(8, 16), f32(8, 16), 8, 1), (f32(8, 16), f32(8, 16), 1, 16)],
)
@pl.jit(runtime_scalars=("r", "c"))
def part_ops_of_run_time_boxes(
    a: pl.Tensor, b: pl.Tensor, r: pl.INDEX, c: pl.INDEX, mul: pl.Out[pl.Tensor], hi: pl.Out[pl.Tensor], lo: pl.Out[pl.Tensor]
):
    with pl.at(level=pl.Level.CORE_GROUP):
        ta = pl.load(a, [0, 0], [8, 16])
        tb = pl.load(b, [0, 0], [8, 16], valid_shape=[r, c])
        pl.store(pl.tile.part_mul(ta, tb), [0, 0], mul)
        pl.store(pl.tile.part_max(ta, tb), [0, 0], hi)
        pl.store(pl.part_min(ta, tb), [0, 0], lo)
    return mul, hi, lo


@CASES(
    f32(10, 30), f32(1, 30),
    expected=lambda x, g: (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5) * g, tol=1e-5,
)
@pl.jit
def layer_norm(x: pl.Tensor, g: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        mean = pl.row_sum(x) / 30.0
        centred = pl.row_expand_sub(x, mean)
        var = pl.row_sum(centred * centred) * (1 / 30)
        out[:] = pl.col_expand_mul(pl.row_expand_mul(centred, pl.rsqrt(var + 1e-5)), g)
    return out


@CASES(f32(12, 18), expected=lambda x: (x - x.max()) / (x.max() - x.min()), tol=1e-5)
@pl.jit
def extremes_of_everything(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        hi = pl.row_max(pl.col_max(x))
        lo = pl.col_min(pl.row_min(x))
        out[:] = (x - hi) / (hi - lo)
    return out


@CASES(f32(5, 700), expected=lambda x: x.astype(np.float64).sum(1, keepdims=True), tol=1e-4)
@pl.program
class BlockedRowSum:
    @pl.function(type=pl.FunctionType.InCore)
    def kernel(self, x: pl.Tensor[[5, 700], pl.FP32], out: pl.Out[pl.Tensor[[5, 1], pl.FP32]]) -> pl.Tensor[[5, 1], pl.FP32]:
        zero: pl.Tile[[5, 1], pl.FP32] = pl.tile.full([5, 1], dtype=pl.FP32, value=0.0)
        tmp: pl.Tile[[5, 128], pl.FP32] = pl.create_tile([5, 128], dtype=pl.FP32)
        for j, (acc,) in pl.range(0, 700, 128, init_values=(zero,)):
            width: pl.Scalar[pl.INDEX] = pl.min(700 - j, 128)
            t: pl.Tile[[5, 128], pl.FP32] = pl.load(x, [0, j], [5, 128], valid_shape=[5, width])
            total = pl.yield_(pl.add(acc, pl.row_sum(t, tmp)))
        out = pl.store(total, [0, 0], out)
        return out

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, x: pl.Tensor[[5, 700], pl.FP32], out: pl.Out[pl.Tensor[[5, 1], pl.FP32]]) -> pl.Tensor[[5, 1], pl.FP32]:
        out = self.kernel(x, out)
        return out
