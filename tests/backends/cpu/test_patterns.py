"""Lanes that do not lie side by side: loaded and stored in whole vectors, which never touch memory that is not theirs."""

from __future__ import annotations

import ctypes
import mmap
from itertools import product

import numpy as np
import pytest

import tilejit.language as pl
from tests.backends.cpu.native import Native
from tilejit.backends.cpu.lanes.patterns import Near, Pattern, fill_each_other, load_pattern, store_pattern, store_together
from tilejit.backends.cpu.llvm.text import Emitter, Module, Value
from tilejit.dtypes import BF16, FP32, UINT8, DType
from tilejit.runtime import RunConfig

LANES = 16
PATTERNS = [Pattern(outer, short, inner) for short, inner, outer in product((1, 2, 8, 16), (-1, 0, 1, 2), (-3, 0, 1, 2, 8, 40)) if short > 1 or inner == 0]
POINTERS = Value("%to", "ptr"), Value("%from", "ptr")


def cells(pattern: Pattern) -> list[int]:
    found = pattern.offsets(LANES)
    assert found is not None
    return found


def text_of(name: str, dtype: DType, pattern: Pattern, known: bool) -> Module:
    """A function that moves lanes that lie in a pattern to where they lie side by side, and one that moves them back."""
    module = Module()
    outer, inner = Value("%outer", "i64"), Value("%inner", "i64")
    used = pattern if known else Pattern(outer, pattern.short, pattern.inner if pattern.short == 1 or pattern.inner in (0, 1) else inner)
    for which in ("load", "store"):
        e = Emitter(module, f"{name}.{which}", "void", [*POINTERS, outer, inner])
        if which == "load":
            store_pattern(e, dtype, POINTERS[0], Pattern(1), load_pattern(e, dtype, POINTERS[1], used, LANES), LANES)
        else:
            store_pattern(e, dtype, POINTERS[0], used, load_pattern(e, dtype, POINTERS[1], Pattern(1), LANES), LANES)
        e.void("ret void")
        e.finish()
    return module


@pytest.mark.parametrize("dtype", [FP32, BF16, UINT8], ids=str)
def test_every_pattern_reads_and_writes_its_own_cells(dtype: DType) -> None:
    some = PATTERNS if dtype is FP32 else PATTERNS[::5]
    names = [(f"p{i}", pattern, known) for i, (pattern, known) in enumerate(product(some, (True, False))) if known or pattern.outer == 8]
    native = Native("\n".join(text_of(name, dtype, pattern, known).text() for name, pattern, known in names))
    signature = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64]
    rng = np.random.default_rng(3)
    for name, pattern, known in names:
        offsets = cells(pattern)
        low, span = min(offsets), max(offsets) - min(offsets) + 1
        x = rng.integers(0, 200, span).astype(dtype.numpy)
        size = x.itemsize
        out = np.zeros(LANES, dtype.numpy)
        start = x.ctypes.data - low * size
        native.function(f"{name}.load", *signature)(out.ctypes.data, start, pattern.outer, pattern.inner)
        np.testing.assert_array_equal(out, x[[offset - low for offset in offsets]], err_msg=f"{pattern} {known}")
        back, values = np.zeros(span, dtype.numpy), rng.integers(0, 200, LANES).astype(dtype.numpy)
        native.function(f"{name}.store", *signature)(back.ctypes.data - low * size, values.ctypes.data, pattern.outer, pattern.inner)
        expected = np.zeros(span, dtype.numpy)
        for offset, value in zip(offsets, values, strict=True):
            expected[offset - low] = value
        np.testing.assert_array_equal(back, expected, err_msg=f"{pattern} {known}")


def test_neighbours_share_their_loads_and_fill_each_others_gaps() -> None:
    assert not fill_each_other(Pattern(4), (0, 1, 2), LANES) and not fill_each_other(Pattern(2), (0, 2), LANES)
    assert not fill_each_other(Pattern(Value("%outer", "i64")), (0, 1), LANES)
    for pattern, shifts in ((Pattern(2), (0, 1)), (Pattern(3), (0, 1, 2)), (Pattern(4), (0, 2, 1, 3)), (Pattern(8, 4, 1), (0, 4)), (Pattern(4, 2, 1), (2, 0))):
        assert fill_each_other(pattern, shifts, LANES)
        module = Module()
        e = Emitter(module, "swap", "void", [*POINTERS])
        loaded: dict[int, Value] = {}
        near = [Near(POINTERS[1], shift, max(shifts), loaded) for shift in shifts]
        lanes = [load_pattern(e, FP32, e.offset(POINTERS[1], item.shift, "float"), pattern, LANES, item) for item in near]
        assert len(loaded) <= len(shifts)
        store_together(e, FP32, POINTERS[0], pattern, list(zip(shifts, lanes[::-1], strict=True)), LANES)
        e.void("ret void")
        e.finish()
        x, out = np.arange(LANES * len(shifts) + 64, dtype=np.float32), np.zeros(LANES * len(shifts) + 64, np.float32)
        Native(module.text()).function("swap", ctypes.c_void_p, ctypes.c_void_p)(out.ctypes.data, x.ctypes.data)
        expected = np.zeros_like(out)
        for shift, other in zip(shifts, shifts[::-1], strict=True):
            at = np.array(cells(pattern))
            expected[at + shift] = x[at + other]
        np.testing.assert_array_equal(out, expected, err_msg=str(pattern))


