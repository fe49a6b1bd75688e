"""Collectives: ranks of a group meet, compare what they came for, and move data in phases that nobody leaves early.

A phase is a counter per rank in the group's block; a rank that has raised its own waits until the others have. Sums are taken in the order of
ranks by the one that owns a chunk, so every rank gets the same bits.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tilejit.dtypes import DTYPES, dtype_of_numpy
from tilejit.errors import CollectiveMismatchError, ShapeError
from tilejit.ops.evaluate import poison as poisoned
from tilejit.ops.ranks import COLLECTIVES
from tilejit.runtime.ranks import words
from tilejit.runtime.ranks.abi import BYTES_CODE, DTYPE_CODES, OPERAND_WORDS, Block, Comm, Record, State
from tilejit.types.enums import ReduceOp

NDArray = npt.NDArray[Any]
_REDUCE: dict[ReduceOp, Callable[..., NDArray]] = {ReduceOp.Sum: np.add, ReduceOp.Max: np.maximum, ReduceOp.Min: np.minimum, ReduceOp.Prod: np.multiply}
_DESCRIBED = ("collective", "dtype", "elements", "op", "root", "mode")
"""What ranks compare, in the words after the phase; the line follows."""
WORDS = 16
"""64-bit words of a rank in the block of a group."""
_PHASE, _FIRST = 0, 1
_failed = threading.local()


def take_failure() -> BaseException | None:
    """What went wrong in the last collective of this thread."""
    found = getattr(_failed, "error", None)
    _failed.error = None
    return found


def _operands(block: int) -> list[NDArray]:
    """The arrays that an argument block names."""
    out: list[NDArray] = []
    for position in range(words.word(block, Block.COUNT)):
        first = block + 8 * (int(Block.OPERANDS) + position * OPERAND_WORDS)
        address, code, rank = (words.word(first, slot) for slot in range(3))
        dtype = DTYPES[DTYPE_CODES[code]].numpy if code < BYTES_CODE else np.dtype(f"V{code - BYTES_CODE}")
        shape = tuple(words.word(first, 3 + axis) for axis in range(rank))
        strides = tuple(words.word(first, 3 + rank + axis) * dtype.itemsize for axis in range(rank))
        like = np.lib.stride_tricks.as_strided(np.empty(1, dtype), shape, strides)
        out.append(words.array_at(address, like) if like.size else np.empty(shape, dtype))
    return out


def _from_kernel(comm: int, block: int) -> int:
    """What kernels call; 0: done."""
    try:
        kind, op, root, ring, line = (words.word(block, slot) for slot in (Block.KIND, Block.OP, Block.ROOT, Block.RING, Block.LINE))
        return 0 if meet(comm, kind, op, root, bool(ring), line, _operands(block), False) else 1
    except BaseException as error:
        _failed.error = error
        return 1


_FROM_KERNEL = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(_from_kernel)
MEET = ctypes.cast(_FROM_KERNEL, ctypes.c_void_p).value or 0
"""Address of the function that kernels call."""


class Group:
    """A group as one of its ranks sees it, through the context of one of its buffers."""

    def __init__(self, comm: int) -> None:
        self.comm = comm
        self.me, self.count = words.word(comm, Comm.RANK), words.word(comm, Comm.COUNT)
        self.record, self.stop = words.word(comm, Comm.RECORD), words.word(comm, Comm.STOP)
        table = words.word(comm, Comm.GROUP)
        self.blocks = [words.word(table, 1 + q) for q in range(self.count)]
        self.number = words.word(table, 0)

    def phase(self) -> bool:
        """Wait until everybody is as far; False: the call ends."""
        own = self.blocks[self.me]
        wanted = words.word(own, _PHASE) + 1
        words.set_word(own, _PHASE, wanted)
        facts = {Record.GROUP: self.number, Record.PHASE: wanted}
        there = lambda: all(words.word(block, _PHASE) >= wanted for block in self.blocks)  # noqa: E731
        return there() or words.blocked(self.record, self.stop, State.MEETING, facts, there)

    def describe(self, facts: Sequence[int], line: int) -> None:
        for slot, value in enumerate((*facts, line)):
            words.set_word(self.blocks[self.me], _FIRST + slot, value)

    def described(self, rank: int) -> tuple[tuple[int, ...], int]:
        found = [words.word(self.blocks[rank], _FIRST + slot) for slot in range(len(_DESCRIBED) + 1)]
        return tuple(found[:-1]), found[-1]

    def theirs(self, rank: int, like: NDArray) -> NDArray:
        """A peer's copy of what is in the own buffer behind `comm`; `like` lies in that buffer."""
        own = int(like.__array_interface__["data"][0])
        return words.array_at(own + self._shift(rank, own), like)

    def _shift(self, rank: int, address: int) -> int:
        for comm in buffers_of(self.number, self.record):
            base = words.word(comm, Comm.BASES + self.me)
            if base <= address < base + sizes[comm]:
                return words.word(comm, Comm.BASES + rank) - base
        raise ShapeError("an operand of a collective is in no window of the group")


