"""Kernels without blocks, spread over the GPU: each large operator becomes a launch of its own, each independent loop a grid."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from xdsl.ir import Block, Operation, SSAValue

from tilejit import ops
from tilejit.backends import checks
from tilejit.backends.cuda import elementwise, host, numbers, plan
from tilejit.backends.cuda.host import Axis, Memory, Number
from tilejit.backends.cuda.independent import perfect_nest
from tilejit.backends.cuda.lower import Frame, Making
from tilejit.backends.cuda.merge import inner_of, joins
from tilejit.backends.cuda.nest import ColumnNest, Member, Nest, folds, is_member, members_of, merged, space_of
from tilejit.backends.cuda.recognise import Turn, product_from_loops
from tilejit.backends.cuda.rows import fold, neutral
from tilejit.backends.cuda.schedule import PROCESSORS, RowSchedule, rows_of
from tilejit.backends.cuda.structure import inline
from tilejit.backends.cuda.types import computed_in, padded
from tilejit.backends.cuda.values import Buffer, Scalar, Tile, index
from tilejit.dtypes import BOOL, INDEX
from tilejit.errors import UnsupportedFeatureError
from tilejit.passes.kernels import name_hint
from tilejit.passes.rewriting import free_values, is_scalar_op
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import constant_of
from tilejit.types.values import ScalarType, ShapedType

_HOST = (d.ConstOp, d.DimOp, d.CheckOp, d.CreateOp, d.WindowOp, d.ViewOp, d.StridedOp)

Segment = tuple[str, list[Operation]]
""" "host", "nest", "grid", "loop" with one op, or "program" with the ops that one program runs."""


def spread(frame: Frame, function: d.FuncOp) -> bool:
    """Run a kernel without blocks as several launches; False where one program must do it all."""
    segments = _segments(frame, function.body.block, set(function.body.block.args))
    if segments is None:
        return False
    _run(frame, segments, function.symbol)
    return True


def _run(frame: Frame, segments: Sequence[Segment], name: str) -> None:
    for place, (kind, members) in enumerate(segments):
        if kind == "nest" and (group := _epilogue_of(frame, segments, place)) is not None:
            from tilejit.backends.cuda.operators import launch_product

            first = members[0]
            assert isinstance(first, d.ApplyOp)
            between = _until(segments, place, group)
            for step in between:
                frame.step(step)
            launch_product(frame, first, name, group)
            _run(frame, [item for item in segments[place + 1 :] if item[1] is not group and item[1][0] not in between], name)
            return
        if kind == "host":
            frame.step(members[0])
        elif kind == "nest":
            run_nest(frame, members, name)
        elif kind == "grid":
            op = members[0]
            assert isinstance(op, d.ForOp)
            run_grid(frame, op, name)
        elif kind == "loop":
            op = members[0]
            assert isinstance(op, d.ForOp)
            _host_loop(frame, op, name)
        else:
            kernel = frame.kernel(name)
            for op in members:
                kernel.body.step(op)
            frame.finish(kernel, host.number(1))


def _until(segments: Sequence[Segment], place: int, group: Sequence[Operation]) -> list[Operation]:
    """Host ops between a product and its epilogue: they run before both."""
    found: list[Operation] = []
    for _, inner in segments[place + 1 :]:
        if inner is group:
            break
        found.append(inner[0])
    return found


def _epilogue_of(frame: Frame, segments: Sequence[Segment], place: int) -> list[Operation] | None:
    """The nest after a product that works on its result cell by cell, and is the only one to use it."""
    op = segments[place][1][0]
    if len(segments[place][1]) > 1 or not isinstance(op, d.ApplyOp) or ops.table()[op.op].family != "matmul" or d.shaped_type(op.results[0]).rank != 2:
        return None
    for kind, members in segments[place + 1 :]:
        if kind == "host" and isinstance(members[0], d.ConstOp | d.DimOp | d.ApplyOp):
            continue
        if kind != "nest":
            return None
        inner = inner_of(members)
        shape = d.shaped_type(op.results[0]).shape
        fits = all(is_member(member) and folds(member) is None for member in inner) and d.shaped_type(space_of(inner)).shape == shape
        only = all(use.operation in inner for use in op.results[0].uses)
        used = any(op.results[0] in member.operands for member in inner)
        return members if fits and only and used else None
    return None


def _segments(frame: Frame, block: Block, known: set[SSAValue]) -> list[Segment] | None:
    """The ops of a block in runs; None where a value of a program would have to leave it."""
    out: list[Segment] = []
    known = known | set(frame.values)
    for op in block.ops:
        if isinstance(op, d.ReturnOp | d.YieldOp):
            continue
        kind = _kind(frame, op, known)
        if kind == "program":
            if not out or out[-1][0] != "program":
                out.append(("program", []))
            out[-1][1].append(op)
            continue
        known.update(op.results)
        out.append((kind, [op]))
    inside = [set(members) for kind, members in out if kind == "program"]
    for members in inside:
        walked = {inner for op in members for inner in op.walk()}
        for op in members:
            if any(use.operation not in walked and not isinstance(use.operation, d.YieldOp) for result in op.results for use in result.uses):
                return None
            if any(isinstance(use.operation, d.YieldOp) and use.operation.parent is block for result in op.results for use in result.uses):
                return None
    merged = _hoisted(out)
    if all(kind == "program" for kind, _ in merged):
        return None
    return _joined(frame, merged)


def _joined(frame: Frame, segments: Sequence[Segment]) -> list[Segment]:
    """Neighbouring nests over the same rows become one; what the host computes between them comes first."""
    out: list[Segment] = []
    waiting: list[Segment] = []
    for kind, members in segments:
        last = out[-1] if out and out[-1][0] == "nest" else None
        if kind == "host" and last is not None and not isinstance(members[0], d.CreateOp) and not _uses(members[0], [*last[1], *_ops(waiting)]):
            waiting.append((kind, members))
        elif kind == "nest" and last is not None and joins(frame, last[1], members[0]):
            out[-1:] = [*waiting, ("nest", [*last[1], *members])]
            waiting = []
        else:
            out += [*waiting, (kind, list(members))]
            waiting = []
    return [*out, *waiting]


def _ops(segments: Sequence[Segment]) -> list[Operation]:
    return [op for _, members in segments for op in members]


def _uses(op: Operation, makers: Sequence[Operation]) -> bool:
    """Whether an op of the host needs what a nest makes; what other ops of the host make is there before."""
    made = {result for maker in makers if isinstance(maker, d.GroupOp | d.ApplyOp) and not is_scalar_op(maker) for result in maker.results}
    return any(value in made for value in free_values([op]))


def _hoisted(segments: Sequence[Segment]) -> list[Segment]:
    """Constants and scalars between two programs come first, so that those are one."""
    out: list[Segment] = []
    for kind, members in segments:
        if kind == "host" and isinstance(members[0], d.ConstOp | d.DimOp | d.ApplyOp) and out and out[-1][0] == "program":
            out.insert(len(out) - 1, (kind, members))
        elif kind == "program" and out and out[-1][0] == "program":
            out[-1][1].extend(members)
        else:
            out.append((kind, list(members)))
    return out


def _kind(frame: Frame, op: Operation, known: set[SSAValue]) -> str:
    free = free_values([op])
    if not all(value in known for value in free):
        return "program"
    if isinstance(op, _HOST) or (is_scalar_op(op) and isinstance(op, d.ApplyOp)):
        return "host"
    if isinstance(op, d.GroupOp) or (isinstance(op, d.ApplyOp) and is_member(op)) or isinstance(op, d.StoreOp):
        return "nest" if _is_tensor_work(op) else "program"
    if isinstance(op, d.ApplyOp) and _is_tensor_work(op) and len(op.results) == 1 and isinstance(d.type_of(op.results[0]), ShapedType):
        return "nest"
    if isinstance(op, d.ForOp) and not op.results:
        if perfect_nest(op, frame.state.functions) is not None:
            return "grid"
        inner = _segments(frame, op.body.block, known | set(op.body.block.args))
        if inner is not None and any(kind in ("nest", "grid", "loop") for kind, _ in inner):
            return "loop"
    return "program"


def _is_tensor_work(op: Operation) -> bool:
    """Whether an op only touches memory and tensor-level values."""
    inner = members_of(op) if isinstance(op, (d.GroupOp | d.StoreOp, d.ApplyOp)) else []
    values = [value for member in inner for value in [*member.operands, *member.results]]
    shaped = [type for value in values if isinstance(type := d.type_of(value), ShapedType)]
    return bool(shaped) and all(type.level == "tensor" and type.valid == type.shape for type in shaped) and all(isinstance(d.type_of(value), ShapedType | ScalarType) for value in values)


def _host_loop(frame: Frame, op: d.ForOp, name: str) -> None:
    block = op.body.block
    lower, upper, step = (frame.number(item) for item in (op.lower, op.upper, op.step))
    target = frame.fresh(name_hint(block.args[0]) or "i")
    known = lower.bounds and upper.bounds and isinstance(step.const, int) and step.const > 0
    bounds = (lower.bounds[0], max(lower.bounds[0], upper.bounds[1] - 1)) if known and lower.bounds and upper.bounds else None
    frame.values[block.args[0]] = host.variable(target, INDEX, bounds)

    def run() -> None:
        segments = _segments(frame, block, set(block.args))
        assert segments is not None
        _run(frame, segments, name)

    frame.steps.append(plan.For(target, lower.expr, upper.expr, step.expr, frame.inner(run)))


# grids ------------------------------------------------------------------------------------------------------------------


def loop_as_grid(frame: Frame, op: d.ForOp) -> bool:
    """A loop of the control plane whose trips are launches that do not depend on each other."""
    if op.results or perfect_nest(op, frame.state.functions) is None:
        return False
    if not all(value in frame.values for value in free_values([op])):
        return False
    steps, kernels, made, rows = list(frame.steps), list(frame.state.kernels), list(frame.state.made), list(frame.state.failures.rows)
    try:
        run_grid(frame, op, _callee(op) or "loop")
    except UnsupportedFeatureError:
        frame.steps, frame.state.kernels, frame.state.made, frame.state.failures.rows = steps, kernels, made, rows
        return False
    return True


def _callee(op: Operation) -> str | None:
    return next((inner.callee.data for inner in op.walk() if isinstance(inner, d.LaunchOp | d.CallOp)), None)


def run_grid(frame: Frame, op: d.ForOp, name: str) -> None:
    """One program per trip of a nest of independent loops."""
    loops = perfect_nest(op, frame.state.functions)
    assert loops is not None
    if _as_product(frame, loops, name):
        return
    kernel = frame.kernel(name)
    trips = [_trips(frame, loop) for loop in loops]
    programs = frame.named(host.product(trips), "programs")
    most = programs.bounds[1] if programs.bounds else (1 << 31) - 1
    rest = Scalar(kernel.out.once("program", "tl.program_id(0)"), INDEX, (0, max(0, most - 1)))
    counts = [host.take_number(kernel.out, count, "trips") for count in trips]
    for number in range(len(loops) - 1, -1, -1):
        loop, count = loops[number], counts[number]
        if number == 0:
            turn = rest
        elif isinstance(count.const, int):
            turn, rest = numbers.mod(rest, count.const), numbers.floordiv(rest, count.const)
        else:
            turn = Scalar(f"({rest.text} % {count.text})", INDEX, (0, count.bounds[1]) if count.bounds else None)
            rest = Scalar(f"({rest.text} // {count.text})", INDEX, rest.bounds)
        if isinstance(count.const, int):
            turn = Scalar(turn.text, INDEX, (0, max(0, count.const - 1)))
        lower, step = (host.take_number(kernel.out, _bound(frame, item), "first") for item in (loop.lower, loop.step))
        place = numbers.add(lower, numbers.mul(turn, step))
        hint = name_hint(loop.body.block.args[0]) or "i"
        kernel.body.values[loop.body.block.args[0]] = place if place.const is not None else Scalar(kernel.out.let(hint, place.text), INDEX, place.bounds)
    for outer, inner in itertools.pairwise(loops):
        for between in outer.body.block.ops:
            if between is not inner and not isinstance(between, d.YieldOp):
                kernel.body.step(between)
    kernel.body.run(loops[-1].body.block)
    frame.finish(kernel, programs)


def _as_product(frame: Frame, loops: Sequence[d.ForOp], name: str) -> bool:
    turns: list[Turn] = []
    for loop in loops:
        first, step = constant_of(loop.lower), constant_of(loop.step)
        if not isinstance(first, int) or not isinstance(step, int):
            return False
        turns.append(Turn(loop.body.block.args[0], _trips(frame, loop), first, step))
    return product_from_loops(frame, turns, loops[-1].body.block, name)


def blocks_as_product(frame: Frame, function: d.FuncOp, blocks: Number) -> bool:
    """Blocks of pl.spmd that are tiles of one product: the index is that of a row of tiles, or divided into row and column."""
    places = [op for op in function.body.block.ops if isinstance(op, d.ApplyOp) and op.op == "get_block_idx"]
    if len(places) != 1 or not isinstance(blocks.const, int):
        return False
    place = places[0].results[0]
    turns = [Turn(place, blocks, 0, 1)]
    users = [use.operation for use in place.uses]
    split = [op for op in users if isinstance(op, d.ApplyOp) and op.op in ("floordiv", "mod")]
    if split and len(split) == len(users):
        widths = {constant_of(op.args[1]) for op in split}
        width = widths.pop()
        if widths or not isinstance(width, int) or width < 1 or blocks.const % width:
            return False
        down, across = host.number(blocks.const // width), host.number(width)
        if len({op.op for op in split}) != len(split):
            return False
        turns = [Turn(op.results[0], down if op.op == "floordiv" else across, 0, 1) for op in split]
    block = function.body.block
    inner = [op for op in block.ops if isinstance(op, d.ForOp)]
    others = [op for op in block.ops if not isinstance(op, d.ForOp | d.ConstOp | d.DimOp | d.ReturnOp) and not is_scalar_op(op) and op not in places]
    if len(inner) == 1 and not others and not inner[0].results:
        loop = inner[0]
        first, step = constant_of(loop.lower), constant_of(loop.step)
        if isinstance(first, int) and isinstance(step, int) and step > 0 and all(isinstance(constant_of(item), int) for item in (loop.lower, loop.upper)):
            turns.append(Turn(loop.body.block.args[0], _trips(frame, loop), first, step))
            block = loop.body.block
    return product_from_loops(frame, turns, block, function.symbol)


def _bound(frame: Frame, value: SSAValue) -> Number:
    """A bound of a loop; constants may stand inside the loop around it."""
    known = constant_of(value)
    return host.number(known) if isinstance(known, int) else frame.number(value)


def _trips(frame: Frame, loop: d.ForOp) -> Number:
    lower, upper, step = (_bound(frame, item) for item in (loop.lower, loop.upper, loop.step))
    if isinstance(lower.const, int) and isinstance(upper.const, int) and isinstance(step.const, int):
        return host.number(len(range(lower.const, upper.const, step.const)))
    return host.maximum(host.ceildiv(host.sub(upper, lower), step), host.number(0))


# nests ------------------------------------------------------------------------------------------------------------------


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
        from tilejit.backends.cuda.operators import launch_operator

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
        inner = owner.body.block.last_op
        assert isinstance(inner, d.YieldOp)
        return shape_of(frame, inner.values[list(owner.results).index(value)])  # type: ignore[arg-type]
    assert isinstance(owner, d.ApplyOp), value
    return tuple(host.number(extent) if isinstance(extent, int) else _dynamic(frame, owner, value, axis, type.rank) for axis, extent in enumerate(type.shape))


def _dynamic(frame: Frame, op: d.ApplyOp, value: SSAValue, axis: int, rank: int) -> Number:
    from tilejit.backends.cuda.operators import dynamic_extent

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
            last = op.body.block.last_op
            assert isinstance(last, d.YieldOp)
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
    width = max(
        (d.shaped_type(value).dtype.get_byte() for member in members for value in member.operands if isinstance(d.type_of(value), ShapedType)), default=4
    )
    chosen = rows_of(count.const if isinstance(count.const, int) else None, shape[-1].const if isinstance(shape[-1].const, int) else None, width, len(members))
    kernel = frame.kernel(name)
    taken = {value: room_for(frame, value) for value in outputs}
    nest = Nest(kernel.body, members, tuple(host.take_number(kernel.out, extent, f"size{i}") for i, extent in enumerate(shape)), chosen, handed=handed)
    for value, room in taken.items():
        nest.outputs[value] = as_buffer(kernel, room, shape)
    for member in members:
        if isinstance(member, d.StoreOp):
            nest.targets[member] = as_buffer(kernel, store_window(frame, member), shape)
        for operand in member.operands if isinstance(member, d.ApplyOp) else [member.value]:
            if isinstance(found := frame.values.get(operand), Memory) and operand not in nest.inside:
                nest.sources[operand] = as_buffer(kernel, found, shape)
    programs = frame.named(host.ceildiv(count, host.number(chosen.rows)), "programs")
    most = programs.bounds[1] if programs.bounds else (1 << 31) - 1
    block = Scalar(kernel.out.once("program", "tl.program_id(0)"), INDEX, (0, max(0, most - 1)))
    first = numbers.mul(block, index(chosen.rows))
    nest.emit(first if first.const is not None else Scalar(kernel.out.let("first", first.text), INDEX, first.bounds))
    frame.finish(kernel, programs, chosen.warps, note=str(chosen))
    for value, room in taken.items():
        frame.values[value] = room


def as_buffer(kernel: Making, memory: Memory, shape: Sequence[Number]) -> Buffer:
    axes = memory.axes
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
    chosen = _column_schedule(lead, height, columns)
    kernel = frame.kernel(name)
    nest = Nest(kernel.body, [*members, op], tuple(host.take_number(kernel.out, extent, f"size{i}") for i, extent in enumerate(shape)), chosen)
    for member in nest.members:
        for operand in member.operands:
            if isinstance(found := frame.values.get(operand), Memory) and operand not in nest.inside:
                nest.sources[operand] = as_buffer(kernel, found, shape)
    across = frame.named(host.ceildiv(columns, host.number(chosen.columns)), "across")
    programs = frame.named(host.mul(lead, across), "programs")
    program = kernel.out.once("program", "tl.program_id(0)")
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
        frame.finish(kernel, programs, chosen.warps, note=str(chosen))
    else:
        partial = frame.allocate([host.number(parts), columns], computed_in(d.shaped_type(source).dtype), "partial")
        size = -(-int(height.const or 0) // parts // chosen.rows) * chosen.rows
        part = Scalar(kernel.out.let("part", f"{program} // {wide.text}"), INDEX, (0, parts - 1))
        column = Scalar(kernel.out.let("first", f"({program} % {wide.text}) * {chosen.columns}"), INDEX, (0, most) if most else None)
        begin = numbers.mul(part, index(size))
        rest = index(size) if size * parts == height.const else numbers.clamp(numbers.sub(tall, begin), index(0), index(size))
        ColumnNest(nest, op, tall).emit(part, column, host.take_memory(kernel.out, partial), (begin, rest))
        frame.finish(kernel, frame.named(host.mul(host.number(parts), across), "programs"), chosen.warps, note=f"{parts} pieces of rows, {chosen}")
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
    return max(1, min(64, tall // (8 * chosen.rows), 8 * PROCESSORS // max(across, 1)))


def _fold_parts(frame: Frame, op: d.ApplyOp, partial: Memory, room: Memory, parts: int, columns: Number, name: str) -> None:
    """What the pieces gave, folded once more."""
    kernel = frame.kernel(f"{name}_fold")
    width, combine = 64, str(ops.table()[op.op].attrs["combine"])
    body, out = kernel.body, kernel.out
    source, target = host.take_memory(out, partial), host.take_memory(out, room)
    program = out.once("program", "tl.program_id(0)")
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
    frame.finish(kernel, host.ceildiv(columns, host.number(width)), 4)


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
    wide = 64 if columns.const is None or not isinstance(columns.const, int) or columns.const > 32 else 32
    return RowSchedule(32, wide, True, 4)


def fill(frame: Frame, memory: Memory, value: float, op: Operation) -> None:
    """Set every cell of a new tensor."""
    from tilejit.backends.cuda.operators import launch_fill

    launch_fill(frame, memory, value, op)


__all__ = ["inline", "ops"]
