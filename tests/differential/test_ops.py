"""A sample of the full product in tests/differential; and the list of rows that the product cannot reach is honest."""

from __future__ import annotations

import random

import pytest

from tests.differential import plans
from tests.differential.plans import EXECUTABLE, UNREACHED, Use, all_uses, uses
from tests.differential.runner import batches, check
from tilejit import ops
from tilejit.backends.cpu.rules import hole
from tilejit.dtypes import COMPLEX64, INT64
from tilejit.errors import TilejitError

SHARDS = 8
PER_ROW = 14
"""Uses of each row in the sample: all levels, spread over dtypes and arguments."""


def _sample() -> list[Use]:
    by_row: dict[str, list[Use]] = {}
    for use in all_uses():
        by_row.setdefault(use.row.name, []).append(use)
    rng = random.Random(7)
    return [use for found in by_row.values() for use in (found if len(found) <= PER_ROW else rng.sample(found, PER_ROW))]


@pytest.fixture(scope="module")
def sample() -> list[list[Use]]:
    return list(batches(_sample()))


@pytest.mark.parametrize("shard", range(SHARDS))
def test_cpu_computes_what_the_reference_does(shard: int, sample: list[list[Use]]) -> None:
    differences = [str(difference) for batch in sample[shard::SHARDS] for difference in check(batch)]
    assert not differences, "\n".join(differences)


def test_masks_of_words_choose_among_wide_elements() -> None:
    chosen = uses(ops.table()["sel"], "tile", INT64)
    assert chosen and not [str(difference) for difference in check(chosen)]


def test_every_row_level_and_dtype_is_reached_or_listed() -> None:
    for row in ops.table().values():
        if hole(row) is not None:
            continue
        for level in sorted(row.levels):
            tried = {dtype.name for dtype in EXECUTABLE if dtype in row.dtypes and uses(row, level, dtype)}
            missing = {dtype.name for dtype in EXECUTABLE if dtype in row.dtypes} - tried
            if COMPLEX64.name in missing and any(map(plans.has_complex_number, plans.candidates(row, level, COMPLEX64))):
                missing.remove(COMPLEX64.name)
            key = f"{level}.{row.name}"
            if key in UNREACHED or row.name in UNREACHED or row.family in UNREACHED:
                assert not tried, f"{key} is listed as unreached, but it is reached"
            elif missing and not _refused(row.name, level, missing):
                pytest.fail(f"{key}: nothing is tried with {sorted(missing)}; add a plan, or list it in UNREACHED with a reason")


def _refused(name: str, level: str, dtypes: set[str]) -> bool:
    """Whether the row's own type rule says no to these dtypes at this level (sin of an integer tile)."""
    row = ops.table()[name]
    for dtype in EXECUTABLE:
        if dtype.name in dtypes:
            candidates = list(plans.candidates(row, level, dtype))
            if not candidates or not any(_dtype_error(row, level, args) for args in candidates):
                return False
    return True


def _dtype_error(row: ops.OpSpec, level: str, args: plans.Arguments) -> bool:
    try:
        plans.typed(row, level, args)
    except TilejitError as error:
        return type(error).__name__ == "DTypeError"
    return False


def test_the_list_of_unreached_rows_names_rows() -> None:
    known = {*ops.table(), *(row.family for row in ops.table().values()), *(f"{level}.{row.name}" for row in ops.table().values() for level in row.levels)}
    assert set(UNREACHED) <= known
    assert all(len(reason) > 10 for reason in UNREACHED.values())
