"""Operators that take whole lines in order: running sums, counting, sorting (order.py). From memory to memory, chunk by chunk, so a line may have any length.

The same text serves a launch of its own, where programs share out the lines, and one program that does them all in a block of the user's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from xdsl.ir import SSAValue

from tilejit import ops
from tilejit.backends.cuda.control_plane import host
from tilejit.backends.cuda.control_plane.frame import Frame
from tilejit.backends.cuda.indexed.gather import first_outside
from tilejit.backends.cuda.indexed.move import valid_of_source
from tilejit.backends.cuda.nests.inside import is_large
from tilejit.backends.cuda.program import memory
from tilejit.backends.cuda.program.body import Body
from tilejit.backends.cuda.program.rows import fold, neutral, result_dtype
from tilejit.backends.cuda.schedule import PROCESSORS
from tilejit.backends.cuda.text import elementwise, numbers
from tilejit.backends.cuda.text.types import computed_in, padded, register
from tilejit.backends.cuda.text.values import Buffer, Dim, Scalar, Tile, Value, index
from tilejit.dtypes import INT32, DType
from tilejit.ops.order import COUNT_HELP
from tilejit.ops.scan import scanned_axis
from tilejit.passes.kernels import name_hint
from tilejit.runtime.call.failures import Failure
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import apply_args
from tilejit.types.values import ShapedType


@dataclass(frozen=True, slots=True)
class Share:
    """Which lines a program takes: every `step`-th from `first` on."""

    first: str
    step: str

    def blocks(self, count: Scalar, size: int) -> str:
        """The range of the first lines of its blocks of `size` lines."""
        by = "" if size == 1 else f" * {size}"
        return f"range({self.first}{by}, {count.text}, {self.step}{by})"


ALONE = Share("0", "1")


@dataclass(frozen=True, slots=True)
class Lines:
    """How an operator runs from memory to memory."""

    emit: Callable[[Body, d.ApplyOp, Sequence[Buffer], Sequence[Buffer], Share, Buffer | None], None]
    """Writes its text: operands, results, the lines of this program, and memory to work in."""
    cells: Callable[[d.ApplyOp], int] = lambda op: 1
    """Cells of its operand that a program takes at once."""
    warps: int = 4
    works_in: bool = False
    """Whether it needs two lines of INT32 per program to work in."""
    sums: bool = False
    """Whether it adds to its result, which begins as 0."""
    instead: Callable[[d.ApplyOp], Lines | None] = lambda op: None
    """Another way that is better for an op."""


# launches and programs --------------------------------------------------------------------------------------------------


def launch(frame: Frame, op: d.ApplyOp, name: str, lines: Lines, store: d.StoreOp | None = None) -> None:
    """A kernel of its own: as many programs as there are blocks of lines, at most so many as keep the GPU busy. Its result goes where a store wants it."""
    from tilejit.backends.cuda.nests.launches import fill, room_for, shape_of, store_window

    lines = lines.instead(op) or lines
    rooms = [room_for(frame, result) for result in op.results] if store is None else [store_window(frame, store)]
    if lines.sums:
        for room in rooms:
            fill(frame, room, 0, op)
    shape = shape_of(frame, op.args[0])
    count = host.ceildiv(host.product(shape), host.number(lines.cells(op))) if lines.cells(op) > 1 else host.product(shape[:-1])
    programs = frame.named(host.minimum(host.maximum(count, host.number(1)), host.number(8 * PROCESSORS)), "programs")
    kernel = frame.kernel(name)
    room = host.take_memory(kernel.out, frame.allocate([programs, host.number(2), shape[-1]], INT32, "order")) if lines.works_in else None
    given = [host.take_memory(kernel.out, frame.memory(arg)) for arg in op.args if isinstance(d.type_of(arg), ShapedType)]
    program = kernel.out.program()
    share = Share(program, host.take_number(kernel.out, programs, "programs").text)
    lines.emit(kernel.body, op, given, [host.take_memory(kernel.out, made) for made in rooms], share, room)
    frame.finish(kernel, programs, warps=lines.warps)
    frame.values.update(zip(op.results, rooms, strict=True))


def in_program(lines: Lines) -> Callable[[Body, d.ApplyOp], Sequence[Value]]:
    """The rule inside a program: everything by this one, in its scratch memory."""
    usual = lines

    def rule(body: Body, op: d.ApplyOp) -> Sequence[Value]:
        lines = usual.instead(op) or usual
        given = [_valid_part(body, arg) for arg in op.args if isinstance(d.type_of(arg), ShapedType)]
        rooms: list[Buffer] = []
        for result in op.results:
            type = d.shaped_type(result)
            shape = [extent for extent in type.shape if isinstance(extent, int)]
            if len(shape) != type.rank:
                raise body.unsupported(op, f"`{op.op}` of a tensor inside a block whose extents only the run knows", "move it out of pl.spmd")
            rooms.append(memory.scratch_buffer(body.out, shape, type.dtype))
        work = memory.scratch_buffer(body.out, (1, 2, int(given[0].shape[-1].const or 1)), INT32) if lines.works_in else None
        body.order.barrier(body.out)
        if lines.sums:
            for room in rooms:
                _clear(body, room)
            body.order.barrier(body.out)
        lines.emit(body, op, given, rooms, ALONE, work)
        body.order.barrier(body.out)
        return [_handed(body, op, number, room) for number, room in enumerate(rooms)]

    return rule


def _valid_part(body: Body, value: SSAValue) -> Buffer:
    """The valid region of an operand in memory."""
    valid = valid_of_source(body, value)
    source = body.in_memory(value)
    return replace(source, dims=tuple(Dim(size, dim.stride) for size, dim in zip(valid, source.dims, strict=True)))


def _clear(body: Body, room: Buffer) -> None:
    out, cells = body.out, numbers.product(room.shape)
    size = padded(min(int(cells.const or 1), CHUNK))
    with out.block(f"for {(first := out.fresh('first'))} in range(0, {cells.text}, {size}):"):
        at = f"({first} + {out.arange(size)})"
        out.line(f"tl.store({room.pointer} + {at}, tl.full(({size},), 0, {register(room.dtype)}), mask={at} < {cells.text})")


def _handed(body: Body, op: d.ApplyOp, number: int, room: Buffer) -> Value:
    """A result as what follows wants it: registers, or memory where it is too large."""
    if is_large(op.results[number]):
        return room
    shape = tuple(int(extent.const or 0) for extent in room.shape)
    made = body.load_tile(room, [index(0)] * len(shape), shape, tuple(index(extent) for extent in shape), name_hint(op.results[number]))
    source = valid_of_source(body, op.args[0])
    return replace(made, valid=body.valid_of(op, number, lambda axis: source[axis]), zeros=False)


def place_of(line: str, dims: Sequence[Dim]) -> str:
    """How many elements into a buffer the first element of a line is: lines are counted in row-major order over `dims`."""
    parts: list[str] = []
    for axis, dim in enumerate(dims):
        if dim.extent.const == 1:
            continue
        inner = numbers.product(other.extent for other in dims[axis + 1 :])
        text = line if inner.const == 1 else f"({line} // {inner.text})"
        text = text if axis == 0 or all(other.extent.const == 1 for other in dims[:axis]) else f"({text} % {dim.extent.text})"
        parts.append(text if dim.stride.const == 1 else f"{text} * {dim.stride.text}")
    return " + ".join(parts) or f"{line} * 0"


def guarded(where: str, buffer: Buffer) -> str:
    return where if buffer.good is None else f"{where} & {buffer.good}"


CHUNK = 2048
"""Cells of a line that a program takes at once, to sort or to count them."""
SCAN_ALONG, SCAN_DOWN = (2, 1024), (64, 32)
"""Lines, and cells of each, that a program sums up at once: lines that are rows of memory, and others."""


# running sums -----------------------------------------------------------------------------------------------------------


def _scanned(body: Body, text: str, axis: int, combine: str, compute: DType) -> str:
    """A tile in the type it is computed in, with everything before each cell along an axis folded into it."""
    if combine in ("sum", "prod"):
        made = f"tl.cum{combine}({text if compute.is_float or compute.bits >= 32 else f'{text}.to(tl.int32)'}, {axis})"
    else:
        helper = f"{combine}_nan" if compute.is_float else f"{combine}_whole"
        made = f"tl.associative_scan({text}, {axis}, {body.out.helper(helper)})"
    return f"{made}.to({register(compute)})"


def scan_tile(body: Body, op: d.ApplyOp) -> Sequence[Value]:
    """A running sum in registers: what lies behind the valid region is behind every cell that counts."""
    source, dtype = body.tile(op.args[0]), result_dtype(op)
    axis, combine = scanned_axis(apply_args(op).get("axis", -1), source.rank), str(ops.table()[op.op].attrs["combine"])
    text = _scanned(body, f"({elementwise.widen(body.out, source.text, dtype)})", axis, combine, computed_in(dtype))
    return [Tile(elementwise.held(body.out, text, dtype), dtype, source.shape, body.valid_of(op, 0, lambda axis: source.valid[axis]))]


def _scan_block(op: d.ApplyOp) -> tuple[int, int]:
    """Lines and cells of each at once, no more than there are: memory is read along its rows."""
    shape = d.shaped_type(op.args[0]).shape
    axis = scanned_axis(apply_args(op).get("axis", -1), len(shape))
    others = [extent for number, extent in enumerate(shape) if number != axis]
    sizes = (math.prod(extent if isinstance(extent, int) else CHUNK for extent in others), shape[axis])
    most = SCAN_ALONG if axis == len(shape) - 1 else SCAN_DOWN
    return tuple(min(limit, padded(size)) if isinstance(size, int) else limit for size, limit in zip(sizes, most, strict=True))  # type: ignore[return-value]


def scan(body: Body, op: d.ApplyOp, given: Sequence[Buffer], rooms: Sequence[Buffer], share: Share, work: Buffer | None) -> None:
    """Blocks of lines, each chunk after chunk: what came before is carried along."""
    out, source, target, dtype = body.out, given[0], rooms[0], result_dtype(op)
    axis, combine, compute = scanned_axis(apply_args(op).get("axis", -1), source.rank), str(ops.table()[op.op].attrs["combine"]), computed_in(dtype)
    high, wide = _scan_block(op)
    length = source.shape[axis]
    others = [tuple(dim for number, dim in enumerate(buffer.dims) if number != axis) for buffer in (source, target)]
    # The lines of both are those of the operand: a result that is valid as far as it is has more room.
    others[1] = tuple(Dim(mine.extent, dim.stride) for mine, dim in zip(others[0], others[1], strict=True))
    count = numbers.product(dim.extent for dim in others[0])
    first, at, carry = out.fresh("first"), out.fresh("at"), out.fresh("before")
    with out.block(f"for {first} in {share.blocks(count, high)}:"):
        line = out.let("line", f"({first} + {out.arange(high)}).to(tl.int64)[:, None]")
        places = [out.let("place", place_of(line, dims)) for dims in others]
        out.line(f"{carry} = tl.full(({high}, 1,), {neutral(combine, compute)}, {register(compute)})")
        with out.block(f"for {at} in range(0, {length.text}, {wide}):"):
            cell = out.let("cell", f"({at} + {out.arange(wide)})[None, :]")
            there = out.let("there", guarded(f"({line} < {count.text}) & ({cell} < {length.text})", source))
            pointers = [
                f"{buffer.start} + {place} + {cell} * {buffer.dims[axis].stride.text}" for buffer, place in zip((source, target), places, strict=True)
            ]
            loaded = elementwise.widen(out, memory.load_text(out, pointers[0], there, dtype), dtype)
            cells = out.let("cells", f"tl.where({there}, {loaded}, {neutral(combine, compute)}).to({register(compute)})")
            made = out.let("made", elementwise.combined(combine, compute, carry, _scanned(body, cells, 1, combine, compute)))
            out.line(memory.store_line(out, pointers[1], elementwise.held(out, made, dtype), there, dtype))
            out.line(f"{carry} = {elementwise.combined(combine, compute, carry, fold(body, cells, 1, combine, compute))}")


# counting ---------------------------------------------------------------------------------------------------------------


def count(body: Body, op: d.ApplyOp, given: Sequence[Buffer], rooms: Sequence[Buffer], share: Share, work: Buffer | None) -> None:
    """Numbers are added to their bins one by one, in whatever order."""
    out, source, target = body.out, given[0], rooms[0]
    total, length = numbers.product(source.shape), target.shape[0]
    size = padded(min(int(total.const), CHUNK)) if isinstance(total.const, int) else CHUNK
    first = out.fresh("first")
    with out.block(f"for {first} in {share.blocks(total, size)}:"):
        cell = out.let("cell", f"({first} + {out.arange(size)}).to(tl.int64)")
        there = out.let("there", guarded(f"({cell} < {total.text})", source))
        number = out.let("number", f"{memory.load_text(out, f'{source.start} + {place_of(cell, source.dims)}', there, source.dtype)}.to(tl.int64)")
        fine = out.let("fine", f"({number} >= 0) & ({number} < {length.text})")
        failure = Failure("bounds", f"bincount: {{0}} is outside 0 to {int(length.const or 1) - 1}", op.span, COUNT_HELP)
        if body.options.check_bounds:
            wrong, none = first_outside(body, number, f"({fine}) | ({there} == 0)", (size,))
            body.failures.report(out, none, failure, (wrong,))
        more = f"tl.full(({size},), 1, {register(target.dtype)})"
        if len(given) > 1:
            more = memory.load_text(out, f"{given[1].start} + {place_of(cell, given[1].dims)}", there, given[1].dtype)
        out.line(f'tl.atomic_add({target.start} + tl.where({fine}, {number}, 0), {more}, mask={there} & {fine}, sem="relaxed")')


SCAN = Lines(scan, cells=lambda op: 4 * _scan_block(op)[0] * _scan_block(op)[1])
COUNT = Lines(count, cells=lambda op: CHUNK, sums=True)
