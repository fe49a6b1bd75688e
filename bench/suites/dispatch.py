"""What a call costs when the kernel does almost nothing: warm, with the check of captured values included, and the first one of a process."""

from __future__ import annotations

import ctypes
import functools
import importlib
import importlib.util
import inspect
import itertools
import os
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import numba
import numpy as np
import torch
from measure import Count, Pair, Target

import tilejit.language as pl
from suites import start
from tilejit.jit import protocol
from tilejit.jit.function import JITFunction
from tilejit.runtime import arrays
from tilejit.runtime.config import RunConfig

Array = np.ndarray[tuple[int, ...], np.dtype[np.float32]]

torch.set_num_threads(1)

SCALE = 1.0
"""Captured by the kernels, so that every call checks whether it changed."""


def kernel() -> JITFunction:
    """A kernel of its own for each row: what one row taught it does not help another."""

    @pl.jit
    def add(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = a * SCALE + b

    return add


@numba.njit
def numba_add(a: Array, b: Array, out: Array) -> None:
    out[0, 0] = a[0, 0] + b[0, 0]


@numba.njit
def numba_sum(a: Array, b: Array) -> Array:
    out = np.zeros((1, 1), np.float32)
    out[0, 0] = a[0, 0] + b[0, 0]
    return out


def warm(call: Callable[[], object]) -> Callable[[], object]:
    """The first call compiles, the second finds the warm way, and only the third is warm."""
    call()
    call()
    return call


def rotating(calls: list[Callable[[], object]]) -> Callable[[], object]:
    """The calls in turn; costs one `next` more than a plain call."""
    turn = itertools.cycle(calls)
    return lambda: next(turn)()


def through_ctypes(a: Array, b: Array, out: Array) -> Callable[[], object]:
    """A C function that returns at once, called with the three data pointers as NumPy gives them."""
    function = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)(("memcmp", ctypes.CDLL(None)))
    return lambda: (out.ctypes.data, function(a.ctypes.data, b.ctypes.data, 0))


def tvm_ffi_nop() -> Callable[..., object] | None:
    """A compiled function of tvm-ffi that takes anything and does nothing."""
    if importlib.util.find_spec("tvm_ffi") is None:
        return None
    importlib.import_module("tvm_ffi.testing")
    return importlib.import_module("tvm_ffi").get_global_func("testing.nop")


def cases() -> Iterator[Pair | Count]:
    a, b, out = (np.ones((1, 1), np.float32) for _ in range(3))
    yield from numpy_cases(a, b, out)
    ta, tb, tout = (torch.ones(1, 1) for _ in range(3))
    add, nop = kernel(), tvm_ffi_nop()
    with_torch = warm(lambda: add(ta, tb, tout))
    yield Pair("3 torch tensors", "torch.add(out=)", with_torch, lambda: torch.add(ta, tb, out=tout), target=Target(0.25, 0.35))
    if nop is not None:
        yield Pair("3 torch tensors", "tvm-ffi", with_torch, lambda: nop(ta, tb, tout))
    turns = kernel()
    sizes = [[np.ones((1, n), np.float32) for _ in range(3)] for n in (1, 2, 3, 4)]
    four = [lambda args=args: turns(*args) for args in sizes]
    for call in four:
        warm(call)
    yield Pair("4 signatures in turn", "1 signature", rotating([*four]), rotating([four[0]] * 4), target=Target(2))
    yield from other_forms(a, b, out)
    yield from python_cases(a, b, out)
    yield from counters((a, b, out), (ta, tb, tout))
    yield from start.first_calls()


def numpy_cases(a: Array, b: Array, out: Array) -> Iterator[Pair]:
    add, nop = kernel(), tvm_ffi_nop()
    ours = warm(lambda: add(a, b, out))
    yield Pair("3 NumPy arrays", "numba", ours, lambda: numba_add(a, b, out), target=Target(0.6, 0.25))
    if nop is not None:
        yield Pair("3 NumPy arrays", "tvm-ffi", ours, lambda: nop(a, b, out))
    yield Pair("3 NumPy arrays", "ctypes, 3 × .ctypes.data", ours, through_ctypes(a, b, out))
    yield Pair("3 NumPy arrays", "numpy.add(out=)", ours, lambda: np.add(a, b, out=out))
    returning = kernel()
    yield Pair("2 NumPy arrays, result returned", "numba", warm(lambda: returning(a, b)), lambda: numba_sum(a, b))


def other_forms(a: Array, b: Array, out: Array) -> Iterator[Pair]:
    """The same call in other words, against the call in place."""
    add, ta, tb = kernel(), torch.ones(1, 1), torch.ones(1, 1)
    config = RunConfig(num_threads=1)
    plain = warm(lambda: add(a, b, out))
    yield Pair("keywords", "in place", warm(lambda: add(a, b=b, out=out)), plain, target=Target(10, 1))
    yield Pair("config=", "in place", warm(lambda: add(a, b, out, config=config)), plain, target=Target(10, 1))
    compiled = add.compile(a, b, out)
    yield Pair("compiled program", "in place", warm(lambda: compiled(a, b, out)), plain, target=Target(10, 0.3))
    # What is returned has to be allocated: 1.5 µs on top of that, so much as a call of NumPy or torch may take.
    for name, call in (("NumPy", add), ("NumPy, compiled program", compiled)):
        yield Pair(f"result returned, {name}", "numpy.zeros", warm(lambda call=call: call(a, b)), lambda: np.zeros((1, 1), np.float32), target=Target(100, 1.7))
    yield Pair("result returned, torch", "torch.zeros", warm(lambda: add(ta, tb)), lambda: torch.zeros(1, 1), target=Target(1.5))


def python_cases(a: Array, b: Array, out: Array) -> Iterator[Pair]:
    """Without native dispatch, as on an interpreter that it does not know."""
    add = kernel()
    os.environ["TILEJIT_FASTPATH"] = "0"
    peer = through_ctypes(a, b, out)
    yield Pair("3 NumPy arrays, pure Python", "ctypes, 3 × .ctypes.data", warm(lambda: add(a, b, out)), peer, target=Target(1))
    del os.environ["TILEJIT_FASTPATH"]


# what a warm call must not do -------------------------------------------------------------------------------------------

CALLS = 1000
WATCHED: tuple[tuple[str, Any, str], ...] = (
    ("adaptor objects", arrays.ArrayView, "__init__"),
    ("DLPack capsules", torch.Tensor, "__dlpack__"),
    ("cache signatures", protocol, "signature_digest"),
    ("signatures bound", inspect.Signature, "bind"),
)


def counters(*argument_sets: tuple[Any, ...]) -> Iterator[Count]:
    """How often warm calls do what they must not do, on both paths."""
    for path in ("1", "0"):
        for what, owner, name in WATCHED:
            case = f"{CALLS} warm calls, {'native' if path == '1' else 'pure Python'}"
            yield Count(case, what, functools.partial(counted, owner, name, path, argument_sets))


def counted(owner: Any, name: str, path: str, argument_sets: tuple[tuple[Any, ...], ...]) -> int:
    with mock.patch.dict(os.environ, {"TILEJIT_FASTPATH": path}):
        add = kernel()
        for _ in range(3):
            for args in argument_sets:
                add(*args)
        with mock.patch.object(owner, name, autospec=True, side_effect=getattr(owner, name)) as calls:
            for _ in range(CALLS // len(argument_sets)):
                for args in argument_sets:
                    add(*args)
            return calls.call_count
