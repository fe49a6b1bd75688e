"""Programs that once went wrong, reduced: they agree everywhere, and their lowered form prints and parses back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilejit.language as pl
from tests.fuzz.text_forms import round_trip
from tilejit import ir
from tilejit.compiler import lower_program
from tilejit.runtime.config import RunConfig


@pl.jit
def selected_column_spread_over_rows(x: pl.Tensor, y: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        column = pl.load(x, [0, 0], [8, 1])
        row = pl.load(y, [0, 0], [1, 15])
        mask = pl.cmp(column, 0.0, cmp_type=4)
        tmp = pl.create_tile([8, 1], dtype=pl.FP32)
        pl.store(pl.minimum(row, pl.sel(mask, column, pl.neg(column), tmp)), [0, 0], out)
    return out


@pl.jit
def tensor_made_in_a_control_plane_loop(x: pl.Tensor, y: pl.Tensor, out: pl.Out[pl.Tensor]):
    total = x + 3.0
    for _ in pl.range(3):
        total = pl.maximum(total, 2.0)
    more = total + 1.0
    out[:, 0:1] = total
    out[:, 1:2] = more
    return out


@pl.jit
def value_carried_into_a_region(x: pl.Tensor, y: pl.Tensor, out: pl.Out[pl.Tensor]):
    ratio = pl.add(x, 2.0)
    with pl.at(level=pl.Level.CORE_GROUP):
        for _ in pl.range(3):
            ratio = pl.minimum(ratio, x)
        out[:, 0:1] = ratio
    return out


@pl.jit
def value_sliced_in_a_region(x: pl.Tensor, y: pl.Tensor, out: pl.Out[pl.Tensor]):
    negated = pl.neg(y)
    with pl.at(level=pl.Level.CORE_GROUP):
        out[0:1, 0:4] = pl.slice(negated, [1, 4], [0, 3])
    return out


@pl.jit
def parameter_as_first_value_of_a_loop(x: pl.Tensor, y: pl.Tensor, out: pl.Out[pl.Tensor]):
    total = x
    with pl.at(level=pl.Level.CORE_GROUP):
        for _ in pl.range(3):
            total = pl.add(total, x)
        out[:, 0:1] = total
    return out


@pl.jit
def implicit_loop_in_a_parallel_region(x: pl.Tensor, y: pl.Tensor, out: pl.Out[pl.Tensor]):
    for block in pl.parallel(4):
        with pl.at(level=pl.Level.CORE_GROUP):
            tile = pl.load(x, [block * 2, 0], [2, 1])
            for _ in pl.pipeline(3, stage=2):
                tile = pl.mul(tile, 0.5)
            pl.store(tile, [block * 2, 0], out)
    return out


FOUND = (
    selected_column_spread_over_rows,
    tensor_made_in_a_control_plane_loop,
    value_carried_into_a_region,
    value_sliced_in_a_region,
    parameter_as_first_value_of_a_loop,
    implicit_loop_in_a_parallel_region,
)


@pytest.mark.parametrize("kernel", FOUND, ids=lambda kernel: kernel.__name__)
def test_a_program_that_once_failed(kernel: Any) -> None:
    rng = np.random.default_rng(5)
    x, y = rng.uniform(-3, 3, (8, 1)).astype(np.float32), rng.uniform(-3, 3, (1, 15)).astype(np.float32)
    results = {platform: np.full((8, 15), 7, np.float32) for platform in ("reference", "cpu")}
    for platform, out in results.items():
        kernel(x, y, out, config=RunConfig(platform=platform))
    np.testing.assert_array_equal(results["cpu"], results["reference"])
    program = pl.parse(kernel.specialized_source(x, y, results["cpu"]))
    assert round_trip(program) is None
    assert round_trip(lower_program(program), "lower") is None


@pl.program
class OutputLeftAlone:
    @pl.function(type=pl.FunctionType.InCore)
    def helper(self, x: pl.Tensor[[1, 4], pl.FP32], kept: pl.Out[pl.Tensor[[4, 1], pl.FP32]], out: pl.Out[pl.Tensor[[1, 1], pl.FP32]]):
        tile = pl.load(x, [0, 3], [1, 1])
        for i in pl.range(1, 4):
            if not (abs(i - i) > 2):
                continue
            kept = pl.store(tile, [i, 0], kept)
        out = pl.store(tile, [0, 0], out)
        return kept, out

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, x: pl.Tensor[[1, 4], pl.FP32], kept: pl.Out[pl.Tensor[[4, 1], pl.FP32]], out: pl.Out[pl.Tensor[[1, 1], pl.FP32]]):
        kept, out = self.helper(x, kept, out)
        return kept, out


def test_an_output_whose_only_write_folds_away_prints_and_parses_back() -> None:
    assert round_trip(lower_program(OutputLeftAlone), "lower") is None


@pl.jit
def accumulated_into_its_own_operand(x: pl.Tensor, y: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        value = pl.abs(x)
        out[:] = pl.matmul_acc(value, value, y)
    return out


def test_a_product_may_be_added_to_one_of_its_operands() -> None:
    rng = np.random.default_rng(5)
    x, y = rng.standard_normal((7, 40)).astype(np.float32), rng.standard_normal((40, 40)).astype(np.float32)
    np.testing.assert_allclose(accumulated_into_its_own_operand(x, y), np.abs(x) + np.abs(x) @ y, rtol=1e-4, atol=1e-4)


@pl.program
class ReturnedThenChanged:
    @pl.function(type=pl.FunctionType.InCore)
    def helper(self, x: pl.Tensor[[4, 4], pl.FP32]) -> pl.Tensor[[4, 4], pl.FP32]:
        return pl.neg(x)

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, x: pl.Tensor[[4, 4], pl.FP32], out: pl.Out[pl.Tensor[[4, 4], pl.FP32]], kept: pl.Out[pl.Tensor[[4, 4], pl.FP32]]):
        value = self.helper(x)
        old = value
        with pl.at(level=pl.Level.CORE_GROUP):
            value = pl.assemble(value, x[0:2, 0:2], [1, 1])
            out[:] = value
        with pl.at(level=pl.Level.CORE_GROUP):
            kept[:] = old


def test_a_value_that_a_helper_returned_is_changed_under_its_other_name_too() -> None:
    lowered = lower_program(ReturnedThenChanged)
    assert round_trip(lowered, "lower") is None
    x = np.random.default_rng(6).standard_normal((4, 4)).astype(np.float32)
    changed = -x
    changed[1:3, 1:3] = x[0:2, 0:2]
    for program in (ReturnedThenChanged, lowered, pl.parse(lowered.as_python())):
        out, kept = np.zeros((2, 4, 4), np.float32)
        ir.compile(program)(x, out, kept)
        np.testing.assert_array_equal(out, changed)
        np.testing.assert_array_equal(kept, changed)


@pl.jit
def window_moved_within_its_tensor(x: pl.InOut[pl.Tensor], y: pl.InOut[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        x[4:7, 0:40] = x[3:6, 2:42]
        tile = pl.load(y, [3, 2], [3, 40])
        pl.store(tile, [4, 0], y)
        y[0:3, 1:41] = pl.neg(y[1:4, 0:40])


def test_a_window_may_move_onto_itself() -> None:
    x = np.random.default_rng(7).standard_normal((8, 44)).astype(np.float32)
    expected = x.copy()
    expected[4:7, 0:40] = x[3:6, 2:42].copy()
    other = expected.copy()
    other[0:3, 1:41] = -expected[1:4, 0:40]
    y = x.copy()
    window_moved_within_its_tensor(x, y)
    np.testing.assert_array_equal(x, expected)
    np.testing.assert_array_equal(y, other)
