"""Removes what nothing needs: unused pure ops, unused results, carried values that never change or are never read."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from tilejit.passes.rewriting import has_uses, is_pure, remove
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import constant_of


def remove_dead(block: Block) -> bool:
    """Remove dead ops of a block, inner ones included; whether anything changed."""
    changed = False
    for op in reversed(list(block.ops)):
        for region in op.regions:
            changed |= remove_dead(region.block)
        if _unneeded(op):
            remove(op)
            changed = True
        elif isinstance(op, d.ForOp):
            changed |= _prune_for(op)
        elif isinstance(op, d.WhileOp):
            changed |= _prune_while(op)
        elif isinstance(op, d.IfOp | d.RegionOp):
            changed |= _forward_results(op) | _prune_results(op)
    return changed


def _unneeded(op: Operation) -> bool:
    if any(has_uses(result) for result in op.results):
        return False
    if is_pure(op) or (isinstance(op, d.LoadOp | d.WindowOp | d.ReadOp) and _surely_inside(op)) or isinstance(op, d.ViewOp):
        return True
    if isinstance(op, d.IfOp):
        return all(_only_yields(region) for region in op.regions)
    return isinstance(op, d.ForOp | d.RegionOp) and _only_yields(op.body) and (not isinstance(op, d.ForOp) or bool(constant_of(op.step)))


def _only_yields(region: Region) -> bool:
    return isinstance(region.block.first_op, d.YieldOp)


def _surely_inside(op: d.LoadOp | d.WindowOp | d.ReadOp) -> bool:
    """Whether the bounds of an access are constants and hold: a failure would be part of the program's meaning."""
    if isinstance(op, d.ReadOp):
        array, offsets, sizes = op.source, [constant_of(index) for index in op.indices], [1] * len(op.indices)
    else:
        array, offsets = op.buffer, [constant_of(offset) for offset in op.offsets]
        sizes = [constant_of(size) for size in (op.valid if isinstance(op, d.LoadOp) else op.extents)]
    for offset, size, extent in zip(offsets, sizes, d.shaped_type(array).shape, strict=True):
        if not isinstance(offset, int) or not isinstance(size, int) or not isinstance(extent, int):
            return False
        if offset < 0 or size < 0 or offset + size > extent:
            return False
    return True


# carried values -----------------------------------------------------------------------------------------------------------


def _prune_for(op: d.ForOp) -> bool:
    terminator = d.end_of(op.body.block, d.TileOp)
    carried = op.body.block.args[1:]
    changed = False
    for argument, init, result, next_ in zip(carried, op.inits, op.results, terminator.operands, strict=True):
        if (next_ is argument or next_ is init) and (_used_beyond(argument, terminator) or has_uses(result)):
            argument.replace_all_uses_with(init)
            result.replace_all_uses_with(init)
            changed = True
    live = _live(op, terminator)
    if len(live) == len(op.results):
        return changed
    _keep(op, live)
    return True


def _used_beyond(value: SSAValue, terminator: Operation) -> bool:
    return any(use.operation is not terminator for use in value.uses)


def _live(op: d.ForOp, terminator: Operation) -> list[int]:
    """Carried values that reach a result in use or an effect."""
    carried = list(op.body.block.args[1:])
    live = {i for i, result in enumerate(op.results) if has_uses(result)}
    while True:
        needed = _needed(op.body.block, [terminator.operands[i] for i in live], terminator)
        grown = live | {i for i, argument in enumerate(carried) if argument in needed}
        if grown == live:
            return sorted(live)
        live = grown


def _needed(block: Block, wanted: Sequence[SSAValue], terminator: Operation) -> set[SSAValue]:
    """Values that the effects of a block and `wanted` depend on."""
    needed = set(wanted)
    for op in reversed(list(block.ops)):
        if op is terminator:
            continue
        if not is_pure(op) or any(result in needed for result in op.results):
            for inner in op.walk():
                needed.update(inner.operands)
    return needed


