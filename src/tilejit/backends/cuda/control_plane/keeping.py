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


def write(frame: Frame, body: Body, value: SSAValue, place: Scalar, blocks: Number, where: str) -> tuple[Memory, Value]:
    """Store what a program has of a value into its place in memory with room for so many; `where`: what the kernel is cut at."""
    made = body[value]
    if isinstance(made, Tile) and all(size.const is not None for size in made.valid):
        room = frame.allocate([blocks, *(host.number(extent) for extent in made.shape)], made.dtype, name_hint(value) or "kept")
        body.store_tile(made, host.take_memory(body.out, room), [place, *(index(0) for _ in made.shape)])
    elif isinstance(made, Scalar) and made.dtype.get_byte() > 0 and made.const is None:
        room = frame.allocate([blocks], made.dtype, name_hint(value) or "kept")
        body.out.line(f"tl.store({host.take_memory(body.out, room).pointer} + {place.text}, {body.text(made)})")
    else:
        raise UnsupportedFeatureError(f"CUDA cannot keep this value over a {where}", span=body.out.span, help=f"store it into a tensor before the {where}")
    return room, made


def keep(frame: Frame, kernel: Making, value: SSAValue) -> Memory:
    """Store a value of the only program of a kernel."""
    return write(frame, kernel.body, value, index(0), host.number(1), "wait")[0]


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
