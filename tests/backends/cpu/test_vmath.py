"""The vector maths is as accurate as promised, over all floats, and right at the special values."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.backends.cpu.native import Array, lane_kernel
from tilejit.backends.cpu.lanes.ops import MOD, POW, apply_lane
from tilejit.backends.cpu.llvm.host import Host
from tilejit.backends.cpu.llvm.text import Emitter, Value
from tilejit.backends.cpu.rules import RULES, Nest
from tilejit.dtypes import FP32, INT32

COUNT = 200_000
Wide = npt.NDArray[np.float64]


def sigmoid(x: Wide) -> Wide:
    grown = np.exp(-np.abs(x))
    return np.where(x < 0, grown, 1.0) / (1.0 + grown)


EXACT: dict[str, tuple[Any, float]] = {
    "exp": (np.exp, 2.0),
    "log": (np.log, 2.0),
    "tanh": (np.tanh, 2.0),
    "sin": (np.sin, 2.0),
    "cos": (np.cos, 2.0),
    "sigmoid": (sigmoid, 3.0),
    "erf": (np.vectorize(math.erf, otypes=[np.float64]), 3.0),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 2.0),
}
"""The function in double, and the error allowed, in units of the last place."""

SPECIAL = np.array(
    [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 1e-40, 1.1754944e-38, 3.4028235e38, -3.4028235e38, 1, -1, 88.72283, 88.72284, -87.33655,
     -103.9, -104.1, 0.625, -0.625, 0.12, 3.92, 3.93, -3.94, 9.02, 1e9, 2.0**30, -(2.0**31), 1e30],
    np.float32,
)  # fmt: skip


def points(rng: np.random.Generator, count: int = COUNT) -> Array:
    """Special values, all bit patterns, and the ranges in which the functions live."""
    patterns = rng.integers(0, 2**32, count, dtype=np.uint32).view(np.float32)
    ranges = [rng.normal(size=count), rng.uniform(-105, 90, count), rng.uniform(-5, 5, count)]
    return np.concatenate([SPECIAL, patterns, *[r.astype(np.float32) for r in ranges]])


def run(name: str, *arrays: Array, width: int = 16, precise: bool = False) -> Array:
    def body(e: Emitter, values: list[Value], lanes: int) -> Value:
        rule = RULES[name]
        assert isinstance(rule, Nest)
        return apply_lane(e, rule.lane, FP32, values, lanes)

    return lane_kernel([FP32] * len(arrays), FP32, body, width, precise)(*arrays)


@pytest.mark.parametrize("level", ["", "avx2", "sse"])
@pytest.mark.parametrize("name", ["sin", "cos"])
def test_angles_are_reduced_at_every_level(name: str, level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to 2**30 by parts of pi/2, whose products some processors round before they add them."""
    monkeypatch.setenv("TILEJIT_CPU", level)
    x = np.random.default_rng(8).uniform(-(2.0**30), 2.0**30, 20_000).astype(np.float32)
    want = EXACT[name][0](x.astype(np.float64))
    assert np.max(np.abs(run(name, x) - want) / np.spacing(np.abs(want).astype(np.float32))) <= EXACT[name][1]


def assert_within(got: Array, exact: Wide, ulps: float, x: Array) -> None:
    """Finite results within `ulps` units of the last place; infinite, NaN and zero ones equal, with the sign of zero."""
    with np.errstate(all="ignore"):
        want = exact.astype(np.float32)
        unit = np.maximum(np.spacing(np.abs(want)), np.float32(2.0**-149)).astype(np.float64)
        error = np.abs(got.astype(np.float64) - exact) / unit
        finite = np.isfinite(want)
        worst = int(np.argmax(np.where(finite, error, 0)))
    assert error[worst] <= ulps, f"{error[worst]} ULP at {x[worst]!r}: {got[worst]!r}, not {exact[worst]!r}"
    special = ~finite & (got != want) & ~(np.isnan(got) & np.isnan(want))
    assert not special.any(), (x[special][:5], got[special][:5], want[special][:5])
    zero = (exact == 0) & (np.signbit(got) != np.signbit(want))
    assert not zero.any(), (x[zero][:5], got[zero][:5])


@pytest.mark.parametrize("name", EXACT)
def test_functions_keep_their_accuracy_over_all_floats(name: str) -> None:
    function, ulps = EXACT[name]
    x = points(np.random.default_rng(1))
    with np.errstate(all="ignore"):
        assert_within(run(name, x), function(x.astype(np.float64)), ulps, x)


