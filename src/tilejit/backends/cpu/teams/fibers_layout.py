"""How fibers, FIFOs and barriers lie in memory, in 64-bit slots."""

from __future__ import annotations

import enum


class Fiber(enum.IntEnum):
    """A fiber, in 64-bit slots; it lies at the start of its memory, followed by its stack and its scratch memory."""

    STACK = 0
    """Stack pointer while it waits."""
    NEXT = 1
    PREVIOUS = 2
    COUNTER = 3
    """Address of what it waits for."""
    TARGET = 4
    ROW = 5
    """Status that says where it waits; 0: for the fibers it started."""
    ARENA_END = 6
    FIFOS = 7
    BARRIERS = 8
    LANE = 9
    FUNCTION = 10
    ARGS = 11
    ARENA = 12
    BLOCK = 13
    BLOCKS = 14
    DONE = 15
    """Address of the counter that says how many of its siblings have ended."""
    ROOT = 16
    CONTEXT = 17
    FAILURE = 18
    """Root only: the status to return."""
    HEAP = 19
    """Root only: memory for tiles on their way."""
    HEAP_END = 20
    IDLE = 21
    """Root only: looks at cells of other ranks, one after the other, that found nothing."""
    SIZE = 24


class Queue(enum.IntEnum):
    """One lane's end of a FIFO, in 64-bit slots."""

    PUSHED = 0
    POPPED = 1
    HEAD = 2
    TAIL = 3
    FREE = 4
    READERS = 5
    """In the first queue of a FIFO to the vector side: how many lanes take tiles out."""
    SIZE = 8


class Slot(enum.IntEnum):
    """A tile on its way, in 64-bit slots; the cells follow."""

    NEXT = 0
    SITE = 1
    """Row of the push in the failure table."""
    VALID = 2
    SIZE = 8


BARRIER_CLASSES = ("mix", "cube", "vector")
BARRIERS_SIZE = 4 * len(BARRIER_CLASSES)
"""Slots of the barriers of a launch: arrivals in hard mode, in soft mode, how many arrive in hard mode, and tasks per three cores in soft mode."""
STACK_BYTES = 512 << 10
"""Room on a fiber's stack besides what functions reserve explicitly."""
