"""What a warm call costs when the kernel does almost nothing: three arrays of one element."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Iterator

import numba
import numpy as np
import torch
from measure import Pair

import tilejit.language as pl

Array = np.ndarray[tuple[int, ...], np.dtype[np.float32]]

torch.set_num_threads(1)


@pl.jit
def add(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = a + b


@numba.njit
def numba_add(a: Array, b: Array, out: Array) -> None:
    out[0, 0] = a[0, 0] + b[0, 0]


def rotating(calls: list[Callable[[], object]]) -> Callable[[], object]:
    """The calls in turn; costs one `next` more than a plain call."""
    turn = itertools.cycle(calls)
    return lambda: next(turn)()


def through_ctypes(a: Array, b: Array, out: Array) -> Callable[[], object]:
    """A C function that returns at once, called with the three data pointers as NumPy gives them."""
    function = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)(("memcmp", ctypes.CDLL(None)))
    return lambda: (out.ctypes.data, function(a.ctypes.data, b.ctypes.data, 0))


def cases() -> Iterator[Pair]:
    a, b, out = (np.ones((1, 1), np.float32) for _ in range(3))
    ta, tb, tout = (torch.ones(1, 1) for _ in range(3))
    ours = lambda: add(a, b, out)  # noqa: E731 - the peers are lambdas too: the same cost of being called
    yield Pair("3 NumPy arrays", "numba", ours, lambda: numba_add(a, b, out))
    yield Pair("3 NumPy arrays", "ctypes, 3 × .ctypes.data", ours, through_ctypes(a, b, out))
    yield Pair("3 NumPy arrays", "numpy.add(out=)", ours, lambda: np.add(a, b, out=out))
    yield Pair("3 torch tensors", "torch.add(out=)", lambda: add(ta, tb, tout), lambda: torch.add(ta, tb, out=tout))
    sizes = [[np.ones((1, n), np.float32) for _ in range(3)] for n in (1, 2, 3, 4)]
    four = [lambda args=args: add(*args) for args in sizes]
    yield Pair("4 signatures in turn", "1 signature", rotating([*four]), rotating([four[0]] * 4))
