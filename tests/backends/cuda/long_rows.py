"""`python -m tests.backends.cuda.long_rows`: rows of gangs, products of 8 bits, of few and of odd rows, in Triton's interpreter against the reference.

Programs run one after the other there, so a gang is one program that has the whole row; test_gpu.py has several.
"""

from __future__ import annotations

import os
from unittest.mock import patch

os.environ["TRITON_INTERPRET"] = "1"

import ml_dtypes
import numpy as np

import tilejit.language as pl
from tests.backends.cuda import interpreted
from tests.backends.cuda.kernels import TOKENS, weighed
from tilejit.backends.cuda import schedule
from tilejit.backends.cuda.grids import operators
from tilejit.backends.cuda.indexed import order
from tilejit.backends.cuda.nests import launches
from tilejit.backends.cuda.products import gemm
from tilejit.backends.cuda.text import library
from tilejit.runtime.config import RunConfig

assert interpreted.TARGET


@pl.jit
def softmax(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        e = pl.exp(pl.row_expand_sub(x, pl.row_max(x)))
        out[:] = pl.row_expand_div(e, pl.row_sum(e))


@pl.jit
def layernorm(x: pl.Tensor, gamma: pl.Tensor, beta: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        wide = pl.cast(x, pl.FP32)
        centred = pl.row_expand_sub(wide, pl.row_sum(wide) * (1.0 / x.shape[1]))
        normal = pl.row_expand_mul(centred, pl.rsqrt(pl.row_sum(centred * centred) * (1.0 / x.shape[1]) + 1e-5))
        out[:] = pl.cast(pl.col_expand_add(pl.col_expand_mul(normal, pl.cast(gamma, pl.FP32)), pl.cast(beta, pl.FP32)), pl.BF16, mode="rint")


@pl.jit
def shifted(x: pl.Tensor, least: pl.Out[pl.Tensor], out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        low = pl.row_min(x)
        out[:] = pl.row_expand_sub(x, low)
        least[:] = low


@pl.jit
def product(a: pl.Tensor, b: pl.Tensor, c: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        c[:] = pl.matmul(a, b, out_dtype=pl.FP32)


@pl.jit
def of_columns(a: pl.Tensor, b: pl.Tensor, c: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        c[:] = pl.matmul(a, b, out_dtype=c.dtype, a_trans=True)


@pl.jit
def of_integers(a: pl.Tensor, b: pl.Tensor, c: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        c[:] = pl.matmul(a, b, out_dtype=pl.INT32)


@pl.jit
def tile_product(a: pl.Tensor, b: pl.Tensor, c: pl.Out[pl.Tensor]):
    m, k = a.shape
    n = b.shape[1]
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.store(pl.matmul(pl.load(a, [0, 0], [m, k]), pl.load(b, [0, 0], [k, n])), [0, 0], c)


@pl.jit
def halves(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    x.bind_dynamic(0, TOKENS)
    out.bind_dynamic(0, TOKENS)
    half = out.shape[1]
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x[:, 0:half] * x[:, half : 2 * half]


@pl.jit
def largest(x: pl.Tensor, values: pl.Out[pl.Tensor], places: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        first, where = pl.topk(x, 5)
        values[:] = first
        places[:] = where


@pl.jit
def running(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:, 1 : x.shape[1] + 1] = pl.cumsum(x, axis=1)


@pl.jit
def twice(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x * 2.0 + x


@pl.jit
def batch(a: pl.Tensor, b: pl.Tensor, c: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        c[:] = pl.cast(pl.matmul(a, b), pl.FP16, mode="rint")


@pl.jit
def total(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.row_sum(x)


@pl.jit
def down(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.col_sum(x)


def agree(kernel: object, given: list[np.ndarray], results: list[np.ndarray], tolerance: float) -> None:
    """The same on both, in results that begin as something else."""
    found: list[list[np.ndarray]] = []
    for platform in ("triton", "reference"):
        made = [np.full_like(result, 77) for result in results]
        kernel(*given, *made, config=RunConfig(platform=platform))  # type: ignore[operator]
        found.append([result.astype(np.float32) for result in made])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)


def main() -> None:
    launches.LONGEST_ROW = 64  # as if no program held 301 columns
    rng = np.random.default_rng(5)
    x = rng.standard_normal((2, 301), np.float32)
    half = x.astype(ml_dtypes.bfloat16)
    agree(softmax, [x], [x], 1e-6)
    masked = np.where(np.arange(301) < 170, -np.inf, x).astype(np.float32)
    masked[1] = -np.inf  # a row of nothing else
    agree(softmax, [masked], [masked], 1e-6)
    agree(layernorm, [half, *(rng.standard_normal((1, 301)).astype(ml_dtypes.bfloat16) for _ in range(2))], [half], 2e-2)
    single = library.HELPERS["dot_in_parts"]
    with patch.dict(library.HELPERS, dot_in_parts=single.replace("PARTS = tl.constexpr(1)", "PARTS = tl.constexpr(4)")):  # as if shared memory were small
        sides = [rng.standard_normal(shape, np.float32) for shape in ((12, 130), (130, 130))]
        agree(tile_product, sides, [sides[0]], 1e-4)
    whole = rng.integers(-(1 << 30), 1 << 30, (2, 301), np.int32)
    agree(shifted, [whole], [whole[:, :1], whole], 0)
    agree(total, [x], [x[:, :1]], 1e-5)
    for dtype in (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2):
        a, b = (rng.standard_normal(shape).astype(dtype) for shape in ((33, 70), (70, 40)))
        for kernel in (product, tile_product):
            agree(kernel, [a, b], [np.zeros((33, 40), np.float32)], 1e-5)
        whole = [rng.integers(-3, 4, (70, side)).astype(dtype) for side in (33, 40)]
        for result in (np.float64, np.int32):
            agree(of_columns, whole, [np.zeros((33, 40), result)], 0)
    whole = [rng.integers(-9, 9, (128, 128), np.int8) for _ in range(2)]
    small = schedule.ProductSchedule(16, 32, 32, 4, 2)
    with patch.object(gemm, "product_of", lambda *shape: small), patch.object(gemm, "walkers_of", lambda blocks, copied: 3):  # as if it were large
        agree(of_integers, whole, [np.zeros((128, 128), np.int32)], 0)


    for rows in (3, 20, schedule.FEW[-1] + 6):
        scale = rng.standard_normal((40, 1), np.float32)
        x = rng.standard_normal((rows, 48)).astype(ml_dtypes.bfloat16)
        agree(weighed, [x, rng.integers(-9, 9, (40, 48), np.int8), scale], [np.zeros((rows, 40), np.float32)], 1e-4)
        agree(halves, [x.astype(np.float32)], [np.zeros((rows, 24), np.float32)], 0)
    long = [rng.standard_normal(shape).astype(np.float16) for shape in ((5, 1100), (1100, 40))]
    agree(product, long, [np.zeros((5, 40), np.float32)], 1e-3)  # in pieces of K
    for shape in ((2, 1501), (37, 41)):  # cells in a line, all blocks of it whole but the last
        line = rng.standard_normal(shape, np.float32)
        agree(twice, [line], [line], 0)
    with patch.object(order, "CHUNK", 4):  # as if lines were longer than a program holds
        numbers = rng.integers(-9, 9, (2, 77)).astype(np.float32)
        numbers[0, 7] = np.nan
        agree(largest, [numbers], [numbers[:, :5], np.zeros((2, 5), np.int32)], 0)
    agree(running, [line], [np.zeros((line.shape[0], line.shape[1] + 3), np.float32)], 1e-4)
    several = [rng.standard_normal((3, 17, 17)).astype(np.float16) for _ in range(2)]
    agree(batch, several, [several[0]], 1e-2)
    agree(down, [rng.standard_normal((70, 19), np.float32)], [np.zeros((1, 19), np.float32)], 1e-5)
    with patch.object(operators, "pays_to_align", lambda pitch, width, uses, work: pitch * width % 16 != 0):  # as if they were large
        for shapes in (((33, 70), (70, 41)), ((33, 72), (72, 41)), ((33, 70), (70, 40))):
            a, b = (rng.standard_normal(shape).astype(np.float16) for shape in shapes)
            agree(product, [a, b], [np.zeros((33, shapes[1][1]), np.float32)], 1e-4)
        a, b = (rng.standard_normal((70, side)).astype(np.float16) for side in (33, 41))
        agree(of_columns, [a, b], [np.zeros((33, 41), np.float32)], 1e-4)


if __name__ == "__main__":
    main()