@pl.jit
def short_rows(x: pl.Tensor, row: pl.Tensor, column: pl.Tensor, out: pl.InOut[pl.Tensor]):
    n = row.shape[1]
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:, n:] = (x[:, :n] + row) * column - x[:, n:]


@pytest.mark.parametrize(("dtype", "columns"), [*product(["float32"], [1, 2, 3, 4, 16]), ("float64", 4), ("int16", 8)])
def test_rows_shorter_than_a_vector(columns: int, dtype: str) -> None:
    rng = np.random.default_rng(columns)
    for rows in (37, 2):
        x, row, column, out = (rng.integers(-9, 9, shape).astype(dtype) for shape in ((rows, 2 * columns), (1, columns), (rows, 1), (rows, 2 * columns)))
        expected = out.copy()
        expected[:, columns:] = (x[:, :columns] + row) * column - x[:, columns:]
        short_rows(x, row, column, out)
        np.testing.assert_array_equal(out, expected)


@pl.jit
def halves(x: pl.Tensor, y: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = pl.concat(x + y, x * y - 1.0)


@pl.jit
def halves_of_memory(x: pl.Tensor, y: pl.Tensor, out: pl.Out[pl.Tensor]):
    n = x.shape[1]
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:, :n] = x + y
        out[:, n:] = x * y - 1.0


@pytest.mark.parametrize("kernel", [halves, halves_of_memory], ids=["concat", "stores"])
@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_both_halves_of_rows_of_any_length(kernel: pl.JITFunction, dtype: str) -> None:
    rng = np.random.default_rng(5)
    for rows, columns in ((9, 1), (33, 4), (3, 5)):
        x, y = ((rng.standard_normal((rows, columns)) + 1j * rng.standard_normal((rows, columns))).real.astype(dtype) for _ in range(2))
        if dtype == "complex64":
            x, y = x + 1j * y, y - 2j * x
        out = np.empty((rows, 2 * columns), dtype)
        kernel(x, y, out)
        np.testing.assert_allclose(out, np.concatenate([x + y, x * y - 1], axis=1), rtol=1e-5, atol=1e-5)


@pl.jit
def over_itself(x: pl.InOut[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        x[:, 0:2] = x[:, 2:4] + 1.0
        x[:, 2:4] = x[:, 0:2] * 2.0


def test_a_store_that_another_one_reads_comes_first() -> None:
    x = np.random.default_rng(6).standard_normal((21, 4)).astype(np.float32)
    expected = x.copy()
    expected[:, 0:2] = expected[:, 2:4] + 1
    expected[:, 2:4] = expected[:, 0:2] * 2
    over_itself(x)
    np.testing.assert_allclose(x, expected, rtol=1e-6)


@pl.jit
def odd_ones(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = pl.conj(x) * x + 2.0


def test_nothing_behind_the_last_element_is_touched() -> None:
    """The tensor ends where its page does, and the next page cannot be read."""
    page = mmap.PAGESIZE
    area = mmap.mmap(-1, 2 * page)
    libc = ctypes.CDLL(None, use_errno=True)
    start = ctypes.addressof(ctypes.c_char.from_buffer(area))
    assert libc.mprotect(ctypes.c_void_p(start + page), ctypes.c_size_t(page), 0) == 0
    try:
        for count in (1, 15, 33, 64):
            x = np.frombuffer(area, np.complex64, count, page - 8 * count)
            x[:] = np.arange(count) + 1j
            np.testing.assert_allclose(odd_ones(x, config=RunConfig(num_threads=1)), x.conj() * x + 2)
            del x
    finally:
        libc.mprotect(ctypes.c_void_p(start + page), ctypes.c_size_t(page), mmap.PROT_READ | mmap.PROT_WRITE)
