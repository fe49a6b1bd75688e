"""Which inputs may be the very buffer of an output: kernels that read each cell of it only to write that cell."""

from __future__ import annotations

from xdsl.ir import BlockArgument, SSAValue

from tilejit import ops
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import constant_of
from tilejit.tile_ir.program import Program


def in_place_pairs(program: Program, entry: str) -> tuple[tuple[str, str], ...]:
    """(output, input) by name, for an entry that is one launch of one elementwise loop with one store; else nothing is promised."""
    function = program.functions[entry]
    body = [op for op in function.body.block.ops if not isinstance(op, d.ConstOp | d.ReturnOp)]
    if len(body) != 1 or not isinstance(body[0], d.LaunchOp) or body[0].blocks is not None:
        return ()
    launch = body[0]
    kernel = program.functions[launch.callee.data]
    found = _kernel_pairs(kernel)
    names = function.names
    outer: dict[SSAValue, str | None] = {inner: _name_of(argument, names) for inner, argument in zip(kernel.body.block.args, launch.args, strict=True)}
    pairs = [(outer.get(output), outer.get(source)) for output, source in found]
    return tuple((output, source) for output, source in pairs if output is not None and source is not None)


def may_fill(store: d.StoreOp) -> bool:
    """Whether a store may write all of its buffer: only then may that be the buffer of an input."""
    extents = zip(reversed(d.shaped_type(store.value).shape), reversed(d.shaped_type(store.buffer).shape), strict=False)  # the value may lack leading dims
    narrower = any(isinstance(part, int) and isinstance(whole, int) and part < whole for part, whole in extents)
    return not narrower and all(constant_of(offset) == 0 for offset in store.offsets)


def _name_of(value: SSAValue, names: tuple[object, ...]) -> str | None:
    return str(names[value.index]) if isinstance(value, BlockArgument) else None


def _kernel_pairs(kernel: d.FuncOp) -> list[tuple[SSAValue, SSAValue]]:
    groups = [op for op in kernel.body.block.ops if isinstance(op, d.GroupOp)]
    others = [op for op in kernel.body.block.ops if not isinstance(op, d.GroupOp | d.ConstOp | d.ReturnOp | d.LoadOp)]
    if len(groups) != 1 or others or groups[0].results:
        return []
    inner = list(groups[0].body.block.ops)
    stores = [op for op in inner if isinstance(op, d.StoreOp)]
    applies = [op for op in inner if isinstance(op, d.ApplyOp)]
    if len(stores) != 1 or len(stores) + len(applies) != len(inner) - 1:
        return []
    store = stores[0]
    shape = d.shaped_type(store.value).shape
    if store.static("atomic") is not False or not may_fill(store):
        return []
    if any(ops.table()[op.op].family != "elementwise" or d.shaped_type(op.results[0]).shape != shape for op in applies):
        return []
    read = {source for op in applies for operand in op.args if (source := _whole_parameter(operand)) is not None}
    target = store.buffer
    return [(target, source) for source in read if source is not target and source.type == target.type]


def _whole_parameter(value: SSAValue) -> SSAValue | None:
    """The parameter that an operand is all of, cell by cell."""
    owner = value.owner
    if isinstance(owner, d.LoadOp):
        same = d.shaped_type(owner.buffer).shape == d.shaped_type(owner.result).valid
        return owner.buffer if same and all(constant_of(offset) == 0 for offset in owner.offsets) else None
    return value if isinstance(value, BlockArgument) and value.owner is not None and isinstance(value.owner.parent_op(), d.FuncOp) else None
