"""Launches of nests: blocks of rows, pieces of columns, and what stays of a group when its parts run apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

from xdsl.ir import Operation, SSAValue

from tilejit import ops
from tilejit.backends import checks
from tilejit.backends.cuda.control_plane import host
from tilejit.backends.cuda.control_plane.frame import Frame, Making
from tilejit.backends.cuda.control_plane.host import Axis, Memory, Number
from tilejit.backends.cuda.nests import gangs
from tilejit.backends.cuda.nests.columns import ColumnNest
from tilejit.backends.cuda.nests.members import Member, folds, is_member, members_of, space_of
from tilejit.backends.cuda.nests.merge import inner_of
from tilejit.backends.cuda.nests.nest import Nest, merged
from tilejit.backends.cuda.program.rows import fold, neutral
from tilejit.backends.cuda.schedule import LONGEST_ROW, PROCESSORS, RowSchedule, again_of, cells_of, is_uneven, rows_of
from tilejit.backends.cuda.text import elementwise, numbers
from tilejit.backends.cuda.text.types import computed_in, padded
from tilejit.backends.cuda.text.values import Buffer, Scalar, Tile, index
from tilejit.dtypes import BOOL, INDEX
from tilejit.passes.kernels import name_hint
from tilejit.tile_ir import dialect as d
from tilejit.types.values import ShapedType


def run_nest(frame: Frame, work: Sequence[Operation], name: str) -> None:
    """Launch what several groups, operators and stores do."""
    if len(work) == 1:
        step_on_host(frame, work[0], name)
    else:
        _nests(frame, work, inner_of(work), name)


def step_on_host(frame: Frame, op: Operation, name: str = "kernel") -> None:
    """Launch what a group, an operator or a store does."""
    inner = members_of(op) if isinstance(op, d.GroupOp | d.ApplyOp | d.StoreOp) else []
    if inner and all(is_member(member) for member in inner) and not any(folds(member) == "other" for member in inner):
        _nests(frame, [op], inner, name)
        return
    if isinstance(op, d.ApplyOp):
        from tilejit.backends.cuda.grids.operators import launch_operator

        launch_operator(frame, op, name)
        return
    kernel = frame.kernel(name)
    kernel.body.step(op)
    frame.finish(kernel, host.number(1))


def shape_of(frame: Frame, value: SSAValue) -> tuple[Number, ...]:
    """The extents of a value on the host."""
    found = frame.values.get(value)
    if isinstance(found, Memory):
        return found.shape
    type, owner = d.shaped_type(value), value.owner
    if isinstance(owner, d.GroupOp):
        inner = d.end_of(owner.body.block, d.YieldOp)
        return shape_of(frame, inner.values[list(owner.results).index(value)])  # type: ignore[arg-type]
    assert isinstance(owner, d.ApplyOp), value
    return tuple(host.number(extent) if isinstance(extent, int) else _dynamic(frame, owner, value, axis, type.rank) for axis, extent in enumerate(type.shape))


def _dynamic(frame: Frame, op: d.ApplyOp, value: SSAValue, axis: int, rank: int) -> Number:
    from tilejit.backends.cuda.grids.operators import dynamic_extent

    if is_member(op):
        for arg in op.args:
            type = d.type_of(arg)
            own = axis - (rank - type.rank) if isinstance(type, ShapedType) else -1
            if isinstance(type, ShapedType) and own >= 0 and type.shape[own] != 1:
                return shape_of(frame, arg)[own]
        return host.number(1)
    return dynamic_extent(frame, op, value, axis)


def _nests(frame: Frame, work: Sequence[Operation], inner: Sequence[Member], name: str) -> None:
    """Everything of a nest: the main part in one kernel, reductions over rows each on its own."""
    handed = aliases_of(work)
    outside = set(leaving(inner, handed))
    columns = [member for member in inner if isinstance(member, d.ApplyOp) and folds(member) == "col"]
    through: set[SSAValue] = {member.results[0] for member in inner if isinstance(member, d.ApplyOp) and folds(member) == "row"}
    for member in columns:
        if _depends(member, through, inner) and isinstance(member.args[0].owner, d.ApplyOp) and member.args[0].owner in inner:
            outside.add(member.args[0])
    direct = {member: store for member in columns if (store := _only_store(member, inner, outside)) is not None}
    main = _wanted([member for member in inner if member not in direct.values()], outside, columns, handed)
    if main:
        made = _results(main)
        launch_rows(frame, main, [value for value in made if value in outside], name, handed)
    for member in columns:
        launch_columns(frame, member, inner, name, direct.get(member))
    for result, value in handed.items():
        if value in frame.values:
            frame.values[result] = frame.values[value]


def _results(members: Sequence[Member]) -> list[SSAValue]:
    return [member.results[0] for member in members if isinstance(member, d.ApplyOp)]


def aliases_of(work: Sequence[Operation]) -> dict[SSAValue, SSAValue]:
    """What the results of groups stand for: members that they yield."""
    found: dict[SSAValue, SSAValue] = {}
    for op in work:
        if isinstance(op, d.GroupOp):
            last = d.end_of(op.body.block, d.YieldOp)
            found.update(zip(op.results, last.values, strict=True))
    return found


def _leaves(value: SSAValue, inside: set[Member], handed: dict[SSAValue, SSAValue]) -> bool:
    """Whether a result is used outside the nest, by itself or as the result of its group; one that nobody uses is computed as if it were."""
    names = [value, *(result for result, inner in handed.items() if inner is value)]
    users = [use.operation for name in names for use in name.uses if not (isinstance(use.operation, d.YieldOp) and len(names) > 1 and name is value)]
    return not users or any(user not in inside for user in users)


def leaving(members: Sequence[Member], handed: dict[SSAValue, SSAValue]) -> list[SSAValue]:
    """Results of members that are used outside."""
    return [value for value in _results(members) if _leaves(value, set(members), handed)]


def _only_store(op: d.ApplyOp, inner: Sequence[Member], outside: set[SSAValue]) -> d.StoreOp | None:
    """The store that is all that happens to a result."""
    users = [use.operation for use in op.results[0].uses]
    store = users[0] if len(users) == 1 else None
    if op.results[0] in outside or not isinstance(store, d.StoreOp) or store not in inner or store.static("atomic"):
        return None
    return store if d.shaped_type(store.buffer).dtype is d.shaped_type(op.results[0]).dtype else None


def _depends(op: d.ApplyOp, values: set[SSAValue], inner: Sequence[Member]) -> bool:
    """Whether an op needs one of `values`, through members of the group."""
    todo: list[Operation] = [op]
    seen: set[Operation] = set()
    while todo:
        for operand in todo.pop().operands:
            if operand in values:
                return True
            if isinstance(operand.owner, d.ApplyOp) and operand.owner in inner and operand.owner not in seen:
                seen.add(operand.owner)
                todo.append(operand.owner)
    return False


def _wanted(inner: Sequence[Member], outside: set[SSAValue], columns: Sequence[d.ApplyOp], handed: dict[SSAValue, SSAValue]) -> list[Member]:
    """What the main nest computes: what is stored or handed out, and what that needs."""
    needed: set[SSAValue] = set(outside)
    found: list[Member] = []
    for member in reversed(inner):
        if member in columns:
            continue
        if isinstance(member, d.StoreOp) or member.results[0] in needed:
            needed.update(handed.get(value, value) for value in (member.operands if isinstance(member, d.ApplyOp) else [member.value]))
            found.append(member)
    return found[::-1]


def _space(frame: Frame, members: Sequence[Member]) -> tuple[Number, ...]:
    shape = shape_of(frame, space_of(members))
    return shape if len(shape) > 1 else (host.number(1), *shape)


def launch_rows(frame: Frame, members: Sequence[Member], outputs: Sequence[SSAValue], name: str, handed: dict[SSAValue, SSAValue]) -> None:
    """One kernel over blocks of rows."""
    shape = _space(frame, members)
    count = host.product(shape[:-1])
    read = [found for member in members for value in member.operands if isinstance(found := frame.values.get(value), Memory)]
    width = max((memory.dtype.get_byte() for memory in read), default=4)
    sizes = [size.const if isinstance(size.const, int) else None for size in (count, shape[-1])]
    targets = {member: store_window(frame, member) for member in members if isinstance(member, d.StoreOp)}
    taken = {value: room_for(frame, value) for value in outputs}
    cells = cells_of(sizes[0], sizes[1], width) if _cell_by_cell(members) else None
    if _is_line(members, [*read, *targets.values(), *taken.values()], shape, width):
        count, shape = host.number(1), (host.number(1), host.product(shape))
        cells = cells_of(1, shape[1].const if isinstance(shape[1].const, int) else None, width)
    few = sizes[0] is not None and sizes[0] < PROCESSORS
    shared = gangs.schedule_of(sizes[1], width, frame.state.interpreted) if _is_long(sizes[1]) and gangs.suits(members, few) else None
    suited = cells or shared or rows_of(sizes[0], sizes[1], width, len(members))
    kernel = frame.kernel(name)
    nest = Nest(kernel.body, members, tuple(host.take_number(kernel.out, extent, f"size{i}") for i, extent in enumerate(shape)), suited, handed=handed)
    nest.outputs.update({value: as_buffer(kernel, room, shape) for value, room in taken.items()})
    for member in members:
        if isinstance(member, d.StoreOp):
            nest.targets[member] = as_buffer(kernel, targets[member], shape)
        for operand in member.operands if isinstance(member, d.ApplyOp) else [member.value]:
            if isinstance(found := frame.values.get(operand), Memory) and operand not in nest.inside:
                nest.sources[operand] = as_buffer(kernel, found, shape)
    gang = gangs.Gang(nest) if shared else None
    if gang and not gang.possible:
        suited = rows_of(sizes[0], sizes[1], width, len(members))
    if not cells and not shared:
        suited = again_of(sizes[1], width, nest.readings) or suited
    chosen = nest.schedule = frame.state.book.rows(name, suited)
    if gang and chosen.parts:
        gang.emit()
        frame.finish(kernel, host.mul(count, host.number(chosen.parts)), chosen, meeting=gang.told, options=gang.options)
        frame.values.update(taken)
        return
    across = frame.named(host.ceildiv(shape[-1], host.number(chosen.columns)), "across") if cells else host.number(1)
    programs = frame.named(host.mul(host.ceildiv(count, host.number(chosen.rows)), across), "programs")
    most = programs.bounds[1] if programs.bounds else (1 << 31) - 1
    block = Scalar(kernel.out.program(), INDEX, (0, max(0, most - 1)))
    if cells:
        wide = host.take_number(kernel.out, across, "across")
        last = numbers.sub(nest.columns, index(1)).bounds
        down = f"{block.text} // {wide.text}"
        row = Scalar(kernel.out.let("row", down if chosen.rows == 1 else f"({down}) * {chosen.rows}"), INDEX, (0, most * chosen.rows - 1))
        start = Scalar(kernel.out.let("first", f"({block.text} % {wide.text}) * {chosen.columns}"), INDEX, (0, max(0, last[1])) if last else None)
        nest.emit(row, start)
    else:
        first = numbers.mul(block, index(chosen.rows))
        nest.emit(first if first.const is not None else Scalar(kernel.out.let("first", first.text), INDEX, first.bounds))
    frame.finish(kernel, programs, chosen)
    for value, room in taken.items():
        frame.values[value] = room


def _is_long(columns: int | None) -> TypeGuard[int]:
    return columns is not None and padded(columns) > LONGEST_ROW


def _is_line(members: Sequence[Member], memories: Sequence[Memory], shape: Sequence[Number], width: int) -> bool:
    """Whether rows of an odd length are better taken as one line: cells lie as they do in all memory that is used, and none is used for several of them."""
    columns, total = shape[-1].const, host.product(shape).const
    if not isinstance(columns, int) or not isinstance(total, int) or not 1024 < total < 1 << 31 or shape[0].const == 1 or not _cell_by_cell(members):
        return False
    values = [value for member in members for value in ([member.value] if isinstance(member, d.StoreOp) else [*member.operands, *member.results])]
    same = len({d.shaped_type(value).shape for value in values if isinstance(d.type_of(value), ShapedType)}) == 1
    lies = all(host.is_contiguous(memory) and len(memory.axes) == len(shape) and host.product(memory.shape).const == total for memory in memories)
    return same and lies and (columns * width % 16 != 0 or is_uneven(columns, padded(columns)))


def _cell_by_cell(members: Sequence[Member]) -> bool:
    """Whether no cell needs another one of its row, and all results are as wide as the space."""
    made = [member.results[0] if isinstance(member, d.ApplyOp) else member.value for member in members]
    return not any(map(folds, members)) and all(d.shaped_type(value).shape[-1] != 1 for value in made)


def as_buffer(kernel: Making, memory: Memory, shape: Sequence[Number]) -> Buffer:
    axes = memory.axes
    if len(shape) == 2 and len(axes) > 1 and shape[0].const == 1 and axes[-2].extent.const != 1:  # all its cells in a line
        axes = (Axis(shape[1], host.number(1)),)
    if len(axes) == 1 and len(shape) == 2:
        axes = (Axis(host.number(1), axes[0].extent), *axes)
    return host.take_memory(kernel.out, Memory(memory.address, axes, memory.dtype, memory.root, memory.name))


def room_for(frame: Frame, value: SSAValue) -> Memory:
    return frame.allocate(shape_of(frame, value), d.shaped_type(value).dtype, name_hint(value) or "value")


def store_window(frame: Frame, op: d.StoreOp) -> Memory:
    """The part of a buffer that a store writes, checked on the host."""
    buffer = frame.memory(op.buffer)
    sizes = shape_of(frame, op.value)
    full = [host.number(1)] * (len(buffer.axes) - len(sizes)) + list(sizes)
    offsets = [frame.number(item) for item in op.offsets]
    for axis, (offset, size, extent) in enumerate(zip(offsets, full, buffer.shape, strict=True)):
        end = host.add(offset, size)
        row = frame.state.failures.row(checks.box_failure(op, axis)) if frame.state.options.check_bounds else -1
        if row >= 0 and (offset.bounds is None or offset.bounds[0] < 0):
            frame.check(host.apply_row("cmp", [offset, host.number(0)], BOOL, {"cmp_type": 5}), row, [offset, size, extent])
        certain = end.bounds and extent.bounds and end.bounds[1] <= extent.bounds[0]
        if row >= 0 and not certain and not host.same(end, extent):
            frame.check(host.apply_row("cmp", [end, extent], BOOL, {"cmp_type": 3}), row, [offset, size, extent])
    offset = host.total([host.mul(start, axis.stride) for start, axis in zip(offsets, buffer.axes, strict=True)])
    axes = tuple(Axis(size, axis.stride) for size, axis in zip(full, buffer.axes, strict=True))[len(full) - len(sizes) :]
    return host.at(buffer, offset, axes)


def launch_columns(frame: Frame, op: d.ApplyOp, inner: Sequence[Member], name: str, store: d.StoreOp | None = None) -> None:
    """A reduction over rows: programs take blocks of columns and run down."""
    source = op.args[0]
    members = _producers(frame, op, inner)
    shape = shape_of(frame, source)
    room = room_for(frame, op.results[0]) if store is None else store_window(frame, store)
    lead, height, columns = host.product(shape[:-2]), shape[-2], shape[-1]
    chosen = frame.state.book.rows(name, _column_schedule(lead, height, columns))
    kernel = frame.kernel(name)
    nest = Nest(kernel.body, [*members, op], tuple(host.take_number(kernel.out, extent, f"size{i}") for i, extent in enumerate(shape)), chosen)
    for member in nest.members:
        for operand in member.operands:
            if isinstance(found := frame.values.get(operand), Memory) and operand not in nest.inside:
                nest.sources[operand] = as_buffer(kernel, found, shape)
    across = frame.named(host.ceildiv(columns, host.number(chosen.columns)), "across")
    programs = frame.named(host.mul(lead, across), "programs")
    program = kernel.out.program()
    wide = host.take_number(kernel.out, across, "across")
    most = columns.bounds[1] if columns.bounds else None
    outer = index(0) if lead.const == 1 else Scalar(kernel.out.let("lead", f"{program} // {wide.text}"), INDEX, (0, lead.bounds[1]) if lead.bounds else None)
    start = f"({program} % {wide.text}) * {chosen.columns}" if lead.const != 1 else f"{program} * {chosen.columns}"
    first = Scalar(start, INDEX, (0, most) if most else None)
    tall = host.take_number(kernel.out, height, "height")
    parts = _parts(op, lead, height, columns, chosen)
    if parts == 1:
        first = Scalar(kernel.out.let("first", first.text), INDEX, first.bounds)
        ColumnNest(nest, op, tall).emit(outer, first, host.take_memory(kernel.out, room))
        frame.finish(kernel, programs, chosen)
    else:
        partial = frame.allocate([host.number(parts), columns], computed_in(d.shaped_type(source).dtype), "partial")
        size = -(-int(height.const or 0) // parts // chosen.rows) * chosen.rows
        part = Scalar(kernel.out.let("part", f"{program} // {wide.text}"), INDEX, (0, parts - 1))
        column = Scalar(kernel.out.let("first", f"({program} % {wide.text}) * {chosen.columns}"), INDEX, (0, most) if most else None)
        begin = numbers.mul(part, index(size))
        rest = index(size) if size * parts == height.const else numbers.clamp(numbers.sub(tall, begin), index(0), index(size))
        ColumnNest(nest, op, tall).emit(part, column, host.take_memory(kernel.out, partial), (begin, rest))
        frame.finish(kernel, frame.named(host.mul(host.number(parts), across), "programs"), chosen, note=f"{parts} pieces of rows, ")
        _fold_parts(frame, op, partial, room, parts, columns, name)
    if store is None:
        frame.values[op.results[0]] = room


def _parts(op: d.ApplyOp, lead: Number, height: Number, columns: Number, chosen: RowSchedule) -> int:
    """In how many pieces the rows are folded at once: so many that every processor has something to do."""
    known = lead.const == 1 and isinstance(height.const, int) and isinstance(columns.const, int)
    if not known or str(ops.table()[op.op].attrs["combine"]).startswith("arg"):
        return 1
    tall, wide = int(height.const or 0), int(columns.const or 0)
    across = -(-wide // chosen.columns)
    return max(1, min(256, tall // (8 * chosen.rows), 8 * PROCESSORS // max(across, 1)))


def _fold_parts(frame: Frame, op: d.ApplyOp, partial: Memory, room: Memory, parts: int, columns: Number, name: str) -> None:
    """What the pieces gave, folded once more."""
    kernel = frame.kernel(f"{name}_fold")
    width, combine = min(64, 8192 // padded(parts)), str(ops.table()[op.op].attrs["combine"])
    body, out = kernel.body, kernel.out
    source, target = host.take_memory(out, partial), host.take_memory(out, room)
    program = out.program()
    limit = host.take_number(out, columns, "columns")
    first = Scalar(out.let("first", f"{program} * {width}"), INDEX, (0, columns.bounds[1]) if columns.bounds else None)
    size = numbers.minimum(numbers.sub(limit, first), index(width))
    size = size if size.const is not None else Scalar(out.let("size", size.text), INDEX, size.bounds)
    tile = body.load_tile(source, (index(0), first), (parts, width), (index(parts), size), "pieces")
    compute = partial.dtype
    text = tile.text
    if padded(parts) != parts:
        text = f"tl.where(({out.arange(padded(parts))} < {parts})[:, None], {text}, {neutral(combine, compute)})"
    folded = elementwise.held(out, fold(body, text, 0, combine, compute), room.dtype)
    flat = merged(target, target.rank - 1)
    assert flat is not None
    body.store_tile(Tile(out.let("result", folded), room.dtype, (1, width), (index(1), size)), flat, (index(0), first))
    frame.finish(kernel, host.ceildiv(columns, host.number(width)), warps=4)


def _producers(frame: Frame, op: d.ApplyOp, inner: Sequence[Member]) -> list[Member]:
    """Members that compute what a reduction folds, as far as they are not in memory."""
    needed: set[Operation] = set()
    todo: list[Operation] = [op]
    while todo:
        for operand in todo.pop().operands:
            owner = operand.owner
            if operand not in frame.values and isinstance(owner, d.ApplyOp) and owner in inner and owner not in needed:
                needed.add(owner)
                todo.append(owner)
    return [member for member in inner if member in needed]


def _column_schedule(lead: Number, height: Number, columns: Number) -> RowSchedule:
    wide = min(64, max(8, padded(columns.const))) if isinstance(columns.const, int) else 64
    return RowSchedule(2048 // wide, wide, True, 4)


def fill(frame: Frame, memory: Memory, value: float, op: Operation) -> None:
    """Set every cell of a new tensor."""
    from tilejit.backends.cuda.grids.operators import launch_fill

    launch_fill(frame, memory, value, op)
