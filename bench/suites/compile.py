"""From a kernel never seen before to native code, against numba compiling the same loops; a large program against itself on one processor."""

from __future__ import annotations

import ast
import math
import os
from collections.abc import Callable, Iterator
from typing import cast
from unittest import mock

import numba
import numpy as np
from block import block, block_loops
from measure import Pair, Target

import tilejit.language as pl

Array = np.ndarray[tuple[int, ...], np.dtype[np.float32]]
SAMPLES = 7
"""A numba compile takes long enough for few samples to do."""


@pl.jit
def add(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = a + b


def add_loops(a: Array, b: Array, out: Array) -> None:
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            out[i, j] = a[i, j] + b[i, j]


@pl.jit
def softmax(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        e = pl.exp(pl.row_expand_sub(x, pl.row_max(x)))
        out[:] = pl.row_expand_div(e, pl.row_sum(e))


def softmax_loops(x: Array, out: Array) -> None:
    for i in range(x.shape[0]):
        top = x[i, 0]
        for j in range(x.shape[1]):
            top = max(top, x[i, j])
        total = np.float32(0)
        for j in range(x.shape[1]):
            out[i, j] = math.exp(x[i, j] - top)
            total += out[i, j]
        for j in range(x.shape[1]):
            out[i, j] /= total


@pl.jit
def activations(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.tanh(pl.exp(pl.erf(x)))


def activations_loops(x: Array, out: Array) -> None:
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            out[i, j] = math.tanh(math.exp(math.erf(x[i, j])))


@pl.jit
def matmul(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.matmul(a, b)


def matmul_loops(a: Array, b: Array, out: Array) -> None:
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            out[i, j] = 0
        for k in range(a.shape[1]):
            for j in range(b.shape[1]):
                out[i, j] += a[i, k] * b[k, j]


def fresh(kernel: pl.JITFunction, args: tuple[Array, ...]) -> Callable[[], object]:
    """A compile that no cache answers."""

    def compile_again() -> object:
        kernel.cache_clear()
        return kernel.compile(*args)

    return compile_again


def fresh_numba(loops: Callable[..., object], args: tuple[Array, ...]) -> Callable[[], object]:
    signature = tuple(numba.typeof(arg) for arg in args)
    return lambda: numba.njit(loops).compile(signature)


def specialising(rng: np.random.Generator) -> Iterator[Pair]:
    """The preprocessor alone, on a kernel of a hundred lines with three helpers, against numba compiling the same loops, and against the standard library
    that parses and prints the result (J17)."""
    shapes = ((16, 40), (1, 40), (40, 24), (40, 24), (24, 40), (1, 40), (16, 40))
    args = tuple(rng.standard_normal(shape, np.float32) for shape in shapes)
    expected = np.empty_like(args[-1])

    def check() -> None:
        block(*args)
        loops = cast("Callable[..., object]", numba.njit(block_loops))
        loops(*args[:-1], expected)
        np.testing.assert_allclose(args[-1], expected, rtol=1e-3, atol=1e-3)

    def ours() -> object:
        return block.specialized_source(*args)

    text = block.specialized_source(*args)
    yield Pair("specialise 100 lines, 3 helpers", "numba", ours, fresh_numba(block_loops, args), samples=SAMPLES, check=check, target=Target(0.05))
    yield Pair("specialise 100 lines, 3 helpers", "ast.parse and unparse", ours, lambda: ast.unparse(ast.parse(text)), target=Target(4.8, 20_000))


@pl.jit
def many(x: pl.Tensor, w: pl.Tensor, out: pl.InOut[pl.Tensor]):
    for i in pl.unroll(40):
        with pl.at(level=pl.Level.CORE_GROUP):
            for j in pl.unroll(11):
                product = pl.matmul(out, w)
                e = pl.exp(pl.row_expand_sub(product, pl.row_max(product)))
                out[:] = pl.row_expand_div(e, pl.row_sum(e)) + pl.tanh(pl.erf(x) + i) * j


def large(rng: np.random.Generator) -> Pair:
    """40 functions of 60,000 lines of LLVM text in all, on two processors and on one."""
    args = tuple(rng.standard_normal(shape, np.float32) for shape in ((32, 48), (48, 48), (32, 48)))

    def on(threads: int) -> object:
        with mock.patch.dict(os.environ, {"TILEJIT_NUM_THREADS": str(threads)}):
            return fresh(many, args)()

    def check() -> None:
        results = [args[2].copy() for _ in range(2)]
        for threads, out in enumerate(results, 1):
            on(threads)
            many(*args[:2], out)
        np.testing.assert_array_equal(results[0], results[1])

    name = "compile 40 functions, 60,000 LLVM lines"
    return Pair(name, "one processor", lambda: on(2), lambda: on(1), samples=3, check=check, target=Target(1, 3_000_000))


def cases() -> Iterator[Pair]:
    rng = np.random.default_rng(0)
    a, b, out = (rng.standard_normal((64, 64), np.float32) for _ in range(3))
    yield from specialising(rng)
    pairs = (
        (add, add_loops, (a, b, out)), (softmax, softmax_loops, (a, out)), (activations, activations_loops, (a, out)), (matmul, matmul_loops, (a, b, out)),
    )  # fmt: skip
    for kernel, loops, args in pairs:
        yield Pair(f"compile {kernel.__name__}", "numba", fresh(kernel, args), fresh_numba(loops, args), samples=SAMPLES)
    yield large(rng)
