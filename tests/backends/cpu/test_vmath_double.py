"""The vector maths of doubles is within 2 ULP of the exact value, over all doubles, and right at the special values."""

from __future__ import annotations

import math
from typing import Any

import mpmath as mp
import numpy as np
import numpy.typing as npt
import pytest

from tests.backends.cpu.native import Array, lane_kernel
from tilejit.backends.cpu.lanes.ops import apply_lane
from tilejit.backends.cpu.llvm.host import Host
from tilejit.backends.cpu.llvm.text import Emitter, Value
from tilejit.backends.cpu.rules import RULES, Nest
from tilejit.dtypes import FP64

COUNT = 20_000
ULPS = 2.0
Wide = npt.NDArray[Any]


def erf(x: Wide) -> Wide:
    with mp.workprec(90):
        return np.array([_erf_in_two_parts(float(value)) for value in x])


def _erf_in_two_parts(x: float) -> np.longdouble:
    if not math.isfinite(x):
        return np.longdouble(math.erf(x))
    exact = mp.erf(mp.mpf(x))
    return np.longdouble(float(exact)) + np.longdouble(float(exact - mp.mpf(float(exact))))


def sigmoid(x: Wide) -> Wide:
    grown = np.exp(-np.abs(x))
    return np.where(x < 0, grown, np.longdouble(1)) / (1 + grown)


EXACT: dict[str, Any] = {
    "exp": np.exp, "log": np.log, "tanh": np.tanh, "sin": np.sin, "cos": np.cos, "sigmoid": sigmoid, "erf": erf,
    "rsqrt": lambda x: 1 / np.sqrt(x), "sqrt": np.sqrt,
}  # fmt: skip
"""The function in 80 bits."""

SPECIAL = np.array(
    [0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, -5e-324, 1e-310, 2.2250738585072014e-308, 1.7976931348623157e308, -1.7976931348623157e308,
     1, -1, 709.78, 709.79, -708.4, -745.1, -745.2, 0.55, -0.55, 0.5, -0.5, 0.0625, 5.92, 5.93, -6.1, 19.06, 22.5, 1e9, 2.0**30, -(2.0**30) - 1, 2.0**31, 1e22,
     6381956970095103 * 2.0**797, 1e300],
    np.float64,
)  # fmt: skip


