"""How much a program does at once: rows, columns, warps, stages, from the sizes of a nest and what a GPU is good at."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from tilejit.backends.cuda.types import padded

MOST_CELLS = 1 << 14
"""Cells of a tensor-level value that a program holds at once in registers."""
LONGEST_ROW = 1 << 14
"""Longer rows run in chunks."""
CHUNK = 4096


@dataclass(frozen=True)
class RowSchedule:
    """Blocks of a nest over rows: rows and columns at once, and whether a row takes several chunks."""

    rows: int
    columns: int
    chunked: bool
    warps: int

    def __str__(self) -> str:
        return f"{self.rows} rows × {self.columns} columns{' in chunks' if self.chunked else ''}, {self.warps} warps"


def rows_of(rows: int | None, columns: int | None, width: int, live: int) -> RowSchedule:
    """For `rows` rows of `columns` columns (None: the run knows) of elements of `width` bytes, with `live` values at once."""
    if columns is None or padded(columns) > LONGEST_ROW:
        return RowSchedule(1, CHUNK, True, 8)
    wide = padded(columns)
    wanted = max(1, min(4096, 16384 // max(width, 1)) // wide)
    if rows is not None:
        wanted = min(wanted, padded(rows), max(1, padded(rows) // 264))
    block = 1 << (wanted.bit_length() - 1)
    warps = max(1, min(16, block * wide // 512))
    return RowSchedule(block, wide, False, 1 << int(math.log2(warps)))


_SHAPES = re.compile(r"\(((?:\d+, )*\d+),\)")


def warps_of(text: str) -> int:
    """Warps for a program of the user's own blocks: by the largest tile in it."""
    cells = [math.prod(int(n) for n in found.split(", ")) for found in _SHAPES.findall(text)]
    spans = [int(n) for n in re.findall(r"tl\.arange\(0, (\d+)\)", text)]
    largest = max([*cells, 1, *(a * b for i, a in enumerate(spans) for b in spans[i + 1 :])])
    if largest >= 1 << 14:
        return 8
    return 4 if largest >= 1 << 10 else 2 if largest >= 1 << 8 else 1
