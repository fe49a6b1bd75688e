"""Loops whose trips may run at once: the author says so, or every store of a trip goes where no other trip stores or loads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.ir import BlockArgument, Operation, SSAValue

from tilejit import ops
from tilejit.passes.affine import Affine, add, affine
from tilejit.passes.rewriting import is_scalar_op
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.alias import written_by
from tilejit.tile_ir.build import constant_of

_PLAIN = (
    d.ConstOp, d.ApplyOp, d.CreateOp, d.WindowOp, d.ViewOp, d.StridedOp, d.LoadOp, d.StoreOp, d.ReadOp, d.ElementWrite, d.DimOp, d.ValidOp, d.ForOp, d.WhileOp,
    d.IfOp, d.GroupOp, d.YieldOp, d.ConditionOp, d.CheckOp, d.CallOp, d.LaunchOp, d.ReturnOp,
)  # fmt: skip


def perfect_nest(op: d.ForOp, functions: Mapping[str, d.FuncOp]) -> list[d.ForOp] | None:
    """The loops that become one grid, outermost first; None where trips depend on each other."""
    loops = [op]
    while (inner := _only_loop(loops[-1])) is not None:
        loops.append(inner)
    while loops:
        if _counts_up(loops) and _apart(loops, functions):
            return loops
        loops.pop()
    return None


def _only_loop(op: d.ForOp) -> d.ForOp | None:
    """The loop that is all a loop does, besides arithmetic; its bounds must not depend on the outer one."""
    found: d.ForOp | None = None
    for inner in op.body.block.ops:
        if isinstance(inner, d.ForOp) and found is None and not inner.results:
            found = inner
        elif not (isinstance(inner, d.ConstOp | d.YieldOp | d.DimOp) or is_scalar_op(inner)):
            return None
    if found is None or any(_inside(value, op) for value in (found.lower, found.upper, found.step)):
        return None
    return found


def _inside(value: SSAValue, op: d.ForOp) -> bool:
    return not isinstance(value.owner, d.ConstOp) and op.is_ancestor(value.owner)


def _counts_up(loops: Sequence[d.ForOp]) -> bool:
    steps = [constant_of(loop.step) for loop in loops]
    return all(isinstance(step, int) and step > 0 for step in steps)


def _apart(loops: Sequence[d.ForOp], functions: Mapping[str, d.FuncOp]) -> bool:
    if any(loop.results for loop in loops):
        return False
    inner = list(loops[-1].body.block.walk())
    if any(not isinstance(item, _PLAIN) and not _is_quiet(item) for item in inner):
        return False
    if any(isinstance(item, d.LaunchOp) and item.blocks is not None for item in inner):
        return False
    called = [functions[item.callee.data] for item in inner if isinstance(item, d.CallOp | d.LaunchOp)]
    if any(function.static("kind") not in ("incore", "aic", "aiv", "inline") for function in called):
        return False
    if any(not isinstance(item, _PLAIN) and not _is_quiet(item) for function in called for item in function.body.block.walk()):
        return False
    if any(isinstance(item, d.ApplyOp) and ops.table()[item.op].facts.fifo is not None for function in called for item in function.walk()):
        return False
    if all(loop.static("kind") == "parallel" for loop in loops):
        return True
    return not called and _stores_apart(loops, inner)


def _is_quiet(op: Operation) -> bool:
    return isinstance(op, d.EffectOp) and op.op in ("device_assert",)


def turns_apart(loop: d.ForOp) -> bool:
    """Whether every turn of a loop that stores surely does so where no other turn stores or loads."""
    return _stores_apart([loop], list(loop.body.block.walk()))


def _stores_apart(loops: Sequence[d.ForOp], inner: Sequence[Operation]) -> bool:
    steps = {loop.body.block.args[0]: int(constant_of(loop.step) or 1) for loop in loops}

    def apart(starts: Sequence[Affine], sizes: Sequence[int | None]) -> bool:
        return all(_separates(variable, starts, sizes, loops[0], step) for variable, step in steps.items())

    stores = [op for op in inner if isinstance(op, d.StoreOp | d.ElementWrite)]
    if not stores or any(written_by(op) is not None for op in inner):
        return False
    windows: dict[SSAValue, tuple[object, list[int | None]]] = {}
    for store in stores:
        root, starts, sizes = _place(store)
        if _made_inside(root, loops[0]):
            continue
        if isinstance(store, d.AtomicOp):
            return False  # The elements that it found tell the turns apart.
        if store.static("atomic"):
            continue
        if starts is None:
            return False
        place, before = windows.get(root, (_key(starts), sizes))
        windows[root] = place, _larger(sizes, before)
        if place != _key(starts) or not apart(starts, windows[root][1]):
            return False
    for op in inner:
        for buffer in _reads(op):
            root, starts = _window(buffer, op.offsets if isinstance(op, d.LoadOp) else None)
            if root not in windows:
                continue
            place, stored = windows[root]
            sizes = _sizes(op.result if isinstance(op, d.LoadOp) else buffer, buffer)
            if starts is None or place != _key(starts) or not apart(starts, _larger(sizes, stored)):
                return False
    return True


def _larger(first: Sequence[int | None], second: Sequence[int | None]) -> list[int | None]:
    """The sizes of a window that holds two with the same start; None where nobody knows."""
    return [max(a, b) if a is not None and b is not None else None for a, b in zip(first, second, strict=True)]


def _sizes(value: SSAValue, buffer: SSAValue) -> list[int | None]:
    """How much of each dim of a buffer a value takes that lies there."""
    shape = d.shaped_type(value).shape
    return [1] * (d.shaped_type(buffer).rank - len(shape)) + [extent if isinstance(extent, int) else None for extent in shape]


def _reads(op: Operation) -> list[SSAValue]:
    if isinstance(op, d.LoadOp):
        return [op.buffer]
    if isinstance(op, d.ReadOp):
        return [op.source] if _is_buffer(op.source) else []
    if isinstance(op, d.ApplyOp):
        return [value for value in op.args if _is_buffer(value)]
    return []


def _is_buffer(value: SSAValue) -> bool:
    from tilejit.types.values import BufferType

    return isinstance(d.type_of(value), BufferType)


def _made_inside(root: SSAValue, loop: d.ForOp) -> bool:
    return not isinstance(root, BlockArgument) and _inside(root, loop)


def _place(op: d.StoreOp | d.ElementWrite) -> tuple[SSAValue, list[Affine] | None, list[int | None]]:
    """Where a store writes: the root buffer, a start per dim, and sizes."""
    root, starts = _window(op.buffer, op.offsets if isinstance(op, d.StoreOp) else op.indices)
    if isinstance(op, d.ElementWrite):
        return root, starts, [1] * (len(starts) if starts is not None else 0)
    sizes = _sizes(op.value, op.buffer)
    if starts is not None and len(starts) != len(sizes):
        return root, None, []
    return root, starts, sizes


def _window(buffer: SSAValue, offsets: Sequence[SSAValue] | None) -> tuple[SSAValue, list[Affine] | None]:
    rank = d.shaped_type(buffer).rank
    starts: list[Affine] | None = [affine(offset) for offset in offsets] if offsets is not None else [({}, 0)] * rank
    while isinstance(buffer.owner, d.WindowOp | d.ViewOp | d.StridedOp):
        owner = buffer.owner
        if not isinstance(owner, d.WindowOp) or owner.static("drop", ()):
            starts = None
        elif starts is not None:
            starts = [add(start, affine(offset)) for start, offset in zip(starts, owner.offsets, strict=True)]
        buffer = owner.buffer
    return buffer, starts


def _separates(variable: SSAValue, starts: Sequence[Affine], sizes: Sequence[int | None], outermost: d.ForOp, step: int) -> bool:
    """Whether two trips of a loop surely write different cells: in some dim this variable moves the window by its size and by what else moves it, or more."""
    for (terms, _), size in zip(starts, sizes, strict=True):
        factor = terms.get(variable, 0)
        others = [(reach, other) for value, other in terms.items() if value is not variable and (reach := _reach(value, outermost)) != 0]
        known = sum(reach * abs(other) for reach, other in others if reach is not None)
        if size is not None and factor and abs(factor) * step >= size + known and all(reach is not None for reach, _ in others):
            return True
    return False


def _reach(value: SSAValue, outermost: d.ForOp) -> int | None:
    """How far a number may be from itself in another trip; None where nobody knows, as of a number that is read."""
    owner = value.owner
    if not _inside(value, outermost):
        return 0
    if isinstance(owner, d.ApplyOp | d.DimOp):
        scalar = isinstance(owner, d.DimOp) or is_scalar_op(owner)
        return 0 if scalar and all(_reach(operand, outermost) == 0 for operand in owner.operands) else None
    loop = None if isinstance(owner, Operation) else owner.parent_op()
    if not isinstance(loop, d.ForOp) or value is not loop.body.block.args[0]:
        return None
    lower, upper = constant_of(loop.lower), constant_of(loop.upper)
    return max(abs(upper - lower) - 1, 0) if isinstance(lower, int) and isinstance(upper, int) else None


def _key(starts: Sequence[Affine]) -> tuple[object, ...]:
    return tuple((frozenset(terms.items()), constant) for terms, constant in starts)
