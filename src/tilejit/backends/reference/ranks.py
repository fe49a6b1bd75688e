"""Other ranks in the interpreter: the same memory that kernels use, reached through NumPy."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from xdsl.ir import SSAValue

from tilejit.backends import ranks
from tilejit.ops import table
from tilejit.ops.ranks import COLLECTIVES
from tilejit.runtime.call.failures import raise_failure
from tilejit.runtime.ranks import interpreted
from tilejit.runtime.ranks.abi import HEADER, Comm
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import apply_args, operand, operands
from tilejit.types.enums import NotifyOp, ReduceOp, WaitCmp

if TYPE_CHECKING:
    from tilejit.backends.reference.interpreter import Frame

NDArray = npt.NDArray[Any]
_LOCKS = {function.__name__: function for function in (interpreted.lock, interpreted.unlock)}


def _address(array: NDArray) -> int:
    return int(array.__array_interface__["data"][0])


def comm_of(array: NDArray) -> Any:
    """The address of a window's context, which stands in front of it."""
    return np.int64(ctypes.c_int64.from_address(_address(array) - HEADER).value)


def _peer(frame: Frame, op: d.PeerOp | d.EffectOp, comm: int, peer: SSAValue) -> int:
    number, count = int(frame.values[peer]), interpreted.word(comm, Comm.COUNT)
    if not 0 <= number < count:
        raise_failure(ranks.peer_failure(op), (number, count))
    return number


def peer_copy(frame: Frame, op: d.PeerOp) -> NDArray:
    """The array of a peer that lies where this one does."""
    own, comm = frame.values[op.buffer].array, int(frame.values[op.comm])
    peer = _peer(frame, op, comm, op.peer)
    return interpreted.array_at(_address(own) + interpreted.distance(comm, peer), own)


def query(op: d.ApplyOp, comm: Any) -> Any:
    return np.int32(interpreted.word(int(comm), Comm.RANK if op.op == "comm_rank" else Comm.COUNT))


def _cell(frame: Frame, op: d.EffectOp) -> tuple[int, list[int]]:
    window, offsets = ranks.signal_of(op)
    array, cell = frame.values[window].array, [int(frame.values[offset]) for offset in offsets]
    for axis, (index, extent) in enumerate(zip(cell, array.shape, strict=True)):
        if not 0 <= index < extent:
            raise_failure(ranks.cell_failure(op, axis), (index, extent))
    return _address(array) + sum(index * stride for index, stride in zip(cell, array.strides, strict=True)), cell


def perform(frame: Frame, op: d.EffectOp) -> None:
    """A statement that concerns other ranks."""
    args = apply_args(op)
    comm = int(frame.values[operand(op, "comm")])
    if op.op == "notify":
        peer = _peer(frame, op, comm, operand(op, "peer"))
        address, _ = _cell(frame, op)
        interpreted.notify(comm, peer, address, int(frame.values[operand(op, "value")]), args["op"] is NotifyOp.AtomicAdd)
    elif op.op == "wait":
        address, cell = _cell(frame, op)
        expected = int(frame.values[operand(op, "expected")])
        line = op.span.line if op.span is not None else 0
        around = frame.place.around
        others = None if around is None else around.scheduler.turns
        if not interpreted.wait(comm, address, expected, args["cmp"] is WaitCmp.Ge, line, others):
            raise_failure(ranks.stopped_wait(op), (*cell[: ranks.shown_indices(len(cell))], expected, interpreted.cell(address)))
    elif op.op in _LOCKS:
        if not _LOCKS[op.op](comm, _peer(frame, op, comm, operand(op, "peer"))):
            raise_failure(ranks.stopped_in(op), ())
    elif table()[op.op].family == "rank":
        box = [int(frame.values[value]) for value in (*operands(op, "offsets"), *operands(op, "shape"))]
        interpreted.move(comm, int(frame.values[operand(op, "peer")]), op.op == "flush", frame.values[operand(op, "view")].array, box)
    else:
        _collective(frame, op, comm)


def _collective(frame: Frame, op: d.EffectOp, comm: int) -> None:
    args = apply_args(op)
    arrays = [frame.values[value].array for name, value in args.items() if isinstance(value, SSAValue) and name != "comm"]
    reduce, root = args.get("op"), args.get("root")
    line = op.span.line if op.span is not None else 0
    how = reduce.value if isinstance(reduce, ReduceOp) else 0
    if not interpreted.meet(comm, COLLECTIVES.index(op.op), how, root if isinstance(root, int) else 0, args.get("mode") == "ring", line, arrays, poison=True):
        raise_failure(ranks.stopped_in(op), ())
