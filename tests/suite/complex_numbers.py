"""Complex numbers: arithmetic, parts, products, sums and movement, of tensors, tiles and scalars, through loops and branches."""

from __future__ import annotations

import numpy as np

import tilejit.language as pl
from tests.suite.harness import Array, Cases, Random, data, f32

CASES = Cases()


def c64(*shape: int) -> Random:
    return data(np.complex64, *shape)


def _arithmetic(x: Array, y: Array) -> Array:
    return ((x * y + 2 * x - y / x) * 1j + np.conj(y) - np.exp(-x * (0.5 - 2j)) - (-y) / 3).astype(np.complex64)


@CASES(c64(5, 7), c64(5, 7), expected=_arithmetic, tol=3e-5)
@pl.jit
def arithmetic(x: pl.Tensor, y: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = (x * y + 2.0 * x - y / x) * 1j + pl.conj(y) - pl.exp(-x * (0.5 - 2j)) - (-y) / 3.0


@CASES(c64(6, 9), c64(1, 9), f32(6, 1), expected=lambda x, y, r: (x * y + r).astype(np.complex64), tol=1e-5)
@pl.jit
def mixed_with_real_numbers(x: pl.Tensor, y: pl.Tensor, r: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x * y + r


@CASES(c64(4, 11), expected=lambda x: (np.abs(x), x.real, x.imag, x.real + 1j * np.abs(x)), tol=1e-6)
@pl.jit
def parts(x: pl.Tensor, size: pl.Out[pl.Tensor], re: pl.Out[pl.Tensor], im: pl.Out[pl.Tensor], both: pl.Out[pl.Tensor]):
    size[:] = pl.abs(x)
    re[:] = pl.real(x)
    im[:] = x.imag()
    both[:] = pl.complex(pl.real(x), pl.abs(x))


@CASES(c64(12, 7), c64(7, 5), expected=lambda x, y: x @ y, tol=1e-5)
@CASES(c64(3, 4, 6), c64(3, 6, 5), expected=lambda x, y: x @ y, tol=1e-5, name="products_in_batches")
@pl.jit
def products(x: pl.Tensor, y: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = x @ y


def _steps(x: Array, y: Array) -> Array:
    out = x * y * 3
    out[2:] *= np.complex64(1j)
    return out


@CASES(c64(6, 8), c64(6, 8), expected=_steps, tol=1e-5, threads=(1, 2))
@pl.jit
def carried_by_loops_and_branches(x: pl.Tensor, y: pl.Tensor, out: pl.Out[pl.Tensor]):
    for i in pl.spmd(3):
        a, b = pl.load(x, [i * 2, 0], [2, 8]), pl.load(y, [i * 2, 0], [2, 8])
        total = a * 0.0
        for _ in pl.range(3):
            total = total + a * b
        if i > 0:
            total = total * 1j
        pl.store(total, [i * 2, 0], out)


def _moved(x: Array) -> Array:
    t = np.concatenate([x.T[:, 2:4], x.T[:, 0:2]], axis=1)
    t[1, 1] = x[0, 0] * 2j
    return np.where(np.indices(t.shape)[0] > 2, t, t[::-1]) + x.sum(axis=0).reshape(6, 1)


@CASES(c64(4, 6), expected=_moved, tol=1e-5)
@pl.jit
def moved_and_summed(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    t = pl.create_tensor([6, 4], pl.COMPLEX64)
    t[:, 0:2] = x.T[:, 2:4]
    t[:, 2:4] = x.T[:, 0:2]
    t[1, 1] = x[0, 0] * 2j
    out[:] = pl.where(pl.iota([6, 4], axis=0) > 2, t, pl.flip(t, 0)) + x.sum(axis=0).reshape(6, 1)


@CASES(c64(9), expected=lambda x: np.array([np.prod(x[:4])], np.complex64), tol=1e-5)
@pl.jit
def one_number_after_the_other(x: pl.Tensor, out: pl.Out[pl.Tensor[[1], pl.COMPLEX64]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        total = x[0]
        for i in pl.range(1, 4):
            total = total * x[i]
        out[0] = total


@CASES(c64(5, 6), expected=lambda x: np.cumsum(x, axis=0, dtype=np.complex64), tol=1e-5)
@pl.jit
def scanned(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = pl.scan(pl.add, x, axis=0)


@CASES(c64(3, 5), expected=lambda x: (x * (1 + 0.5 - 1.5) + x * 3 - x * (-2 + 4j)).astype(np.complex64), tol=1e-5)
@pl.jit
def numbers_known_while_compiling(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    nothing = pl.cast(1, pl.COMPLEX64) + 0.5 - pl.const(1.5, pl.COMPLEX64)
    out[:] = x * nothing + x * pl.const(3, pl.COMPLEX64) - x * (pl.complex(-1.0, 2.0) * 2)
