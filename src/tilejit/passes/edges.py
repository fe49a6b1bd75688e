"""Tiles at the edges of tensors: those inside pay nothing. A window inside is seen where it is; what is cut to fit is cut before it is computed."""

from __future__ import annotations

from xdsl.ir import Block, Operation, SSAValue

from tilejit import ops
from tilejit.ops.facts import Fails
from tilejit.passes.rewriting import Before, remove, replace
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.alias import Aliases, between
from tilejit.tile_ir.build import apply_args, constant_of
from tilejit.tile_ir.program import Program
from tilejit.types.values import ShapedType, static_shape


def keep_edges_apart(program: Program) -> None:
    """Both rewrites, in every block."""
    aliases = Aliases(program)
    for function in program.functions.values():
        for op in list(function.walk()):
            if isinstance(op, d.IfOp) and not op.results:
                _see_in_place(aliases, op)
            elif isinstance(op, d.ApplyOp) and op.op == "slice" and op.parent is not None:
                _cut_first(op)


# windows that may overhang --------------------------------------------------------------------------------------------


def _see_in_place(aliases: Aliases, op: d.IfOp) -> None:
    """`if inside: room[:] = x[window]`, `else:` fill it: the window itself takes the place of the room, where nobody writes before it is read."""
    copied = _only_copy(op.then.block)
    if copied is None:
        return
    load, store = copied
    room, maker = store.buffer, store.buffer.owner
    if not isinstance(maker, d.CreateOp) or maker.parent is not op.parent or maker.static("init") is not None:
        return
    users = [use.operation for use in room.uses if use.operation is not store]
    reads = [user for user in users if isinstance(user, d.LoadOp) and user.parent is op.parent and op.is_before_in_block(user)]
    fills = [user for user in users if isinstance(user, d.StoreOp) and user.parent is op.orelse.block and user.buffer is room]
    if len(reads) + len(fills) != len(users) or not reads:
        return
    roots = aliases.roots(load.buffer)
    if any(aliases.writes(other) & roots for read in reads for other in between(op, read)):
        return
    type = d.buffer_type(room)
    b = Before(load)
    window = b.window(load.buffer, list(load.offsets), list(load.valid), type)
    for gone in (store, load):
        remove(gone)
    for block, value in ((op.then.block, window), (op.orelse.block, room)):
        last = d.end_of(block, d.TileOp)
        last.operands = [value]
    regions = [op.detach_region(region) for region in list(op.regions)]
    new = d.IfOp.create(operands=[op.condition], result_types=d.ir_types([type]), attributes=dict(op.attributes), regions=regions)
    Before(op).insert(new)
    remove(op)
    for read in reads:
        read.operands[0] = new.results[0]


def _only_copy(block: Block) -> tuple[d.LoadOp, d.StoreOp] | None:
    """The load and the store of a block that does nothing but copy a whole window of one tensor over the whole of another."""
    work = [op for op in block.ops if not isinstance(op, d.ConstOp)]
    if len(work) != 3 or not isinstance(load := work[0], d.LoadOp) or not isinstance(store := work[1], d.StoreOp) or store.value is not load.result:
        return None
    source, target = d.shaped_type(load.result), d.shaped_type(store.buffer)
    whole = source.valid == source.shape == target.shape and d.shaped_type(load.buffer).rank == target.rank and source.dtype is target.dtype
    plain = not load.static("clamp") and not store.static("atomic") and all(constant_of(offset) == 0 for offset in store.offsets)
    return (load, store) if whole and plain and len(list(load.result.uses)) == 1 else None


# tiles that are cut -----------------------------------------------------------------------------------------------------


def _cut_first(cut: d.ApplyOp) -> None:
    """A tile of which only the first cells are wanted: what it is computed from cell by cell is cut, so that computing and storing it are one loop."""
    args = apply_args(cut)
    source, extents = args["input"], args.get("valid_shape")
    if not isinstance(source, SSAValue) or not isinstance(extents, list) or not _from_the_start(cut):
        return
    chain = _chain(source, cut)
    if not chain:
        return
    b, shape = Before(cut), d.shaped_type(source).shape
    made = {op.results[0] for op in chain}
    leaves = dict.fromkeys(value for op in chain for value in op.args if value not in made and isinstance(d.type_of(value), ShapedType))
    new: dict[SSAValue, SSAValue] = {}
    for value in leaves:
        type = d.shaped_type(value)
        if type.shape == shape:
            new[value] = b.apply(ops.table()["slice"], type.level, {**args, "input": value})[0]
    for op in chain:
        row, result = ops.table()[op.op], d.shaped_type(op.results[0])
        given = {name: new.get(arg, arg) if isinstance(arg, SSAValue) else arg for name, arg in apply_args(op).items()}
        new[op.results[0]] = b.apply(row, result.level, given)[0]
    replace(cut, [new[source]])
    for op in reversed(chain):
        remove(op)


def _from_the_start(cut: d.ApplyOp) -> bool:
    """Whether a slice keeps the shape of its operand, which is valid everywhere, and only makes its valid region smaller."""
    args, type = apply_args(cut), d.shaped_type(cut.args[0])
    offsets = args["offset"]
    plain = args["pad_value"] is None and not args["clamp"] and not args["drop_dims"] and isinstance(offsets, list)
    same = type.level == "tile" and static_shape(type.shape) is not None and type.valid == type.shape == d.shaped_type(cut.results[0]).shape
    return plain and same and isinstance(offsets, list) and all(isinstance(offset, SSAValue) and constant_of(offset) == 0 for offset in offsets)


def _chain(source: SSAValue, cut: d.ApplyOp) -> list[d.ApplyOp]:
    """The ops of the block that compute a tile cell by cell and do nothing else, in their order."""
    found: list[d.ApplyOp] = []
    op: Operation | None = cut.prev_op
    wanted: set[Operation] = {cut}
    while op is not None:
        if isinstance(op, d.ApplyOp) and len(op.results) == 1 and all(use.operation in wanted for use in op.results[0].uses) and _by_cell(op, source):
            found.append(op)
            wanted.add(op)
        op = op.prev_op
    return found[::-1]


def _by_cell(op: d.ApplyOp, like: SSAValue) -> bool:
    row, result = ops.table()[op.op], d.type_of(op.results[0])
    if row.family != "elementwise" or row.facts.fails is not Fails.Never or not isinstance(result, ShapedType):
        return False
    return next(iter(op.results[0].uses), None) is not None and result.shape == d.shaped_type(like).shape == result.valid
