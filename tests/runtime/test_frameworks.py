"""Results come back in the framework of the arguments, whichever it is, in the first call and in later ones."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tilejit.language as pl


@pl.jit
def doubled(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = pl.add(x, x)


@pl.jit
def both(x: pl.Tensor, y: pl.Tensor):
    return pl.add(x, y), pl.sub(x, y)


X = np.arange(15, dtype=np.float32).reshape(3, 5)
FRAMEWORKS = ("array_api_strict", "jax.numpy", "torch", "numpy")


@pytest.fixture
def xp(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A framework, whose arrays are in memory of the host."""
    found = pytest.importorskip(request.param)
    jax: Any = sys.modules.get("jax")
    with jax.default_device(jax.devices("cpu")[0]) if request.param == "jax.numpy" else contextlib.nullcontext():
        yield found


@pytest.mark.dispatch
@pytest.mark.parametrize("xp", FRAMEWORKS, indirect=True)
def test_results_are_arrays_of_the_caller(xp: Any, platform: str) -> None:
    x = xp.asarray(X)
    for _ in range(5):
        result = doubled(x)
        assert type(result) is type(x)
        np.testing.assert_array_equal(np.from_dlpack(result), 2 * X)
    for turned in (x.T, xp.asarray(X[:, ::2].copy())):
        result = doubled(turned)
        assert type(result) is type(x)
        np.testing.assert_array_equal(np.from_dlpack(result), np.add(np.from_dlpack(turned), np.from_dlpack(turned)))
    total, gap = both(x, x)
    assert (type(total), type(gap)) == (type(x), type(x))
    compiled = doubled.compile(x)
    assert all(type(compiled(x)) is type(x) for _ in range(5))


@pytest.mark.dispatch
def test_the_first_array_decides_and_arrays_without_functions_get_numpy() -> None:
    xp: Any = pytest.importorskip("array_api_strict")

    class Plain:
        __array_interface__ = X.__array_interface__

    for _ in range(4):
        assert type(both(xp.asarray(X), X)[0]) is type(xp.asarray(X))
        assert type(both(X, xp.asarray(X))[0]) is np.ndarray
        assert type(doubled(Plain())) is np.ndarray


def test_an_array_that_may_not_be_written_is_refused_as_an_output() -> None:
    jnp: Any = pytest.importorskip("jax.numpy")
    with pytest.raises(TypeError, match="read-only"):
        doubled(jnp.asarray(X), jnp.asarray(X))
