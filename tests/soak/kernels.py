"""Kernels of many kinds, each with a call that checks itself against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tilejit.language as pl
from tilejit import ir

Call = Callable[[np.random.Generator], None]
M = pl.dynamic("M")


@pl.jit
def axpy(x: pl.Tensor, y: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = pl.add(pl.mul(x, 2.0), y)
    return out


@pl.jit
def softmax(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        e = pl.exp(pl.row_expand_sub(x, pl.row_max(x)))
        out[:] = pl.row_expand_div(e, pl.row_sum(e))
    return out


@pl.jit
def product(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.matmul(a, b, out_dtype=pl.FP32)
    return out


@pl.jit
def blocks(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    for i in pl.spmd(8):
        t = pl.load(x, [i * 16, 0], [16, 64])
        out = pl.store(pl.tanh(t), [i * 16, 0], out)
    return out


@pl.jit
def added(x: pl.Tensor, total: pl.InOut[pl.Tensor]):
    for i in pl.spmd(8):
        pl.store(pl.load(x, [i, 0], [1, 32]), [0, 0], total, atomic=pl.AtomicType.Add)
    return total


@pl.jit
def rows(x: pl.Tensor, index: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out = pl.store(pl.mgather(x, pl.load(index, [0, 0], [1, 12])), [0, 0], out)
    return out


@pl.jit.incore
def halved(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    x.bind_dynamic(0, M)
    out[:] = pl.mul(x, 0.5)
    return out


@pl.jit
def chained(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    x.bind_dynamic(0, M)
    out.bind_dynamic(0, M)
    middle = pl.create_tensor([x.shape[0], x.shape[1]], dtype=pl.FP32)
    middle = halved(x, middle)
    out = halved(middle, out)
    return out


@pl.jit
def counted(x: pl.Tensor, flags: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [4, 32])
        for i in pl.range(8):
            if flags[i] == 0:
                continue
            if flags[i] == 2:
                break
            t = pl.add(t, 1.0)
        pl.store(t, [0, 0], out)
    return out


@pl.jit
def sorted_rows(x: pl.Tensor, index: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.gather(pl.sort32(x, index), mask_pattern=1)
    return out


@pl.jit
def scaled_by(x: pl.Tensor, out: pl.Out[pl.Tensor], factor: pl.FP32):
    out[:] = x * factor
    return out


@pl.program
class Pipeline:
    @pl.function(type=pl.FunctionType.InCore)
    def negate(self, x: pl.Tensor[[32, 48], pl.FP32], out: pl.Out[pl.Tensor[[32, 48], pl.FP32]]):
        out = pl.store(pl.neg(pl.load(x, [0, 0], [32, 48])), [0, 0], out)
        return out

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, x: pl.Tensor[[32, 48], pl.FP32], out: pl.Out[pl.Tensor[[32, 48], pl.FP32]]):
        middle = pl.create_tensor([32, 48], dtype=pl.FP32)
        middle, first = pl.submit(self.negate, x, middle)
        out, _ = pl.submit(self.negate, middle, out, deps=[first])
        return out


def _floats(rng: np.random.Generator, *shape: int) -> Any:
    return rng.standard_normal(shape).astype(np.float32)


def _axpy(rng: np.random.Generator) -> None:
    x, y = _floats(rng, 96, 130), _floats(rng, 96, 130)
    np.testing.assert_allclose(axpy(x, y), 2 * x + y, rtol=1e-6, atol=1e-6)


def _softmax(rng: np.random.Generator) -> None:
    x = _floats(rng, 40, 200)
    e = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(softmax(x), e / e.sum(1, keepdims=True), rtol=1e-4, atol=1e-6)


def _product(rng: np.random.Generator) -> None:
    a, b = _floats(rng, 64, 96).astype(np.float16), _floats(rng, 96, 80).astype(np.float16)
    np.testing.assert_allclose(product(a, b), a.astype(np.float32) @ b.astype(np.float32), rtol=1e-3, atol=1e-2)


def _blocks(rng: np.random.Generator) -> None:
    x = _floats(rng, 128, 64)
    out = np.empty_like(x)
    blocks(x, out)
    np.testing.assert_allclose(out, np.tanh(x), rtol=1e-5, atol=1e-6)


def _added(rng: np.random.Generator) -> None:
    x, total = rng.integers(-99, 99, (8, 32)).astype(np.int32), np.zeros((1, 32), np.int32)
    added(x, total)
    np.testing.assert_array_equal(total[0], x.sum(0))


def _rows(rng: np.random.Generator) -> None:
    x, index = _floats(rng, 50, 33), rng.integers(0, 50, (1, 12)).astype(np.int32)
    out = np.empty((12, 33), np.float32)
    rows(x, index, out)
    np.testing.assert_array_equal(out, x[index[0]])


def _chained(rng: np.random.Generator) -> None:
    x = _floats(rng, int(rng.integers(1, 90)), 24)
    np.testing.assert_array_equal(chained(x), x * 0.25)


def _counted(rng: np.random.Generator) -> None:
    x, flags, out = _floats(rng, 4, 32), rng.integers(0, 3, 8).astype(np.int32), np.empty((4, 32), np.float32)
    counted(x, flags, out)
    before = flags[: int(np.argmax(flags == 2))] if (flags == 2).any() else flags
    np.testing.assert_allclose(out, x + int((before == 1).sum()), rtol=1e-5, atol=1e-5)


def _sorted_rows(rng: np.random.Generator) -> None:
    x, index = _floats(rng, 3, 32), np.tile(np.arange(32, dtype=np.uint32), (3, 1))
    np.testing.assert_array_equal(sorted_rows(x, index), -np.sort(-x, axis=1))


def _scaled_by(rng: np.random.Generator) -> None:
    _scaled(rng, float(rng.integers(1, 4)), int(rng.integers(1, 3)) * 8)


def _scaled(rng: np.random.Generator, factor: float, rows: int) -> None:
    x = _floats(rng, rows, 40)
    np.testing.assert_array_equal(scaled_by(x, factor=factor), x * np.float32(factor))


def _pipeline(rng: np.random.Generator) -> None:
    x = _floats(rng, 32, 48)
    np.testing.assert_array_equal(_compiled()(x), x)


_PROGRAMS: dict[str, Any] = {}


def _compiled() -> Any:
    if "pipeline" not in _PROGRAMS:
        _PROGRAMS["pipeline"] = ir.compile(Pipeline)
    return _PROGRAMS["pipeline"]


CALLS: tuple[Call, ...] = (_axpy, _softmax, _product, _blocks, _added, _rows, _chained, _counted, _sorted_rows, _scaled_by, _pipeline)


def every_specialisation(rng: np.random.Generator) -> None:
    """Every kernel in every form, so that nothing is left to compile."""
    for call in CALLS:
        call(rng)
    for factor in (1.0, 2.0, 3.0):
        for rows in (8, 16):
            _scaled(rng, factor, rows)
