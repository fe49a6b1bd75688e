"""What host programs of other targets ask about ranks: numbers of a group, and to wait or meet there; memory is that of this process."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass

from tilejit.runtime.ranks import meeting, words
from tilejit.runtime.ranks.abi import HEADER, Comm, Record, State


@dataclass(frozen=True)
class Look:
    """What a block waits for."""

    comm: int
    facts: dict[Record, int]
    there: Callable[[], bool]

    def looking(self) -> None:
        """Say that this rank has looked for all that its blocks wait for, in vain."""
        record = words.word(self.comm, Comm.RECORD)
        for slot, value in self.facts.items():
            words.set_word(record, slot, value)
        words.set_word(record, Record.STATE, State.LOOKING)
        words.set_word(record, Record.ROUNDS, words.word(record, Record.ROUNDS) + 1)

    def running(self) -> None:
        """Say that it goes on."""
        record = words.word(self.comm, Comm.RECORD)
        if words.word(record, Record.STATE) == State.LOOKING:
            words.set_word(record, Record.STATE, State.RUNNING)
            words.set_word(record, Record.TURN, words.word(record, Record.TURN) + 1)

    def stopped(self) -> bool:
        return words.word(words.word(self.comm, Comm.STOP), 0) != 0


def _went_on(block: Generator[Look, int, object], came: int) -> Look | None:
    """What a block waits for next; None: it has ended."""
    try:
        return block.send(came)
    except StopIteration:
        return None


class Asked:
    """Who answers; `stream` is where the rank's kernels were launched."""

    def comm(self, stream: int, window: int) -> int:
        """The context of the group of a window, given its address."""
        return words.word(window - HEADER, 0)

    def group_word(self, stream: int, comm: int, slot: int) -> int:
        """A number of a group."""
        return words.word(comm, slot)

    def way_to_peer(self, stream: int, comm: int, peer: int) -> int:
        """Bytes from the own copy of a window to that of a peer."""
        return words.distance(comm, peer)

    def cell(self, stream: int, address: int) -> int:
        """The cell of a signal."""
        return words.cell(address)

    def settle(self, stream: int) -> None:
        """Everything that was launched is done, and nothing of it failed."""

    def _there(self, stream: int, address: int, expected: int, at_least: int) -> Callable[[], bool]:
        """Whether a cell has got there."""

        def there() -> bool:
            value = self.cell(stream, address)
            return value >= expected if at_least else value == expected

        return there

    def wait(self, stream: int, comm: int, address: int, expected: int, at_least: int, line: int) -> int:
        """Until a cell has got there: 1; 0: the call ends. A rank is blocked only when its kernels are done: until then they may tell others something."""
        there = self._there(stream, address, expected, at_least)
        if there():
            return 1
        self.settle(stream)
        return int(there() or words.blocked(comm, State.WAITING, words.wait_facts(comm, address, expected, bool(at_least), line), there))

    def turn(self, stream: int, comm: int, address: int, expected: int, at_least: int, line: int) -> Generator[Look, int, int]:
        """As `wait`, of a block while others go on: it is asked again until the cell has got there, or the call ends."""
        there = self._there(stream, address, expected, at_least)
        return 1 if there() else (yield Look(comm, words.wait_facts(comm, address, expected, bool(at_least), line), there))

    def all_blocks(self, stream: int, blocks: Iterable[Generator[Look, int, object]]) -> None:
        """Run blocks to their ends; where all of them wait, the rank does, and its record says for what one of them does."""
        under_way = [(block, look) for block in blocks if (look := next(block, None)) is not None]
        settled, pause = False, 0.0
        while under_way:
            there = {at for at, (_, look) in enumerate(under_way) if look.there()}
            if there:
                for at in there:
                    under_way[at][1].running()
                after = [(block, _went_on(block, 1) if at in there else look) for at, (block, look) in enumerate(under_way)]
                under_way = [(block, look) for block, look in after if look is not None]
                settled, pause = False, 0.0
            elif not settled:
                self.settle(stream)
                settled = True
            elif under_way[0][1].stopped():
                _went_on(under_way[0][0], 0)
                return
            else:
                under_way[0][1].looking()
                time.sleep(pause)
                pause = min(max(2 * pause, 5e-6), 1e-3)

    def meet(self, stream: int, comm: int, kind: int, op: int, root: int, ring: int, line: int, *numbers: int) -> int:
        """A collective: 1; 0: the call ends, and the reason is kept."""
        self.settle(stream)
        return int(meeting.met(comm, kind, op, root, bool(ring), line, meeting.operands(numbers)))
