"""Rows on complex numbers compute what Python's own complex numbers do; compiled quotients are NumPy's to the last bit."""

from __future__ import annotations

import cmath
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilejit.language as pl
from tests.ops.harness import value
from tilejit import RunConfig
from tilejit.dtypes import COMPLEX64
from tilejit.ops import table

RNG = np.random.default_rng(5)
X, Y = ((RNG.standard_normal((3, 4)) + 1j * RNG.standard_normal((3, 4))).astype(np.complex64) for _ in range(2))
R = RNG.standard_normal((3, 1)).astype(np.float32)
CELLWISE: dict[str, Callable[..., Any]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "neg": lambda x: -x,
    "abs": abs,
    "exp": cmath.exp,
    "conj": lambda x: x.conjugate(),
    "real": lambda x: x.real,
    "imag": lambda x: x.imag,
}


def one_by_one(function: Callable[..., Any], *arrays: Any) -> Any:
    return np.array([function(*map(complex, cells)) for cells in zip(*(array.ravel() for array in np.broadcast_arrays(*arrays)), strict=True)]).reshape(X.shape)


@pytest.mark.parametrize("name", CELLWISE)
@pytest.mark.parametrize("level", ["tensor", "tile"])
def test_elements_are_those_of_python(name: str, level: str) -> None:
    function, names = CELLWISE[name], table()[name].operands
    for second in (Y, R):
        arrays = (X, second)[: len(names)]
        found = value(name, level, **dict(zip(names, arrays, strict=True)))
        want = one_by_one(function, *arrays)
        assert found.dtype == (np.float32 if not np.iscomplexobj(want) else np.complex64)
        np.testing.assert_allclose(found, want, rtol=1e-6)


def test_numbers_are_made_of_parts_and_of_real_numbers() -> None:
    np.testing.assert_array_equal(value("complex", re=X.real.copy(), im=R), X.real + 1j * R)
    np.testing.assert_array_equal(value("cast", input=R, target_type=COMPLEX64, mode="rint"), R.astype(np.complex64))


def test_sums_and_products_add_up() -> None:
    np.testing.assert_allclose(value("row_sum", input=X)[:, 0], [sum(map(complex, row)) for row in X], rtol=1e-6)
    np.testing.assert_allclose(value("col_sum", input=X)[0], [sum(map(complex, column)) for column in X.T], rtol=1e-6)
    product = value("matmul", lhs=X, rhs=np.ascontiguousarray(Y.T))
    want = [[sum(complex(a) * complex(b) for a, b in zip(row, other, strict=True)) for other in Y] for row in X]
    np.testing.assert_allclose(product, want, rtol=1e-5, atol=1e-6)


@pl.jit
def quotient(x: pl.Tensor, y: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.div(x, y)


def test_compiled_quotients_are_those_of_numpy_also_of_zeros_infinities_and_numbers_at_the_ends_of_the_range() -> None:
    parts = np.array(list(itertools.product((0.0, -0.0, 1.5, -2.0, np.inf, -np.inf, np.nan, 3e38, 1e-40), repeat=4)), np.float32)
    x, y = (np.ascontiguousarray(half).view(np.complex64).reshape(81, 81) for half in np.split(parts, 2, axis=1))
    for divisor in (y, y[:, :1].copy(), y.real.copy()):
        out = np.empty_like(x)
        quotient(x, divisor, out)
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(out.view(np.float32), (x / divisor).view(np.float32))


@pl.jit
def spread(x: pl.Tensor, variance: pl.Out[pl.Tensor], deviation: pl.Out[pl.Tensor]):
    variance[:] = x.var(axis=0)
    deviation[:] = pl.std(x, axis=1, ddof=1)


@pytest.mark.parametrize("platform", ["cpu", "reference"])
def test_how_far_numbers_lie_apart_is_real(platform: str) -> None:
    variance, deviation = spread(X, config=RunConfig(platform=platform))
    assert variance.dtype == deviation.dtype == np.float32
    np.testing.assert_allclose(variance, X.var(axis=0), rtol=1e-5)
    np.testing.assert_allclose(deviation, X.std(axis=1, ddof=1), rtol=1e-5)
