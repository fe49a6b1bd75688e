"""Collectives: ranks of a group meet, compare what they came for, and move data in phases that nobody leaves early.

A phase is a counter per rank in the group's block; a rank that has raised its own waits until the others have. Sums are taken in the order of
ranks by the one that owns a chunk, so every rank gets the same bits.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tilejit.dtypes import DTYPES, dtype_of_numpy
from tilejit.errors import CollectiveMismatchError, ShapeError
from tilejit.ops.ranks import COLLECTIVES
from tilejit.runtime.ranks import between, moving, words
from tilejit.runtime.ranks.abi import BYTES_CODE, DTYPE_CODES, OPERAND_WORDS, Block
from tilejit.runtime.ranks.group import DESCRIBED, Group
from tilejit.runtime.ranks.kept import keep_failure
from tilejit.types.enums import ReduceOp

NDArray = npt.NDArray[Any]


def operands(numbers: Sequence[int]) -> list[NDArray]:
    """The arrays that numbers describe one after the other: address, code of the dtype, rank, extents, strides."""
    out: list[NDArray] = []
    rest = list(numbers)
    while rest:
        address, code, rank = rest[:3]
        dtype = DTYPES[DTYPE_CODES[code]].numpy if code < BYTES_CODE else np.dtype(f"V{code - BYTES_CODE}")
        out.append(words.described(address, rest[3 : 3 + rank], dtype, rest[3 + rank : 3 + 2 * rank]))
        rest = rest[3 + 2 * rank :]
    return out


def _in_block(block: int) -> list[NDArray]:
    """The arrays that an argument block names."""
    numbers: list[int] = []
    for position in range(words.word(block, Block.COUNT)):
        first = int(Block.OPERANDS) + position * OPERAND_WORDS
        rank = words.word(block, first + 2)
        numbers += [words.word(block, first + slot) for slot in range(3 + 2 * rank)]
    return operands(numbers)


def met(comm: int, kind: int, op: int, root: int, ring: bool, line: int, arrays: Sequence[NDArray]) -> bool:
    """A collective of a kernel; False: it was given up, and the reason is kept for the launch."""
    try:
        return meet(comm, kind, op, root, ring, line, arrays, False)
    except BaseException as error:
        keep_failure(error)
        return False


def _from_kernel(comm: int, block: int) -> int:
    """What kernels call; 0: done."""
    kind, op, root, ring, line = (words.word(block, slot) for slot in (Block.KIND, Block.OP, Block.ROOT, Block.RING, Block.LINE))
    return 0 if met(comm, kind, op, root, bool(ring), line, _in_block(block)) else 1


_FROM_KERNEL = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(_from_kernel)
MEET = ctypes.cast(_FROM_KERNEL, ctypes.c_void_p).value or 0
"""Address of the function that kernels call."""


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
    does = moving.DOES if group.spread is None else between.DOES
    return does[name](group, arrays, ReduceOp(op), root, poison)


def _compare(group: Group, line: int) -> None:
    mine, _ = group.described(group.me)
    for rank in range(group.count):
        theirs, their_line = group.described(rank)
        for field, a, b in zip(DESCRIBED, mine, theirs, strict=True):
            if a != b:
                shown = [_SHOWN.get(field, str)(item) for item in (a, b)]
                here, there = f"{shown[0]} on rank {group.me} (line {line})", f"{shown[1]} on rank {rank} (line {their_line})"
                help = "all ranks call the same collectives in the same order, with equal shapes and options"
                error = CollectiveMismatchError(f"the ranks of a group disagree about a collective: {field} is {here}, {there}", help=help)
                error.ranks = (group.me, rank)
                raise error


_SHOWN: dict[str, Callable[[int], str]] = {
    "collective": lambda item: COLLECTIVES[item],
    "dtype": lambda item: DTYPE_CODES[item] if item >= 0 else "another one",
    "op": lambda item: ReduceOp(item).name,
    "mode": lambda item: "ring" if item else "mesh",
}
"""How the fields of a collective are spelled that are no plain numbers."""

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
