"""Operators that rearrange large tensors: programs take blocks of the result and fetch its cells from where they were."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from xdsl.ir import SSAValue

from tilejit import ops
from tilejit.backends.cuda.control_plane import host
from tilejit.backends.cuda.control_plane.frame import Frame
from tilejit.backends.cuda.control_plane.host import Memory, Number
from tilejit.backends.cuda.indexed.gather import checked, in_order, pattern_of
from tilejit.backends.cuda.indexed.move import Cells, fetch, inside, padding, scalars, stepped
from tilejit.backends.cuda.program import memory
from tilejit.backends.cuda.program.body import Body
from tilejit.backends.cuda.schedule import pull_of
from tilejit.backends.cuda.text import elementwise, numbers
from tilejit.backends.cuda.text.types import register
from tilejit.backends.cuda.text.values import Buffer, index
from tilejit.ops.shapes import steps_of
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.arguments import value_of
from tilejit.tile_ir.build import apply_args


@dataclass(frozen=True, slots=True)
class Pull:
    """An operator over blocks of its result."""

    cells: Callable[[Body, d.ApplyOp, Cells], str]
    """The text of the cells of a block."""
    always: bool = False
    """Also where one program could hold the whole result."""


def launch(frame: Frame, op: d.ApplyOp, name: str, room: Memory, shape: Sequence[Number]) -> None:
    """Fill `room` with the result of an operator."""
    from tilejit.backends.cuda.rules import PULLS

    swaps, rank = ops.table()[op.op].facts.swaps, d.shaped_type(op.results[0]).rank
    fill(frame, swaps, name, room, shape, rank, lambda body, cells: PULLS[op.op].cells(body, op, cells))


def turned(frame: Frame, source: Memory, name: str) -> Memory:
    """A copy of a matrix with its columns as rows, seen as the matrix itself."""
    rows, columns = source.shape
    room = frame.allocate([columns, rows], source.dtype, f"{source.name}_turned")

    def cells_of(body: Body, cells: Cells) -> str:
        return fetch(body, host.take_memory(body.out, source), cells.at[::-1], cells)

    fill(frame, True, name, room, (columns, rows), 2, cells_of)
    return replace(room, axes=room.axes[::-1])


def aligned(frame: Frame, source: Memory, name: str) -> Memory:
    """A copy of a matrix with zeros up to extents that are multiples of 16 bytes, so that whole vectors can be copied; one that is seen turned stays so."""
    turns = source.axes[-1].stride.const != 1
    here = source.shape[::-1] if turns else source.shape
    whole = host.number(16 // source.dtype.get_byte())
    shape = [host.mul(host.ceildiv(extent, whole), whole) for extent in here]
    room = frame.allocate(shape, source.dtype, f"{source.name}_aligned")

    def cells_of(body: Body, cells: Cells) -> str:
        sizes = [host.take_number(body.out, extent, "size") for extent in here]
        there = " & ".join([cells.where or "", *(f"({place} < {size.text})" for place, size in zip(cells.at, sizes, strict=True))])
        return fetch(body, host.take_memory(body.out, source), cells.at[::-1] if turns else cells.at, cells, body.out.let("inside", there))

    fill(frame, False, name, room, shape, 2, cells_of)
    return replace(room, axes=room.axes[::-1]) if turns else room


def fill(frame: Frame, swaps: bool, name: str, room: Memory, shape: Sequence[Number], rank: int, pull: Callable[[Body, Cells], str]) -> None:
    """Programs take blocks of `room`, and store what `pull` says lies there."""
    kernel = frame.kernel(name)
    extents = [host.take_number(kernel.out, extent, f"size{i}") for i, extent in enumerate(shape)]
    lead, columns = extents[:-1], extents[-1]
    rows = numbers.product(lead)
    known = [size.const if isinstance(size.const, int) else None for size in (rows, columns)]
    chosen = pull_of(swaps, known[0], known[1], room.dtype.get_byte())
    chosen = frame.state.book.rows(name, chosen)
    count = host.product(shape[:-1])
    down, across = (
        frame.named(host.ceildiv(size, host.number(block)), hint) for size, block, hint in ((count, chosen.rows, "down"), (shape[-1], chosen.columns, "across"))
    )
    programs = frame.named(host.mul(down, across), "programs")
    out, body = kernel.out, kernel.body
    program = out.program()
    wide = host.take_number(out, across, "across")
    row = out.let("row", f"(({program} // {wide.text}).to(tl.int64) * {chosen.rows} + {out.arange(chosen.rows)})[:, None]")
    column = out.let("column", f"(({program} % {wide.text}) * {chosen.columns} + {out.arange(chosen.columns)})[None, :]")
    there = out.let("there", f"({row} < {rows.text}) & ({column} < {columns.text})")
    at: list[str] = []
    for axis in range(len(lead)):
        inner = numbers.product(lead[axis + 1 :])
        text = row if inner.const == 1 else f"({row} // {inner.text})"
        at.append(text if axis == 0 else out.let(f"at{axis}", f"{text} % {lead[axis].text}"))
    cells = Cells((*at, column)[-rank:], (chosen.rows, chosen.columns), there)
    text = pull(body, cells)
    target = host.take_memory(out, room)
    places = [*at, column][-target.rank :] if target.rank <= len(at) + 1 else [*at, column]
    steps = [
        f" + {place}" if dim.stride.const == 1 else f" + ({place}) * {dim.stride.text}"
        for place, dim in zip(places, target.dims, strict=True)
        if dim.extent.const != 1
    ]
    pointers = f"tl.broadcast_to({target.pointer}{''.join(steps)}, ({chosen.rows}, {chosen.columns},))"
    out.line(memory.store_line(out, pointers, text, there, room.dtype))
    frame.finish(kernel, programs, chosen)


def _source(body: Body, op: d.ApplyOp, name: str) -> Buffer:
    return body.in_memory(value_of(apply_args(op)[name]))


def transpose(body: Body, op: d.ApplyOp, cells: Cells) -> str:
    args, rank = apply_args(op), len(cells.at)
    first, second = (int(str(args.get(name, default))) % rank for name, default in (("axis1", -1), ("axis2", -2)))
    at = list(cells.at)
    at[first], at[second] = at[second], at[first]
    return fetch(body, body.in_memory(op.args[0]), at, cells)


def slice_(body: Body, op: d.ApplyOp, cells: Cells) -> str:
    args = apply_args(op)
    offset, window = scalars(body, args["offset"]), scalars(body, args["shape"])
    requested = scalars(body, args["valid_shape"]) if isinstance(args.get("valid_shape"), list) else window
    drop = op.statics.get("drop_dims") or ()
    dropped = {int(str(axis)) % len(window) for axis in drop}
    source = _source(body, op, "input")
    good = inside(body, op, "reads", source.shape, offset, requested, bool(args.get("clamp")))
    kept = iter(cells.at)
    at = [start.text if axis in dropped else f"({start.text} + {next(kept)})" for axis, start in enumerate(offset)]
    bounds = [f"({place} < {extent.text})" for place, extent in zip(at, source.shape, strict=True)]
    where = " & ".join([cells.where or "", *bounds, *([good] if good else [])])
    return fetch(body, source, at, cells, body.out.let("inside", where))


def reshape(body: Body, op: d.ApplyOp, cells: Cells) -> str:
    source = body.in_memory(op.args[0])
    sizes = scalars(body, apply_args(op)["shape"])
    parts: list[str] = []
    stride = index(1)
    for place, extent in zip(reversed(cells.at), reversed(sizes), strict=True):
        parts.append(place if stride.const == 1 else f"({place}) * {stride.text}")
        stride = numbers.mul(stride, extent)
    linear = body.out.let("linear", " + ".join(reversed(parts)))
    return fetch(body, *in_order(source, linear), cells)


def concat(body: Body, op: d.ApplyOp, cells: Cells) -> str:
    first, second = _source(body, op, "src0"), _source(body, op, "src1")
    row, column = cells.at
    cut = first.shape[1]
    left = body.out.let("left", f"{column} < {cut.text}")
    one = fetch(body, first, [row, column], cells, f"({cells.where}) & {left}")
    other = fetch(body, second, [row, f"({column} - {cut.text})"], cells, f"({cells.where}) & ({left} == 0)")
    return f"tl.where({left}, {one}, {other})"


def fillpad_expand(body: Body, op: d.ApplyOp, cells: Cells) -> str:
    source = _source(body, op, "input")
    cell = padding(apply_args(op).get("pad_value"), source.dtype)
    flags = " & ".join(f"({at} < {extent.text})" for at, extent in zip(cells.at, source.shape, strict=True))
    there = body.out.let("inside", f"({flags}) & ({cells.where})")
    return f"tl.where({there}, {fetch(body, source, cells.at, cells, there)}, {body.text(cell)})"


def copy(body: Body, op: d.ApplyOp, cells: Cells) -> str:
    return fetch(body, body.in_memory(op.args[0]), cells.at, cells)


def full(body: Body, op: d.ApplyOp, cells: Cells) -> str:
    dtype = d.shaped_type(op.results[0]).dtype
    value = body.converted(body.scalar(value_of(apply_args(op)["value"])), dtype)
    return f"tl.full({_sizes(cells)}, {value}, {register(dtype)})"


def every(body: Body, op: d.ApplyOp, cells: Cells) -> str:
    source = _source(body, op, "input")
    return fetch(body, source, stepped(cells.at, source.shape, steps_of(apply_args(op)["steps"], len(cells.at))), cells)


def ci(body: Body, op: d.ApplyOp, cells: Cells) -> str:
    args, dtype = apply_args(op), d.shaped_type(op.results[0]).dtype
    start = body.index(value_of(args["start"]))
    text = f"({numbers.wide(start)} {'-' if args.get('descending') else '+'} {cells.at[-1]})"
    return f"tl.broadcast_to({text}, {_sizes(cells)}).to({register(dtype)})"


def _sizes(cells: Cells) -> str:
    return f"({', '.join(map(str, cells.block))},)"


def gather(body: Body, op: d.ApplyOp, cells: Cells) -> str:
    args = apply_args(op)
    source = _source(body, op, "input")
    if args.get("mask_pattern") is not None:
        first, step = pattern_of(op)
        text = fetch(body, source, [*cells.at[:-1], f"({cells.at[-1]} * {step} + {first})"], cells)
        dtype = d.shaped_type(op.results[0]).dtype
        return text if dtype is source.dtype else f"{text}.to({register(dtype)}, bitcast=True)"
    axis = int(str(args["dim"])) % len(cells.at)
    wanted = body.out.let("wanted", fetch(body, _source(body, op, "index"), cells.at, cells))
    at = list(cells.at)
    at[axis] = checked(body, op, "gather", wanted, cells.block, cells.where, source.shape[axis])
    return fetch(body, source, at, cells)


def assemble(body: Body, op: d.ApplyOp, cells: Cells) -> str:
    args = apply_args(op)
    target, piece = _source(body, op, "target"), _source(body, op, "source")
    offset = scalars(body, args["offset"])
    good = inside(body, op, "writes", target.shape, offset, list(piece.shape))
    at = [f"({place} - {start.text})" for place, start in zip(cells.at, offset, strict=True)]
    flags = [f"({place} >= 0) & ({place} < {extent.text})" for place, extent in zip(at, piece.shape, strict=True)] + ([good] if good else [])
    put = body.out.let("put", f"({' & '.join(flags)}) & ({cells.where})")
    new = fetch(body, piece, at, cells, put)
    if piece.dtype is not target.dtype:
        new = elementwise.held(body.out, elementwise.convert(body.out, new, piece.dtype, target.dtype), target.dtype)
    old = fetch(body, target, cells.at, cells)
    from tilejit.types.enums import AtomicType

    if args.get("atomic") is AtomicType.Add:
        wide = [elementwise.widen(body.out, text, target.dtype) for text in (old, new)]
        new = elementwise.held(body.out, f"({wide[0]} + {wide[1]})", target.dtype)
    return f"tl.where({put}, {new}, {old})"


def write(body: Body, op: d.ApplyOp, cells: Cells) -> str:
    args = apply_args(op)
    target, offset = _source(body, op, "dst"), scalars(body, args["offset"])
    good = inside(body, op, "writes", target.shape, offset, [index(1)] * target.rank)
    hit = " & ".join([*(f"({place} == {at.text})" for place, at in zip(cells.at, offset, strict=True)), *([good] if good else [])])
    value = body.converted(body.scalar(value_of(args["value"])), target.dtype)
    return f"tl.where({hit}, {value}, {fetch(body, target, cells.at, cells)})"


def can(op: d.ApplyOp) -> bool:
    """Whether an operator has this form: everything valid, one result."""
    from tilejit.backends.cuda.rules import PULLS

    if op.op not in PULLS or len(op.results) != 1:
        return False
    types = [d.shaped_type(value) for value in [*op.results, *op.args] if not _is_scalar(value)]
    return all(type.valid == type.shape for type in types) and not (op.op == "gather" and apply_args(op).get("kvalue") is not None)


def _is_scalar(value: SSAValue) -> bool:
    from tilejit.types.values import ScalarType

    return isinstance(d.type_of(value), ScalarType)