def _keep(op: d.ForOp, live: Sequence[int]) -> None:
    """Rebuild a loop with only some of its carried values."""
    block = op.body.block
    terminator = block.last_op
    assert terminator is not None and op.parent is not None
    gone = [i for i in range(len(op.results)) if i not in live]
    terminator.operands = tuple(terminator.operands[i] for i in live)
    for i in reversed(gone):
        argument = block.args[1 + i]
        argument.replace_all_uses_with(op.inits[i])  # Only dead code still reads it.
        block.erase_arg(argument)
    new = d.ForOp.build(
        operands=[op.lower, op.upper, op.step, [op.inits[i] for i in live]],
        result_types=[[op.results[i].type for i in live]],
        regions=[op.detach_region(op.body)],
        attributes=dict(op.attributes),
    )
    _substitute(op, new, live)


def _prune_while(op: d.WhileOp) -> bool:
    """Carried values that no iteration changes become what they were before."""
    condition, terminator = op.before.block.last_op, op.body.block.last_op
    assert isinstance(condition, d.ConditionOp) and terminator is not None
    same: list[int] = []
    for i, (argument, init) in enumerate(zip(op.before.block.args, op.inits, strict=True)):
        passed = condition.values[i] if i < len(condition.values) else None
        inner = op.body.block.args[i] if i < len(op.body.block.args) else None
        if passed is argument and terminator.operands[i] in (inner, init) and len(condition.values) == len(op.inits):
            same.append(i)
            argument.replace_all_uses_with(init)
            assert inner is not None
            inner.replace_all_uses_with(init)
            op.results[i].replace_all_uses_with(init)
    if not same:
        return False
    live = [i for i in range(len(op.inits)) if i not in same]
    condition.operands = (condition.condition, *(condition.values[i] for i in live))
    terminator.operands = tuple(terminator.operands[i] for i in live)
    for block in (op.before.block, op.body.block):
        for i in reversed(same):
            block.erase_arg(block.args[i])
    new = d.WhileOp.build(
        operands=[[op.inits[i] for i in live]],
        result_types=[[op.results[i].type for i in live]],
        regions=[op.detach_region(region) for region in list(op.regions)],
        attributes=dict(op.attributes),
    )
    _substitute(op, new, live)
    return True


def _forward_results(op: d.IfOp | d.RegionOp) -> bool:
    """Results that are the same value on every path, and known outside, need no result."""
    changed = False
    yielded = [list(terminator.operands) for region in op.regions if (terminator := region.block.last_op) is not None]
    for result, values in zip(op.results, zip(*yielded, strict=True), strict=True):
        if not has_uses(result) or any(value is not values[0] for value in values):
            continue
        value = values[0]
        maker = value.owner
        if isinstance(maker, d.ConstOp) and op.is_ancestor(maker):
            copy = maker.clone()
            assert op.parent is not None
            op.parent.insert_op_before(copy, op)
            value = copy.result
        elif op.is_ancestor(maker):
            continue
        result.replace_all_uses_with(value)
        changed = True
    return changed


def _prune_results(op: d.IfOp | d.RegionOp) -> bool:
    """Drop results that nothing reads."""
    live = [i for i, result in enumerate(op.results) if has_uses(result)]
    if len(live) == len(op.results):
        return False
    for region in op.regions:
        terminator = d.end_of(region.block, d.TileOp)
        terminator.operands = tuple(terminator.operands[i] for i in live)
    types: list[Attribute] = [op.results[i].type for i in live]
    regions = [op.detach_region(region) for region in list(op.regions)]
    operand = op.condition if isinstance(op, d.IfOp) else op.blocks
    new = type(op).build(operands=[operand], result_types=[types], regions=regions, attributes=dict(op.attributes))
    _substitute(op, new, live)
    return True


def _substitute(op: Operation, new: Operation, live: Sequence[int]) -> None:
    assert op.parent is not None
    op.parent.insert_op_before(new, op)
    for result, i in zip(new.results, live, strict=True):
        op.results[i].replace_all_uses_with(result)
        result.name_hint = op.results[i].name_hint
    remove(op)
