"""Nests inside a program: large tensors in a block of pl.spmd, or in a kernel that one program must do alone, a block of rows after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from xdsl.ir import Operation, SSAValue

from tilejit.backends.cuda.nests.members import Member, folds, is_member, members_of, space_of
from tilejit.backends.cuda.nests.nest import Nest
from tilejit.backends.cuda.program.body import Body
from tilejit.backends.cuda.schedule import MOST_CELLS, rows_of
from tilejit.backends.cuda.text import numbers
from tilejit.backends.cuda.text.types import padded
from tilejit.backends.cuda.text.values import Buffer, Dim, Scalar, Tile, Value, index
from tilejit.dtypes import INDEX
from tilejit.errors import UnsupportedFeatureError
from tilejit.passes.rewriting import has_uses, root
from tilejit.tile_ir import dialect as d
from tilejit.types.values import ScalarType, ShapedType, TileType


def is_large(value: SSAValue) -> bool:
    """Whether a tensor-level value is too large for registers, or of a shape that only the run knows."""
    type = d.type_of(value)
    if not isinstance(type, TileType | ShapedType) or type.level != "tensor":
        return False
    cells = 1
    for extent in type.shape:
        if not isinstance(extent, int):
            return True
        cells *= padded(extent)
    return cells > MOST_CELLS


def needs_chunks(body: Body, op: d.GroupOp | d.ApplyOp) -> bool:
    if body.nest:
        return False
    for member in members_of(op):
        values = [member.value] if isinstance(member, d.StoreOp) else [*member.operands, *member.results]
        if any(is_large(value) for value in values if not isinstance(d.type_of(value), ScalarType)):
            return True
    return False


def device_shape(body: Body, value: SSAValue, inside: set[SSAValue]) -> tuple[Scalar, ...]:
    """The extents of a value inside a program."""
    if value not in inside and (found := body[value]) is not None:
        return found.shape if isinstance(found, Buffer) else tuple(index(extent) for extent in found.shape) if isinstance(found, Tile) else ()
    type, owner = d.shaped_type(value), value.owner
    assert isinstance(owner, d.ApplyOp)
    return tuple(
        index(extent) if isinstance(extent, int) else _dynamic(owner, axis, type.rank, lambda v: device_shape(body, v, inside))
        for axis, extent in enumerate(type.shape)
    )


def _dynamic(op: d.ApplyOp, axis: int, rank: int, shape: Callable[[SSAValue], tuple[Scalar, ...]]) -> Scalar:
    for arg in op.args:
        type = d.type_of(arg)
        if isinstance(type, ShapedType) and axis - (rank - type.rank) >= 0 and type.shape[axis - (rank - type.rank)] != 1:
            return shape(arg)[axis - (rank - type.rank)]
    return index(1)


def group_in_program(body: Body, op: d.GroupOp) -> Sequence[Value]:
    """A group over large tensors, one block of rows after the other in this program."""
    inner = members_of(op)
    yielded = d.end_of(op.body.block, d.YieldOp)
    return _in_program(body, op, inner, list(yielded.values))


def apply_in_program(body: Body, op: d.ApplyOp) -> Sequence[Value]:
    if not is_member(op):
        from tilejit.backends.cuda.rules import LINES, ROWS

        rule = ROWS[op.op]
        if op.op in LINES:
            from tilejit.backends.cuda.indexed import lines

            return lines.in_program(LINES[op.op])(body, op)
        if op.op == "set_validshape" and _is_stored_next(op):
            from tilejit.backends.cuda.indexed.regions import valid_sizes

            whole = body.in_memory(op.args[0])
            sizes = valid_sizes(body, op, whole.shape)
            return [replace(whole, dims=tuple(Dim(size, dim.stride) for size, dim in zip(sizes, whole.dims, strict=True)))]
        if any(is_large(result) for result in op.results) or isinstance(rule, str):
            raise body.unsupported(op, f"`{op.op}` of a large tensor inside a block", "move it out of pl.spmd, or work on tiles")
        return rule(body, op)
    return _in_program(body, op, [op], [op.results[0]])


def _is_stored_next(op: d.ApplyOp) -> bool:
    """Whether all that happens to a result is that it is stored, before anything writes where it comes from."""
    users = {use.operation for use in op.results[0].uses}
    following = op.next_op
    while users and following is not None:
        if following in users and isinstance(following, d.StoreOp) and root(following.buffer) is not root(op.args[0]):
            users.remove(following)
        elif following in users or not isinstance(following, d.ConstOp | d.DimOp | d.WindowOp | d.ViewOp | d.ApplyOp | d.CheckOp):
            return False
        following = following.next_op
    return not users


def _in_program(body: Body, op: Operation, inner: Sequence[Member], outside: Sequence[SSAValue]) -> Sequence[Value]:
    inside: set[SSAValue] = {member.results[0] for member in inner if isinstance(member, d.ApplyOp)}
    if any(folds(member) not in (None, "row") for member in inner):
        raise UnsupportedFeatureError(
            "CUDA does not fold columns of a large tensor inside a block yet", span=getattr(op, "span", None), help="move it out of pl.spmd"
        )
    from tilejit.backends.cuda.program.buffers import room

    shape = device_shape(body, space_of(inner), inside)
    chosen = rows_of(None, shape[-1].const if isinstance(shape[-1].const, int) else None, 4, len(inner))
    outputs = {value: room(body, op, device_shape(body, value, inside), d.shaped_type(value).dtype) for value in outside}
    nest = Nest(body, inner, shape, chosen, outputs)
    for member in inner:
        for operand in member.operands:
            if operand not in inside and isinstance(d.type_of(operand), ShapedType) and not (isinstance(member, d.StoreOp) and operand is member.buffer):
                nest.sources[operand] = body.in_memory(operand)
        if isinstance(member, d.StoreOp):
            nest.targets[member] = store_target(body, member, device_shape(body, member.value, inside))
    saved = {value: body.values.get(value) for member in inner for value in member.operands}
    body.order.barrier(body.out)
    first = body.out.fresh("first")
    with body.out.block(f"for {first} in range(0, {nest.rows.text}, {chosen.rows}):"):
        nest.emit(Scalar(first, INDEX, (0, nest.rows.bounds[1]) if nest.rows.bounds else None))
    body.order.barrier(body.out)
    for value, old in saved.items():
        if old is not None:
            body.values[value] = old
    return [outputs[value] for value in outside] if isinstance(op, (d.GroupOp, d.ApplyOp)) else []


def store_target(body: Body, op: d.StoreOp, sizes: Sequence[Scalar]) -> Buffer:
    """The window that a store writes, with the shape of its value."""
    from tilejit.backends.cuda.program.buffers import box

    buffer = body.buffer(op.buffer)
    offsets = [body.index(item) for item in op.offsets]
    full = [index(1)] * (buffer.rank - len(sizes)) + list(sizes)
    starts, _, good = box(body, op, buffer, offsets, full, clamp=False)
    offset = numbers.add(buffer.offset, numbers.total(numbers.mul(start, dim.stride) for start, dim in zip(starts, buffer.dims, strict=True)))
    dims = tuple(Dim(size, dim.stride) for size, dim in zip(full, buffer.dims, strict=True))[buffer.rank - len(sizes) :]
    return replace(buffer, offset=body.named("start", offset), dims=dims, good=buffer.guarded(good))


def copy_in_program(body: Body, op: d.StoreOp, value: Buffer, buffer: Buffer, offsets: Sequence[Scalar]) -> Sequence[Value]:
    """A store of a value that lies in memory."""
    _in_program(body, op, [op], [])
    return []


def escaping(op: d.ApplyOp) -> bool:
    return has_uses(op.results[0])