sizes: dict[int, int] = {}
"""Bytes of the buffer behind each context of the running calls."""
_contexts: dict[tuple[int, int], list[int]] = {}
"""Contexts by group and record: the buffers that one rank of a group has."""


def register(group: int, record: int, comm: int, size: int) -> None:
    """Make a buffer known to the collectives of its group."""
    sizes[comm] = size
    _contexts.setdefault((group, record), []).append(comm)


def forget(comms: Sequence[int]) -> None:
    """The end of a call."""
    gone = set(comms)
    for comm in gone:
        sizes.pop(comm, None)
    for key in [key for key, held in _contexts.items() if gone & set(held)]:
        del _contexts[key]


def buffers_of(group: int, record: int) -> Sequence[int]:
    """The buffers of a rank in a group."""
    return _contexts.get((group, record), ())


def meet(comm: int, kind: int, op: int, root: int, ring: bool, line: int, arrays: Sequence[NDArray], poison: bool) -> bool:
    """Do a collective with the others; False: the call ends."""
    group, name = Group(comm), COLLECTIVES[kind]
    target = arrays[0] if name != "barrier" else None
    code = DTYPE_CODES.index(str(dtype_of_numpy(target.dtype))) if target is not None and str(dtype_of_numpy(target.dtype)) in DTYPE_CODES else -1
    group.describe((kind, code, 0 if target is None else target.size, op, root, int(ring)), line)
    if not group.phase():
        return False
    _compare(group, line)
    _check(group, name, arrays, root, ring)
    return _DOES[name](group, arrays, ReduceOp(op), root, poison)


def _compare(group: Group, line: int) -> None:
    mine, _ = group.described(group.me)
    for rank in range(group.count):
        theirs, their_line = group.described(rank)
        for field, a, b in zip(_DESCRIBED, mine, theirs, strict=True):
            if a != b:
                shown = [COLLECTIVES[item] if field == "collective" else DTYPE_CODES[item] if field == "dtype" and item >= 0 else str(item) for item in (a, b)]
                here, there = f"{shown[0]} on rank {group.me} (line {line})", f"{shown[1]} on rank {rank} (line {their_line})"
                help = "all ranks call the same collectives in the same order, with equal shapes and options"
                error = CollectiveMismatchError(f"the ranks of a group disagree about a collective: {field} is {here}, {there}", help=help)
                error.ranks = (group.me, rank)
                raise error


# shapes -----------------------------------------------------------------------------------------------------------------


def _check(group: Group, name: str, arrays: Sequence[NDArray], root: int, ring: bool) -> None:
    """What only the run knows: the number of ranks."""
    n = group.count
    signal = arrays[_SIGNAL[name]]
    cells, need = (signal.size, 2 * (n - 1) * n) if ring else (signal.shape[0] if signal.ndim else 0, n)
    if cells < need:
        shape = f"[{2 * (n - 1)}, {n}]" if ring else f"[{n}, 1]"
        raise ShapeError(f"{name} of {n} ranks needs a signal {shape}, got {list(signal.shape)}", help=f"make the signal's window with the shape {shape}")
    if name == "broadcast" and root >= n:
        raise ShapeError(f"broadcast from rank {root} of {n}", help=f"root is a number from 0 to {n - 1}")
    rows = {"allgather": 1, "reduce_scatter": 0, "all_to_all": 1}.get(name)
    if rows is not None and (arrays[rows].shape[0] != n or (name == "all_to_all" and arrays[0].shape != arrays[1].shape)):
        raise ShapeError(f"{name} of {n} ranks needs a target of {n} rows, got {list(arrays[rows].shape)}", help="the first extent is the number of ranks")
    if name == "allgather" and arrays[0].size * n != arrays[1].size:
        raise ShapeError(f"allgather of {n} ranks needs local data of a row of its target, got {list(arrays[0].shape)} and {list(arrays[1].shape)}")
    if name == "all_to_all_v" and (arrays[1].shape[0] % n or arrays[0].shape != arrays[1].shape or arrays[3].size < n or arrays[4].size < n):
        raise ShapeError(f"all_to_all_v of {n} ranks needs a multiple of {n} rows and {n} counts, got {[list(item.shape) for item in arrays]}")


_SIGNAL = {"barrier": 0, "allreduce": 1, "broadcast": 1, "allgather": 2, "reduce_scatter": 1, "all_to_all": 2, "all_to_all_v": 2}

# movement ---------------------------------------------------------------------------------------------------------------

_WIDE = ("FP16", "BF16")


