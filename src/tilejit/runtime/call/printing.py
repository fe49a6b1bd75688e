"""What `pl.print` says in compiled code: records in a block of memory that the call hands in, shown when it is over.

    [next free address, end, prints that found no room] records…
    record   ::= row of the failure table, operands…          all in 64-bit words
    operand  ::= a scalar in one word | extents, cells row by row, filled up to a whole word
"""

from __future__ import annotations

import ctypes
import json
import mmap
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tilejit.dtypes import DTYPES, DType
from tilejit.errors import Span
from tilejit.runtime.call.failures import PRINT, Failure

HEADER = 3
"""Words before the records: NEXT, END, LOST."""
NEXT, END, LOST = range(HEADER)
WORD = 8
_BYTES = 64 << 20
"""Address space; memory is used only when touched."""


def print_row(parts: Sequence[object], operands: Sequence[tuple[DType, int | None]], span: Span | None) -> Failure:
    """The row that describes a print: its words with None for each operand, and the data type and rank of those (None: a scalar)."""
    return Failure(PRINT, json.dumps([list(parts), [(dtype.name, rank) for dtype, rank in operands]]), span)


def in_order(parts: Sequence[object], operands: Sequence[object]) -> list[object]:
    """Words and operands as they were written: None stands where the next operand goes, pieces are those of an f-string (frontend/prints.py)."""
    rest = iter(operands)
    return [next(rest) if part is None else part if isinstance(part, str) else _joined(part, rest) for part in parts]


def _joined(pieces: Any, rest: Iterator[object]) -> str:
    return "".join(piece if isinstance(piece, str) else text_of(next(rest), *piece) for piece in pieces)


_NUMBERS = {"b": bool, "i": int, "u": int, "c": complex}


def text_of(value: Any, conversion: str, spec: str) -> str:
    """An operand as an f-string shows it; where nothing is asked for, as a print does."""
    if conversion or not spec:
        return format(str(value), spec)
    return format(_NUMBERS.get(np.asarray(value).dtype.kind, float)(value), spec)


_voice = threading.local()


def speak_as(prefix: str) -> None:
    """What this thread says in front of every print from now on: who it is, if there are several."""
    _voice.prefix = prefix


def say(*words: object) -> None:
    """Show what a kernel prints, in one piece: other threads may print too."""
    prefix = getattr(_voice, "prefix", "")
    print(" ".join(map(str, (prefix, *words) if prefix else words)) + "\n", end="")


class PrintLog:
    """The memory of one call."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _BYTES)
        view = ctypes.c_char.from_buffer(self._memory)
        self.address = ctypes.addressof(view)
        del view
        self._words = np.frombuffer(self._memory, np.uint64, HEADER)
        self._words[:] = self.address + HEADER * WORD, self.address + _BYTES, 0

    def show(self, table: Sequence[Failure]) -> None:
        """Print the records in the order of the run."""
        words, at, end = self._words, HEADER * WORD, int(self._words[NEXT]) - self.address
        while at < end:
            row = table[int(_read(self._memory, np.uint64, at, 1)[0])]
            said, at = said_in(self._memory, row, at + WORD)
            say(*said)
        if words[LOST]:
            say(lost_text(int(words[LOST])))


def lost_text(count: int) -> str:
    return f"… and {count} more, for which there was no room"


def said_in(memory: bytes | mmap.mmap, row: Failure, at: int) -> tuple[list[object], int]:
    """What a print of that row said, whose operands start at byte `at` of `memory`, and where they end."""
    parts, operands = json.loads(row.text)
    values: list[object] = []
    for name, rank in operands:
        value, at = _operand(memory, DTYPES[name], rank, at)
        values.append(value)
    return in_order(parts, values), at


def _operand(memory: bytes | mmap.mmap, dtype: DType, rank: int | None, at: int) -> tuple[Any, int]:
    if rank is None:
        return _read(memory, dtype.numpy, at, 1)[0], at + WORD
    shape = tuple(int(extent) for extent in _read(memory, np.int64, at, rank))
    count, at = int(np.prod(shape, dtype=np.int64)), at + rank * WORD
    return _read(memory, dtype.numpy, at, count).reshape(shape), at + -(-count * dtype.numpy.itemsize // WORD) * WORD


def _read(memory: bytes | mmap.mmap, dtype: Any, at: int, count: int) -> Any:
    return np.frombuffer(memory, dtype, count, at).copy()
