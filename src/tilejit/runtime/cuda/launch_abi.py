"""Layout of the tables from which native code launches what an entry launches; written by native.py, read by backends.cpu.dispatch.launches.py.

All fields are 64-bit slots. A number (an extent of a grid, an argument) is a constant, a slot of the argument block, or a tape: words in postfix order that
end with END.
"""

from __future__ import annotations

import enum
from collections.abc import Callable

from tilejit.types.values import EXTENT_OPERATIONS

LAUNCH = "tj_launch"
"""The function that launches, in the code of the dispatcher."""
HEAR = "tj_unheard"
"""A function that takes note of nothing."""
CUDA_DEVICE = 2
"""DLPack's number for memory of a GPU."""
MAX_PARAMETERS = 64
MAX_DEPTH = 16
"""Numbers that wait for their operator."""


class Table(enum.IntEnum):
    """Per entry and device."""

    WORD = 0
    """Address of the failure word: anything but CLEAR there is for Python to raise."""
    LAUNCH = 1
    """Address of cuLaunchKernelEx."""
    STREAM = 2
    """C function (device type, device number, address of the stream) that tells the caller's current stream."""
    DEVICE = 3
    COUNT = 4
    RECORDS = 5
    """Address of the addresses of COUNT records."""
    BYTES = 6
    """Address of the tape of the bytes that the launches need; 0: none."""
    ALLOCATE = 7
    """DLPack's allocator of the caller's framework, and a function that hears what it says of a failure."""
    HEAR = 8
    ZERO = 9
    """Address of cuMemsetD8Async."""
    SIZE = 10


class Record(enum.IntEnum):
    """Per launch."""

    GENERAL = 0
    """A Variant."""
    ALIGNED = 6
    """The variant for arguments that are multiples of 16 where they must be; the same as GENERAL where there is no other."""
    NUMBERS = 12
    """How many numbers there are: grid x, y, z, then the parameters."""
    GIVEN = 13
    """Address of the numbers, with 0 where one is not the same for all calls."""
    REST = 14
    """What keeps constant arguments from being multiples of 16: 0 where nothing does."""
    MOVE_COUNT = 15
    MOVES = 16
    """Address of the numbers that are a slot of the argument block, a Move each."""
    TAPE_COUNT = 17
    TAPES = 18
    """Address of those that are computed, one after the other: place, mask, and a tape."""
    ZEROED = 19
    """Which of the numbers is the address of memory that must be 0 before the launch, its bytes being the next one; 0: none."""
    SIZE = 20


class Move(enum.IntEnum):
    """One number."""

    PLACE = 0
    """Which one."""
    MASK = 1
    """15 where it must be a multiple of 16 for the aligned variant, else 0."""
    SLOT = 2
    SIZE = 3


class Variant(enum.IntEnum):
    """One cubin of a kernel."""

    FUNCTION = 0
    THREADS = 1
    SHARED = 2
    ATTRIBUTES = 3
    ATTRIBUTE_COUNT = 4
    CLUSTERS = 5


class Op(enum.IntEnum):
    """Words of a tape."""

    END = 0
    CONSTANT = 1
    """The next word."""
    SLOT = 2
    """The slot of the argument block that the next word names."""
    ADD = 3
    SUB = 4
    MUL = 5
    MINIMUM = 6
    MAXIMUM = 7
    FLOORDIV = 8
    """By a positive number, as all that follow."""
    CEILDIV = 9
    MOD = 10
    MEMORY = 11
    """The address of the memory of the call."""


OPERATIONS: dict[str, Callable[[int, int], int]] = {
    **{row: operation.compute for row, operation in EXTENT_OPERATIONS.items()},
    "ceildiv": lambda a, b: -(-a // b),
}
"""What a number may be computed by: each row on INDEX numbers has a word of its name."""
assert all(row.upper() in Op.__members__ for row in OPERATIONS)

FAILED = 1 << 20
"""Status: this plus what the driver said."""
ELSEWHERE = (201, 400)
"""What the driver says to a thread that works in another context, or in none."""
