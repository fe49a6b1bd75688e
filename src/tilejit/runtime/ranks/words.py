"""Words, cells and arrays by their addresses, and the loop of a rank that waits in Python."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tilejit.runtime.arrays import contiguous_strides
from tilejit.runtime.ranks.abi import Comm, Record, State

NDArray = npt.NDArray[Any]


def word(address: int, slot: int) -> int:
    """A 64-bit word of a context or record."""
    return ctypes.c_int64.from_address(address + 8 * int(slot)).value


def set_word(address: int, slot: int, value: int) -> None:
    ctypes.c_int64.from_address(address + 8 * int(slot)).value = value


def cell(address: int) -> int:
    """The cell of a signal."""
    return ctypes.c_int32.from_address(address).value


def distance(comm: int, peer: int) -> int:
    """Bytes from the own copy to that of a peer."""
    return word(comm, Comm.BASES + peer) - word(comm, Comm.BASES + word(comm, Comm.RANK))


def array_at(address: int, like: NDArray) -> NDArray:
    """The array at an address that looks like another one."""
    if like.size == 0:
        return like
    reach = sum((extent - 1) * stride for extent, stride in zip(like.shape, like.strides, strict=True)) + like.itemsize
    memory: Any = (ctypes.c_char * reach).from_address(address)
    return np.ndarray(like.shape, like.dtype, memory, 0, like.strides)


def described(address: int, shape: Sequence[int], dtype: np.dtype[Any], strides: Sequence[int] | None = None) -> NDArray:
    """An array at an address, with strides in elements where it has gaps; it may be memory of a GPU, which is never looked at from here."""
    steps = contiguous_strides(shape) if strides is None else strides
    like = np.lib.stride_tricks.as_strided(np.empty(1, dtype), tuple(shape), tuple(step * dtype.itemsize for step in steps))
    return array_at(address, like) if like.size else np.empty(tuple(shape), dtype)


def wait_facts(comm: int, address: int, expected: int, at_least: bool, line: int) -> dict[Record, int]:
    """What the record of a rank says that waits for a cell."""
    base = word(comm, Comm.BASES + word(comm, Comm.RANK))
    return {Record.CELL: address - base, Record.EXPECTED: expected, Record.CMP: int(at_least), Record.BUFFER: word(comm, Comm.BUFFER), Record.LINE: line}


def blocked(comm: int, state: State, facts: dict[Record, int], there: Callable[[], bool]) -> bool:
    """Wait for something with a record that says what for; False: the call ends."""
    return stand(word(comm, Comm.RECORD), word(comm, Comm.STOP), state, facts, there)


def stand(record: int, stop: int, state: State, facts: dict[Record, int], there: Callable[[], bool]) -> bool:
    """Wait for something with a record that says what for; False: the call ends."""
    for slot, value in facts.items():
        set_word(record, slot, value)
    set_word(record, Record.TURN, word(record, Record.TURN) + 1)
    set_word(record, Record.STATE, state)
    pause, looks = 0.0, 0
    try:
        while not there():
            if word(stop, 0):
                return False
            time.sleep(pause)
            looks += 1
            if looks > 50:
                pause = min(max(pause * 2, 5e-6), 1e-3)
        set_word(record, Record.TURN, word(record, Record.TURN) + 1)
        return True
    finally:
        set_word(record, Record.STATE, State.RUNNING)
