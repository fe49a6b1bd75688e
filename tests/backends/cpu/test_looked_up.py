"""A right operand that is a function of bytes is looked up where rows are few, made where they are many, and the same either way."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import tilejit.language as pl
from tilejit import RunConfig
from tilejit.backends.cpu.lanes.bytes import ORDER, index_shift, together
from tilejit.backends.cpu.llvm.host import host
from tilejit.backends.cpu.products.elements import dot_for
from tilejit.dtypes import BF16

ROWS = pl.dynamic("ROWS")
HERE = together() == len(ORDER) and dot_for(host(), BF16) is not None
"""Whether this processor looks up so many bytes at once."""


@pl.jit
def multiplied(x: pl.Tensor, w: pl.Tensor, which: int, out: pl.Out[pl.Tensor]):
    x.bind_dynamic(0, ROWS)
    out.bind_dynamic(0, ROWS)
    with pl.at(level=pl.Level.CORE_GROUP):
        if which == 0:
            right = pl.cast(pl.ands(w, 15), pl.INT8) - 8
        elif which == 1:
            right = pl.cast(pl.shrs(w, 4), pl.INT8) - 8
        elif which == 2:
            right = pl.ands(w, 127)
        elif which == 3:
            right = pl.xors(w, 85)
        else:
            right = pl.ands(pl.shrs(w, 1), 3) * pl.ands(w, 7)
        out[:] = pl.matmul(x, right, b_trans=True, out_dtype=pl.FP32)
    return out


@pytest.mark.parametrize(("which", "k"), [(0, 128), (1, 70), (2, 5), (3, 64), (4, 130)])
def test_the_same_numbers_for_any_number_of_rows(which: int, k: int) -> None:
    rng = np.random.default_rng(which)
    w = rng.integers(0, 256, (23, k), np.uint8)
    w[0, :5] = (0, 127, 128, 255, 15)
    for rows in (1, 3, 4, 7, 32, 33):
        x = rng.standard_normal((rows, k), np.float32).astype(ml_dtypes.bfloat16)
        want, found = (np.zeros((rows, 23), np.float32) for _ in range(2))
        multiplied(x, w, which, want, config=RunConfig(platform="reference"))
        multiplied(x, w, which, found)
        np.testing.assert_allclose(found, want, rtol=2e-5, atol=2e-3)
    text = multiplied.compile(x, w, which, found).stage("ll")
    assert (".few:" in text) == (HERE and which != 3), "what all eight bits decide is made, the rest is looked up"


def test_which_bits_decide() -> None:
    assert [index_shift([function(byte) for byte in range(256)]) for function in (lambda b: b & 15, lambda b: b >> 4, lambda b: b & 127, lambda b: b)] == [
        0,
        1,
        0,
        None,
    ]


@pl.jit
def overwritten(x: pl.Tensor, w: pl.InOut[pl.Tensor], out: pl.Out[pl.Tensor]):
    """The bytes change before the product, which must not see it."""
    with pl.at(level=pl.Level.CORE_GROUP):
        right = pl.cast(pl.ands(w, 15), pl.INT8)
        w[:] = pl.ands(w, 0)
        out[:] = pl.matmul(x, right, b_trans=True, out_dtype=pl.FP32)
    return out


def test_bytes_that_are_written_in_between() -> None:
    rng = np.random.default_rng(0)
    x, bytes = rng.standard_normal((4, 64), np.float32).astype(ml_dtypes.bfloat16), rng.integers(0, 256, (8, 64), np.uint8)
    want, found = (np.zeros((4, 8), np.float32) for _ in range(2))
    overwritten(x, bytes.copy(), want, config=RunConfig(platform="reference"))
    overwritten(x, bytes.copy(), found)
    np.testing.assert_allclose(found, want, rtol=2e-5, atol=2e-3)
    assert want.any()
