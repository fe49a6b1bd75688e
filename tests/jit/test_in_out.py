"""Kernels that change tensors of the caller and return values: the same in every style of call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilejit.language as pl

pytestmark = pytest.mark.dispatch
CALLS = 4
"""The second call teaches the warm ways, the third one takes them."""
rng = np.random.default_rng(23)


@pl.jit
def value(x: pl.Tensor, acc: pl.InOut[pl.Tensor]):
    acc += x
    return x * 2.0


@pl.jit
def value_and_own(x: pl.Tensor, acc: pl.InOut[pl.Tensor]):
    acc += x
    return acc, x * 2.0


@pl.jit
def number_and_own(x: pl.Tensor, acc: pl.InOut[pl.Tensor]):
    acc += x
    return x.shape[0], acc, acc[0:1, :]


@pl.jit
def only_own(x: pl.Tensor, acc: pl.InOut[pl.Tensor]):
    acc += x
    return acc


@pl.jit
def with_output(x: pl.Tensor, acc: pl.InOut[pl.Tensor], out: pl.Out[pl.Tensor]):
    acc += x
    out[:] = x * 2.0
    return acc, x + 1.0, out


Expected = Callable[[np.ndarray, np.ndarray], list[object]]
CASES: list[tuple[Any, Expected]] = [
    (value, lambda x, acc: [x * 2]),
    (value_and_own, lambda x, acc: [x * 2]),
    (number_and_own, lambda x, acc: [x.shape[0], acc[:1]]),
    (only_own, lambda x, acc: []),
    (with_output, lambda x, acc: [x + 1, x * 2]),
]
NAMES = [kernel.definition.name for kernel, _ in CASES]


def check(result: object, x: np.ndarray, acc: np.ndarray, old: np.ndarray, expected: Expected) -> None:
    np.testing.assert_array_equal(acc, old + x)
    wanted = expected(x, old + x)
    found = [] if result is None else list(result) if isinstance(result, tuple) else [result]
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(np.asarray(one), other)


@pytest.mark.parametrize(("kernel", "expected"), CASES, ids=NAMES)
def test_what_the_caller_gave_is_changed_and_not_returned(kernel: Any, expected: Expected, platform: str) -> None:
    program = kernel.compile(np.empty((5, 3), np.float32), np.empty((5, 3), np.float32))
    styles: list[Callable[[np.ndarray, np.ndarray], object]] = [kernel, lambda x, acc: kernel(acc=acc, x=x), program]
    for style in styles:
        for _ in range(CALLS):
            x, old = rng.standard_normal((2, 5, 3), np.float32)
            acc = old.copy()
            check(style(x, acc), x, acc, old, expected)


@pytest.mark.torch
@pytest.mark.parametrize(("kernel", "expected"), CASES, ids=NAMES)
def test_tensors_of_torch_are_no_different(kernel: Any, expected: Expected, platform: str) -> None:
    torch = pytest.importorskip("torch")
    for _ in range(CALLS):
        x, old = rng.standard_normal((2, 5, 3), np.float32)
        acc = torch.from_numpy(old.copy())
        check(kernel(torch.from_numpy(x), acc), x, acc.numpy(), old, expected)


def test_a_given_output_is_left_out_too(platform: str) -> None:
    x, old = rng.standard_normal((2, 5, 3), np.float32)
    for _ in range(CALLS):
        acc, out = old.copy(), np.full_like(x, np.nan)
        np.testing.assert_array_equal(with_output(x, acc, out), x + 1)
        np.testing.assert_array_equal(out, x * 2)
        np.testing.assert_array_equal(acc, old + x)
