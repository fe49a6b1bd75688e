"""Every row of the op table against a formula that is not its own: the reference is the definition, so somebody else must agree with it."""

from __future__ import annotations

import random
import warnings
import zlib
from typing import Any

import numpy as np
import pytest

from tests.differential.build import tolerance, ulp
from tests.differential.data import cells
from tests.differential.plans import EXECUTABLE, Array, Fixed, Number, Numbers, Use, uses
from tests.ops.formulas import NUMBERS
from tests.ops.harness import run
from tests.ops.moves import MOVES
from tests.ops.small_kernels import KERNELS
from tilejit import ops
from tilejit.dtypes import BOOL, COMPLEX64, FP32, DType
from tilejit.ops.evaluate import ArrayValue
from tilejit.ops.facts import Effect
from tilejit.types.values import ShapedType

SIZES = {"M": 3, "N": 7, "K": 5, "B": 2, "S": 9}
PER_DTYPE = 3
"""Uses of each row, level and data type."""

NOTHING_TO_CHECK = {
    "effect": "statements that give nothing",
    "alloc": "an allocation token of printed programs: nothing computes with it",
    "create_tile": "its content is undefined",
    "composed": "calls of other rows, without a reference of their own: tests/ops/test_composed.py checks them against NumPy",
    **{
        name: "several ranks compute it together: tests/ranks runs their programs on the reference and on the CPU against NumPy"
        for name, row in ops.table().items()
        if row.spellings and all(spelling.namespace.startswith("pld") for spelling in row.spellings)
    },
}
"""Families and rows without a result, and why no formula can be wrong about them."""


def sampled(name: str) -> list[Use]:
    rng = random.Random(zlib.crc32(name.encode()))
    row = ops.table()[name]
    found: list[Use] = []
    for level in sorted(row.levels):
        for dtype in EXECUTABLE:
            if dtype in row.dtypes and dtype is not COMPLEX64:  # tests/ops/test_complex.py
                candidates = uses(row, level, dtype)
                found += rng.sample(candidates, min(PER_DTYPE, len(candidates)))
    return found


def arguments(use: Use, rng: np.random.Generator) -> dict[str, Any]:
    """Data for the arguments of a use; everything is valid."""
    out: dict[str, Any] = {}
    for name, arg in use.args:
        if isinstance(arg, Array):
            shape = tuple(SIZES.get(n, n) if isinstance(n, str) else n for n in arg.extents(use.level))
            out[name] = cells(rng, use.row.name, arg.role, arg.dtype, shape)  # type: ignore[arg-type]
        elif isinstance(arg, Number):
            out[name] = arg.const if arg.const is not None else cells(rng, use.row.name, arg.role, arg.dtype, (1,))[0]
        elif isinstance(arg, Numbers):
            out[name] = [int(cells(rng, "", item.role, item.dtype, (1,))[0]) if isinstance(item, Number) else item for item in arg.values]
        else:
            assert isinstance(arg, Fixed)
            out[name] = arg.value
    return out


def seen_by_formula(value: Any, result: DType, promotes: bool) -> Any:
    """Numbers as a formula of NUMBERS takes them: in the result's type where operands are promoted, then float64 or Python ints."""
    if not isinstance(value, np.ndarray | np.generic):
        return value
    kind = value.dtype.kind
    if promotes and result.is_float and value.dtype != result.numpy and kind != "b":
        value = value.astype(result.numpy)
        kind = "V"
    if kind == "b":
        return value
    if kind in "iu" or "int" in value.dtype.name:
        whole = np.asarray(value).astype(np.int64 if kind != "u" else np.uint64).astype(object)
        return whole if isinstance(value, np.ndarray) else int(whole)
    real = np.asarray(value).astype(np.float64).astype(object)
    return real if isinstance(value, np.ndarray) else float(real)


