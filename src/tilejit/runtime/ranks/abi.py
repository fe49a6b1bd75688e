"""What a kernel sees of the other ranks: the context of a group, the record of a wait, the argument block of a collective.

A window lies in memory behind HEADER bytes of which the first word is the address of its context: an array of 64-bit words in the rank's own process.
Contexts and records are the only way from a kernel to a peer, so the same code serves ranks that are threads, processes or MPI processes.
"""

from __future__ import annotations

import enum

from tilejit.dtypes import DType

HEADER = 64
"""Bytes in front of a window; the first word is the address of its context, the second the lock of atomic adds to it."""
LOCK = 8
"""Where the lock is in the header, in bytes."""
ALIGNMENT = 64


class Comm(enum.IntEnum):
    """The context of one buffer on one rank, in 64-bit words."""

    RANK = 0
    """The own number in the group."""
    COUNT = 1
    """How many ranks the group has."""
    STOP = 2
    """Address of the word that says: give up."""
    RECORD = 3
    """Address of the own Record."""
    PAUSE = 4
    """Address of a C function that sleeps some microseconds."""
    MEET = 5
    """Address of a C function (context, block) → 0, or something else: give up. It does a collective."""
    BUFFER = 6
    """The number of the buffer in the call."""
    GROUP = 7
    """The number of the group in the call."""
    YIELD = 8
    """Address of a C function that lets other threads run."""
    SPIN = 9
    """How often a wait looks before it yields."""
    FAR = 10
    """Address of a C function (context, kind, peer, block) → 0, or something else: give up. It speaks to other machines; 0: all ranks are on this one."""
    BASES = 16
    """The address of each rank's copy as this process sees it, then for each rank whether that is a stand-in for memory of another machine."""


class Record(enum.IntEnum):
    """What is known of a rank from outside, in 64-bit words of memory that all ranks share."""

    STATE = 0
    """A State."""
    TURN = 1
    """Counts changes of the state: a record that is the same at two looks was so all the time."""
    CELL = 2
    """Offset of the cell that is waited for in its buffer, in bytes."""
    EXPECTED = 3
    CMP = 4
    BUFFER = 5
    """Its number in the call."""
    CALL = 6
    """How many host calls this rank has entered."""
    DONE = 7
    """How many steps of its plan are done."""
    MET = 8
    """How many collectives and barriers this rank has entered, by itself or with others."""
    PID = 9
    LINE = 10
    """Where it waits, for messages."""
    NEEDS = 11
    """The rank and, in the next word, the number of steps that it waits for."""
    STEPS = 12
    GROUP = 13
    """The number of the group, and the phase, of the collective it is in."""
    PHASE = 14
    SEEN = 15
    """When another machine last told something about this rank."""
    FACTS = 16
    """What the processes of a call must agree about, a digest each."""
    ROUNDS = 40
    """While several blocks of a rank look for cells in turn: how often all have looked in vain."""
    SIZE = 64


class State(enum.IntEnum):
    """What a rank is doing."""

    ABSENT = 0
    RUNNING = 1
    WAITING = 2
    """For a cell."""
    MEETING = 3
    """For others in a collective."""
    ORDERED = 4
    """For a step of another rank."""
    FINISHED = 5
    """With this call."""
    LOOKING = 7
    """For several cells in turn: blocks of one kernel wait."""
    LEFT = 6
    """Its process ends."""


class Stop(enum.IntEnum):
    """Why the ranks of a call give up: the low byte of the word; the rank whose fault it is stands above."""

    NOTHING = 0
    ERROR = 1
    DEADLOCK = 2
    TIMEOUT = 3
    DEAD = 4
    MISMATCH = 5


class Far(enum.IntEnum):
    """What is asked of the engine where a group is on several machines."""

    NOTIFY = 0
    """Block: address of the own cell, value, whether it is added."""
    WAIT = 1
    """Block: address of the own cell, what is expected, whether more will do, the line."""
    LOCK = 2
    UNLOCK = 3
    FETCH = 4
    """Block: address of a view of the peer's copy, size of an element, rank; then extents, strides, offsets and sizes of a box in it."""
    FLUSH = 5
    LOOK = 6
    """As WAIT, but without waiting; the answer may also be LATER."""


LATER = 2
"""What LOOK answers when the cell has not got there."""
FAR_WORDS = 3
"""Words of FETCH and FLUSH before the four lists."""


class Block(enum.IntEnum):
    """The argument block of a collective, in 64-bit words."""

    KIND = 0
    """Its place in ops.ranks.COLLECTIVES."""
    OP = 1
    """The number of a ReduceOp."""
    ROOT = 2
    RING = 3
    LINE = 4
    COUNT = 5
    """How many operands follow."""
    OPERANDS = 6
    """Per operand: address, itemsize code of its dtype, rank, then extents and strides of up to MAX_RANK dims."""


MAX_RANK = 5
OPERAND_WORDS = 3 + 2 * MAX_RANK
MAX_OPERANDS = 5
BLOCK_WORDS = int(Block.OPERANDS) + MAX_OPERANDS * OPERAND_WORDS

DTYPE_CODES = ("FP32", "FP16", "BF16", "INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64", "BOOL")
"""Data types by their code in the block; others move as bytes."""
BYTES_CODE = 100
"""Plus the size of an element: a dtype that is only moved."""


def dtype_code(dtype: DType) -> int:
    """The code of a dtype in the block of a collective."""
    return DTYPE_CODES.index(dtype.name) if dtype.name in DTYPE_CODES else BYTES_CODE + dtype.get_byte()
