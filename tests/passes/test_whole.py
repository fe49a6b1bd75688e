"""Products written as loops over tiles become whole products, whatever the tiles are, and compute the same; what is no such product stays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilejit.language as pl
from tilejit.backends.cpu.target import PASSES, PASSES_IN_ORDER
from tilejit.passes.pipeline import run_pipeline
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import constant_of
from tilejit.tile_ir.program import Program

Kernel = Callable[..., Any]


@pl.jit
def loops(a: pl.Tensor, b: pl.Tensor, c: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(a.shape[0] // 16):
            for j in pl.range(b.shape[1] // 32):
                acc = pl.tile.full([16, 32], dtype=pl.FP32, value=0.0)
                for k in pl.range(a.shape[1] // 8):
                    acc = pl.matmul_acc(acc, pl.load(a, [i * 16, k * 8], [16, 8]), pl.load(b, [k * 8, j * 32], [8, 32]))
                pl.store(acc, [i * 16, j * 32], c)
    return c


@pl.jit
def grid(a: pl.Tensor, b: pl.Tensor, c: pl.Out[pl.Tensor]):
    for t in pl.spmd((a.shape[0] // 16) * (b.shape[1] // 32)):
        i = t // (b.shape[1] // 32)
        j = t % (b.shape[1] // 32)
        acc = pl.create_tile([16, 32], dtype=pl.FP32, target_memory=pl.Mem.Acc)
        for k in pl.range(a.shape[1] // 8):
            left = pl.load(a, [i * 16, k * 8], [16, 8])
            right = pl.load(b, [k * 8, j * 32], [8, 32])
            acc = pl.matmul(left, right) if k == 0 else pl.matmul_acc(acc, left, right)
        c = pl.store(acc, [i * 16, j * 32], c)
    return c


@pl.jit
def by_bytes(a: pl.Tensor, b: pl.Tensor, c: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for j in pl.range(b.shape[1] // 32):
            for i in pl.range(a.shape[0] // 16):
                acc = pl.tile.full([16, 32], dtype=pl.INT32, value=0)
                for k in pl.range(a.shape[1] // 8):
                    acc = pl.matmul_acc(acc, pl.load(a, [i * 16, k * 8], [16, 8]), pl.load(b, [k * 8, j * 32], [8, 32]))
                pl.store(acc, [i * 16, j * 32], c)
    return c


@pl.jit
def with_epilogue(a: pl.Tensor, b: pl.Tensor, bias: pl.Tensor, scale: pl.Tensor, c: pl.Out[pl.Tensor]):
    for i in pl.spmd(a.shape[0] // 16):
        for j in pl.range(b.shape[1] // 32):
            acc = pl.tile.full([16, 32], dtype=pl.FP32, value=0.0)
            for k in pl.range(a.shape[1] // 8):
                acc = pl.add(acc, pl.matmul(pl.load(a, [i * 16, k * 8], [16, 8]), pl.load(b, [k * 8, j * 32], [8, 32])))
            shifted = pl.col_expand_add(acc, pl.load(bias, [0, j * 32], [1, 32]))
            scaled = pl.row_expand_mul(shifted, pl.load(scale, [i * 16, 0], [16, 1]))
            c = pl.store(pl.cast(pl.maximum(scaled, -0.5), pl.BF16), [i * 16, j * 32], c)
    return c


def after(kernel: Any, passes: Any, *arguments: object) -> tuple[int, int, Sequence[tuple[object, ...]]]:
    """Loops that are left, blocks of the launch, and the shapes of the products."""
    parsed = pl.parse(kernel.specialized_source(*arguments))
    assert isinstance(parsed, Program)
    found = [op for function in run_pipeline(parsed, passes).functions.values() for op in function.walk()]
    products = [tuple(d.shaped_type(op.results[0]).shape) for op in found if isinstance(op, d.ApplyOp) and op.op.startswith("matmul")]
    blocks = [constant_of(op.blocks) for op in found if isinstance(op, d.LaunchOp) and op.blocks is not None]
    return sum(isinstance(op, d.ForOp) for op in found), int(blocks[0] or 0) if blocks else 1, products


def operands(dtype: Any, m: int = 48, n: int = 96, k: int = 40) -> tuple[Any, Any]:
    rng = np.random.default_rng(1)
    if np.dtype(dtype).kind == "i":
        return rng.integers(-128, 128, (m, k), dtype), rng.integers(-128, 128, (k, n), dtype)
    return rng.normal(size=(m, k)).astype(dtype), rng.normal(size=(k, n)).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.float16])
@pytest.mark.parametrize("kernel", [loops, grid], ids=["loops", "grid"])
def test_loops_over_tiles_are_one_product(kernel: Kernel, dtype: Any) -> None:
    a, b = operands(dtype)
    c = np.zeros((48, 96), np.float32)
    assert after(kernel, PASSES, a, b, c) == (0, 1, [(48, 96)])
    kernel(a, b, c)
    np.testing.assert_allclose(c, a.astype(np.float64) @ b.astype(np.float64), rtol=1e-5, atol=1e-5)


def test_the_order_of_the_author_stays_without_fast_maths() -> None:
    a, b = operands(np.float32)
    left, _, products = after(loops, PASSES_IN_ORDER, a, b, np.zeros((48, 96), np.float32))
    assert left == 3 and products == [(16, 32)]


def test_bytes_are_multiplied_exactly() -> None:
    a, b = operands(np.int8)
    c = np.zeros((48, 96), np.int32)
    assert after(by_bytes, PASSES, a, b, c) == (0, 1, [(48, 96)])
    by_bytes(a, b, c)
    assert np.array_equal(c, a.astype(np.int64) @ b.astype(np.int64))


def test_what_follows_cell_by_cell_grows_with_the_product() -> None:
    a, b = operands(np.float32)
    rng = np.random.default_rng(2)
    bias, scale = rng.normal(size=(1, 96)).astype(np.float32), rng.normal(size=(48, 1)).astype(np.float32)
    c = np.zeros((48, 96), ml_dtypes.bfloat16)
    assert after(with_epilogue, PASSES, a, b, bias, scale, c) == (0, 1, [(48, 96)])
    with_epilogue(a, b, bias, scale, c)
    want = np.maximum((a.astype(np.float64) @ b + bias) * scale, -0.5)
    np.testing.assert_allclose(c.astype(np.float64), want, rtol=1e-2, atol=1e-5)


@pl.jit
def in_place(a: pl.InOut[pl.Tensor], b: pl.Tensor):
    with pl.at(level=pl.Level.CORE_GROUP):
        for j in pl.range(2):
            acc = pl.tile.full([16, 16], dtype=pl.FP32, value=0.0)
            for k in pl.range(4):
                acc = pl.matmul_acc(acc, pl.load(a, [0, k * 8], [16, 8]), pl.load(b, [k * 8, j * 16], [8, 16]))
            pl.store(acc, [0, j * 16], a)
    return a


def in_place_by_numpy(a: Any, b: Any) -> None:
    for j in range(2):
        a[:, j * 16 : j * 16 + 16] = a @ b[:, j * 16 : j * 16 + 16]


@pl.jit
def overlapping(a: pl.Tensor, b: pl.Tensor, c: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(3):
            acc = pl.tile.full([16, 32], dtype=pl.FP32, value=0.0)
            for k in pl.range(4):
                acc = pl.matmul_acc(acc, pl.load(a, [i * 8, k * 8], [16, 8]), pl.load(b, [k * 8, 0], [8, 32]))
            pl.store(acc, [i * 16, 0], c)
    return c


@pl.jit
def weighted(a: pl.Tensor, b: pl.Tensor, c: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(3):
            acc = pl.tile.full([16, 32], dtype=pl.FP32, value=0.0)
            for k in pl.range(4):
                acc = pl.matmul_acc(acc, pl.load(a, [i * 16, k * 8], [16, 8]), pl.load(b, [k * 8, 0], [8, 32]))
            pl.store(pl.mul(acc, pl.cast(i, pl.FP32)), [i * 16, 0], c)
    return c


def test_a_product_that_reads_what_it_wrote_keeps_its_order() -> None:
    a, b = operands(np.float32, 16, 32, 32)
    want = a.copy()
    in_place_by_numpy(want, b)
    in_place(a, b)
    np.testing.assert_allclose(a, want, rtol=1e-4, atol=1e-4)


def test_windows_that_overlap_stay_apart() -> None:
    a, b = operands(np.float32, 48, 32, 32)
    c = np.zeros((48, 32), np.float32)
    overlapping(a, b, c)
    np.testing.assert_allclose(c, np.concatenate([a[i * 8 : i * 8 + 16] @ b for i in range(3)]), rtol=1e-4, atol=1e-4)


def test_what_depends_on_the_place_is_computed_there() -> None:
    a, b = operands(np.float32, 48, 32, 32)
    c = np.zeros((48, 32), np.float32)
    weighted(a, b, c)
    np.testing.assert_allclose(c, (a @ b) * np.repeat(np.arange(3), 16)[:, None], rtol=1e-4, atol=1e-4)
    assert after(weighted, PASSES, a, b, c)[0] == 2, "a small product in a loop stays as it was"
