"""Reshaped views of memory with gaps have the strides that NumPy gives them, on the host and inside of kernels; where it would copy, there are none."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from tilejit.backends.cuda.control_plane import host
from tilejit.backends.cuda.program.views import regrouped
from tilejit.backends.cuda.text import numbers
from tilejit.backends.cuda.text.values import index

SHAPES = [shape for rank in (1, 2, 3) for shape in itertools.product((1, 2, 3, 4, 6, 12), repeat=rank) if math.prod(shape) in (12, 24)]
CUTS = [
    (slice(None), slice(None), slice(None)),
    (slice(None), slice(0, 2), slice(None)),
    (slice(0, 2), slice(None), slice(1, 3)),
    (slice(None), 1, slice(None)),
]


def by_numpy(array: np.ndarray, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    made = array.reshape(shape)
    return tuple(stride // array.itemsize for stride in made.strides) if np.shares_memory(made, array) else None


@pytest.mark.parametrize("cut", CUTS, ids=str)
def test_strides_are_those_of_numpy(cut: tuple[slice | int, ...]) -> None:
    array = np.arange(72, dtype=np.float32).reshape(3, 4, 6)[cut]
    shapes = [shape for shape in SHAPES if math.prod(shape) == array.size] + [(array.size,), array.shape, (1, *array.shape, 1)]
    dims = [(extent, stride // array.itemsize) for extent, stride in zip(array.shape, array.strides, strict=True)]
    views = 0
    for shape in shapes:
        wanted = by_numpy(array, shape)
        on_host = regrouped([(host.number(a), host.number(b)) for a, b in dims], [*map(host.number, shape)], host.number(1), host.mul, host.same)
        inside = regrouped([(index(a), index(b)) for a, b in dims], [*map(index, shape)], index(1), numbers.mul, numbers.same)
        for found in (on_host, inside):
            assert (found is None) == (wanted is None), (array.shape, shape)
            if found is not None and wanted is not None:
                views += 1
                assert [item.const for item, extent in zip(found, shape, strict=True) if extent != 1] == [
                    s for s, n in zip(wanted, shape, strict=True) if n != 1
                ]
    assert views


def test_views_of_nothing_need_no_strides() -> None:
    found = regrouped(
        [(host.number(0), host.number(9)), (host.number(4), host.number(1))], [host.number(2), host.number(0)], host.number(1), host.mul, host.same
    )
    assert found is not None and len(found) == 2
