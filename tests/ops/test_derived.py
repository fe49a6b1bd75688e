"""Derived rows: a term over other rows is all that an op needs, on every platform."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilejit.language as pl
from tests.ops.harness import run
from tilejit import ops
from tilejit.errors import TilejitError
from tilejit.ops.dtype_rules import NUMBERS, floating
from tilejit.ops.math import exp, unary
from tilejit.ops.spec import TABLE, Operand
from tilejit.ops.terms import derived, steps, term_of
from tilejit.runtime import RunConfig

DERIVED = [row for row in ops.table().values() if row.derived is not None]
PLATFORMS = ("reference", "cpu", "a2a3", "a5")


def softplus(x: Any) -> Any:
    return np.logaddexp(0, x.astype(np.float64))


def units(got: Any, exact: Any, dtype: Any) -> float:
    """The largest error in units of the last place."""
    place = np.spacing(np.abs(exact.astype(dtype)).astype(np.float32)) * (2.0**16 if dtype is ml_dtypes.bfloat16 else 2.0**13 if dtype is np.float16 else 1.0)
    return float(np.max(np.abs(got.astype(np.float64) - exact) / place))


def test_there_are_derived_rows_and_their_steps_are_none_themselves() -> None:
    assert {row.name for row in DERIVED} >= {"softplus", "silu", "gelu", "clamp"}
    for row in DERIVED:
        statics = {param.name: param.default for param in row.params if param.name not in row.operands}
        assert all(step.row.derived is None and step.row.family == "elementwise" for step in steps(term_of(row, statics))), row.name


def test_a_step_that_is_used_twice_is_done_once() -> None:
    done = [step.row.name for step in steps(term_of(ops.table()["softplus"], {}))]
    assert done.count("exp") == done.count("log") == 1


@pl.jit
def on_tensors(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.softplus(x)


@pl.jit
def on_tiles(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out = pl.store(pl.softplus(pl.load(x, [0, 0], [9, 37])), [0, 0], out)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("kernel", [on_tensors, on_tiles], ids=["tensors", "tiles"])
def test_softplus_is_accurate_from_the_smallest_to_the_largest_result(kernel: Any, platform: str, dtype: Any) -> None:
    rng = np.random.default_rng(5)
    low = -8.0 if dtype is np.float16 else -80.0
    x = np.concatenate([rng.uniform(low, 80, (4, 37)), rng.standard_normal((5, 37))]).astype(dtype)
    out = np.full(x.shape, 7, dtype)
    kernel(x, out, config=RunConfig(platform=platform))
    assert units(out, softplus(x), dtype) <= (3 if dtype is np.float32 else 0.51)


def test_the_program_holds_the_steps_and_no_derived_row() -> None:
    x = np.ones((9, 37), np.float32)
    text = on_tiles.lower(x, x.copy()).as_python()
    assert "pl.log(" in text and "pl.exp(" in text and "softplus" not in text


def test_scalars_are_computed_at_compile_time_and_at_run_time() -> None:
    @pl.jit(runtime_scalars=("s",))
    def kernel(x: pl.Tensor, s: pl.FP32, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = x * pl.softplus(s) + pl.softplus(0.0)

    x = np.random.default_rng(1).standard_normal((3, 5)).astype(np.float32)
    for platform in PLATFORMS:
        out = np.zeros_like(x)
        kernel(x, 1.5, out, config=RunConfig(platform=platform))
        np.testing.assert_allclose(out, x * np.log1p(np.exp(1.5)) + np.log(2), rtol=1e-5, atol=1e-6)


def test_an_exact_row_keeps_the_type_of_its_operands() -> None:
    cells = np.random.default_rng(3).integers(-(2**31), 2**31, (5, 7)).astype(np.int32)
    (type,), (value,) = run("clamp", input=cells, low=-(2**30) - 1, high=2**30 + 1)
    assert str(type.dtype) == "INT32"  # type: ignore[union-attr]
    np.testing.assert_array_equal(value.box, np.clip(cells, -(2**30) - 1, 2**30 + 1))


def test_mistakes_are_named_after_the_row_and_not_after_a_step() -> None:
    source = """
import tilejit.language as pl

@pl.function(type=pl.FunctionType.InCore)
def k(x: pl.Tensor[[8, 8], pl.INT32]):
    y = {}
"""
    mistakes = {
        "pl.softplus(pl.load(x, [0, 0], [8, 8]))": "softplus of a tile takes FP16, BF16, FP32, FP64, got INT32",
        "pl.gelu(x, approximate='sin')": "gelu has no approximation 'sin'",
        "pl.gelu(x, approximate=x)": "pl.gelu takes a compile-time value as `approximate`, got a tensor",
    }
    for call, message in mistakes.items():
        with pytest.raises(TilejitError, match=message):
            pl.parse(source.format(call))


@pytest.fixture
def new_row() -> Iterator[str]:
    """An op that the language lacks, declared here: nothing else in the package knows it."""

    @derived(lambda x: exp(-(x * x)), dtypes=NUMBERS, spellings=unary("bell"), result=floating)
    def bell(input: Operand) -> object:
        """e**(-x**2) for every element."""

    ops._index.cache_clear()
    yield bell.name
    del TABLE["bell"]
    ops._index.cache_clear()


@pytest.mark.parametrize("platform", PLATFORMS)
def test_one_declaration_gives_an_op_to_every_platform(new_row: str, platform: str) -> None:
    program = pl.parse("""
import tilejit.language as pl

@pl.program
class Bell:
    @pl.function
    def main(self, x: pl.Tensor[[5, 19], pl.FP32], a: pl.Out[pl.Tensor[[5, 19], pl.FP32]], b: pl.Out[pl.Tensor[[5, 19], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            a[:] = pl.bell(x)
            b = pl.store(pl.tile.bell(pl.load(x, [0, 0], [5, 19])), [0, 0], b)
""")
    from tilejit import ir

    x = np.random.default_rng(2).standard_normal((5, 19)).astype(np.float32)
    a, b = np.zeros_like(x), np.zeros_like(x)
    ir.compile(program, config=RunConfig(platform=platform))(x, a, b)  # type: ignore[arg-type]
    for out in (a, b):
        np.testing.assert_allclose(out, np.exp(-(x.astype(np.float64) ** 2)), rtol=1e-6)
