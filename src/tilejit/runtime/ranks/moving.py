"""How data moves in a collective whose ranks share memory; the owner of a chunk adds it up in the order of ranks, so every rank gets the same bits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tilejit.dtypes import dtype_of_numpy
from tilejit.ops.evaluate import poison as poisoned
from tilejit.ops.ranks import COLLECTIVES
from tilejit.runtime.ranks.group import Group
from tilejit.types.enums import ReduceOp

NDArray = npt.NDArray[Any]
Does = Callable[[Group, Sequence[NDArray], ReduceOp, int, bool], bool]
REDUCE: dict[ReduceOp, Callable[..., NDArray]] = {ReduceOp.Sum: np.add, ReduceOp.Max: np.maximum, ReduceOp.Min: np.minimum, ReduceOp.Prod: np.multiply}
_WIDE = ("FP16", "BF16")
_BLOCK = 1 << 16
"""Elements that are reduced at once: few enough for a cache, many enough for a call of NumPy."""


def single(part: NDArray) -> NDArray:
    """What a reduction adds up: half floats are summed in single."""
    return part.astype(np.float32) if str(dtype_of_numpy(part.dtype)) in _WIDE else part


def folded(parts: Iterable[NDArray], op: ReduceOp) -> NDArray:
    """The reduction of equal arrays in their order, in an array of its own."""
    combine, rest = REDUCE[op], iter(parts)
    first, second = next(rest), next(rest, None)
    with np.errstate(all="ignore"):
        total = combine(first, second) if second is not None else first.copy()
        for part in rest:
            combine(total, part, out=total)
    return total


def reduced(parts: Sequence[NDArray], op: ReduceOp) -> NDArray:
    """The reduction of equal arrays in their order; half floats are rounded once."""
    with np.errstate(all="ignore"):
        return folded((single(part) for part in parts), op).astype(parts[0].dtype, copy=False)


def _barrier(group: Group, arrays: Sequence[NDArray], op: ReduceOp, root: int, poison: bool) -> bool:
    return True


def _allreduce(group: Group, arrays: Sequence[NDArray], op: ReduceOp, root: int, poison: bool) -> bool:
    """Everybody reduces a chunk of everybody's data and gives it to everybody, block by block, so that what was read is written while it is near."""
    target = arrays[0]
    if not target.flags.c_contiguous:
        return _allreduce_strided(group, target, op)
    n, own = group.count, target.reshape(-1)
    if n > 1:
        copies = [group.theirs(q, own) for q in range(n)]
        first, last = own.size * group.me // n, own.size * (group.me + 1) // n
        for start in range(first, last, _BLOCK):
            block = slice(start, min(start + _BLOCK, last))
            total = reduced([group.access.read(copy[block]) for copy in copies], op)
            for copy in copies:
                group.access.write(copy[block], total)
    return group.phase()


def _allreduce_strided(group: Group, target: NDArray, op: ReduceOp) -> bool:
    total = reduced([group.access.read(group.theirs(q, target)) for q in range(group.count)], op)
    if not group.phase():
        return False
    group.access.write(target, total)
    return group.phase()


def _broadcast(group: Group, arrays: Sequence[NDArray], op: ReduceOp, root: int, poison: bool) -> bool:
    if group.me != root:
        group.access.copy(arrays[0], group.theirs(root, arrays[0]))
    return group.phase()


def _allgather(group: Group, arrays: Sequence[NDArray], op: ReduceOp, root: int, poison: bool) -> bool:
    """Everybody writes its chunk into everybody's target: nobody reads before the end."""
    chunk, target = arrays[0], arrays[1]
    for q in group.around():
        group.access.copy(group.theirs(q, target)[group.me : group.me + 1], chunk)
    return group.phase()


def _reduce_scatter(group: Group, arrays: Sequence[NDArray], op: ReduceOp, root: int, poison: bool) -> bool:
    target = arrays[0]
    rows = [group.theirs(q, target)[group.me : group.me + 1] for q in range(group.count)]
    total = reduced([group.access.read(row) for row in rows], op)
    group.access.write(target[group.me : group.me + 1], total)  # nobody else reads this row of mine
    return group.phase()


def _all_to_all(group: Group, arrays: Sequence[NDArray], op: ReduceOp, root: int, poison: bool) -> bool:
    source, target = arrays[0], arrays[1]
    for q in group.around():
        group.access.copy(group.theirs(q, target)[group.me : group.me + 1], source[q : q + 1])
    return group.phase()


def _all_to_all_v(group: Group, arrays: Sequence[NDArray], op: ReduceOp, root: int, poison: bool) -> bool:
    source, target, _, send, receive = arrays
    rows = target.shape[0] // group.count
    counts = group.access.read(send).reshape(-1)
    for q in group.around():
        theirs, counted = group.theirs(q, target), group.theirs(q, receive)
        count = min(max(int(counts[q]), 0), rows)
        block = theirs[group.me * rows : (group.me + 1) * rows]
        group.access.copy(block[:count], source[q * rows : q * rows + count])
        dtype = dtype_of_numpy(target.dtype)
        if poison and count < rows and dtype is not None:
            block[count:] = poisoned(block[count:].shape, dtype)
        place = counted[(slice(group.me, group.me + 1), *(slice(1),) * (counted.ndim - 1))]
        group.access.write(place, np.full(place.shape, count, place.dtype))
    return group.phase()


DOES: dict[str, Does] = {
    "barrier": _barrier,
    "allreduce": _allreduce,
    "broadcast": _broadcast,
    "allgather": _allgather,
    "reduce_scatter": _reduce_scatter,
    "all_to_all": _all_to_all,
    "all_to_all_v": _all_to_all_v,
}
assert all(name in DOES for name in COLLECTIVES)
