"""Every row of the op table either has CPU code or says why not."""

from __future__ import annotations

import pytest

from tilejit import ops
from tilejit.backends.cpu import lower
from tilejit.backends.cpu.nests.recipes import FAMILIES
from tilejit.ops.rules import Nothing, Unsupported


@pytest.mark.parametrize("name", list(ops.table()))
def test_a_row_has_cpu_code_or_a_reason(name: str) -> None:
    row = ops.table()[name]
    has_code = row.family in (*FAMILIES, "structural") or name in lower.OPS or name in lower.PLACES or name in lower.EFFECTS or isinstance(row.cpu, Nothing)
    if isinstance(row.cpu, Unsupported):
        assert not has_code, "the table denies code that exists"
        assert row.cpu.reason
    else:
        assert has_code
