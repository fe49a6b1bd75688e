"""Rows that the front end builds itself, at least on buffers: loads and stores, windows, places, statements with a meaning of their own."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping

from xdsl.ir import SSAValue

from tilejit.dtypes import UINT8
from tilejit.errors import ArgumentError, ParserTypeError, UnsupportedFeatureError
from tilejit.frontend import buffers, edges, effects, ranks, views, windows
from tilejit.frontend.context import Context
from tilejit.frontend.values import describe_value, shaped
from tilejit.ops import table
from tilejit.ops.spec import OpSpec
from tilejit.tile_ir import dialect as d
from tilejit.types.values import BufferType

Args = Mapping[str, object]


def builds(row: OpSpec) -> bool:
    """Whether the front end has something to say about a row."""
    return row.name in _RULES or row.facts.fifo is not None or "atomic" in row.attrs


def build(ctx: Context, row: OpSpec, args: Args, node: ast.AST) -> object:
    """What a call of such a row evaluates to; NotImplemented where it is applied like any other."""
    if "atomic" in row.attrs:
        return buffers.change_element(ctx, row, _value(args, "tensor"), args["indices"], args["value"], args.get("expected"))
    return effects.fifo(ctx, row, args, node) if row.facts.fifo is not None else _RULES[row.name](ctx, args, node)


def _value(args: Args, name: str) -> SSAValue:
    value = args[name]
    assert isinstance(value, SSAValue), (name, value)
    return value


def _is_buffer(value: object) -> bool:
    return isinstance(shaped(value), BufferType)


def _load(ctx: Context, args: Args, node: ast.AST) -> object:
    return buffers.load(ctx, args)


def _store(ctx: Context, args: Args, node: ast.AST) -> object:
    return buffers.store(ctx, args)


def _rebind(ctx: Context, target: SSAValue, result: SSAValue, node: ast.AST) -> SSAValue:
    """A write into a tile gives the name in the first argument the new value."""
    if result is not target and isinstance(node, ast.Call) and not ctx.strict_ssa and not _is_copy(node):
        ctx.aliases.changed(target, result)
    if result is not target and isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Name) and not ctx.strict_ssa:
        ctx.bind(node.args[0].id, result, node)
    return result


def _is_copy(node: ast.Call) -> bool:
    """Whether the target is `+t`: nobody else sees what is written into it."""
    return bool(node.args) and isinstance(node.args[0], ast.UnaryOp)


def _assemble(ctx: Context, args: Args, node: ast.AST) -> object:
    target = _value(args, "target")
    atomic = args.get("atomic")
    result = buffers.assemble(ctx, target, _value(args, "source"), args["offset"], atomic is not None and buffers.is_add(atomic))
    return _rebind(ctx, target, result, node)


def _write(ctx: Context, args: Args, node: ast.AST) -> object:
    target = _value(args, "dst")
    return _rebind(ctx, target, buffers.write_element(ctx, target, args["offset"], args["value"]), node)


def _slice(ctx: Context, args: Args, node: ast.AST) -> object:
    source = args["input"]
    if not _is_buffer(source):
        return NotImplemented
    assert isinstance(source, SSAValue)
    return views.slice_buffer(ctx, source, args)


def _reshape(ctx: Context, args: Args, node: ast.AST) -> object:
    shape = args["shape"]
    if not isinstance(shape, tuple | list):
        raise ParserTypeError(f"`shape` must be a list, got {describe_value(shape)}")
    return views.reshape(ctx, _value(args, "input"), shape)


def _view(ctx: Context, args: Args, node: ast.AST) -> object:
    return views.view(ctx, _value(args, "tensor"), args)


def _reinterpret(ctx: Context, args: Args, node: ast.AST) -> object:
    if not _is_buffer(args["data"]):
        return NotImplemented
    return views.reinterpret(ctx, _value(args, "data"), args["dtype"], args["shape"])


def _read(ctx: Context, args: Args, node: ast.AST) -> object:
    return buffers.read_element(ctx, _value(args, "src"), args["offset"])


def _dim(ctx: Context, args: Args, node: ast.AST) -> object:
    return buffers.dim(ctx, _value(args, "tensor"), args["axis"])


def _create(ctx: Context, args: Args, node: ast.AST) -> object:
    shape = args["shape"]
    if not isinstance(shape, tuple | list):
        raise ParserTypeError(f"`shape` must be a list, got {describe_value(shape)}")
    return buffers.create(ctx, shape, args["dtype"], args.get("layout"), args.get("init_value"))


def _set_valid(ctx: Context, args: Args, node: ast.AST) -> object:
    """Of a window that may overhang only the valid part is read."""
    tensor = args["input"]
    if not isinstance(tensor, SSAValue) or tensor not in ctx.overhangs or not all(isinstance(extent, int) for extent in d.shaped_type(tensor).shape):
        return NotImplemented
    return windows.narrowed(ctx, tensor, [args["valid_rows"], args["valid_cols"]])


def _where(ctx: Context, args: Args, node: ast.AST) -> object:
    """By a mask of packed bits, as a comparison of tiles gives it: a selection between tiles."""
    mask = args["condition"]
    if not isinstance(mask, SSAValue) or not isinstance(mask.owner, d.ApplyOp) or mask.owner.op != "cmp_mask":
        return NotImplemented
    like = next((args[name] for name in ("lhs", "rhs") if shaped(args[name]) is not None), None)
    if like is None:
        raise ArgumentError("where takes at least one tile to choose from, got two scalars", help="make one of them a tile with pl.tile.full")
    chosen: dict[str, object] = {}
    for name in ("lhs", "rhs"):
        value = args[name]
        chosen[name] = value if shaped(value) is not None else ctx.builder.apply(table()["expands"], "tile", {"target": like, "scalar": ctx.scalar(value)})[0]
    shape = [ctx.index(extent, "an extent") for extent in d.shaped_type(mask).shape]
    tmp = ctx.builder.apply(table()["create_tile"], "tile", {"shape": shape, "dtype": UINT8})[0]
    return ctx.builder.apply(table()["sel"], "tile", {"mask": mask, **chosen, "tmp": tmp})[0]


def _gather(ctx: Context, args: Args, node: ast.AST) -> object:
    return NotImplemented if args.get("fill") is None else edges.filled_gather(ctx, args)


def _expand_clone(ctx: Context, args: Args, node: ast.AST) -> object:
    """As a statement, or bound to the target's own name: a target in memory is written. Elsewhere only its shape matters."""
    target = args["target"]
    if node is not ctx.statement_call or not _is_buffer(target) or not isinstance(target, SSAValue):
        return NotImplemented
    ctx.needs_execution("pl.expand_clone", "tensor")
    spread = ctx.builder.apply(table()["expand_clone"], "tensor", {"src": _value(args, "src"), "target": target})[0]
    return buffers.put(ctx, target, spread, [0] * d.shaped_type(target).rank, False)


