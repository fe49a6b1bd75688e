"""Parameters that a call leaves out, and outputs given as None: the first call and all that follow mean the same."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilejit.language as pl
from tilejit.errors import ArgumentError

pytestmark = pytest.mark.dispatch
CALLS = 4
"""The second call teaches the warm ways, the third one takes them."""
rng = np.random.default_rng(17)
ROWS = pl.dynamic("ROWS")
BIAS: Any = rng.standard_normal((3, 5)).astype(np.float32)
NOTHING: Any = None
TOTAL: Any = np.zeros((3, 5), np.float32)


@pl.jit
def last(x: pl.Tensor, out: pl.Out[pl.Tensor], bias: pl.Tensor[[3, 5], pl.FP32] = BIAS):
    out[:] = x + bias


@pl.jit
def by_name(x: pl.Tensor[[ROWS, 5], pl.FP32], out: pl.Out[pl.Tensor[[ROWS, 5], pl.FP32]], *, bias: pl.Tensor[[ROWS, 5], pl.FP32] = BIAS):
    out[:] = x + bias


@pl.jit
def two(x: pl.Tensor, half: pl.Tensor = BIAS, bias: pl.Tensor = BIAS, out: pl.Out[pl.Tensor] = NOTHING):
    out[:] = x + half * 0.5 + bias * 0.5


class Model:
    @pl.jit
    def forward(self, x: pl.Tensor, out: pl.Out[pl.Tensor], bias: pl.Tensor = BIAS):
        out[:] = x + bias


@pl.autotune({"step": [1, 2]}, progress=False)
@pl.jit
def tuned(x: pl.Tensor, out: pl.Out[pl.Tensor], bias: pl.Tensor = BIAS, step: int = 1):
    out[:] = x + bias + float(step - step)


@pytest.mark.parametrize("kernel", [last, by_name, two, Model().forward, tuned], ids=["last", "by_name", "two", "method", "tuned"])
def test_a_default_array_that_is_left_out_is_read_at_every_call(kernel: Any, platform: str) -> None:
    x = rng.standard_normal((3, 5)).astype(np.float32)
    styles: list[Callable[[np.ndarray], object]] = [lambda out: kernel(x), lambda out: kernel(x, out=out), lambda out: kernel(out=out, x=x)]
    for style in styles:
        for _ in range(CALLS):
            BIAS[...] = rng.standard_normal(BIAS.shape)
            out = np.full_like(x, np.nan)
            result = style(out)
            assert result is None or isinstance(result, np.ndarray)
            np.testing.assert_allclose(out if result is None else result, x + BIAS, rtol=1e-6)


def test_calls_that_give_the_array_and_calls_that_leave_it_out_take_turns(platform: str) -> None:
    x, given = (rng.standard_normal((3, 5)).astype(np.float32) for _ in range(2))
    for _ in range(CALLS):
        np.testing.assert_array_equal(last(x, bias=given), x + given)
        np.testing.assert_array_equal(last(x), x + BIAS)
        np.testing.assert_allclose(two(x, given, given), x + given, rtol=1e-6)
        np.testing.assert_allclose(two(x), x + BIAS, rtol=1e-6)


@pl.jit
def count(x: pl.Tensor, total: pl.InOut[pl.Tensor] = TOTAL):
    total[:] = total + x


@pl.jit
def into(x: pl.Tensor, total: pl.Out[pl.Tensor] = TOTAL):
    total[:] = x * 2.0


def test_a_default_array_that_is_written_is_the_one_that_is_written(platform: str) -> None:
    x = rng.standard_normal((3, 5)).astype(np.float32)
    for _ in range(CALLS):
        before = TOTAL.copy()
        assert count(x) is None
        np.testing.assert_array_equal(TOTAL, before + x)
    for number in range(1, CALLS + 1):
        assert into(x * np.float32(number)) is None
        np.testing.assert_array_equal(TOTAL, x * np.float32(number) * 2)


def test_a_default_tensor_of_torch_that_is_left_out() -> None:
    torch = pytest.importorskip("torch")
    default = torch.rand(3, 5)

    @pl.jit
    def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor], bias: pl.Tensor = default):
        out[:] = x + bias

    x = torch.rand(3, 5)
    for _ in range(CALLS):
        assert torch.equal(kernel(x), x + default)


@pl.jit(runtime_scalars=("factor",))
def scaled(x: pl.Tensor, out: pl.Out[pl.Tensor], factor: pl.FP32 = 2.0):
    out[:] = x * factor


def test_a_run_time_scalar_that_is_left_out(platform: str) -> None:
    x = rng.standard_normal((3, 5)).astype(np.float32)
    for _ in range(CALLS):
        out = np.full_like(x, np.nan)
        scaled(x, out)
        np.testing.assert_array_equal(out, x * 2)
        np.testing.assert_array_equal(scaled(x), x * 2)
        np.testing.assert_array_equal(scaled(x, factor=3.0), x * 3)


@pl.jit
def two_outputs(x: pl.Tensor, a: pl.Out[pl.Tensor], b: pl.Out[pl.Tensor]):
    a[:] = x + 1.0
    b[:] = x + 2.0


@pytest.mark.parametrize("given", [(None, None), (None,), {"b": None, "a": None}, {"a": None}, {"b": None}], ids=str)
def test_outputs_given_as_none_are_as_if_they_were_not_given(given: tuple[None, ...] | dict[str, None], platform: str) -> None:
    for _ in range(CALLS):
        x = rng.standard_normal((3, 5)).astype(np.float32)
        results = two_outputs(x, **given) if isinstance(given, dict) else two_outputs(x, *given)
        for found in results, two_outputs(x):  # in turns: neither takes the other's warm way
            for number, array in enumerate(found):
                np.testing.assert_array_equal(array, x + np.float32(number + 1))


@pl.jit
def shifted(x: pl.Tensor, out: pl.Out[pl.Tensor], by: pl.FP32 | None = None):
    out[:] = x + (2.0 if by is None else by)


@pl.jit(runtime_scalars=("by",))
def shifted_at_run_time(x: pl.Tensor, out: pl.Out[pl.Tensor], by: pl.Scalar[pl.FP32] | None):
    if by is None:
        out[:] = x + 2.0
    else:
        out[:] = x + by


@pytest.mark.parametrize("kernel", [shifted, shifted_at_run_time], ids=["constant", "run time"])
def test_a_scalar_that_may_be_none(kernel: Any, platform: str) -> None:
    x = rng.standard_normal((3, 5)).astype(np.float32)
    for by in (None, 3.0, 4.5) * CALLS:
        want = x + np.float32(2.0 if by is None else by)
        out = np.full_like(x, np.nan)
        kernel(x, out, by)
        np.testing.assert_array_equal(out, want)
        np.testing.assert_array_equal(kernel(x, by=by), want)


def test_annotations_of_scalars_that_may_be_none_are_shown_as_they_are_written() -> None:
    spelled: list[Any] = [pl.FP32, pl.Scalar[pl.INT32], pl.Tensor[[3, 5], pl.FP32]]
    assert [repr(one | None) for one in spelled] == [repr(None | one) for one in spelled]
    assert [repr(one | None) for one in spelled] == ["pl.FP32 | None", "pl.Scalar[pl.INT32] | None", "pl.Tensor[[3, 5], pl.FP32] | None"]
    with pytest.raises(TypeError, match="unsupported operand"):
        _ = spelled[0] | 3


@pl.jit
def optional(x: pl.Tensor, scale: pl.FP32 = 2.0, out: pl.Out[pl.Tensor] = NOTHING, total: pl.Out[pl.Tensor | None] = NOTHING):
    out[:] = x * scale
    total[:] = pl.row_sum(x)  # pyright: ignore[reportOptionalSubscript]


def test_some_outputs_are_given_and_the_others_returned(platform: str) -> None:
    for turn in range(CALLS):
        x = rng.standard_normal((3 + turn % 2, 5)).astype(np.float32)
        scaled, sums = x * 2, x.sum(1, keepdims=True)
        out = np.empty_like(x)
        styles: list[dict[str, Any]] = [{"out": out}, {"scale": 2.0, "out": out}, {"out": out, "total": None}]
        for style in styles:
            out[:] = np.nan
            np.testing.assert_allclose(optional(x, **style), sums, rtol=1e-5, atol=1e-5)
            np.testing.assert_array_equal(out, scaled)
        np.testing.assert_allclose(optional(x, 2.0, out), sums, rtol=1e-5, atol=1e-5)
        total = np.full_like(sums, np.nan)
        np.testing.assert_array_equal(optional(x, 2.0, None, total), scaled)
        np.testing.assert_allclose(total, sums, rtol=1e-5, atol=1e-5)
        assert optional(x, 2.0, out, total) is None  # in turns: neither takes the other's warm way
        both = optional(x)
        np.testing.assert_array_equal(both[0], scaled)


def test_a_compiled_program_takes_none_for_an_output(platform: str) -> None:
    x = rng.standard_normal((3, 5)).astype(np.float32)
    program, total = optional.compile(x), np.full((3, 1), np.nan, np.float32)
    for _ in range(CALLS):
        np.testing.assert_array_equal(program(x, None, total), x * 2)
        np.testing.assert_allclose(total, x.sum(1, keepdims=True), rtol=1e-5, atol=1e-5)
        assert len(program(x, None, None)) == len(program(x)) == 2


def test_outputs_without_a_default_are_given_together_or_not_at_all() -> None:
    x = rng.standard_normal((3, 5)).astype(np.float32)
    with pytest.raises(ArgumentError, match="missing argument 'second'"):
        needed(x, np.empty_like(x))


@pl.jit
def needed(x: pl.Tensor, first: pl.Out[pl.Tensor], second: pl.Out[pl.Tensor]):
    first[:] = x
    second[:] = x


@pl.jit.incore
def doubled(x: pl.Tensor, out: pl.Out[pl.Tensor] = NOTHING):
    out[:] = x * 2.0
    return out


@pl.jit
def of_helpers(x: pl.Tensor, out: pl.Out[pl.Tensor] = NOTHING):
    scaled, total = optional(x, 3.0)
    out[:] = doubled(x) + doubled(scaled, None) + total


def test_a_helper_is_called_without_its_optional_outputs(platform: str) -> None:
    x = rng.standard_normal((4, 7)).astype(np.float32)
    np.testing.assert_allclose(of_helpers(x), x * 8 + x.sum(1, keepdims=True), rtol=1e-5, atol=1e-5)


# arguments behind outputs ----------------------------------------------------------------------------------------------------


@pl.jit
def followed(x: pl.Tensor, y: pl.Out[pl.Tensor], f: pl.FP32):
    y[:] = x * f


@pl.jit
def moved(x: pl.Tensor, g: float = 1.0, *, y: pl.Out[pl.Tensor], f: pl.FP32):
    y[:] = x * f + (g - g)


@pytest.mark.parametrize(
    ("kernel", "given", "calls"),
    [
        (followed, ("x", "f"), ["followed(x, y, f)", "followed(x, f=…)"]),
        (moved, ("x",), ["moved(x, g, y=…, f=…)", "moved(x, f=…)"]),
    ],
    ids=["by position", "by name"],
)
def test_what_comes_after_an_output_that_is_left_out_is_asked_for_by_its_name(kernel: Any, given: tuple[str, ...], calls: list[str]) -> None:
    x: Any = rng.standard_normal((3, 5)).astype(np.float32)
    values: dict[str, Any] = {"x": x, "y": np.empty_like(x), "f": 2.0, "g": 1.0}
    with pytest.raises(ArgumentError, match="missing argument 'f'") as caught:
        kernel(*(values[name] for name in given))
    assert f"help: write {calls[0]}, or {calls[1]} to have the outputs returned;" in str(caught.value)
    spaces = {**values, "followed": followed, "moved": moved}
    for call in calls:  # as the help says
        found = eval(re.sub(r"(\w+)=…", r"\1=\1", call), spaces)
        np.testing.assert_array_equal(values["y"] if found is None else found, x * 2)
