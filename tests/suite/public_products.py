"""Forms of public programs about products: accumulators that are filled part by part, scales in packed layouts."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from numpy import float32

import tilejit.language as pl
from tests.suite.harness import Array, Cases, f32

CASES = Cases()


# products added to a part of an accumulator ---------------------------------------------------------------------------


@CASES(f32(8, 16), f32(16, 24), expected=lambda a, b: np.concatenate([a[:4] @ b, a[4:] @ b + a[4:] @ b]), tol=1e-4)
@pl.jit
def added_to_slices_of_an_accumulator(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor[[8, 24], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        acc = pl.matmul(pl.tile.full([8, 16], pl.FP32, 0.0), pl.load(b, [0, 0], [16, 24]))
        right = pl.load(b, [0, 0], [16, 24])
        top = acc[0:4, :]
        top = pl.matmul_acc(top, pl.load(a, [0, 0], [4, 16]), right)
        pl.matmul_acc(acc[4:8, :], pl.load(a, [4, 0], [4, 16]), right)
        pl.matmul_acc(pl.slice(acc, [4, 24], [4, 0]), pl.load(a, [4, 0], [4, 16]), right)
        pl.store(acc, [0, 0], out)
    return out


def _added_to_rows(a: Array, b: Array, c: Array) -> Array:
    return c + np.concatenate([2 * (a[:2] @ b), a[2:4] @ b, 3 * (a[4:] @ b)])


@CASES(f32(8, 16), f32(16, 24), f32(8, 24), expected=_added_to_rows, tol=1e-4)
@pl.jit
def added_to_slices_of_a_tile_in_vector_memory(a: pl.Tensor, b: pl.Tensor, c: pl.Tensor, out: pl.Out[pl.Tensor[[8, 24], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        tile, right = pl.load(c, [0, 0], [8, 24]), pl.load(b, [0, 0], [16, 24])
        top = pl.tile.slice(tile, [4, 24], [0, 0])
        top = pl.matmul_acc(top, pl.load(a, [0, 0], [4, 16]), right)
        pl.matmul_acc(tile[0:4, :][0:2, :], pl.load(a, [0, 0], [2, 16]), right)
        for _ in pl.range(3):
            pl.matmul_acc(tile[4:8, :], pl.load(a, [4, 0], [4, 16]), right)
        pl.store(tile, [0, 0], out)
    return out


@CASES(f32(8, 32), f32(32, 24), expected=lambda a, b: np.concatenate([a[:4] @ b, np.zeros((4, 24), float32)]), tol=1e-4)
@pl.jit
def added_to_a_slice_in_a_loop(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor[[8, 24], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        acc = pl.create_tile([8, 24], pl.FP32, target_memory=pl.Mem.Acc)
        acc = pl.matmul_acc(acc, pl.tile.full([8, 8], pl.FP32, 0.0), pl.tile.full([8, 24], pl.FP32, 0.0), init_cond=True)
        part = pl.slice(acc, [4, 24], [0, 0])
        for k in pl.range(4):
            part = pl.matmul_acc(part, pl.load(a, [0, k * 8], [4, 8]), pl.load(b, [k * 8, 0], [8, 24]))
        pl.store(acc, [0, 0], out)
    return out


@CASES(f32(8, 32), f32(32, 24), expected=lambda a, b: a @ b, tol=1e-4)
@pl.jit
def slices_cut_in_every_round(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor[[8, 24], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        acc = pl.matmul(pl.tile.full([8, 8], pl.FP32, 0.0), pl.tile.full([8, 24], pl.FP32, 0.0))
        for k in pl.range(4):
            right = pl.load(b, [k * 8, 0], [8, 24])
            for half in pl.unroll(2):
                rows = acc[half * 4 : half * 4 + 4, :]
                rows = pl.matmul_acc(rows, pl.load(a, [half * 4, k * 8], [4, 8]), right)
        pl.store(acc, [0, 0], out)
    return out


@CASES(f32(8, 16), f32(16, 24), np.array([1], np.int32), expected=lambda a, b, c: np.concatenate([a[:4] @ b, np.zeros((4, 24), float32)]), tol=1e-4)
@pl.jit
def added_to_a_slice_in_a_branch(a: pl.Tensor, b: pl.Tensor, c: pl.Tensor, out: pl.Out[pl.Tensor[[8, 24], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        acc = pl.matmul(pl.tile.full([8, 16], pl.FP32, 0.0), pl.load(b, [0, 0], [16, 24]))
        if c[0] > 0:
            pl.matmul_acc(acc[0:4, :], pl.load(a, [0, 0], [4, 16]), pl.load(b, [0, 0], [16, 24]))
        pl.store(acc, [0, 0], out)
    return out


@CASES(f32(8, 16), f32(16, 24), np.array([1], np.int32), expected=lambda a, b, c: np.concatenate([5 * (a[:4] @ b), a[4:] @ b]), tol=1e-4)
@pl.jit
def parts_that_are_added_to_time_and_again(a: pl.Tensor, b: pl.Tensor, c: pl.Tensor, out: pl.Out[pl.Tensor[[8, 24], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        acc = pl.matmul(pl.tile.full([8, 16], pl.FP32, 0.0), pl.load(b, [0, 0], [16, 24]))
        left, right, bottom = pl.load(a, [0, 0], [4, 16]), pl.load(b, [0, 0], [16, 24]), acc[4:8, :]
        top = acc[0:4, :]
        for _ in pl.range(2):
            pl.matmul_acc(top, left, right)  # The product stays in the part, with or without a new name.
        top = pl.matmul_acc(top, left, right)
        if c[0] > 0:
            top = pl.matmul_acc(top, left, right)
        top = pl.matmul_acc(top, left, right)
        bottom = pl.matmul_acc(bottom, pl.load(a, [4, 0], [4, 16]), right)
        pl.store(acc, [0, 0], out)
    return out


@CASES(f32(8, 16), f32(16, 24), expected=lambda a, b: np.concatenate([a[:, :8] @ b[:8, :16] + a[:, :8] @ b[:8, :16], 0 * (a @ b)[:, 16:]], 1), tol=1e-4)
@pl.jit
def parts_of_parts(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor[[8, 24], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        acc = pl.matmul(pl.tile.full([8, 16], pl.FP32, 0.0), pl.load(b, [0, 0], [16, 24]))
        for half in pl.range(2):
            left = pl.load(a, [half * 4, 0], [4, 8])
            rows = acc[half * 4 : half * 4 + 4, :]
            part = rows[:, 0:16]
            part = pl.matmul_acc(part, left, pl.load(b, [0, 0], [8, 16]))
            pl.matmul_acc(pl.slice(acc[half * 4 : half * 4 + 4, :], [4, 8], [0, 8]), left, pl.load(b, [0, 8], [8, 8]))
            pl.matmul_acc(pl.slice(acc, [8, 16], [0, 0])[half * 4 : half * 4 + 4, 0:8], left, pl.load(b, [0, 0], [8, 8]))
        pl.store(acc, [0, 0], out)
    return out


@pl.jit.inline
def added_to_rows(whole: pl.Tile, a: pl.Tensor, b: pl.Tensor):
    pl.matmul_acc(whole[0:4, :], pl.load(a, [0, 0], [4, 16]), pl.load(b, [0, 0], [16, 24]))
    return whole


@pl.jit.inline
def added_to_all(part: pl.Tile, a: pl.Tensor, b: pl.Tensor):
    acc = pl.matmul(pl.load(a, [0, 0], [4, 16]), pl.load(b, [0, 0], [16, 24]))
    acc = pl.matmul_acc(acc, pl.load(a, [0, 0], [4, 16]), pl.load(b, [0, 0], [16, 24]))
    part = pl.matmul_acc(part, pl.load(a, [4, 0], [4, 16]), pl.load(b, [0, 0], [16, 24]))
    return part


@CASES(f32(8, 16), f32(16, 24), expected=lambda a, b: np.concatenate([3 * (a[:4] @ b), 2 * (a[4:] @ b)]), tol=1e-4)
@pl.jit
def helpers_add_to_parts(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor[[8, 24], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        acc = pl.matmul(pl.tile.full([8, 16], pl.FP32, 0.0), pl.load(b, [0, 0], [16, 24]))
        added_to_rows(acc, a, b)
        for _ in pl.range(2):
            acc = added_to_rows(acc, a, b)
        bottom = acc[4:8, :]
        bottom = added_to_all(bottom, a, b)
        added_to_all(acc[4:8, :], a, b)
        pl.store(acc, [0, 0], out)
    return out


# scales in packed layouts ---------------------------------------------------------------------------------------------


def packed_a(scale: Array) -> Array:
    """[R, C] in boxes of 16 × 2, row of boxes after row of boxes, each row by row."""
    out = np.empty(scale.size, scale.dtype)
    rows, columns = scale.shape
    for r in range(rows):
        for c in range(columns):
            out[r // 16 * columns * 16 + c // 2 * 32 + r % 16 * 2 + c % 2] = scale[r, c]
    return out.reshape(rows, columns)


def packed_b(scale: Array) -> Array:
    """[R, C] in boxes of 2 × 16, column of boxes after column of boxes, each column by column."""
    out = np.empty(scale.size, scale.dtype)
    rows, columns = scale.shape
    for r in range(rows):
        for c in range(columns):
            out[c // 16 * rows * 16 + r // 2 * 32 + c % 16 * 2 + r % 2] = scale[r, c]
    return out.reshape(rows, columns)


def e8m0(*shape: int, seed: int) -> Any:
    return (2.0 ** np.random.default_rng(seed).integers(-3, 4, shape)).astype(ml_dtypes.float8_e8m0fnu)


def e4m3(*shape: int, seed: int) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(ml_dtypes.float8_e4m3fn)


LEFT, RIGHT = e8m0(32, 4, seed=1), e8m0(4, 48, seed=2)


def scaled(a: Array, b: Array, left: Array, right: Array) -> Array:
    wide = a.astype(float32) * np.repeat(left.astype(float32), 32, 1)
    return wide @ (b.astype(float32) * np.repeat(right.astype(float32), 32, 0))


@CASES(e4m3(32, 128, seed=3), packed_a(LEFT), e4m3(128, 48, seed=4), packed_b(RIGHT), expected=lambda a, s, b, t: scaled(a, b, LEFT, RIGHT), tol=1e-3)
@pl.jit
def packed_scales(
    a: pl.Tensor[[32, 128], pl.FP8E4M3FN],
    s: pl.Tensor[[32, 4], pl.FP8E8M0, pl.MX_A_ZZ],
    b: pl.Tensor[[128, 48], pl.FP8E4M3FN],
    t: pl.Tensor[[4, 48], pl.FP8E8M0, pl.MX_B_NN],
    out: pl.Out[pl.Tensor[[32, 48], pl.FP32]],
):
    with pl.at(level=pl.Level.CORE_GROUP):
        left = pl.load(a, [0, 0], [32, 128], target_memory=pl.Mem.Mat)
        right = pl.load(b, [0, 0], [128, 48], target_memory=pl.Mem.Mat)
        left_scale = pl.load(s, [0, 0], [32, 4], target_memory=pl.Mem.Mat)
        right_scale = pl.load(t, [0, 0], [4, 48], target_memory=pl.Mem.Mat)
        pl.store(pl.matmul_mx(left, left_scale, right, right_scale), [0, 0], out)
    return out


@CASES(e4m3(32, 128, seed=3), packed_a(LEFT), e4m3(128, 48, seed=4), packed_b(RIGHT), expected=lambda a, s, b, t: scaled(a, b, LEFT, RIGHT), tol=1e-3)
@pl.jit
def packed_scales_in_blocks(
    a: pl.Tensor[[32, 128], pl.FP8E4M3FN],
    s: pl.Tensor[[32, 4], pl.FP8E8M0, pl.MX_A_ZZ],
    b: pl.Tensor[[128, 48], pl.FP8E4M3FN],
    t: pl.Tensor[[4, 48], pl.FP8E8M0, pl.MX_B_NN],
    out: pl.Out[pl.Tensor[[32, 48], pl.FP32]],
):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(2):
            acc = pl.create_tile([16, 48], pl.FP32, target_memory=pl.Mem.Acc)
            for k in pl.range(2):
                left = pl.load(a, [i * 16, k * 64], [16, 64])
                right = pl.load(b, [k * 64, 0], [64, 48])
                left_scale = pl.load(s, [i * 16, k * 2], [16, 2])
                right_scale = pl.load(t[k * 2 : k * 2 + 2], [0, 0], [2, 48])
                if k == 0:
                    acc = pl.matmul_mx(left, left_scale, right, right_scale)
                else:
                    acc = pl.matmul_mx_acc(acc, left, left_scale, right, right_scale)
            pl.store(acc, [i * 16, 0], out)
    return out


@CASES(packed_a(LEFT), packed_b(RIGHT), expected=lambda s, t: (LEFT.astype(float32), RIGHT[1:3, 5:40].astype(float32)))
@pl.jit
def packed_scales_as_numbers(
    s: pl.Tensor[[32, 4], pl.FP8E8M0, pl.MX_A_ZZ],
    t: pl.Tensor[[4, 48], pl.FP8E8M0, pl.MX_B_NN],
    a: pl.Out[pl.Tensor[[32, 4], pl.FP32]],
    b: pl.Out[pl.Tensor[[2, 35], pl.FP32]],
):
    with pl.at(level=pl.Level.CORE_GROUP):
        plain = pl.create_tensor([32, 4], pl.FP8E8M0)
        plain[:] = s
        a[:] = pl.cast(plain, pl.FP32)
        b[:] = pl.cast(pl.slice(t, [2, 35], [1, 5]), pl.FP32)
    return a, b


@pl.program
class PackedThroughFunctions:
    @pl.function(type=pl.FunctionType.InCore)
    def kernel(self, s: pl.Tensor[[32, 4], pl.FP8E8M0, pl.MX_A_ZZ], out: pl.Out[pl.Tensor[[32, 4], pl.FP32]]) -> pl.Tensor[[32, 4], pl.FP32]:
        t = pl.load(s, [16, 2], [16, 2])
        out = pl.store(pl.cast(pl.load(s, [0, 0], [32, 4]), pl.FP32), [0, 0], out)
        return pl.store(pl.mul(pl.cast(t, pl.FP32), 2.0), [16, 2], out)

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, s: pl.Tensor[[32, 4], pl.FP8E8M0, pl.MX_A_ZZ], out: pl.Out[pl.Tensor[[32, 4], pl.FP32]]) -> pl.Tensor[[32, 4], pl.FP32]:
        return self.kernel(s, out)


def corner_doubled(_: Array) -> Array:
    out = LEFT.astype(float32)
    out[16:, 2:] *= 2
    return out


CASES(packed_a(LEFT), expected=corner_doubled)(PackedThroughFunctions)
