"""The tables of the targets: every row of the op table runs, is made of rows that run, or has a reason; and no table speaks of anything else."""

from __future__ import annotations

import pytest

from tilejit import ops
from tilejit.backends.cpu import rules as cpu
from tilejit.backends.pto.write import rules as pto
from tilejit.ops.facts import Effect
from tilejit.ops.spec import OpSpec

HOLES = {"cpu": cpu.hole, "pto": pto.hole}


@pytest.mark.parametrize("target", HOLES)
@pytest.mark.parametrize("row", ops.table().values(), ids=lambda row: row.name)
def test_a_row_runs_or_says_why_not(row: OpSpec, target: str) -> None:
    reason = HOLES[target](row)
    assert reason is None or reason.strip()
    assert target != "cpu" or reason is None


@pytest.mark.parametrize("name", pto.RULES)
def test_a_rule_of_the_pto_writer_is_of_a_row_that_is_no_term(name: str) -> None:
    assert ops.table()[name].derived is None


@pytest.mark.parametrize("name", cpu.RULES)
def test_a_rule_of_the_cpu_is_of_a_row_that_needs_one(name: str) -> None:
    row = ops.table()[name]
    assert row.derived is None, "every target has a derived row already"
    assert row.facts.effect is not Effect.Order and row.family != "structural", "nothing happens"
    assert cpu.rule_of(row) is cpu.RULES[name]


def test_statements_have_code_as_statements_and_values_as_values() -> None:
    for name, rule in cpu.RULES.items():
        row = ops.table()[name]
        if isinstance(rule, cpu.Own):
            assert (rule.statement is not None) == (row.family == "effect" or (row.facts.writes is not None and not row.facts.rebinds)), name
            assert rule.value is not None or rule.statement is not None
