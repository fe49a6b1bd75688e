"""Integers that no 64 bits hold: the float that they mean next to floats, else a named error; they used to wrap around, mostly to zero."""

from __future__ import annotations

import numpy as np
import pytest

import tilejit.language as pl
from tilejit import ir
from tilejit.errors import TilejitError

PROGRAM = """
import tilejit.language as pl

@pl.program
class Wide:
    @pl.function
    def main(self, x: pl.Tensor[[4, 4], pl.{dtype}], out: pl.Out[pl.Tensor[[4, 4], pl.{out}]]) -> pl.Tensor[[4, 4], pl.{out}]:
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = {value}
        return out
"""
NUMPY = {"FP32": np.float32, "FP16": np.float16, "INT32": np.int32, "INT64": np.int64, "UINT64": np.uint64}


def parsed(value: str, dtype: str, out: str | None = None) -> ir.Program:
    program = pl.parse(PROGRAM.format(value=value, dtype=dtype, out=out or dtype))
    assert isinstance(program, ir.Program)
    return program


MEANINGS = [
    ("x * 2**70", "FP32", 3.0 * 2**70),
    ("2**70 * x", "FP32", 3.0 * 2**70),
    ("x * 2**63", "FP32", 3.0 * 2**63),
    ("x * (2**64 - 1)", "FP32", 3.0 * 2**64),
    ("x * -(2**70)", "FP32", -3.0 * 2**70),
    ("x * (-(2**63) - 1)", "FP32", -3.0 * 2**63),
    ("x / 2**70", "FP32", 3.0 / 2**70),
    ("pl.maximum(x, 2**70)", "FP32", 2.0**70),
    ("pl.where(x < 2**70, x, 0.0)", "FP32", 3.0),
    ("pl.where(x < 1.0, x, 2**70)", "FP32", 2.0**70),
    ("pl.full([4, 4], pl.FP32, 2**70)", "FP32", 2.0**70),
    ("x * pl.const(2**70, pl.FP32)", "FP32", 3.0 * 2**70),
    ("x * (pl.read(x, [0, 0]) * 2**70)", "FP32", 9.0 * 2**70),
    ("x * (pl.const(2.0, pl.FP32) * 2**70)", "FP32", 6.0 * 2**70),
    ("x / 2**65", "FP16", 0.0),
    ("x + 2**63", "UINT64", 2**63 + 3),
    ("pl.maximum(x, 2**64 - 1)", "UINT64", 2**64 - 1),
    ("pl.full([4, 4], pl.UINT64, 2**64 - 1)", "UINT64", 2**64 - 1),
    ("x + (pl.const(2, pl.UINT64) + 2**63)", "UINT64", 2**63 + 5),
    ("x + -(2**63)", "INT64", 3 - 2**63),
]


@pytest.mark.parametrize("platform", ["reference", "cpu"])
@pytest.mark.parametrize(("value", "dtype", "wanted"), MEANINGS)
def test_a_wide_integer_is_what_it_means_next_to_the_data(value: str, dtype: str, wanted: float, platform: str) -> None:
    program = parsed(value, dtype)
    x = np.full((4, 4), 3, NUMPY[dtype])
    out = np.zeros_like(x)
    ir.compile(program, platform=platform)(x, out)
    np.testing.assert_array_equal(out, np.full((4, 4), wanted, NUMPY[dtype]))
    again = pl.parse(program.as_python())
    assert isinstance(again, ir.Program)
    ir.assert_structural_equal(program, again)


BEYOND = r"is outside the range of INDEX"
MISTAKES = [
    ("x * 10**400", "FP32", "RangeError", r"about 2\*\*1328 is outside the range of FP32"),
    ("x * -(10**5000)", "FP32", "RangeError", r"about -2\*\*16609 is outside the range of FP32"),
    ("x * pl.const(10**400, pl.FP32)", "FP32", "RangeError", "is outside the range of FP32"),
    ("x * pl.const(2**70, pl.INT64)", "FP32", "DTypeError", "1180591620717411303424 does not fit into INT64"),
    ("pl.full([4, 4], pl.FP32, 10**400)", "FP32", "RangeError", "is outside the range of FP32"),
    ("x * pl.cast(2**70, pl.FP32)", "FP32", "RangeError", BEYOND),
    ("pl.full([2**70, 4], pl.FP32, 1.0)", "FP32", "RangeError", BEYOND),
    ("x * pl.cast(pl.cast(pl.read(x, [0, 0]), pl.INDEX) + 2**70, pl.FP32)", "FP32", "RangeError", BEYOND),
    ("pl.create_tensor([4, 4], dtype=pl.FP32, init_value=10**400)", "FP32", "RangeError", "is outside the range of FP32"),
    ("pl.create_tensor([4, 4], dtype=pl.INT32, init_value=2**70)", "INT32", "DTypeError", "does not fit INT32"),
    ("x * 2**70", "INT32", "DTypeError", "1180591620717411303424 does not fit INT32"),
    ("x + (-(2**63) - 1)", "INT64", "DTypeError", "-9223372036854775809 does not fit INT64"),
    ("pl.full([4, 4], pl.UINT64, 2**64)", "UINT64", "DTypeError", "18446744073709551616 does not fit UINT64"),
]


@pytest.mark.parametrize(("value", "dtype", "kind", "message"), MISTAKES)
def test_a_wide_integer_that_means_nothing_there_is_refused_at_its_place(value: str, dtype: str, kind: str, message: str) -> None:
    with pytest.raises(TilejitError, match=message) as caught:
        parsed(value, dtype)
    assert type(caught.value).__name__ == kind
    assert caught.value.source_lines[0].strip() == f"out[:] = {value}"
