"""Calls of one helper in a kernel share its specialisation only if nothing tells them apart."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import tilejit.language as pl
import tilejit.language as same_language
from tests.jit.conftest import MakeKernel
from tilejit.errors import UnsupportedFeatureError

X = np.arange(64, dtype=np.float32).reshape(8, 8)


@pl.jit.inline
def double(t: Any):
    return pl.mul(t, 2.0)


@pl.jit.inline
def is_large(t: Any):
    return t > 5.0


def test_a_tile_that_is_valid_in_part_is_another_than_a_whole_one(platform: str) -> None:
    @pl.jit
    def whole_first(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            whole = double(pl.load(x, [0, 0], [4, 8]))
            part = double(pl.load(x, [4, 0], [4, 8], valid_shape=[4, 3]))
            pl.store(pl.add(whole, part), [0, 0], out)

    @pl.jit
    def part_first(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            part = double(pl.load(x, [4, 0], [4, 8], valid_shape=[4, 3]))
            whole = double(pl.load(x, [0, 0], [4, 8]))
            pl.store(whole, [4, 0], out)
            pl.store(part, [0, 0], out)

    np.testing.assert_array_equal(whole_first(X), 2 * X[:4, :3] + 2 * X[4:, :3])
    out = np.zeros_like(X)
    part_first(X, out)
    np.testing.assert_array_equal(part_first(X)[4:], 2 * X[:4])
    np.testing.assert_array_equal(out[:4], np.pad(2 * X[4:, :3], ((0, 0), (0, 5))))


def test_a_tile_is_another_than_a_tensor(platform: str) -> None:
    @pl.jit
    def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            _packed = is_large(pl.load(x, [0, 0], [8, 8]))
            out[:] = is_large(x * 1.0)

    np.testing.assert_array_equal(kernel(X), X > 5)


@pl.jit.inline
def with_itself(m: Any):
    return m & m


def test_a_comparison_is_another_than_numbers(platform: str) -> None:
    @pl.jit
    def flags_first(x: pl.Tensor, flags: pl.Out[pl.Tensor], numbers: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            flags[:] = with_itself(x > 3)
            numbers[:] = with_itself(x * 1)

    @pl.jit
    def numbers_first(x: pl.Tensor, flags: pl.Out[pl.Tensor], numbers: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            numbers[:] = with_itself(x * 1)
            flags[:] = with_itself(x > 3)

    x = np.arange(8, dtype=np.int32).reshape(2, 4)
    for kernel in (flags_first, numbers_first):
        flags, numbers = kernel(x)
        assert (flags.dtype, numbers.dtype) == (bool, np.int32)
        np.testing.assert_array_equal(flags, x > 3)
        np.testing.assert_array_equal(numbers, x)


class Pair(NamedTuple):
    w: Any
    b: Any


SCALE = {"w": 10.0, "b": 20.0}


@pl.jit.inline
def of_keys(x: Any, both: Any):
    total = x * 0.0
    for key in both:
        total = total + SCALE[key]
    return total


@pl.jit.inline
def of_members(x: Any, both: Any):
    total = x * 0.0
    for item in both:
        total = total + SCALE[item] if isinstance(item, str) else total + item
    return total


def test_a_dict_is_another_than_a_named_tuple() -> None:
    @pl.jit
    def keys(x: pl.Tensor, named: Any, both: Any, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = of_keys(x, both)

    @pl.jit
    def members(x: pl.Tensor, named: Any, both: Any, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = of_members(x, both) + of_members(x, named)

    named, both = Pair(X, X), {"w": X, "b": X}
    np.testing.assert_array_equal(keys(X, named, both), np.full_like(X, 30))
    with pytest.raises(UnsupportedFeatureError, match="isinstance"):  # of a tensor; nothing asks that of a dict's keys
        members(X, named, both)


@pl.jit.inline
def seven(v: Any):
    return v * 7.0


@pl.jit.inline
def eight(v: Any):
    return v * 8.0


def test_two_names_of_the_language_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    @pl.jit(on_drift="recompile")
    def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.tensor.neg(same_language.tensor.abs(x))

    for replaced, wanted in ((None, -X), (seven, 7 * X), (eight, 8 * X)):
        if replaced is not None:
            monkeypatch.setattr(pl.tensor, "neg", replaced)
        for _ in range(3):
            np.testing.assert_array_equal(kernel(X), wanted)


def test_a_number_in_a_group_is_read_by_an_annotation_in_quotes(make_kernel: MakeKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pl.tile, "COLUMNS", 8, raising=False)
    head = "@pl.jit(on_drift='recompile')\ndef kernel(x: pl.Tensor, out: 'pl.Out[pl.Tensor[[8, pl.tile.COLUMNS], pl.FP32]]'):\n"
    kernel = make_kernel(head + "    out[:] = 1.0\n")
    assert [kernel(X).shape for _ in range(3)] == [(8, 8)] * 3
    monkeypatch.setattr(pl.tile, "COLUMNS", 4)
    assert [kernel(X).shape for _ in range(3)] == [(8, 4)] * 3
