"""Annotations that are names of `type` statements, which Python has since 3.12."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from tests.jit.conftest import MakeKernel
from tilejit.errors import DTypeError, ParserTypeError

pytestmark = [pytest.mark.dispatch, pytest.mark.skipif(sys.version_info < (3, 12), reason="needs Python 3.12")]
X = np.arange(8, dtype=np.float32).reshape(2, 4)
TYPES = """
type Input = pl.Tensor[[2, 4], pl.FP32]
type Output = pl.Out[Input]
type Half = pl.Tensor[[2, 4], pl.FP16]
type Count = pl.Scalar[pl.INT64]
type Perhaps = pl.Tensor | None
type Endless = missing
"""
BODY = "    with pl.at(level=pl.Level.CORE_GROUP):\n        out[:] = x * 2.0\n"


def kernel_of(make_kernel: MakeKernel, parameters: str, body: str = BODY) -> Any:
    return make_kernel(f"{TYPES}@pl.jit\ndef kernel({parameters}):\n{body}")


def test_parameters_are_what_the_statement_says(make_kernel: MakeKernel) -> None:
    np.testing.assert_array_equal(kernel_of(make_kernel, "x: Input, out: Output")(X), 2 * X)
    np.testing.assert_array_equal(kernel_of(make_kernel, "x: Perhaps, n: Count, out: pl.Out[Input]", BODY.replace("2.0", "pl.cast(n, pl.FP32)"))(X, 3), 3 * X)
    with pytest.raises(DTypeError):
        kernel_of(make_kernel, "x: Half, out: pl.Out[pl.Tensor]")(X)


def test_locals_and_programs_too(make_kernel: MakeKernel) -> None:
    body = "    with pl.at(level=pl.Level.CORE_GROUP):\n        t: Tile = pl.load(x, [0, 0], [2, 4])\n        pl.store(t, [0, 0], out)\n"
    text = f"type Tile = pl.Tile[[2, 4], pl.FP32]\n{TYPES}@pl.function\ndef inner(x: Input, out: Output):\n{body}"
    kernel = make_kernel(text + "@pl.jit\ndef kernel(x: Input, out: Output):\n    inner(x, out)\n")
    np.testing.assert_array_equal(kernel(X), X)


def test_a_statement_that_cannot_be_evaluated_is_named(make_kernel: MakeKernel) -> None:
    with pytest.raises(ParserTypeError, match="`type Endless` cannot be evaluated: NameError: name 'missing' is not defined"):
        kernel_of(make_kernel, "x: Endless, out: pl.Out[pl.Tensor]")(X)
