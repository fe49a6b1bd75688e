"""Other ranks inside a program: the copies of peers are memory like any other, and a notify is an atomic that everything before it comes before.

A kernel never waits for another rank: whether that one runs at the same time is not ours to say. So waits and collectives stand between launches
(control_plane/ranks.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xdsl.ir import SSAValue

from tilejit.backends import ranks
from tilejit.backends.cuda.program import memory
from tilejit.backends.cuda.program.body import Body
from tilejit.backends.cuda.text.types import memory as memory_type
from tilejit.backends.cuda.text.values import Buffer, Scalar, Value
from tilejit.dtypes import INT32, INT64
from tilejit.runtime.ranks.abi import HEADER, Comm
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import apply_args, operand
from tilejit.types.enums import NotifyOp


def comm(body: Body, op: d.CommOp) -> Sequence[Value]:
    """The address of a group's context: host memory that the GPU reads too."""
    window = body.buffer(op.window)
    return [Scalar(f"tl.load({memory.as_pointer(window, INT64)} - {HEADER // 8})", INT64)]


@dataclass(frozen=True, slots=True)
class Query:
    """A rule for what asks for a number of the group."""

    slot: Comm

    def __call__(self, body: Body, op: d.ApplyOp) -> Sequence[Value]:
        return [Scalar(_word(body, body.scalar(operand(op, "comm")), self.slot), INT32)]


def _word(body: Body, comm: Scalar, slot: Comm) -> str:
    return f"{body.out.helper('group_word')}({comm.text}, {int(slot)}).to(tl.int32)"


def _peer(body: Body, op: d.PeerOp | d.EffectOp, comm: Scalar, peer: SSAValue) -> tuple[str, str]:
    """A checked number of a rank, 0 where it is none, and the flag that says whether it is one."""
    number, count = body.named("peer", body.index(peer)), Scalar(body.out.let("ranks", _word(body, comm, Comm.COUNT)), INT32)
    good = body.out.let("good", f"({number.text} >= 0) & ({number.text} < {count.text})")
    body.failures.report(body.out, good, ranks.peer_failure(op), (number, count))
    return f"tl.where({good}, {number.text}, 0)", good


def _there(body: Body, comm: Scalar, number: str, pointer: str, dtype: str) -> str:
    """A pointer into the copy of a peer."""
    return f"({pointer}.to(tl.int64) + {body.out.helper('way_to_peer')}({comm.text}, {number})).to(tl.pointer_type({dtype}))"


def peer(body: Body, op: d.PeerOp) -> Sequence[Value]:
    """A peer's copy; it may be the own one, so it has the same root."""
    own, group = body.buffer(op.buffer), body.scalar(op.comm)
    number, good = _peer(body, op, group, op.peer)
    pointer = body.out.let("theirs", _there(body, group, number, own.pointer, memory_type(own.dtype)))
    return [replace(own, pointer=pointer, good=own.guarded(good))]


def notify(body: Body, op: d.EffectOp) -> Sequence[Value]:
    """All threads of the program come first; then one of them tells, and whoever sees that sees what they wrote."""
    group = body.scalar(operand(op, "comm"))
    number, good = _peer(body, op, group, operand(op, "peer"))
    window, offsets = ranks.signal_of(op)
    own, indices = body.buffer(window), [body.index(offset) for offset in offsets]
    flag = _inside(body, op, own, indices)
    good = own.guarded(good if flag is None else f"{good} & {flag}")
    pointer = _there(body, group, number, f"({memory.offsets_text(body.out, own, indices, [None] * own.rank, 0)})", "tl.int32")
    value = body.converted(body.scalar(operand(op, "value")), INT32)
    body.order.barrier(body.out)
    how = "add" if apply_args(op)["op"] is NotifyOp.AtomicAdd else "xchg"
    body.out.line(f'tl.atomic_{how}({pointer}, {value}, mask={good}, sem="release", scope="sys")')
    return []


def _inside(body: Body, op: d.EffectOp, window: Buffer, indices: Sequence[Scalar]) -> str | None:
    flags: list[str] = []
    for axis, (at, extent) in enumerate(zip(indices, window.shape, strict=True)):
        if not (at.bounds and extent.bounds and at.bounds[0] >= 0 and at.bounds[1] < extent.bounds[0]):
            found = body.check([f"({at.text} >= 0) & ({at.text} < {extent.text})"], ranks.cell_failure(op, axis), (at, extent))
            flags += [found] if found is not None else []
    return " & ".join(flags) if flags else None


def far(body: Body, op: d.EffectOp) -> Sequence[Value]:
    """A word to the engine about copies on other machines, or about one that others must not add to meanwhile: here memory takes care of that."""
    return []


def waiting(body: Body, op: d.EffectOp) -> Sequence[Value]:
    """What would have to wait inside a program."""
    raise body.unsupported(op, f"`{op.op}` among kernels that hand each other tiles", "let it stand in a region of its own")

