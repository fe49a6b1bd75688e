"""Texts that are nested more deeply than Python can follow, and functions inside kernels: named errors at their place."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tilejit.errors import UnsupportedFeatureError

MakeKernel = Callable[..., Any]

SUM = """
@pl.jit
def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = {terms}
"""
NESTED = """
@pl.jit
def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    def q(t):
        return t
    out[:] = q(x)
"""


@pytest.mark.parametrize("count", [400, 900])
def test_a_long_sum_is_refused_where_it_stands(make_kernel: MakeKernel, count: int) -> None:
    kernel = make_kernel(SUM.format(terms=" + ".join(["x"] * count)))
    x = np.ones((2, 2), np.float32)
    with pytest.raises(UnsupportedFeatureError, match="nested too deeply") as caught:
        kernel(x, x.copy())
    assert caught.value.span is not None


def test_a_function_in_a_kernel_is_named_where_it_is_defined(make_kernel: MakeKernel) -> None:
    x = np.ones((2, 2), np.float32)
    with pytest.raises(UnsupportedFeatureError, match="nested function") as caught:
        make_kernel(NESTED)(x, x.copy())
    assert caught.value.span is not None and "def q" in (caught.value.span.source.line(caught.value.span.line) or "")


def test_a_full_stack_is_not_blamed_on_the_text(make_kernel: MakeKernel) -> None:
    x = np.ones((2, 2), np.float32)

    def called(depth: int, kernel: Any) -> None:
        kernel(x, x.copy()) if depth == 0 else called(depth - 1, kernel)

    told: list[str] = []
    for depth in range(100, sys.getrecursionlimit(), 10):
        kernel = make_kernel(SUM.format(terms=f"x + {depth}.0"))  # nobody has compiled it
        with contextlib.suppress(RecursionError):
            try:
                called(depth, kernel)
            except UnsupportedFeatureError as error:
                told.append(str(error))
    assert told and all("Python's stack ends" in text for text in told)


def test_a_number_of_more_digits_than_python_writes_is_named_where_it_stands(make_kernel: MakeKernel) -> None:
    kernel = make_kernel(SUM.format(terms=f"x + float(0x{'f' * 4000} % 7)"))
    with pytest.raises(UnsupportedFeatureError, match="more digits than Python writes") as caught:
        kernel(np.ones((2, 2), np.float32))
    assert caught.value.span is not None and caught.value.span.text.startswith("0xfff")
    limit = sys.get_int_max_str_digits()
    try:
        sys.set_int_max_str_digits(0)
        np.testing.assert_array_equal(kernel(np.ones((2, 2), np.float32)), np.full((2, 2), 1 + float((16**4000 - 1) % 7), np.float32))
    finally:
        sys.set_int_max_str_digits(limit)


def test_a_helper_with_a_number_of_more_digits_than_python_writes_is_called_again(make_kernel: MakeKernel) -> None:
    kernel = make_kernel(f"def helper():\n    return 0x{'f' * 4000}\n" + SUM.format(terms="x + float(helper() % 7)"))
    for _ in range(4):
        np.testing.assert_array_equal(kernel(np.ones((2, 2), np.float32)), np.full((2, 2), 1 + float((16**4000 - 1) % 7), np.float32))


ITSELF = """
@pl.jit
def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    a, d = [1.0], {{"k": 1.0}}
    {change}
    out[:] = x + float(len(a) + len(d))
"""


CHANGES = ["a.append(a)", "a.insert(0, (a, 2.0))", "a[0] = [a]", "a += [a]", "a.extend([a])", "d['a'] = d", "d.update(a=d)", "d |= {'a': [d]}"]


@pytest.mark.parametrize("change", CHANGES)
def test_a_list_or_dict_that_would_hold_itself_is_refused_where_it_would(make_kernel: MakeKernel, change: str) -> None:
    kernel = make_kernel(ITSELF.format(change=change))
    with pytest.raises(UnsupportedFeatureError, match=r"puts a (list|dict) into itself") as caught:
        kernel(np.ones((2, 2), np.float32))
    assert caught.value.span is not None and change.startswith(caught.value.span.text[:3])


def test_a_list_takes_its_own_members_over(make_kernel: MakeKernel) -> None:
    kernel = make_kernel(ITSELF.format(change="a += a; a.extend(a); d.update(d)"))
    np.testing.assert_array_equal(kernel(np.ones((2, 2), np.float32)), np.full((2, 2), 6.0, np.float32))
