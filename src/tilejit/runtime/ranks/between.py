"""How data moves in a collective between machines: within one through memory that its ranks share, between them by MPI's own collectives.

One rank of each machine, its leader, speaks for the others where that saves traffic. Sums are taken machine by machine in the order of their first ranks,
on each machine in the order of ranks: every rank gets the same bits, and with one rank per machine those of a group on one machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tilejit.dtypes import dtype_of_numpy
from tilejit.ops.evaluate import poison as poisoned
from tilejit.runtime.ranks import words
from tilejit.runtime.ranks.abi import Comm
from tilejit.runtime.ranks.engine import Engine
from tilejit.runtime.ranks.group import Group
from tilejit.runtime.ranks.moving import DOES as NEAR
from tilejit.runtime.ranks.moving import Does, folded, single
from tilejit.types.enums import ReduceOp

NDArray = npt.NDArray[Any]


def _nodes(engine: Engine, members: Sequence[int]) -> list[list[int]]:
    """The ranks of a group on each machine."""
    found = [[rank for rank in node if rank in members] for node in engine.nodes]
    return sorted(node for node in found if node)


def communicators(engine: Engine, members: Sequence[int]) -> None:
    """Make what the collectives of a group need; all processes do it for all groups in one order."""
    assert engine.wire is not None
    nodes = _nodes(engine, members)
    if len(nodes) > 1:
        engine.wire.group(members)
        engine.wire.group([node[0] for node in nodes])


class _Between:
    """A group on several machines."""

    def __init__(self, group: Group) -> None:
        assert group.spread is not None
        self.group, self.wire = group, group.spread.wire
        members = group.spread.members
        nodes = _nodes(group.spread.engine, members)
        self.nodes = [[members.index(rank) for rank in node] for node in nodes]
        """Numbers in the group of the ranks of each machine."""
        self.here = next(number for number, node in enumerate(self.nodes) if group.me in node)
        self.near = self.nodes[self.here]
        self.leads = self.near[0] == group.me
        self.everybody = self.wire.group(members)
        self.leaders = self.wire.group([node[0] for node in nodes]) if self.leads else None

    def copies(self, array: NDArray) -> list[NDArray]:
        """The copies of the ranks of this machine."""
        return [self.group.theirs(q, array) for q in self.near]

    def spread(self, array: NDArray) -> bool:
        """Give the ranks of this machine what their leader has."""
        if not self.group.phase():
            return False
        if not self.leads:
            array[...] = self.group.theirs(self.near[0], array)
        return self.group.phase()

    def done(self, start: str, comm: Any, *args: Any) -> bool:
        """See a collective of MPI through; False: the call ends."""
        stop = words.word(self.group.comm, Comm.STOP)
        return self.wire.done(lambda: getattr(comm, start)(*args), lambda: words.word(stop, 0) != 0)

    def exchange(self, comm: Any, parts: Sequence[NDArray], sizes: Sequence[int], dtype: Any) -> list[NDArray] | None:
        """One array for each process of `comm`; gives what each of them had for this one, of these sizes. None: the call ends."""
        out = np.concatenate([np.ascontiguousarray(part).reshape(-1).view(np.uint8) for part in parts])
        counts, back = [part.nbytes for part in parts], [size * dtype.itemsize for size in sizes]
        into, byte = np.empty(sum(back), np.uint8), self.wire.mpi.BYTE
        if not self.done("Ialltoallv", comm, [out, counts, _starts(counts), byte], [into, back, _starts(back), byte]):
            return None
        return [into[start : start + size].view(dtype) for start, size in zip(_starts(back), back, strict=True)]

    def gather(self, part: NDArray, sizes: Sequence[int]) -> list[NDArray] | None:
        """What the leaders have, of these sizes, in their order."""
        back, byte = [size * part.itemsize for size in sizes], self.wire.mpi.BYTE
        into, out = np.empty(sum(back), np.uint8), np.ascontiguousarray(part).reshape(-1).view(np.uint8)
        if not self.done("Iallgatherv", self.leaders, [out, out.size, byte], [into, back, _starts(back), byte]):
            return None
        return [into[start : start + size].view(part.dtype) for start, size in zip(_starts(back), back, strict=True)]

    def reduce(self, part: NDArray, op: ReduceOp) -> bool:
        """`part` becomes the reduction over the leaders: each takes a chunk from all, in order; whole numbers are the same in any order, so MPI may."""
        if part.dtype.kind in "iu":
            ops = {ReduceOp.Sum: "SUM", ReduceOp.Max: "MAX", ReduceOp.Min: "MIN", ReduceOp.Prod: "PROD"}
            return self.done("Iallreduce", self.leaders, self.wire.mpi.IN_PLACE, part, getattr(self.wire.mpi, ops[op]))
        n = len(self.nodes)
        edges = [part.size * k // n for k in range(n + 1)]
        chunks = [part[edges[k] : edges[k + 1]] for k in range(n)]
        came = self.exchange(self.leaders, chunks, [chunks[self.here].size] * n, part.dtype)
        if came is None:
            return False
        totals = self.gather(folded(came, op), [chunk.size for chunk in chunks])
        if totals is not None:
            part[:] = np.concatenate(totals)
        return totals is not None


def _starts(sizes: Sequence[int]) -> list[int]:
    return [sum(sizes[:k]) for k in range(len(sizes))]


def _partial(near: _Between, array: NDArray, op: ReduceOp) -> NDArray:
    """The reduction over the ranks of this machine; half floats stay single until the end."""
    return folded((single(copy) for copy in near.copies(array)), op).reshape(-1)


def _allreduce(group: Group, arrays: Sequence[NDArray], op: ReduceOp, root: int, poison: bool) -> bool:
    near, target = _Between(group), arrays[0]
    if near.leads:
        total = _partial(near, target, op)
        if not near.reduce(total, op):
            return False
        target[...] = total.astype(target.dtype).reshape(target.shape)
    return near.spread(target)


def _reduce_scatter(group: Group, arrays: Sequence[NDArray], op: ReduceOp, root: int, poison: bool) -> bool:
    """Leaders send each other the partial sums of the rows of their ranks, and write the totals into those."""
    near, target = _Between(group), arrays[0]
    if near.leads:
        total = _partial(near, target, op).reshape(target.shape)
        rows = total[near.near]
        came = near.exchange(near.leaders, [total[node] for node in near.nodes], [rows.size] * len(near.nodes), total.dtype)
        if came is None:
            return False
        found = folded(came, op).reshape(rows.shape).astype(target.dtype)
        for q, row, copy in zip(near.near, found, near.copies(target), strict=True):
            copy[q] = row
    return group.phase()


def _broadcast(group: Group, arrays: Sequence[NDArray], op: ReduceOp, root: int, poison: bool) -> bool:
    near, target = _Between(group), arrays[0]
    if near.leads:
        source = next(number for number, node in enumerate(near.nodes) if root in node)
        data = np.array(group.theirs(root, target) if root in near.near else target).reshape(-1).view(np.uint8)
        if not near.done("Ibcast", near.leaders, [data, data.size, near.wire.mpi.BYTE], source):
            return False
        target[...] = data.view(target.dtype).reshape(target.shape)
    return near.spread(target)


def _allgather(group: Group, arrays: Sequence[NDArray], op: ReduceOp, root: int, poison: bool) -> bool:
    """Ranks of a machine write their chunks into the target of their leader; leaders hand theirs on."""
    near, chunk, target = _Between(group), arrays[0], arrays[1]
    into = target if near.leads else group.theirs(near.near[0], target)
    into[group.me] = chunk.reshape(into[group.me].shape)
    if not group.phase():
        return False
    if near.leads:
        row = target[0].size
        came = near.gather(target[near.near], [len(node) * row for node in near.nodes])
        if came is None:
            return False
        for node, rows in zip(near.nodes, came, strict=True):
            target[node] = rows.reshape(len(node), *target.shape[1:])
    return near.spread(target)


def _all_to_all(group: Group, arrays: Sequence[NDArray], op: ReduceOp, root: int, poison: bool) -> bool:
    """Every row has one reader: nothing is saved by going through leaders."""
    near, source, target = _Between(group), arrays[0], arrays[1]
    came = near.exchange(near.everybody, [source[q] for q in range(group.count)], [source[0].size] * group.count, source.dtype)
    if came is None:
        return False
    for q, row in enumerate(came):
        target[q] = row.reshape(target[q].shape)
    return group.phase()


def _all_to_all_v(group: Group, arrays: Sequence[NDArray], op: ReduceOp, root: int, poison: bool) -> bool:
    near, (source, target, _, send, receive) = _Between(group), arrays
    n, rows = group.count, target.shape[0] // group.count
    counts = np.clip(send.reshape(-1)[:n], 0, rows).astype(np.int32)
    told = near.exchange(near.everybody, [counts[q : q + 1] for q in range(n)], [1] * n, counts.dtype)
    if told is None:
        return False
    coming = [int(count[0]) for count in told]
    parts = [source[q * rows : q * rows + int(counts[q])] for q in range(n)]
    width = int(np.prod(source.shape[1:], dtype=np.int64))
    came = near.exchange(near.everybody, parts, [count * width for count in coming], source.dtype)
    if came is None:
        return False
    dtype = dtype_of_numpy(target.dtype)
    for q, (count, data) in enumerate(zip(coming, came, strict=True)):
        block = target[q * rows : (q + 1) * rows]
        block[:count] = data.reshape(count, *target.shape[1:])
        if poison and count < rows and dtype is not None:
            block[count:] = poisoned(block[count:].shape, dtype)
        receive.reshape(-1)[q * (receive.size // receive.shape[0])] = count
    return group.phase()


DOES: dict[str, Does] = {
    "barrier": NEAR["barrier"],
    "allreduce": _allreduce,
    "broadcast": _broadcast,
    "allgather": _allgather,
    "reduce_scatter": _reduce_scatter,
    "all_to_all": _all_to_all,
    "all_to_all_v": _all_to_all_v,
}
assert DOES.keys() == NEAR.keys()
