"""Operands worth computing with: random numbers of several sizes, special values, and what a role asks for."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tilejit.dtypes import BOOL, COMPLEX64, DType, integer_range

NDArray = npt.NDArray[Any]

SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 1e-3, 3.0, float("inf"), float("-inf"), float("nan"), 88.0, -104.0, 1e-40, 65504.0, 1e30)
DIVIDERS = frozenset({"div", "floordiv", "mod", "fmod", "rem"})
SHIFTS = frozenset({"shl", "shr"})
POSITIVE = frozenset({"log", "sqrt", "rsqrt"})

EXTENTS = {"rows": (1, 7), "columns": (1, 38), "offset": (0, 3)}
"""Roles of run-time scalars that say where or how much, and their ranges."""


def _runs(rng: np.random.Generator, shape: tuple[int, ...], run: int) -> NDArray:
    """Interleaved (value, mark) pairs, the values of each run descending, NaN last."""
    values = -np.sort(-_floats(rng, "", "any", (*shape[:-1], shape[-1] // run, run // 2)), axis=-1)
    return np.stack([values, rng.uniform(1, 2, values.shape)], axis=-1).reshape(shape)


ROLES = {
    "below": lambda rng, shape, extent: rng.integers(0, extent, shape),
    "small": lambda rng, shape, _: rng.integers(0, 3, shape),
    "powers": lambda rng, shape, _: np.exp2(rng.integers(-4, 5, shape)),
    "runs": _runs,
}
"""Roles that say what the numbers are, whatever the dtype: indices below an extent, few distinct values, powers of two, sorted runs."""


def cells(rng: np.random.Generator, op: str, role: str, dtype: DType, shape: tuple[int, ...]) -> NDArray:
    """Data for one operand of `op`."""
    if role in EXTENTS:
        return rng.integers(*EXTENTS[role], shape).astype(dtype.numpy)
    kind, _, number = role.partition(" ")
    if kind in ROLES:
        return _stored(ROLES[kind](rng, shape, int(number or 0)), dtype)
    if dtype is COMPLEX64:
        # Neither tiny nor endless: sizes and powers are rounded in another order than NumPy's.
        return _stored(rng.uniform(0.2, 2, shape) * np.exp(1j * rng.uniform(0, 2 * np.pi, shape)), dtype)
    if dtype is BOOL:
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.is_float:
        return _stored(_floats(rng, op, role, shape), dtype)
    return _integers(rng, op, role, dtype, shape)


def _stored(values: NDArray, dtype: DType) -> NDArray:
    with np.errstate(all="ignore"):
        return values.astype(dtype.numpy)


def _floats(rng: np.random.Generator, op: str, role: str, shape: tuple[int, ...]) -> NDArray:
    if role == "near one":
        return rng.uniform(0.9, 1.1, shape) * rng.choice((-1.0, 1.0), shape)
    if role == "finite":
        return rng.uniform(-2, 2, shape)
    values = rng.standard_normal(shape) * rng.choice((1e-3, 1.0, 1.0, 10.0, 80.0), shape)
    if op in POSITIVE and rng.random() < 0.7:
        values = np.abs(values)
    if op == "pow":
        values = np.abs(values) % 8 if role == "lhs" else values % 4
    special = rng.random(shape) < 0.15
    return np.where(special, rng.choice(SPECIAL, shape), values)


def _integers(rng: np.random.Generator, op: str, role: str, dtype: DType, shape: tuple[int, ...]) -> NDArray:
    low, high = integer_range(dtype)
    if role == "bits":
        return rng.integers(low, high, shape, np.int64, endpoint=True).astype(dtype.numpy)
    if op in SHIFTS and role == "rhs":
        return rng.integers(0, min(dtype.bits + 3, high), shape).astype(dtype.numpy)
    if op == "pow" and role == "rhs":
        return rng.integers(0, 5, shape).astype(dtype.numpy)
    wide_low, wide_high = max(low, -(2**62)), min(high, 2**62)
    wide = rng.integers(wide_low, wide_high, shape, np.int64, endpoint=True)
    small = rng.integers(max(low, -9), min(high, 9), shape, np.int64, endpoint=True)
    edge = rng.choice(np.array([wide_low, wide_high, 0, 1, max(low, -1)], np.int64), shape)
    kind = rng.random(shape)
    values = np.where(kind < 0.5, small, np.where(kind < 0.9, wide, edge))
    if (op in DIVIDERS and role == "rhs") or (role == "rhs" and op.endswith("expand_div")):
        values = np.where(values == 0, 1, values)
    return values.astype(dtype.numpy)
