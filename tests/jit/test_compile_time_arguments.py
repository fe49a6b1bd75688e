"""Arguments that are read while compiling: what they answer is the key; containers of tensors are taken apart."""

from __future__ import annotations

import enum
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import tilejit.language as pl
from tilejit.errors import ArgumentError, DTypeError, ParserTypeError, StaleCaptureError, UnsupportedFeatureError
from tilejit.runtime.config import RunConfig

PLATFORMS = ["cpu", "reference"]


def data(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def on(platform: str) -> RunConfig:
    return RunConfig(platform=platform)


class Mode(enum.Enum):
    PLUS = 1
    TIMES = 2


@dataclass(frozen=True)
class Setting:
    factor: float
    mode: Mode = Mode.TIMES


class Pair(NamedTuple):
    low: float
    high: float


@pl.jit
def general(x: pl.Tensor, how: Any, out: pl.Out[pl.Tensor]):
    """Reads whatever it is given in the way that suits it."""
    value = factor_of(how)
    out[:] = x * value


def factor_of(how: Any) -> float:
    if how is None or isinstance(how, bool):
        return {None: 2.0, True: 3.0, False: 4.0}[how]
    if isinstance(how, str):
        return float(len(how))
    if isinstance(how, Setting):
        return how.factor if how.mode is Mode.TIMES else -how.factor
    if isinstance(how, Pair):
        return how.high - how.low
    if isinstance(how, Mode):
        return 10.0 * how.value
    if isinstance(how, dict):
        return sum(how.values())  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    return how(7.0) if callable(how) else float(sum(how))  # pyright: ignore[reportReturnType]


VALUES = [
    None, "four", "sevenly", True, False, Setting(1.5), Setting(1.5, Mode.PLUS), Pair(1.0, 3.5), Mode.PLUS, Mode.TIMES,
    {"a": 1.0, "b": 2.5}, {"a": 1.0, "b": 3.5}, (1, 2), [1, 2, 3], lambda x: x / 2, lambda x: x / 4,
]  # fmt: skip


@pytest.mark.parametrize("platform", PLATFORMS)
def test_what_an_argument_answers_counts(platform: str) -> None:
    x = data(3, 5)
    for _ in range(3):  # again warm
        for how in VALUES:
            np.testing.assert_allclose(general(x, how, config=on(platform)), x * np.float32(factor_of(how)), rtol=1e-6)


def test_equal_values_share_a_program_and_others_do_not() -> None:
    @pl.jit
    def scaled(x: pl.Tensor, setting: Setting, out: pl.Out[pl.Tensor]):
        out[:] = x * setting.factor if setting.mode is Mode.TIMES else x + setting.factor

    x = data(4, 4)
    for setting in (Setting(2.0), Setting(2.0), Setting(3.0), Setting(2.0, Mode.PLUS)):
        want = x * setting.factor if setting.mode is Mode.TIMES else x + setting.factor
        np.testing.assert_allclose(scaled(x, setting), want, rtol=1e-6)
    info = scaled.cache_info()
    assert (info.entries, info.hits) == (3, 1)


def test_what_the_body_does_not_ask_of_an_argument_makes_no_program() -> None:
    @pl.jit
    def scaled(x: pl.Tensor, options: dict[str, Any], out: pl.Out[pl.Tensor]):
        out[:] = x * options["factor"]

    x = data(2, 2)
    for note in range(4):
        scaled(x, {"factor": 2.0, "note": note})
    assert scaled.cache_info().entries == 1


OFFSET = Setting(1.0)


def test_another_argument_is_no_drift_and_a_changed_global_still_is(monkeypatch: pytest.MonkeyPatch) -> None:
    @pl.jit
    def shifted(x: pl.Tensor, setting: Setting, out: pl.Out[pl.Tensor]):
        out[:] = x * setting.factor + OFFSET.factor

    x = data(3, 3)
    np.testing.assert_allclose(shifted(x, OFFSET), x + 1, rtol=1e-6)
    np.testing.assert_allclose(shifted(x, Setting(2.0)), 2 * x + 1, rtol=1e-6)
    monkeypatch.setitem(globals(), "OFFSET", Setting(5.0))
    with pytest.raises(StaleCaptureError, match=r"`OFFSET.factor`"):
        shifted(x, Setting(2.0))


def test_a_text_argument_is_told_natively() -> None:
    @pl.jit
    def chosen(x: pl.Tensor, mode: str, block: tuple[int, int], out: pl.Out[pl.Tensor]):
        out[:] = x * 2 if mode == "double" else x * float(block[0])

    x, out = data(4, 4), np.empty((4, 4), np.float32)
    block = (3, 4)
    for _ in range(6):
        for mode, factor in (("double", 2), ("triple", 3), ("".join(["dou", "ble"]), 2)):
            chosen(x, mode, block, out)
            np.testing.assert_allclose(out, factor * x, rtol=1e-6)
    assert chosen._warm is not None and chosen._warm.all_hits > 8  # pyright: ignore[reportPrivateUsage]
    assert chosen.cache_info().entries == 2


@pytest.mark.parametrize("platform", PLATFORMS)
def test_an_optional_tensor_is_decided_while_compiling(platform: str) -> None:
    @pl.jit
    def linear(x: pl.Tensor, w: pl.Tensor, bias: pl.Tensor | None = None, *, scale: pl.constexpr[float] = 1.0, out: pl.Out[pl.Tensor] = None):  # pyright: ignore[reportArgumentType]
        y = pl.matmul(x, w)
        if bias is not None and bias.shape[0] == 1:
            y = pl.col_expand_add(y, bias)
        out[:] = y * scale if scale != 1.0 else y

    x, w, bias = data(4, 6), data(6, 8, seed=1), data(1, 8, seed=2)
    for _ in range(3):
        np.testing.assert_allclose(linear(x, w, config=on(platform)), x @ w, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(linear(x, w, bias, config=on(platform)), x @ w + bias, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(linear(x, w, None, scale=2.0, config=on(platform)), 2 * (x @ w), rtol=1e-4, atol=1e-5)
    out = np.empty((4, 8), np.float32)
    linear(x, w, bias, out=out)
    np.testing.assert_allclose(out, x @ w + bias, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("make", [list, tuple])
@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_list_of_tensors_is_taken_apart(platform: str, make: Callable[[Any], Any]) -> None:
    @pl.jit
    def mixed(xs: list[pl.Tensor], ys: pl.Out[list[pl.Tensor]]):
        for i, (x, y) in enumerate(zip(xs, ys, strict=True)):
            y[:] = pl.exp(x) * (i + 1.0)
        ys[-1][0:1, :] = xs[-1][0:1, :]

    xs = make([data(2 + i, 3 + 2 * i, seed=i) for i in range(3)])
    ys = make([np.empty_like(x) for x in xs])
    mixed(xs, ys, config=on(platform))
    for i, (x, y) in enumerate(zip(xs, ys, strict=True)):
        want = np.exp(x) * (i + 1)
        if i == 2:
            want[0] = x[0]
        np.testing.assert_allclose(y, want, rtol=1e-5)


class Weights(NamedTuple):
    up: Any
    down: Any
    times: int


@pytest.mark.parametrize("platform", PLATFORMS)
def test_dicts_and_named_tuples_of_tensors(platform: str) -> None:
    @pl.jit
    def layer(x: pl.Tensor, w: Weights, more: dict[str, pl.Tensor], out: pl.Out[pl.Tensor]):
        y = pl.matmul(pl.matmul(x, w.up), w.down) * float(w.times)
        for name, extra in more.items():
            y = pl.add(y, extra) if name != "minus" else pl.sub(y, extra)
        if "twice" in more:
            y = pl.add(y, more["twice"])
        out[:] = y * float(len(more))

    x, up, down = data(3, 4), data(4, 6, seed=1), data(6, 5, seed=2)
    minus, twice = data(3, 5, seed=3), data(3, 5, seed=4)
    found = layer(x, Weights(up, down, 2), {"minus": minus, "twice": twice}, config=on(platform))
    np.testing.assert_allclose(found, 2 * ((x @ up @ down) * 2 - minus + 2 * twice), rtol=1e-4, atol=1e-4)


@pl.jit.inline
def summed(first: Any, *rest: Any):
    for item in rest:
        first = pl.add(first, item)
    return first


@pl.jit.inline
def twice(x: Any):
    return x * 2.0


@pl.jit.inline
def negated(x: Any):
    return -x


@pytest.mark.parametrize("platform", PLATFORMS)
def test_further_arguments_and_kernels_as_arguments(platform: str) -> None:
    @pl.jit
    def chained(out: pl.InOut[pl.Tensor], *xs: pl.Tensor, steps: tuple[Any, ...] = ()):
        with pl.at(level=pl.Level.CORE_GROUP):
            y = summed(out, *xs)
            for step in steps:
                y = step(y)
            out[:] = y

    xs = [data(3, 4, seed=seed) for seed in range(4)]
    for count, steps, sign in ((1, (), 1), (3, (twice,), 2), (4, (twice, negated, twice), -4)):
        out = np.ones((3, 4), np.float32)
        chained(out, *xs[:count], steps=steps, config=on(platform))
        np.testing.assert_allclose(out, sign * (1 + sum(xs[:count])), rtol=1e-5, atol=1e-6)


def test_a_dtype_is_an_argument() -> None:
    @pl.jit
    def converted(x: pl.Tensor, dtype: pl.constexpr[Any], out: pl.Out[pl.Tensor]):
        out[:] = pl.cast(x, dtype)

    x = data(3, 4) * 100
    for dtype, numpy in ((pl.INT32, np.int32), (pl.FP16, np.float16)):
        found = converted(x, dtype)
        assert found.dtype == numpy


def test_the_programs_are_found_by_another_process(tmp_path: Path) -> None:
    script = tmp_path / "kernel.py"
    script.write_text(
        "import sys, numpy as np, tilejit.language as pl\n"
        "from dataclasses import dataclass\n"
        "@dataclass(frozen=True)\nclass S:\n    f: float\n"
        "@pl.jit\ndef k(x: pl.Tensor, s, mode, xs: list, out: pl.Out[pl.Tensor]):\n"
        "    y = pl.add(x, xs[0]) * s.f\n    out[:] = y if mode == 'a' else -y\n"
        "x = np.ones((2, 3), np.float32)\n"
        "for f, mode in ((2.0, 'a'), (3.0, 'a'), (3.0, 'b')):\n"
        "    assert (k(x, S(f), mode, [x]) == 2 * f * (1 if mode == 'a' else -1)).all()\n"
        "print(k.cache_info().loaded)\n"
    )
    environment = {**os.environ, "TILEJIT_CACHE_DIR": str(tmp_path / "cache")}
    loaded = [subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, check=True).stdout for _ in range(2)]
    assert loaded == ["0\n", "3\n"]


# mistakes that are no golden ------------------------------------------------------------------------------------------


def test_a_member_that_is_not_there_names_those_that_are() -> None:
    @pl.jit
    def read(w: dict[str, pl.Tensor], out: pl.Out[pl.Tensor]):
        out[:] = w["key"]

    with pytest.raises(ParserTypeError, match="there is no 'key'") as caught:
        read({"query": data(2, 2)})
    assert caught.value.hint == "its keys are 'query'"


def test_a_helper_that_needs_a_constant_says_so() -> None:
    @pl.jit.inline
    def tiled(x: pl.Tensor, size: pl.constexpr[int]):
        return x * float(size)

    @pl.jit
    def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            for i in pl.range(2):
                out[:] = tiled(x, i)

    with pytest.raises(ArgumentError, match="must be known while compiling"):
        kernel(data(2, 2))


def test_a_jump_out_of_an_expanded_loop_is_decided_while_compiling_or_refused() -> None:
    @pl.jit
    def first(xs: list[pl.Tensor], limit: int, out: pl.Out[pl.Tensor]):
        y = xs[0]
        for i, x in enumerate(xs):
            if i == 0:
                continue
            if i == limit:
                break
            y = pl.add(y, x)
        out[:] = y

    xs = [data(2, 3, seed=seed) for seed in range(4)]
    np.testing.assert_allclose(first(xs, 2), xs[0] + xs[1], rtol=1e-6)

    @pl.jit
    def stops(xs: list[pl.Tensor], out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = xs[0]
            for x in xs:
                if pl.read(x, [0, 0]) > 0.0:
                    break
                out[:] = x

    with pytest.raises(UnsupportedFeatureError, match="expanded while compiling"):
        stops(xs)


@pl.jit
def by_key(x: pl.Tensor, weights: Any):
    return x + weights[1]


def test_keys_of_dicts_are_told_apart_by_type_and_value() -> None:
    x, a, b = data(2, 3), data(2, 3, seed=1), data(2, 3, seed=2)
    for _ in range(3):
        np.testing.assert_array_equal(by_key(x, {1: a, "1": b}), x + a)
        np.testing.assert_array_equal(by_key(x, {"1": a, 1: b}), x + b)
    with pytest.raises(ParserTypeError, match="there is no 1"):
        by_key(x, {"1": a})
    with pytest.raises(ArgumentError, match=r"(?s)one of its keys is a Mode.*numbers, texts"):
        by_key(x, {Mode.PLUS: a})


def scale_of(factor: float) -> type:
    class Scale(float):
        def __mul__(self, other: float) -> float:
            return factor * other

    return Scale


@pl.jit
def scaled_by(x: pl.Tensor, scale: Any):
    return x * (scale * 2.0)


@pl.jit
def scaled_by_number(x: pl.Tensor, scale: float):
    return x * (scale * 2.0)


def test_a_number_with_a_class_of_its_own_is_asked_and_a_declared_number_is_what_it_holds() -> None:
    x = data(2, 3)
    for factor in (3.0, 4.0, 3.0):
        scale = scale_of(factor)(0.5)
        np.testing.assert_array_equal(scaled_by(x, scale), x * np.float32(2 * factor))
        np.testing.assert_array_equal(scaled_by_number(x, scale), x)
    np.testing.assert_array_equal(scaled_by(x, np.float64(0.25)), x * np.float32(0.5))


@pl.jit.inline
def weighted(x: pl.Tensor, w: dict[str, Any], w_a: list[Any]):
    return x + w["a"][0] * 10.0 + w["a_0"] + w_a[0] * 100.0


@pl.jit
def colliding(x: pl.Tensor, w: dict[str, Any], w_a: list[Any], out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = weighted(x, w, w_a) + w["a"][0] * 1000.0 + w["a_0"] * 2000.0 + w_a[0] * 4000.0


def test_members_whose_names_run_together_are_told_apart(platform: str) -> None:
    for _ in range(4):
        x, one, two, three = (data(3, 5) for _ in range(4))
        want = x + 1010 * one + 2001 * two + 4100 * three
        for w in ({"a": [one], "a_0": two}, {"a_0": two, "a": [one]}):
            np.testing.assert_allclose(colliding(x, w, [three], config=on(platform)), want, rtol=1e-4, atol=1e-3)


@pl.jit
def shifted(x: pl.Tensor, by: tuple[float, ...], out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x + float(by[0])


@pl.jit
def moved(x: pl.Tensor, by: float, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x + by


@pytest.mark.parametrize("setting", [{}, {"TILEJIT_FASTPATH": "0"}, {"TILEJIT_PLATFORM": "reference"}, {"TILEJIT_EAGER": "1"}], ids=str)
def test_a_warm_call_has_the_value_of_a_tuple_or_of_an_array_that_stands_for_a_number(setting: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in setting.items():
        monkeypatch.setenv(name, value)
    x, out = data(2, 3), np.empty((2, 3), np.float32)
    for number in (1.0, 1.0, 1.0, 2.0, 2.0, 3.0, 1.0):  # objects that are gone leave their places to those that come
        for kernel, given in ((shifted, (number, 5.0)), (moved, np.array(number)), (moved, np.float64(number)), (moved, number)):
            kernel(x, given, out)
            np.testing.assert_allclose(out, x + number, rtol=1e-6)


@pl.jit(runtime_scalars=("by",))
def multiplied(x: pl.Tensor, by: float, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x * by


@pytest.mark.parametrize("platform", PLATFORMS)
def test_an_array_that_stands_for_a_number_of_the_run_has_the_type_of_its_elements(platform: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_PLATFORM", platform)
    x, out = data(2, 3), np.empty((2, 3), np.float32)
    for _ in range(3):
        multiplied(x, np.array(2.5), out)
        np.testing.assert_allclose(out, x * 2.5, rtol=1e-6)
    with pytest.raises(DTypeError, match="INDEX scalar"):
        multiplied(x, np.array(3), out)
