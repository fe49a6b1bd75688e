"""What `pl.print` says on a GPU: the log of a launch, which the host waits for and shows block by block.

    [words that records asked for, prints that found no room] records…
    record   ::= row of the failure table, block, operands…          all in 64-bit words, operands as in runtime/call/printing.py
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilejit.errors import ArgumentError
from tilejit.runtime.call.failures import Failure
from tilejit.runtime.call.printing import WORD, lost_text, said_in
from tilejit.runtime.cuda.copies import fetch
from tilejit.runtime.cuda.devices import Device
from tilejit.runtime.cuda.memory import Memory

HEADER = 2
NEXT, LOST = range(HEADER)
PLACES = 1 << 21
"""Words for records: 16 MiB."""
ENDS = -1
"""Stands where the first record would have been that found no room."""


class LaunchLog:
    """The log of a kernel's launches on one device."""

    def __init__(self, device: Device, failures: Sequence[Failure]) -> None:
        self._device, self._failures = device, failures

    def begin(self, memory: Memory, stream: int) -> int:
        """The address of an empty log."""
        if self._device.driver.number_after("cuStreamIsCapturing", stream):
            what = "a kernel that prints cannot be captured into a graph: its lines are shown after each launch"
            raise ArgumentError(what, help="take pl.print out, or call the kernel without a graph")
        address = memory.take((HEADER + PLACES) * WORD)
        self._device.driver("cuMemsetD8Async", address, 0, HEADER * WORD, stream)
        return address

    def show(self, stream: int, address: int) -> None:
        """Wait for the launch, and print what it said."""
        head = np.empty(HEADER, np.int64)
        fetch(self._device, stream, address, head)
        records = np.empty(min(int(head[NEXT]), PLACES), np.int64)
        if records.size:
            fetch(self._device, stream, address + HEADER * WORD, records)
        show(records, int(head[LOST]), self._failures)


def show(records: np.ndarray, lost: int, table: Sequence[Failure]) -> None:
    """Print records: blocks in their order, and what each said in its own."""
    content, at, found = records.tobytes(), 0, list[tuple[int, list[object]]]()
    while at < len(content) and records[at // WORD] != ENDS:
        row, block = (int(word) for word in records[at // WORD : at // WORD + 2])
        said, at = said_in(content, table[row], at + 2 * WORD)
        found.append((block, said))
    for _, said in sorted(found, key=lambda record: record[0]):
        print(*said)
    if lost:
        print(lost_text(lost))
