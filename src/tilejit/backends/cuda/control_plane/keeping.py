"""Values that leave a program through memory, where a kernel is cut."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.ir import Operation, SSAValue

from tilejit.backends.cuda import plan
from tilejit.backends.cuda.control_plane import host
from tilejit.backends.cuda.control_plane.frame import Frame, Making
from tilejit.backends.cuda.control_plane.host import HostValue, Memory, Number
from tilejit.backends.cuda.program.body import Body
from tilejit.backends.cuda.text.values import Buffer, Scalar, Tile, Value, index
from tilejit.errors import UnsupportedFeatureError
from tilejit.passes.kernels import name_hint
from tilejit.tile_ir import dialect as d
from tilejit.types.values import TileType


def leaving(members: Sequence[Operation]) -> list[SSAValue]:
    """Results that others use."""
    inside = {inner for op in members for inner in op.walk()}
    return [result for op in members for result in op.results if any(use.operation not in inside for use in result.uses)]


def room_for(frame: Frame, made: Value, value: SSAValue, blocks: Number, where: str) -> Memory:
    """Memory for so many of a value; `where`: what the kernel is cut at."""
    hint = name_hint(value) or "kept"
    if isinstance(made, Tile) and all(size.const is not None for size in made.valid):
        return frame.allocate([blocks, *(host.number(extent) for extent in made.shape)], made.dtype, hint)
    if isinstance(made, Scalar) and made.dtype.get_byte() > 0:
        return frame.allocate([blocks], made.dtype, hint)
    span = value.owner.span if isinstance(value.owner, d.TileOp) else None
    raise UnsupportedFeatureError(f"CUDA cannot keep this value over a {where}", span=span, help=f"store it into a tensor before the {where}")


def store(body: Body, value: SSAValue, room: Memory, place: Scalar) -> None:
    """Write what a program has of a value into its place there."""
    made, memory = body[value], host.take_memory(body.out, room)
    if isinstance(made, Tile):
        body.store_tile(made, memory, [place, *(index(0) for _ in made.shape)])
    else:
        assert isinstance(made, Scalar)
        body.order.before_store(body.out, memory.root)
        body.out.line(f"tl.store({memory.pointer} + {place.text}, {body.text(made)})")


def keep(frame: Frame, kernel: Making, value: SSAValue) -> Memory:
    """Store a value of the only program of a kernel."""
    room = room_for(frame, kernel.body[value], value, host.number(1), "wait")
    store(kernel.body, value, room, index(0))
    return room


def found_again(frame: Frame, value: SSAValue, room: Memory) -> HostValue:
    """What was stored: a tile stays in memory, a number is read."""
    if len(room.axes) > 1:
        return Memory(room.address, room.axes[1:], room.dtype, room.root, room.name)
    name = frame.fresh(name_hint(value) or "n")
    frame.steps.append(plan.Read(name, room.address, room.dtype.name))
    return host.variable(name, room.dtype)


def kept_by(kernel: Making) -> Callable[[SSAValue], Value]:
    """How a kernel takes what others stored: tiles are loaded."""
    outside = kernel.body.outside

    def bring(value: SSAValue) -> Value:
        found, type = outside(value), d.type_of(value)
        if isinstance(found, Buffer) and isinstance(type, TileType) and (type.level == "tile" or type.valid != type.shape):
            shape = tuple(extent for extent in type.shape if isinstance(extent, int))
            valid = tuple(index(extent) for extent in type.valid if isinstance(extent, int))
            return kernel.body.load_tile(found, [index(0)] * len(shape), shape, valid, name_hint(value))
        return found

    return bring