def _reduced(parts: Sequence[NDArray], op: ReduceOp) -> NDArray:
    """The reduction of equal arrays in their order; half floats are summed in single."""
    dtype, combine = parts[0].dtype, _REDUCE[op]
    wide = str(dtype_of_numpy(dtype)) in _WIDE
    with np.errstate(all="ignore"):
        if wide:
            total = parts[0].astype(np.float32)
            for part in parts[1:]:
                total = combine(total, part.astype(np.float32))
            return total.astype(dtype)
        total = combine(parts[0], parts[1]) if len(parts) > 1 else parts[0].copy()
        for part in parts[2:]:
            combine(total, part, out=total)
    return total


def _flat(array: NDArray) -> NDArray:
    return array.reshape(-1) if array.flags.c_contiguous else array


def _barrier(group: Group, arrays: Sequence[NDArray], op: ReduceOp, root: int, poison: bool) -> bool:
    return True


def _allreduce(group: Group, arrays: Sequence[NDArray], op: ReduceOp, root: int, poison: bool) -> bool:
    """Everybody reduces a chunk of everybody's data, then takes the other chunks from those who have them."""
    target = arrays[0]
    if not target.flags.c_contiguous:
        return _allreduce_strided(group, target, op)
    n, own = group.count, _flat(target)
    copies = [own if q == group.me else group.theirs(q, own) for q in range(n)]
    edges = [own.size * q // n for q in range(n + 1)]
    mine = slice(edges[group.me], edges[group.me + 1])
    if n > 1:
        own[mine] = _reduced([copy[mine] for copy in copies], op)
    if not group.phase():
        return False
    for step in range(1, n):
        q = (group.me + step) % n
        own[edges[q] : edges[q + 1]] = copies[q][edges[q] : edges[q + 1]]
    return group.phase()


def _allreduce_strided(group: Group, target: NDArray, op: ReduceOp) -> bool:
    total = _reduced([target if q == group.me else group.theirs(q, target) for q in range(group.count)], op)
    if not group.phase():
        return False
    target[...] = total
    return group.phase()


def _broadcast(group: Group, arrays: Sequence[NDArray], op: ReduceOp, root: int, poison: bool) -> bool:
    if group.me != root:
        arrays[0][...] = group.theirs(root, arrays[0])
    return group.phase()


def _allgather(group: Group, arrays: Sequence[NDArray], op: ReduceOp, root: int, poison: bool) -> bool:
    """Everybody writes its chunk into everybody's target: nobody reads before the end."""
    chunk, target = arrays[0], arrays[1]
    for step in range(group.count):
        q = (group.me + step) % group.count
        row = target if q == group.me else group.theirs(q, target)
        row[group.me] = chunk.reshape(row[group.me].shape)
    return group.phase()


def _reduce_scatter(group: Group, arrays: Sequence[NDArray], op: ReduceOp, root: int, poison: bool) -> bool:
    target = arrays[0]
    rows = [(target if q == group.me else group.theirs(q, target))[group.me] for q in range(group.count)]
    total = _reduced(rows, op)
    target[group.me] = total  # nobody else reads this row of mine
    return group.phase()


def _all_to_all(group: Group, arrays: Sequence[NDArray], op: ReduceOp, root: int, poison: bool) -> bool:
    source, target = arrays[0], arrays[1]
    for step in range(group.count):
        q = (group.me + step) % group.count
        (target if q == group.me else group.theirs(q, target))[group.me] = source[q]
    return group.phase()


def _all_to_all_v(group: Group, arrays: Sequence[NDArray], op: ReduceOp, root: int, poison: bool) -> bool:
    source, target, _, send, receive = arrays
    rows = target.shape[0] // group.count
    counts = send.reshape(-1)
    for step in range(group.count):
        q = (group.me + step) % group.count
        theirs, counted = (target, receive) if q == group.me else (group.theirs(q, target), group.theirs(q, receive))
        count = min(max(int(counts[q]), 0), rows)
        block = theirs[group.me * rows : (group.me + 1) * rows]
        block[:count] = source[q * rows : q * rows + count]
        dtype = dtype_of_numpy(target.dtype)
        if poison and count < rows and dtype is not None:
            block[count:] = poisoned(block[count:].shape, dtype)
        counted.reshape(-1)[group.me * (counted.size // counted.shape[0])] = count
    return group.phase()


_DOES: dict[str, Callable[[Group, Sequence[NDArray], ReduceOp, int, bool], bool]] = {
    "barrier": _barrier,
    "allreduce": _allreduce,
    "broadcast": _broadcast,
    "allgather": _allgather,
    "reduce_scatter": _reduce_scatter,
    "all_to_all": _all_to_all,
    "all_to_all_v": _all_to_all_v,
}
assert all(name in _DOES for name in COLLECTIVES)
__all__ = ["MEET", "WORDS", "forget", "meet", "register", "take_failure"]