def _block_index(ctx: Context, args: Args, node: ast.AST) -> object:
    return NotImplemented if ctx.block is None else ctx.block[0]


def _block_count(ctx: Context, args: Args, node: ast.AST) -> object:
    return NotImplemented if ctx.block is None else ctx.block[1]


def _lane(ctx: Context, args: Args, node: ast.AST) -> object:
    return NotImplemented if ctx.lane is None else ctx.lane


def _alloc(ctx: Context, args: Args, node: ast.AST) -> object:
    raise UnsupportedFeatureError("allocation tokens appear in printed programs only", help="pl.create_tensor and pl.create_tile allocate")


def _identity(ctx: Context, args: Args, node: ast.AST) -> object:
    return _value(args, "tensor")


_RULES: dict[str, Callable[[Context, Args, ast.AST], object]] = {
    "load": _load,
    "store": _store,
    "assemble": _assemble,
    "write": _write,
    "slice": _slice,
    "reshape": _reshape,
    "view": _view,
    "reinterpret_view": _reinterpret,
    "read": _read,
    "dim": _dim,
    "create_tensor": _create,
    "create_l1": _create,
    "set_validshape": _set_valid,
    "where": _where,
    "gather": _gather,
    "expand_clone": _expand_clone,
    "get_block_idx": _block_index,
    "get_block_num": _block_count,
    "get_subblock_idx": _lane,
    "alloc": _alloc,
    "no_dep": _identity,
    "task_dummy": effects.task_dummy,
    "prefetch_make_context": effects.handle("context"),
    "prefetch_session": effects.handle("session", ctx="context"),
    "prefetch_async_prefetch": effects.handle("event", ctx="context"),
    "prefetch_wait": effects.handle("", event="event", session_handle="session"),
    "gather_row": effects.gather_row,
    "aiv_shard": effects.shard,
    "aic_gather": effects.unshard,
    **ranks.RULES,
}