def points(seed: int, count: int = COUNT) -> Array:
    """Special values, all bit patterns, the ranges in which the functions live, and the neighbours of multiples of pi/2."""
    rng = np.random.default_rng(seed)
    patterns = rng.integers(0, 2**64, count, dtype=np.uint64).view(np.float64)
    ranges = [rng.normal(size=count), rng.uniform(-750, 715, count), rng.uniform(-6.5, 6.5, count)]
    turns = rng.integers(1, 2**31, count // 4).astype(np.float64) * (np.pi / 2)
    return np.concatenate([SPECIAL, patterns, *ranges, turns])


def run(name: str, *arrays: Array, width: int = 8, precise: bool = False) -> Array:
    def body(e: Emitter, values: list[Value], lanes: int) -> Value:
        rule = RULES[name]
        assert isinstance(rule, Nest)
        return apply_lane(e, rule.lane, FP64, values, lanes)

    return lane_kernel([FP64] * len(arrays), FP64, body, width, precise)(*arrays)


def assert_within(got: Array, exact: Wide, ulps: float, x: Array) -> None:
    """Finite results within `ulps` units of the last place; infinite, NaN and zero ones equal, with the sign of zero."""
    with np.errstate(all="ignore"):
        want = exact.astype(np.float64)
        unit = np.maximum(np.spacing(np.abs(want)), 5e-324).astype(np.longdouble)
        error = np.abs(got.astype(np.longdouble) - exact) / unit
        finite = np.isfinite(want)
        worst = int(np.argmax(np.where(finite, error, 0)))
    assert error[worst] <= ulps, f"{error[worst]} ULP at {x[worst]!r}: {got[worst]!r}, not {want[worst]!r}"
    special = ~finite & (got != want) & ~(np.isnan(got) & np.isnan(want))
    assert not special.any(), (x[special][:5], got[special][:5], want[special][:5])
    zero = (exact == 0) & (np.signbit(got) != np.signbit(want))
    assert not zero.any(), (x[zero][:5], got[zero][:5])


def few(name: str, x: Array) -> Array:
    """The error function in many digits is slow."""
    return x[:: 8 if name == "erf" else 1]


@pytest.mark.parametrize("precise", [False, True])
@pytest.mark.parametrize("name", EXACT)
def test_functions_keep_their_accuracy_over_all_doubles(name: str, precise: bool) -> None:
    x = few(name, points(1))
    with np.errstate(all="ignore"):
        assert_within(run(name, x, precise=precise), EXACT[name](x.astype(np.longdouble)), ULPS, x)


@pytest.mark.parametrize("width", [1, 2, 16])
@pytest.mark.parametrize("name", EXACT)
def test_functions_are_the_same_at_every_width(name: str, width: int) -> None:
    x = few(name, points(2, 1000))
    assert np.array_equal(run(name, x, width=width), run(name, x), equal_nan=True)


@pytest.mark.parametrize("name", [name for name in EXACT if name not in ("rsqrt", "sqrt")])
def test_older_processors_compute_the_same_functions(name: str, older_host: Host) -> None:
    x = few(name, points(3, 2000))
    with np.errstate(all="ignore"):
        assert_within(run(name, x, width=4), EXACT[name](x.astype(np.longdouble)), ULPS + (0 if older_host.has_fma else 2), x)


def powers() -> tuple[Array, Array]:
    rng = np.random.default_rng(5)
    bases = [np.exp(rng.normal(size=COUNT) * 60), 1 + rng.normal(size=COUNT) * 1e-4, -rng.integers(0, 50, 3000)]
    base = np.concatenate([np.repeat(SPECIAL, len(SPECIAL)), *bases])
    power = np.concatenate([np.tile(SPECIAL, len(SPECIAL)), rng.normal(size=COUNT) * 5, rng.normal(size=COUNT) * 1e6, rng.integers(-9, 10, 3000)])
    return base.astype(np.float64), power.astype(np.float64)


def test_pow_keeps_its_accuracy() -> None:
    base, power = powers()
    with np.errstate(all="ignore"):
        assert_within(run("pow", base, power), np.power(base.astype(np.longdouble), power.astype(np.longdouble)), ULPS, base)


def test_pow_of_older_processors_keeps_its_accuracy(older_host: Host) -> None:
    base, power = (side[::4] for side in powers())
    with np.errstate(all="ignore"):
        exact = np.power(base.astype(np.longdouble), power.astype(np.longdouble))
        assert_within(run("pow", base, power, width=4), exact, ULPS + (0 if older_host.has_fma else 2), base)


def remainders() -> tuple[Array, Array]:
    rng = np.random.default_rng(6)
    wild = [rng.integers(0, 2**64, 5000, dtype=np.uint64).view(np.float64) for _ in range(2)]
    tame = [rng.normal(size=5000) * 50, rng.normal(size=5000)]
    grids = np.meshgrid(SPECIAL, SPECIAL)
    return tuple(np.concatenate([grid.ravel(), a, b]) for grid, a, b in zip(grids, wild, tame, strict=True))  # type: ignore[return-value]


@pytest.mark.parametrize(("name", "meaning"), [("fmod", np.fmod), ("mod", np.mod), ("floordiv", np.floor_divide)])
def test_remainders_are_exact_however_far_the_operands_are_apart(name: str, meaning: Any) -> None:
    a, b = remainders()
    with np.errstate(all="ignore"):
        want = meaning(a, b)
    got = run(name, a, b)
    same = (got.view(np.uint64) == want.view(np.uint64)) | (np.isnan(got) & np.isnan(want))
    assert same.all(), (a[~same][:5], b[~same][:5], got[~same][:5], want[~same][:5])


def test_remainders_of_older_processors_are_exact(older_host: Host) -> None:
    a, b = (side[::10] for side in remainders())
    with np.errstate(all="ignore"):
        want = np.fmod(a, b)
    got = run("fmod", a, b, width=4)
    same = (got.view(np.uint64) == want.view(np.uint64)) | (np.isnan(got) & np.isnan(want))
    assert same.all(), (older_host.features, a[~same][:5], b[~same][:5], got[~same][:5], want[~same][:5])
