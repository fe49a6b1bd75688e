"""Strides that are no multiple of an element, as fields of records have them: they matter where a step takes them, in the first call and in later ones."""

from __future__ import annotations

import numpy as np
import pytest

import tilejit.language as pl
from tilejit.errors import ArgumentError

pytestmark = pytest.mark.dispatch
RECORD = np.dtype([("a", "f4"), ("b", "i2")])


@pl.jit
def more(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x + 1.0
    return out


def field(*shape: int) -> np.ndarray:
    """The field of an array of records, of six bytes each; what it holds is 3."""
    made = np.zeros(shape, RECORD)["a"]
    made[...] = 3
    return made


def row() -> np.ndarray:
    return np.lib.stride_tricks.as_strided(np.full(16, 3, np.float32), (1, 8), (6, 4))


@pytest.mark.parametrize("shape", [(1, 1), (1, 8)], ids=["one element", "one row"])
def test_strides_that_no_step_takes_may_be_anything_in_every_call(shape: tuple[int, int]) -> None:
    more.cache_clear()
    make = field if shape == (1, 1) else lambda *_: row()
    assert any(stride % 4 for stride in make(*shape).strides)
    for call in range(6):
        np.testing.assert_array_equal(more(make(*shape)), np.full(shape, 4, np.float32))
        out = make(*shape)
        more(make(*shape), out)
        np.testing.assert_array_equal(out, np.full(shape, 4, np.float32))
        if call > 2:
            more(np.zeros(shape, np.float32))


def test_arrays_without_elements_have_no_steps() -> None:
    assert more(field(0, 5)).shape == (0, 5)


def test_strides_that_a_step_takes_are_refused_in_every_call() -> None:
    more.cache_clear()
    for _ in range(5):
        with pytest.raises(ArgumentError, match=r"strides \(6, 6\) are no multiple of the element size 4"):
            more(field(2, 1))
        with pytest.raises(ArgumentError, match=r"strides \(12, 6\) are no multiple of the element size 4"):
            more(field(1, 2))
        more(np.zeros((2, 1), np.float32))
        more(np.zeros((1, 2), np.float32))
