"""The generator reaches every statement of the language, every row of the op table and every data type, but for a short list."""

from __future__ import annotations

import pytest

from tests.fuzz import public_coverage
from tests.fuzz.coverage import DTYPES_UNREACHED, UNREACHED, Coverage, measure
from tilejit import ops

PROGRAMS = 2000


@pytest.fixture(scope="module")
def coverage() -> Coverage:
    return measure(PROGRAMS)


def test_every_kind_of_statement_is_written(coverage: Coverage) -> None:
    assert coverage.missing()[0] == []


def test_every_row_of_the_op_table_is_used_or_listed(coverage: Coverage) -> None:
    assert set(coverage.missing()[1]) == set(UNREACHED)
    assert set(UNREACHED) <= set(ops.table())
    assert all(len(reason) > 20 for reason in UNREACHED.values())


def test_every_data_type_is_used_or_listed(coverage: Coverage) -> None:
    assert set(coverage.missing()[2]) == set(DTYPES_UNREACHED)


def test_every_form_of_public_programs_is_written(coverage: Coverage) -> None:
    assert [form for form in public_coverage.ALL if coverage.forms[form] < 3] == []


def test_no_row_depends_on_a_lucky_seed(coverage: Coverage) -> None:
    rare = [name for name, count in coverage.rows.items() if count < 3]
    assert len(rare) <= 5, f"hardly ever written: {rare}"
