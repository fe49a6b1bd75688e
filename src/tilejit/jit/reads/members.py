"""Members of plain tuples that Python gave: a helper that is handed one by itself is given the very object."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

from tilejit.jit.reads.plain import dumps, encode


@dataclass(frozen=True, slots=True)
class Member:
    """A member of the tuple that a question gave, or of a tuple in it."""

    number: int
    path: tuple[int, ...]


def member_of(value: object, path: Sequence[int]) -> object:
    """What stands at a place of a tuple."""
    for place in path:
        value = cast("tuple[object, ...]", value)[place]
    return value


@dataclass(slots=True)
class Members:
    """Where plain values are members, as they are written; of those that are equal the first. Read when somebody looks for one: most kernels never do."""

    _known: dict[str, Member] = field(default_factory=dict[str, Member])
    _unread: list[tuple[Member, tuple[object, ...]]] = field(default_factory=list["tuple[Member, tuple[object, ...]]"])

    def add(self, number: int, value: tuple[object, ...]) -> None:
        """Take up the tuple that a question gave."""
        self._unread.append((Member(number, ()), value))

    def find(self, written: str) -> Member | None:
        """A member that is written like this."""
        for whole, value in self._unread:
            self._read(whole, value)
        self._unread.clear()
        return self._known.get(written)

    def _read(self, whole: Member, value: tuple[object, ...]) -> None:
        for place, item in enumerate(value):
            member = Member(whole.number, (*whole.path, place))
            self._known.setdefault(dumps(encode(item)), member)
            if type(item) is tuple:
                self._read(member, cast("tuple[object, ...]", item))

    def copy(self) -> Members:
        return Members(self._known.copy(), self._unread.copy())
