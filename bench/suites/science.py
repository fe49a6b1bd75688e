"""Kernels of scientific computing on the CPU, one thread: double precision against torch, loops over points against numba."""

from __future__ import annotations

from collections.abc import Iterator

import numba
import numpy as np
import torch
from measure import Pair

import tilejit.language as pl

torch.set_num_threads(1)


@pl.jit
def product(a: pl.Tensor, b: pl.Tensor, c: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        c[:] = pl.matmul(a, b)


@pl.jit
def mandelbrot(re: pl.Tensor, im: pl.Tensor, limit: pl.constexpr[int], out: pl.Out[pl.Tensor]):
    for i in pl.spmd(im.shape[0]):
        for j in pl.range(re.shape[1] // 64):
            with pl.at(level=pl.Level.CORE_GROUP):
                cx = pl.load(re, [0, j * 64], [1, 64])
                cy = cx * 0.0 + im[i, 0]
                x, y, count = cx, cy, cx * 0.0
                for _ in pl.range(limit):
                    xx, yy = x * x, y * y
                    stays = xx + yy <= 4.0
                    if not pl.any(stays):
                        break
                    count = pl.where(stays, count + 1.0, count)
                    x, y = pl.where(stays, xx - yy + cx, x), pl.where(stays, 2.0 * x * y + cy, y)
                pl.store(count, [i, j * 64], out)


@numba.njit
def numba_mandelbrot(re: np.ndarray, im: np.ndarray, limit: int, out: np.ndarray) -> None:
    for i in range(im.shape[0]):
        for j in range(re.shape[1]):
            cx, cy = re[0, j], im[i, 0]
            x, y, count = cx, cy, 0
            while count < limit:
                xx, yy = x * x, y * y
                if xx + yy > 4:
                    break
                x, y = xx - yy + cx, 2 * x * y + cy
                count += 1
            out[i, j] = count


def cases() -> Iterator[Pair]:
    torch.manual_seed(0)
    for size in (1024, 256):
        a, b, out, kept = (torch.randn(size, size, dtype=torch.float64) for _ in range(4))

        def check(out: torch.Tensor = out, kept: torch.Tensor = kept) -> None:
            torch.testing.assert_close(out, kept, rtol=1e-10, atol=1e-10)

        ours, theirs = lambda a=a, b=b, c=out: product(a, b, c), lambda a=a, b=b, c=kept: torch.mm(a, b, out=c)
        yield Pair(f"float64 matmul {size}", "torch.mm(out=)", ours, theirs, check=check)
    for dtype in (np.float32, np.float64):
        re, im = np.linspace(-2.2, 0.8, 1024, dtype=dtype)[None], np.linspace(-1.3, 1.3, 256, dtype=dtype)[:, None]
        counts, wanted = np.empty((256, 1024), dtype), np.empty((256, 1024), dtype)

        def same(counts: np.ndarray = counts, wanted: np.ndarray = wanted) -> None:
            assert (counts != wanted).mean() < 0.02, "points stay for other times"

        yield Pair(
            f"mandelbrot {dtype.__name__}, tiles of 64", "numba",
            lambda re=re, im=im, out=counts: mandelbrot(re, im, 100, out), lambda re=re, im=im, out=wanted: numba_mandelbrot(re, im, 100, out), check=same,
        )  # fmt: skip
