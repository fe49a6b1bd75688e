"""Forms of public programs about products: accumulators that are filled part by part, scales in packed layouts."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from numpy import float32

import tilejit.language as pl
from tests.suite.harness import Array, Cases, data, f32

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
