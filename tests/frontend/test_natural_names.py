"""Builtins and attributes that NumPy people write without thinking."""

from __future__ import annotations

import numpy as np
import pytest

import tilejit.language as pl
from tilejit.errors import ParserTypeError
from tilejit.runtime import RunConfig

X = np.random.default_rng(4).standard_normal((5, 12)).astype(np.float32)
Z = X[:, :6] - 2j * X[:, 6:]


@pl.jit
def sizes(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = abs(x - 1.0) * abs(-2.0)


@pl.jit
def tile_sizes(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.store(abs(pl.load(x, [0, 0], [5, 12])), [0, 0], out)


@pl.jit
def parts(z: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = z.mean(axis=0).real + abs(z.T.sum(axis=1)) - z.imag[0] * z.real().max(axis=0)  # pyright: ignore[reportIndexIssue]


@pytest.mark.parametrize("platform", ["reference", "cpu"])
def test_what_python_and_numpy_call_it(platform: str) -> None:
    on = RunConfig(platform=platform)
    np.testing.assert_allclose(sizes(X, config=on), abs(X - 1) * 2, rtol=1e-6)
    np.testing.assert_allclose(tile_sizes(X, config=on), abs(X), rtol=1e-6)
    np.testing.assert_allclose(parts(Z, config=on), Z.mean(axis=0).real + abs(Z.sum(axis=0)) - Z.imag[0] * Z.real.max(axis=0), rtol=1e-5, atol=1e-5)


@pl.jit
def repeated(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = pl.tile(x, (2, 1))  # pyright: ignore[reportCallIssue]


def test_a_namespace_that_is_called_says_what_it_is() -> None:
    with pytest.raises(ParserTypeError, match="it is the namespace of operators on tiles; to repeat an array"):
        repeated(X, np.empty((10, 12), np.float32))
