"""What host programs of other targets ask about ranks: numbers of a group, and to wait or meet there; memory is that of this process."""

from __future__ import annotations

from tilejit.runtime.ranks import meeting, words
from tilejit.runtime.ranks.abi import HEADER, State


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

    def wait(self, stream: int, comm: int, address: int, expected: int, at_least: int, line: int) -> int:
        """Until a cell has got there: 1; 0: the call ends. A rank is blocked only when its kernels are done: until then they may tell others something."""

        def there() -> bool:
            value = self.cell(stream, address)
            return value >= expected if at_least else value == expected

        if there():
            return 1
        self.settle(stream)
        return int(there() or words.blocked(comm, State.WAITING, words.wait_facts(comm, address, expected, bool(at_least), line), there))

    def meet(self, stream: int, comm: int, kind: int, op: int, root: int, ring: int, line: int, *numbers: int) -> int:
        """A collective: 1; 0: the call ends, and the reason is kept."""
        self.settle(stream)
        return int(meeting.met(comm, kind, op, root, bool(ring), line, meeting.operands(numbers)))
