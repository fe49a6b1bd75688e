"""A call by its launch list, as that stands: what the first call of an entry takes, because compiling the text of a function takes longer than running it."""

from __future__ import annotations

from collections.abc import Sequence

from tilejit.runtime.cuda.launch_abi import OPERATIONS
from tilejit.runtime.cuda.launcher import Launch
from tilejit.runtime.cuda.program import EntryRow, Node

_ANY = (1 << 31) - 1


def is_plain(row: EntryRow) -> bool:
    """Whether a call is a list of launches that ask for no memory."""
    return row.launches is not None and not row.memory


def run(row: EntryRow, launchers: Sequence[Launch], stream: int, inputs: Sequence[int | float | bool]) -> None:
    """Launch everything on the list of an entry that is plain."""
    for launch in row.launches or ():
        numbers = [_number(node, inputs) for node in (*launch.grid, *launch.arguments)]
        launchers[launch.kernel](stream, None, *numbers)


def _number(node: Node, inputs: Sequence[int | float | bool]) -> int | float | bool:
    match node:
        case int():
            return node
        case ("input", int(place)):
            return inputs[place]
        case ("resident", int()):
            return _ANY  # the launcher knows how many share the blocks
        case (operation, left, right):
            return OPERATIONS[operation](int(_number(left, inputs)), int(_number(right, inputs)))
        case _:
            raise AssertionError(f"{node} is of memory, which a plain entry asks for none of")
