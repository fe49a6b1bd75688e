"""`tilejit ops`: the support matrix, straight from the op table and what every target says about its rows."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, dataclass
from typing import Any

from tilejit.backends.base import target_of
from tilejit.dtypes import DTYPES
from tilejit.errors import PlatformError
from tilejit.ops import table
from tilejit.ops.spec import OpSpec
from tilejit.runtime import targets
from tilejit.runtime.targets import TargetRow


@dataclass(frozen=True, slots=True)
class MatrixRow:
    """One row of the matrix. `support` has, per target, None for yes or the reason for a hole."""

    op: str
    spellings: list[str]
    dtypes: list[str]
    support: dict[str, str | None]
    doc: str

    def as_json(self) -> dict[str, Any]:
        rest = asdict(self)
        support = rest.pop("support")
        return rest | {target: {"supported": reason is None, "reason": reason} for target, reason in support.items()}


def entry(row: OpSpec) -> MatrixRow:
    """The matrix row of a table row."""
    names = [f"{'pl' if s.namespace == 'pl' else f'pl.{s.namespace}'}.{s.name}{s.signature_text}" for s in row.spellings]
    dtypes = [name for name, dtype in DTYPES.items() if dtype in row.dtypes]
    return MatrixRow(row.name, names, dtypes, {target.name: hole(row, target) for target in targets.rows()}, row.doc.split("\n\n")[0].replace("\n", " "))


def hole(row: OpSpec, target: TargetRow) -> str | None:
    """Why a row does not run on a target, or None when it does."""
    try:
        return target_of(target.platforms[0]).hole(row)
    except PlatformError as error:
        return error.message


def matrix(words: list[str]) -> list[MatrixRow]:
    """Rows whose name or spelling contains one of the words; all of them without words."""
    found = [entry(row) for row in table().values()]
    return [item for item in found if not words or any(word in name for word in words for name in (item.op, *(s.partition("(")[0] for s in item.spellings)))]


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("word", nargs="*", help="only ops whose name contains one of these")


def run(options: argparse.Namespace) -> int:
    found = matrix(options.word)
    if not found:
        print(f"tilejit ops: no op's name contains {' or '.join(options.word)}", file=sys.stderr)
        return 1
    print(json.dumps([item.as_json() for item in found], indent=1) if options.json else text(found))
    return 0


def text(found: list[MatrixRow]) -> str:
    """The matrix as aligned columns; holes are numbered and explained at the end."""
    reasons = list(dict.fromkeys(reason for item in found for reason in item.support.values() if reason is not None))
    marks = {None: "yes"} | {reason: f"no{number}" for number, reason in enumerate(reasons, 1)}
    columns = [target.name for target in targets.rows()]
    rows = [["op", "names", *columns, "dtypes", "meaning"]]
    for item in found:
        names = " ".join(dict.fromkeys(spelling.partition("(")[0] for spelling in item.spellings)) or "(operator)"
        dtypes = " ".join(item.dtypes) if len(item.dtypes) < len(DTYPES) else "any"
        rows.append([item.op, names, *(marks[item.support[target]] for target in columns), dtypes, item.doc])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    lines = ["  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]).rstrip() for row in rows]
    why = [f"no{number}: {reason} ({_rows(sum(reason in item.support.values() for item in found))})" for number, reason in enumerate(reasons, 1)]
    return "\n".join([*lines, "", *why, f"{_rows(len(found))}: {', '.join(f'{target} {_share(found, target)}' for target in columns)}"])


def _rows(count: int) -> str:
    return f"{count} row{'s' * (count != 1)}"


def _share(found: list[MatrixRow], target: str) -> str:
    """How many rows run on a target."""
    count = sum(item.support[target] is None for item in found)
    return f"{count} ({100 * count / len(found):.1f} %)"
