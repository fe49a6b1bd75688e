"""Kernels without blocks, spread over the GPU: each large operator becomes a launch of its own, each independent loop a grid."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Block, Operation, SSAValue

from tilejit import ops
from tilejit.backends.cuda import plan
from tilejit.backends.cuda.control_plane import host
from tilejit.backends.cuda.control_plane.control import counted
from tilejit.backends.cuda.control_plane.frame import Frame
from tilejit.backends.cuda.control_plane.host import Number
from tilejit.backends.cuda.control_plane.keeping import found_again, keep, kept_by, leaving
from tilejit.backends.cuda.control_plane.ranks import is_meeting, meets
from tilejit.backends.cuda.grids.independent import perfect_nest
from tilejit.backends.cuda.grids.loops import run_grid
from tilejit.backends.cuda.nests.launches import run_nest
from tilejit.backends.cuda.nests.members import folds, is_member, members_of, space_of
from tilejit.backends.cuda.nests.merge import inner_of, joins
from tilejit.dtypes import INDEX
from tilejit.errors import UnsupportedFeatureError
from tilejit.passes.rewriting import free_values, is_scalar_op, root
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.equal import asks_place
from tilejit.tile_ir.transfers import sync_class
from tilejit.types.values import ArrayType, ScalarType, ShapedType

_HOST = (d.ConstOp, d.DimOp, d.CheckOp, d.CreateOp, d.WindowOp, d.ViewOp, d.StridedOp, d.CommOp, d.PeerOp)

_IN_PLACE = (d.CreateOp, d.ReadOp, d.EffectOp)
"""What the host does where it stands: memory may be another one before, and ranks wait for what was launched."""

_EARLY = (d.ConstOp, d.DimOp, d.CheckOp, d.ApplyOp, d.WindowOp, d.ViewOp, d.StridedOp)
"""What the host may do before a launch instead of after it."""

Segment = tuple[str, list[Operation]]
""" "host", "nest", "grid", "loop", "control" with one op, or "program" with the ops that one program runs."""


def spread(frame: Frame, function: d.FuncOp) -> bool:
    """Run a kernel without blocks as several launches; False where one program must do it all."""
    segments = _segments(frame, function.body.block, set(function.body.block.args))
    if segments is None:
        return False
    _run(frame, segments, function.symbol)
    return True


def by_the_host(frame: Frame, function: d.FuncOp) -> UnsupportedFeatureError | None:
    """Run a kernel with its loops and branches on the host, which reads what decides them; else the reason: a value of a program would have to leave it."""
    saved, name = (frame.within, frame.keeps), function.symbol

    def within(block: Block) -> None:
        segments = _segments(frame, block, set(block.args))
        if segments is None:
            raise UnsupportedFeatureError("CUDA does not run this on the host")
        _run(frame, segments, name)

    reason = None
    for keeps in (False, True) if not meets(function) else (True,):  # with values that leave programs through memory only where it cannot be done without
        frame.within, frame.keeps = within, keeps
        reason = frame.attempt(lambda: within(function.body.block))
        if reason is None:
            break
    frame.within, frame.keeps = saved
    return reason


def blocks_by_the_host(frame: Frame, function: d.FuncOp, blocks: Number) -> None:
    """Run blocks that wait for other ranks, or whose work is too large for a program: each for itself, and the host turns to another one where one waits."""
    barrier = next((op for op in function.walk() if sync_class(op) is not None), None)
    if isinstance(barrier, d.EffectOp):
        what = "CUDA does not run blocks that wait both for each other and for other ranks"
        raise UnsupportedFeatureError(what, span=barrier.span, help="wait for other ranks before or after pl.spmd")
    name, saved = frame.fresh("block"), (frame.block_index, frame.block_count)
    frame.block_index = host.variable(name, INDEX, (0, max(0, blocks.bounds[1] - 1)) if blocks.bounds else host.EXTENT)
    frame.block_count = blocks
    found: list[UnsupportedFeatureError | None] = []
    body = frame.inner(lambda: found.append(by_the_host(frame, function)))
    frame.block_index, frame.block_count = saved
    if found[0] is not None:
        raise found[0]
    waits = meets(function)
    frame.steps.append(plan.Blocks(name, blocks.expr, body) if waits else plan.For(name, host.number(0).expr, blocks.expr, host.number(1).expr, body))


def _run(frame: Frame, segments: Sequence[Segment], name: str) -> None:
    for place, (kind, members) in enumerate(segments):
        if kind == "nest" and (group := _epilogue_of(frame, segments, place)) is not None:
            from tilejit.backends.cuda.grids.operators import launch_product

            first = members[0]
            assert isinstance(first, d.ApplyOp)
            between = _until(segments, place, group)
            for step in between:
                frame.step(step)
            launch_product(frame, first, name, group)
            _run(frame, [item for item in segments[place + 1 :] if item[1] is not group and item[1][0] not in between], name)
            return
        if kind == "nest" and (store := _stored(segments, place)) is not None:
            from tilejit.backends.cuda.grids.operators import launch_operator

            first, between = members[0], _until(segments, place, [store])
            assert isinstance(first, d.ApplyOp)
            for step in between:
                frame.step(step)
            launch_operator(frame, first, name, store)
            _run(frame, [item for item in segments[place + 1 :] if item[1] != [store] and item[1][0] not in between], name)
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
        elif kind == "control":
            frame.step(members[0])
        else:
            _run_program(frame, members, name)


def _run_program(frame: Frame, members: Sequence[Operation], name: str) -> None:
    kept = leaving(members) if frame.keeps else []
    if not kept and all(isinstance(op, d.ValidOp) for op in members):
        return
    kernel = frame.kernel(name)
    if frame.keeps:
        kernel.body.outside = kept_by(kernel)
    for op in members:
        kernel.body.step(op)
    rooms = [keep(frame, kernel, value) for value in kept]
    frame.finish(kernel, host.number(1))
    for value, room in zip(kept, rooms, strict=True):
        frame.values[value] = found_again(frame, value, room)


def _stored(segments: Sequence[Segment], place: int) -> d.StoreOp | None:
    """The store after an operator that only moves cells, or takes lines in order, when it is all that happens to its result."""
    from tilejit.backends.cuda.grids.operators import moves
    from tilejit.backends.cuda.rules import LINES

    op = segments[place][1][0]
    if len(segments[place][1]) > 1 or not isinstance(op, d.ApplyOp) or len(op.results) != 1:
        return None
    if op.op not in LINES and (ops.table()[op.op].family != "movement" or not moves(op)):
        return None
    for kind, members in segments[place + 1 :]:
        if kind == "host" and _is_early(members[0], op):
            continue
        store = members[0]
        if kind != "nest" or len(members) > 1 or not isinstance(store, d.StoreOp) or store.value is not op.results[0] or store.static("atomic"):
            return None
        same = d.shaped_type(store.buffer).dtype is d.shaped_type(op.results[0]).dtype and d.shaped_type(store.buffer).rank == d.shaped_type(op.results[0]).rank
        reads = {root(value) for value in op.args if isinstance(d.type_of(value), ShapedType)}
        return store if same and len(list(op.results[0].uses)) == 1 and root(store.buffer) not in reads else None
    return None


def _is_early(op: Operation, maker: Operation) -> bool:
    """Whether the host may do an op before it launches `maker`."""
    return isinstance(op, _EARLY) and not _uses(op, [maker])


def _until(segments: Sequence[Segment], place: int, group: Sequence[Operation]) -> list[Operation]:
    """Host ops between a product and its epilogue: they run before both."""
    found: list[Operation] = []
    for _, inner in segments[place + 1 :]:
        if inner == group:
            break
        found.append(inner[0])
    return found


def _epilogue_of(frame: Frame, segments: Sequence[Segment], place: int) -> list[Operation] | None:
    """The nest after a product that works on its result cell by cell, and is the only one to use it."""
    op = segments[place][1][0]
    if len(segments[place][1]) > 1 or not isinstance(op, d.ApplyOp) or ops.table()[op.op].family != "matmul" or d.shaped_type(op.results[0]).rank < 2:
        return None
    for kind, members in segments[place + 1 :]:
        if kind == "host" and _is_early(members[0], op):
            continue
        if kind != "nest":
            return None
        inner = inner_of(members)
        shape = d.shaped_type(op.results[0]).shape
        fits = all(is_member(member) and folds(member) is None for member in inner) and d.shaped_type(space_of(inner)).shape == shape
        fits = fits and (len(shape) == 2 or all(d.shaped_type(value).shape == shape for value in _cells_of(inner)))  # nothing is used for several of a batch
        only = all(use.operation in inner for use in op.results[0].uses)
        used = any(op.results[0] in member.operands for member in inner)
        return members if fits and only and used else None
    return None


def _cells_of(members: Sequence[d.ApplyOp | d.StoreOp]) -> list[SSAValue]:
    """What members compute with."""
    values = [value for member in members for value in ([member.value] if isinstance(member, d.StoreOp) else [*member.operands, *member.results])]
    return [value for value in values if isinstance(d.type_of(value), ShapedType)]


def _segments(frame: Frame, block: Block, known: set[SSAValue]) -> list[Segment] | None:
    """The ops of a block in runs; None where a value of a program would have to leave it."""
    out: list[Segment] = []
    known = known | set(frame.values)
    for op in block.ops:
        if isinstance(op, d.ReturnOp | d.YieldOp | d.ConditionOp):
            continue
        kind = _kind(frame, op, known)
        if kind == "program":
            if not out or out[-1][0] != "program":
                out.append(("program", []))
            out[-1][1].append(op)
            continue
        known.update(op.results)
        out.append((kind, [op]))
    merged = _hoisted(out if frame.within is None else _delayed(out))
    for members in [members for kind, members in (out if frame.within is None else merged) if kind == "program"]:
        if frame.keeps:
            break
        walked = {inner for op in members for inner in op.walk()}
        for op in members:
            users = [use.operation for result in op.results for use in result.uses]
            if any(user not in walked and not isinstance(user, d.YieldOp) for user in users):
                return None
            if any(isinstance(user, d.YieldOp) and user.parent is block for user in users):
                return None
    if frame.within is None and all(kind == "program" for kind, _ in merged):
        return None
    return _joined(frame, merged)


def _joined(frame: Frame, segments: Sequence[Segment]) -> list[Segment]:
    """Neighbouring nests over the same rows become one; what the host computes between them comes first."""
    out: list[Segment] = []
    waiting: list[Segment] = []
    for kind, members in segments:
        last = out[-1] if out and out[-1][0] == "nest" else None
        if kind == "host" and last is not None and not isinstance(members[0], _IN_PLACE) and not _uses(members[0], [*last[1], *_ops(waiting)]):
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


def _delayed(segments: Sequence[Segment]) -> list[Segment]:
    """Operators whose results only a later program uses are done there, where nothing that they read is written in between."""
    out = [(kind, list(members)) for kind, members in segments]
    for place in reversed(range(len(out))):
        kind, members = out[place]
        users = {use.operation for op in members for result in op.results for use in result.uses if use.operation not in members}
        programs = [at for at in range(place + 1, len(out)) if out[at][0] == "program"]
        later = next((at for at in programs if any(inner in users for op in out[at][1] for inner in op.walk())), None)
        if kind != "program" or later is None or not all(isinstance(op, d.ApplyOp) for op in members):
            continue
        read = {root(value) for op in members for value in op.operands}
        if all(_leaves(op, read) for _, between in out[place + 1 : later] for op in between):
            out[later] = ("program", [*members, *out[later][1]])
            del out[place]
    return out


def _leaves(op: Operation, read: set[SSAValue]) -> bool:
    """Whether an op surely writes nothing of that."""
    plain = (*_HOST, d.ApplyOp, d.GroupOp, d.LoadOp, d.ReadOp, d.YieldOp)
    return all(isinstance(inner, plain) or (isinstance(inner, d.StoreOp) and root(inner.buffer) not in read) for inner in op.walk())


def _kind(frame: Frame, op: Operation, known: set[SSAValue]) -> str:
    from tilejit.backends.cuda.rules import LINES

    if frame.keeps and (meets(op) or _hands_on_memory(op)):
        return "host" if is_meeting(op) else "control"
    if (frame.keeps or frame.block_index.const is None) and isinstance(op, d.ApplyOp) and asks_place(op):
        return "host"
    free = free_values([op])
    if not all(value in known for value in free):
        return "program"
    if isinstance(op, _HOST) or (is_scalar_op(op) and isinstance(op, d.ApplyOp)):
        return "host"
    if isinstance(op, d.GroupOp) or (isinstance(op, d.ApplyOp) and is_member(op)) or isinstance(op, d.StoreOp):
        return "nest" if _is_tensor_work(op) else "program"
    if isinstance(op, d.ApplyOp) and _is_tensor_work(op) and (op.op in LINES or (len(op.results) == 1 and isinstance(d.type_of(op.results[0]), ShapedType))):
        return "nest"
    if isinstance(op, d.ForOp) and not op.results:
        if perfect_nest(op, frame.state.functions) is not None:
            return "grid"
        inner = _segments(frame, op.body.block, known | set(op.body.block.args))
        if inner is not None and any(kind in ("nest", "grid", "loop") for kind, _ in inner):
            return "loop"
    if frame.within is not None and _on_arrays(op):
        return "host"
    if frame.within is not None and (isinstance(op, d.ReadOp) or (isinstance(op, d.ForOp | d.WhileOp | d.IfOp) and _decides(frame, op, known))):
        return "host" if isinstance(op, d.ReadOp) else "control"
    return "program"


def _hands_on_memory(op: Operation) -> bool:
    """Whether a loop or branch hands on what no program can: tensors whose extents only the run knows."""
    types = [d.type_of(result) for result in op.results] if isinstance(op, d.ForOp | d.WhileOp | d.IfOp) else []
    return any(isinstance(type, ShapedType) and not all(isinstance(extent, int) for extent in type.shape) for type in types)


def _on_arrays(op: Operation) -> bool:
    """Whether an op works on small arrays, which the host has too."""
    types = [d.type_of(value) for value in [*op.operands, *op.results]] if isinstance(op, d.ApplyOp) else []
    return any(isinstance(type, ArrayType) for type in types) and all(isinstance(type, ScalarType | ArrayType) for type in types)


def _decides(frame: Frame, op: d.ForOp | d.WhileOp | d.IfOp, known: set[SSAValue]) -> bool:
    """Whether the host can run a loop or branch: all that it hands on is in memory, or a number of the host."""
    blocks = [block for region in op.regions for block in region.blocks]
    return all(_segments(frame, block, known | set(block.args)) is not None for block in blocks)


def _is_tensor_work(op: Operation) -> bool:
    """Whether an op only touches memory and tensor-level values."""
    inner = members_of(op) if isinstance(op, (d.GroupOp | d.StoreOp, d.ApplyOp)) else []
    values = [value for member in inner for value in [*member.operands, *member.results]]
    shaped = [type for value in values if isinstance(type := d.type_of(value), ShapedType)]
    return (
        bool(shaped)
        and all(type.level == "tensor" and type.valid == type.shape for type in shaped)
        and all(isinstance(d.type_of(value), ShapedType | ScalarType) for value in values)
    )


def _host_loop(frame: Frame, op: d.ForOp, name: str) -> None:
    block, head = op.body.block, counted(frame, op)

    def run() -> None:
        segments = _segments(frame, block, set(block.args))
        assert segments is not None
        _run(frame, segments, name)

    frame.steps.append(plan.For(*head, frame.inner(run)))
