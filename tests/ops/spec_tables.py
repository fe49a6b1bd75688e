"""Reads the operator tables of docs/spec/language.md."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

SPEC = Path(__file__).parents[2] / "docs" / "spec" / "language.md"
COLUMNS = ("pl", "tensor", "tile", "system")


@dataclass(frozen=True)
class SpecRow:
    """One line of a table: what each namespace says about an op."""

    group: str
    op: str
    cells: dict[str, str]

    def signature(self, namespace: str) -> str | None:
        """The signature text in a namespace, None where the op is not there."""
        found = re.search(r"`(\(.*\))`", self.cells[namespace])
        return found.group(1) if found else None


def spec_rows() -> list[SpecRow]:
    rows: list[SpecRow] = []
    group = ""
    for line in SPEC.read_text().splitlines():
        if line.startswith("### "):
            group = line[4:].strip()
        if not line.startswith("| `") or group.startswith("distributed"):
            continue
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) == 6:
            rows.append(SpecRow(group, cells[0].strip("`"), dict(zip(COLUMNS, cells[1:5], strict=True))))
    return rows