def wrapped(expected: Any, dtype: DType) -> Any:
    """Exact integers modulo the width of the type."""
    if dtype is BOOL:
        return expected != 0
    span = 2**dtype.bits
    signed = np.vectorize(lambda x: (int(x) + span // 2) % span - span // 2 if dtype.is_signed else int(x) % span, otypes=[object])
    return signed(expected)


def agree(use: Use, got: Any, expected: Any, dtype: DType, given: dict[str, Any]) -> None:
    expected = np.asarray(expected, object)
    assert got.shape == expected.shape, f"{use}: shape {got.shape}, expected {expected.shape}"
    if dtype is COMPLEX64:
        for part in ("real", "imag"):
            cells_of = np.vectorize(lambda cell, part=part: getattr(cell, part), otypes=[object])
            agree(use, getattr(got, part), cells_of(expected), FP32, given)
        return
    known = np.vectorize(lambda cell: cell is not None, otypes=[bool])(expected) if expected.size else np.ones(expected.shape, bool)
    if not dtype.is_float:
        wanted = wrapped(np.where(known, expected, 0), dtype)
        wrong = known & (got.astype(object) != wanted)
    else:
        with np.errstate(all="ignore"):
            wanted = np.where(known, expected, 0).astype(np.float64).astype(dtype.numpy)
            limit = 2 * tolerance(use, dtype, given, wanted) + (2 if dtype.bits == 32 else 1.01) * ulp(wanted, dtype) * (use.row.name != "cast")
            limit = limit + np.abs(wanted.astype(np.float64)) * STRETCH.get(use.row.name, 0.0)
            if use.row.name in ("addc", "subc"):
                limit = limit + 2.0**-22 * sum(np.abs(np.nan_to_num(np.asarray(value, np.float64), posinf=0, neginf=0)) for value in given.values())
            a, b = got.astype(np.float64), wanted.astype(np.float64)
            wrong = known & ~((np.abs(a - b) <= limit) | (a == b) | (np.isnan(a) & np.isnan(b)))
    if wrong.any():
        cell = tuple(np.argwhere(wrong)[0])
        pytest.fail(f"{use}: cell {list(map(int, cell))} is {got[cell]!r}, expected {wanted[cell]!r} ({int(wrong.sum())} of {wrong.size})")


def results_of(use: Use, given: dict[str, Any]) -> list[tuple[Any, DType]]:
    types, values = run(use.row.name, use.level, **given)
    out: list[tuple[Any, DType]] = []
    for type, value in zip(types, values, strict=True):
        assert not isinstance(type, ShapedType) or isinstance(value, ArrayValue)
        out.append((value.box if isinstance(value, ArrayValue) else np.asarray(value), type.dtype))  # type: ignore[union-attr]
    return out


STRETCH = {"row_expand_expdif": 2.0**-15, "col_expand_expdif": 2.0**-15}
"""Relative error that a function makes of the rounding of its argument."""
PROMOTING = ("elementwise", "expand", "part")


@pytest.mark.parametrize("name", sorted(NUMBERS))
def test_the_reference_computes_what_another_formula_does(name: str) -> None:
    tried = 0
    for number, use in enumerate(sampled(name)):
        given = arguments(use, np.random.default_rng((number, 17)))
        (got, dtype), *rest = results_of(use, given)
        assert not rest
        promotes = use.row.family in PROMOTING and name not in ("cast", "where", "isnan")
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            expected = NUMBERS[name](use, **{key: seen_by_formula(value, dtype, promotes) for key, value in given.items()})
        agree(use, got, expected, dtype, given)
        tried += 1
    assert tried, f"{name}: nothing was tried"


@pytest.mark.parametrize("name", sorted(MOVES))
def test_the_reference_moves_cells_as_another_formula_does(name: str) -> None:
    tried = 0
    for number, use in enumerate(sampled(name)):
        given = arguments(use, np.random.default_rng((number, 18)))
        expected = MOVES[name](use, **given)
        if expected is NotImplemented:
            continue
        wanted = expected if isinstance(expected, tuple) else (expected,)
        for (got, dtype), cellwise in zip(results_of(use, given), wanted, strict=True):
            if cellwise.dtype == object:
                agree(use, got, cellwise, dtype, given)
            else:
                assert got.shape == cellwise.shape, f"{use}: shape {got.shape}, expected {cellwise.shape}"
                assert np.ascontiguousarray(got).tobytes() == np.ascontiguousarray(cellwise).astype(got.dtype, copy=False).tobytes(), f"{use}"
        tried += 1
    assert tried, f"{name}: nothing was tried"


@pytest.mark.parametrize("name", sorted(KERNELS))
def test_the_reference_runs_a_kernel_as_it_should(name: str) -> None:
    KERNELS[name]()


def test_every_row_has_a_formula_of_its_own() -> None:
    for row in ops.table().values():
        listed = row.name in NOTHING_TO_CHECK or (
            row.family in NOTHING_TO_CHECK and (row.family in ("structural", "composed") or row.facts.effect is Effect.Order)
        )
        checked = row.name in NUMBERS or row.name in MOVES or row.name in KERNELS or row.facts.of_pairs  # tests/ops/test_complex.py
        assert checked or listed, f"the reference of {row.name} is checked against nothing: add a formula"
    assert set(NUMBERS) | set(MOVES) | set(KERNELS) <= set(ops.table())