@pytest.mark.parametrize("width", [1, 8, 16])
@pytest.mark.parametrize("name", EXACT)
def test_without_fast_math_functions_are_within_one_unit(name: str, width: int) -> None:
    x = points(np.random.default_rng(4), COUNT if width == 16 else 2000)
    with np.errstate(all="ignore"):
        assert_within(run(name, x, width=width, precise=True), EXACT[name][0](x.astype(np.float64)), 1.0, x)


@pytest.mark.parametrize("width", [1, 2, 4, 8, 32])
@pytest.mark.parametrize("name", EXACT)
def test_functions_are_the_same_at_every_width(name: str, width: int) -> None:
    function, ulps = EXACT[name]
    x = points(np.random.default_rng(2), 2000)
    with np.errstate(all="ignore"):
        assert_within(run(name, x, width=width), function(x.astype(np.float64)), ulps, x)


@pytest.mark.parametrize("name", [name for name in EXACT if name != "rsqrt"])
def test_older_processors_compute_the_same_functions(name: str, older_host: Host) -> None:
    function, ulps = EXACT[name]
    x = points(np.random.default_rng(3), 3000)
    if not older_host.has_fma:
        ulps += 2  # every product rounds once more
        if name in ("sin", "cos"):
            x = x[~(np.abs(x) > 1e4)]  # two doubles of pi/2 reach less far without one rounding for both steps
    with np.errstate(all="ignore"):
        assert_within(run(name, x, width=8), function(x.astype(np.float64)), ulps, x)


def test_exp_never_decreases_where_its_pieces_meet() -> None:
    halves = (np.arange(-140, 127) + 0.5) * math.log(2)
    x = np.sort(np.concatenate([np.float32(h) + np.arange(-20, 21) * np.spacing(np.float32(abs(h))) for h in halves])).astype(np.float32)
    assert (np.diff(run("exp", x).astype(np.float64)) >= -2 * np.spacing(run("exp", x)[1:])).all()


def test_erf_stays_within_one_and_is_odd() -> None:
    x = points(np.random.default_rng(4))
    out = run("erf", x)
    known = ~np.isnan(x)
    assert (np.abs(out[known]) <= 1).all()
    assert np.array_equal(run("erf", -x)[known], -out[known])


def test_pow_equals_the_double_computation() -> None:
    rng = np.random.default_rng(5)
    base = np.concatenate([np.repeat(SPECIAL, len(SPECIAL)), np.exp(rng.normal(size=COUNT) * 8), -rng.integers(0, 50, 3000)]).astype(np.float32)
    power = np.concatenate([np.tile(SPECIAL, len(SPECIAL)), rng.normal(size=COUNT) * 4, rng.integers(-9, 10, 3000)]).astype(np.float32)
    with np.errstate(all="ignore"):
        assert_within(run("pow", base, power), np.power(base.astype(np.float64), power.astype(np.float64)), 1.0, base)


def test_fmod_is_exact_however_far_the_operands_are_apart() -> None:
    rng = np.random.default_rng(6)
    wild = [rng.integers(0, 2**32, COUNT, dtype=np.uint32).view(np.float32) for _ in range(2)]
    a, b = (np.concatenate([grid.ravel(), some]) for grid, some in zip(np.meshgrid(SPECIAL, SPECIAL), wild, strict=True))
    with np.errstate(all="ignore"):
        want = np.fmod(a, b)
    got = run("fmod", a, b)
    same = (got.view(np.uint32) == want.view(np.uint32)) | (np.isnan(got) & np.isnan(want))
    assert same.all(), (a[~same][:5], b[~same][:5], got[~same][:5], want[~same][:5])


def test_python_remainder_and_quotient_hold_for_far_operands() -> None:
    rng = np.random.default_rng(7)
    a, b = (np.concatenate([grid.ravel(), (rng.normal(size=COUNT) * 9).astype(np.float32)]) for grid in np.meshgrid(SPECIAL, SPECIAL))
    with np.errstate(all="ignore"):
        for name, want in (("mod", np.mod(a, b)), ("floordiv", np.floor_divide(a, b))):
            got = run(name, a, b)
            same = (got == want) | (np.isnan(got) & np.isnan(want))
            assert same.all(), (name, a[~same][:5], b[~same][:5], got[~same][:5], want[~same][:5])


def test_integer_division_and_power_use_no_library() -> None:
    def body(e: Emitter, values: list[Value], lanes: int) -> Value:
        return apply_lane(e, POW, INT32, [apply_lane(e, MOD, INT32, values, lanes), values[1]], lanes)

    a, b = np.arange(-50, 51, dtype=np.int32), np.full(101, 3, np.int32)
    assert np.array_equal(lane_kernel([INT32, INT32], INT32, body)(a, b), (a % 3) ** 3)
