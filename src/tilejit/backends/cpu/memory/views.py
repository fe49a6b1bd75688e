"""When a value may stay a view of the memory it comes from, and when a result may be computed where a later store wants it."""

from __future__ import annotations

from xdsl.ir import Operation, OpResult, SSAValue

from tilejit.backends.cpu.function import FunctionWriter
from tilejit.backends.cpu.memory.guards import check_box
from tilejit.backends.cpu.memory.storage import sub_box
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.alias import ancestor_in, between, last_use, reads_own_cell, same_window, used_after, views_of
from tilejit.types.values import static_shape


def stays_unchanged(f: FunctionWriter, op: Operation, value: SSAValue) -> bool:
    """Whether nothing writes the memory that `value`, a result of `op`, would look into before its last use."""
    aliases = f.unit.aliases
    roots = aliases.roots(value)
    if _leaves(op, value):
        return False
    last = last_use(value, op)
    if last is op:
        return True
    for other in between(op, last):
        if aliases.writes(other) & roots and not (other is last and isinstance(op, d.LoadOp) and _replaces(f, op, other)):
            return False
    return True


def _leaves(op: Operation, value: SSAValue) -> bool:
    """Whether `value`, or a view of it, is used outside the block of `op`: a branch hands it on."""
    assert op.parent is not None
    return any(ancestor_in(op.parent, use.operation) is None for item in views_of(value) for use in item.uses)


def _replaces(f: FunctionWriter, load: d.LoadOp, last: Operation) -> bool:
    """Whether `last` reads the loaded window cell by cell and stores exactly there."""
    if isinstance(last, d.StoreOp):
        return same_window(load, last)
    if not isinstance(last, d.GroupOp):
        return False
    roots = f.unit.aliases.roots(load.result)
    stores = [op for op in last.body.block.ops if isinstance(op, d.StoreOp) and f.unit.aliases.roots(op.buffer) & roots]
    reads = [item for item in views_of(load.result) if any(ancestor_in(last.body.block, use.operation) for use in item.uses)]
    by_cell = all(reads_own_cell(use.operation, load.result) for use in load.result.uses)
    return reads == [load.result] and by_cell and all(same_window(load, store) for store in stores)


def aim_at_concat(f: FunctionWriter, value: OpResult) -> None:
    """Let `value` be computed in its half of the concatenation that is all it is for."""
    made, uses = value.owner, list(value.uses)
    op = uses[0].operation if len(uses) == 1 else None
    if not isinstance(op, d.ApplyOp) or op.op != "concat" or op.parent is not made.parent or value in f.targets:
        return
    halves = [d.shaped_type(operand) for operand in op.args]
    result = op.results[0]
    assert isinstance(result, OpResult)
    shape = static_shape(d.shaped_type(result).shape)
    if shape is None or any(half.valid != half.shape for half in halves):
        return
    aim_at_store(f, result, made)
    if result not in f.targets:
        f.targets[result] = f.new_array(halves[0].dtype, shape, span=op.span)
    sizes = static_shape(d.shaped_type(value).shape)
    assert sizes is not None
    f.targets[value] = sub_box(f.e, f.targets[result], [0, shape[1] - sizes[1] if value is op.args[1] else 0], sizes)


def aim_at_store(f: FunctionWriter, value: OpResult, since: Operation | None = None) -> None:
    """Let `value` be computed where the store that uses it puts it, when nothing from `since` on can tell the difference."""
    op = value.owner
    if value in f.targets:
        return
    uses = list(value.uses)
    if len(uses) != 1 or not isinstance(uses[0].operation, d.StoreOp) or uses[0].operation.parent is not op.parent:
        return
    store = uses[0].operation
    source, buffer = d.shaped_type(value), d.shaped_type(store.buffer)
    if store.value is not value or store.static("atomic") or source.dtype is not buffer.dtype or source.valid != source.shape:
        return
    if not f.known(store.buffer) or not all(f.known(offset) for offset in store.offsets) or any(not isinstance(dim, int) for dim in source.shape):
        return
    roots = f.unit.aliases.roots(store.buffer)
    for other in (since or op, *between(since or op, store)):
        if other is not store and (f.unit.aliases.reads(other) | f.unit.aliases.writes(other)) & roots:
            return
    target = f.array(store.buffer)
    sizes = [1] * (target.rank - source.rank) + [dim for dim in source.shape if isinstance(dim, int)]
    offsets = f.indices(store.offsets)
    check_box(f, store, target, offsets, sizes)
    box = sub_box(f.e, target, offsets, sizes, drop=range(target.rank - source.rank))
    f.targets[value] = box
    f.done.add(store)


def is_last_use(value: SSAValue, op: Operation) -> bool:
    """Whether nobody needs `value` once `op` has read it, this time or in another turn of a loop."""
    owner = value.owner
    return isinstance(owner, Operation) and owner.parent is op.parent and not used_after(value, op)

