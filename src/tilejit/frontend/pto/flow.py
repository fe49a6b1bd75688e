"""Where the values of a PTO kernel come from: through calls, loops, branches and views, back to the parameters of its entry."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from xdsl.dialects import scf
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Block, BlockArgument, Operation, OpResult, SSAValue

from tilejit.tile_ir.pto.op import PtoOp

Functions = dict[tuple[Operation | None, str], FuncOp]
_WRITERS = {"tstore": "dst", "tstore_fp": "dst", "store_scalar": "ptr", "mscatter": "mem"}


def reached(functions: Functions, entry: FuncOp) -> Iterator[Operation]:
    """The ops of a function and of all it calls."""
    seen: set[FuncOp] = set()
    todo = [entry]
    while todo:
        current = todo.pop()
        if current in seen:
            continue
        seen.add(current)
        for op in current.body.walk():
            yield op
            if isinstance(op, CallOp):
                todo.append(called(functions, current, op))


def called(functions: Functions, caller: FuncOp, op: CallOp) -> FuncOp:
    return functions[caller.parent_op(), op.callee.string_value()]


def written_pointers(functions: Functions, entry: FuncOp) -> set[SSAValue]:
    """The parameters of the entry that the kernel may store through."""
    calls: dict[FuncOp, list[CallOp]] = {}
    todo: list[SSAValue] = []
    for op in reached(functions, entry):
        if isinstance(op, CallOp):
            calls.setdefault(called(functions, _function(op), op), []).append(op)
        elif isinstance(op, PtoOp) and op.row.name in _WRITERS:
            todo += filter(None, [op.operand(_WRITERS[op.row.name])])
    seen: set[SSAValue] = set()
    while todo:
        value = todo.pop()
        if value not in seen:
            seen.add(value)
            todo += _sources(value, calls, functions)
    return {value for value in seen if value.owner is entry.body.block}


def _sources(value: SSAValue, calls: dict[FuncOp, list[CallOp]], functions: Functions) -> Iterable[SSAValue]:
    owner = value.owner
    if isinstance(value, BlockArgument) and isinstance(owner, Block):
        return _argument_sources(value, owner, calls)
    assert isinstance(value, OpResult) and isinstance(owner, Operation)
    if isinstance(owner, PtoOp):
        return filter(None, (owner.operand("source"), owner.operand("ptr")))
    if isinstance(owner, CallOp):
        return [_passed(called(functions, _function(owner), owner).body.block)[value.index]]
    if isinstance(owner, scf.IfOp):
        return [_passed(region.block)[value.index] for region in owner.regions if region.blocks]
    if isinstance(owner, scf.ForOp):
        return [owner.iter_args[value.index], _passed(owner.body.block)[value.index]]
    if isinstance(owner, scf.WhileOp):
        return [_passed(owner.before_region.block)[value.index + 1]]
    return owner.operands[1:] if owner.name == "arith.select" else ()


def _argument_sources(value: BlockArgument, block: Block, calls: dict[FuncOp, list[CallOp]]) -> Iterable[SSAValue]:
    parent = block.parent_op()
    if isinstance(parent, FuncOp):
        return [call.operands[value.index] for call in calls.get(parent, ())]
    if isinstance(parent, scf.ForOp) and value.index > 0:
        return [parent.iter_args[value.index - 1], _passed(block)[value.index - 1]]
    if isinstance(parent, scf.WhileOp):
        if block is parent.before_region.block:
            return [parent.arguments[value.index], _passed(parent.after_region.block)[value.index]]
        return [_passed(parent.before_region.block)[value.index + 1]]
    return ()


def _passed(block: Block) -> tuple[SSAValue, ...]:
    """What a body hands on."""
    last = block.last_op
    return tuple(last.operands) if last is not None else ()


def _function(op: Operation) -> FuncOp:
    current: Operation | None = op
    while not isinstance(current, FuncOp):
        assert current is not None
        current = current.parent_op()
    return current
