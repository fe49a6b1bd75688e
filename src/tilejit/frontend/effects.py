"""Statements of the op table: rows that change a tensor, order things, or only mean something to a scheduler."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from xdsl.ir import SSAValue
from xdsl.rewriter import Rewriter

from tilejit.errors import ArgumentError, InvalidOperationError, ParserTypeError, ShapeError, UnsupportedFeatureError
from tilejit.frontend import buffers, views, windows
from tilejit.frontend.context import Context
from tilejit.frontend.values import NoValue, TaskHandle, describe_value, shaped
from tilejit.ops import facts, table
from tilejit.ops.fifo import counterpart
from tilejit.ops.spec import OpSpec
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.arguments import value_of
from tilejit.tile_ir.build import apply_args
from tilejit.types.enums import SplitMode
from tilejit.types.values import ANY, BufferType, TileType

Args = Mapping[str, object]


def is_statement(row: OpSpec, args: Args) -> bool:
    """Whether a call stands for a `tile.effect`: it has no result, or what it changes is a tensor in memory."""
    return row.family == "effect" or (row.facts.writes is not None and isinstance(shaped(args[row.facts.writes]), BufferType))


def perform(ctx: Context, row: OpSpec, level: str, args: Args, shown: str) -> object:
    """Keep a statement in the program; it evaluates to the tensor that it changes, if any."""
    ctx.builder.perform(row, level, args)
    target = args[row.facts.writes] if row.facts.writes is not None else None
    if not isinstance(target, SSAValue):
        return NoValue(shown)
    ctx.aliases.write(target)
    return target


# rows that the front end gives a meaning of its own -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PrefetchHandle:
    """A context, session or event of a prefetch: nothing happens, so there is nothing to hold."""

    kind: str


def task_dummy(ctx: Context, args: Args, node: ast.AST) -> object:
    from tilejit.frontend.tasks import dependencies

    deps = args["deps"]
    if not isinstance(deps, tuple | list):
        raise ParserTypeError(f"`deps` must be a list of task ids, got {describe_value(deps)}", help="pl.system.task_dummy(deps=[a, b])")
    dependencies(deps)
    ctx.builder.perform(table()["task_dummy"], "system", {"deps": ()})
    ctx.tasks += 1
    return TaskHandle(f"task{ctx.tasks}")


def handle(kind: str, **takes: str) -> Callable[[Context, Args, ast.AST], object]:
    """A prefetch op: its handles are checked, and it gives one of `kind`."""

    def made(ctx: Context, args: Args, node: ast.AST) -> object:
        for name, wanted in takes.items():
            given = args[name]
            if not isinstance(given, PrefetchHandle) or given.kind != wanted:
                raise ParserTypeError(f"`{name}` must be a prefetch {wanted}, got {describe_value(given)}", help=f"pl.prefetch.{_MAKERS[wanted]} gives one")
        return PrefetchHandle(kind) if kind else NoValue("pl.prefetch.wait")

    return made


_MAKERS = {"context": "make_context()", "session": "session(ctx)", "event": "async_prefetch(src, ctx)"}


def gather_row(ctx: Context, args: Args, node: ast.AST) -> object:
    """Into a tensor in memory: the window is read, turned and stored there."""
    target, source = args["dst"], args["src"]
    type = shaped(target)
    assert isinstance(target, SSAValue) and isinstance(source, SSAValue)
    if not isinstance(type, BufferType):
        return NotImplemented
    ctx.needs_execution("pl.gather_row", "tensor")
    window = {"shape": args["shapes"], "offset": args["src_offset"], "valid_shape": args["valid_shape"], "drop_dims": None, "clamp": False}
    value = views.slice_buffer(ctx, buffers.spill(ctx, source), window)
    rank = d.shaped_type(value).rank
    if rank > 2:
        value = buffers.reshape(ctx, value, [ctx.builder.dim(value, axis) for axis in (rank - 2, rank - 1)])
    if args["transpose"]:
        (value,) = ctx.builder.apply(table()["transpose"], "tensor", {"input": value, "axis1": 0, "axis2": 1})
    return buffers.assemble(ctx, target, value, args["dst_offset"])


def shard(ctx: Context, args: Args, node: ast.AST) -> object:
    """The half of the running lane; the whole tile where nothing is divided."""
    tile = value_of(args["x"])
    if ctx.lane is None or ctx.split is SplitMode.NONE:
        return NotImplemented
    type = d.shaped_type(tile)
    axis = type.rank - (2 if ctx.split is SplitMode.UP_DOWN else 1)
    extent = type.shape[axis] if axis >= 0 else None
    if not isinstance(extent, int) or extent % 2:
        halved = "rows" if ctx.split is SplitMode.UP_DOWN else "columns"
        raise ShapeError(f"aiv_shard halves {halved}, which must be even, got {type}", help="pad it first with pl.fillpad_expand")
    extents = [extent // 2 if at == axis else size for at, size in enumerate(type.shape)]
    return windows.slice_value(ctx, tile, [ctx.lane * (extent // 2) if at == axis else 0 for at in range(type.rank)], extents)


def unshard(ctx: Context, args: Args, node: ast.AST) -> object:
    if ctx.lane is None or ctx.split is SplitMode.NONE:
        return NotImplemented
    raise UnsupportedFeatureError("aic_gather in a helper of a lane", help="call it in the body of the pl.split_aiv loop, where both lanes meet")


# FIFOs ----------------------------------------------------------------------------------------------------------------

_SIDES = {"aic": "cube", "aiv": "vector"}


def fifo(ctx: Context, row: OpSpec, args: Args, node: ast.AST) -> object:
    """An op of a FIFO: it must stand on its side, and inside pl.split_aiv it is one of the running lane."""
    part = row.facts.fifo
    assert part is not None
    here = "vector" if ctx.lane is not None else _SIDES.get(ctx.core or "", part.side)
    if here != part.side:
        place = "inside pl.split_aiv" if ctx.lane is not None else f"in `{ctx.frame.name}`, a function of the {here} core"
        raise InvalidOperationError(f"{row.name} {place}: it belongs to the {part.side} core", help=f"the {here} core has pl.{counterpart(row, here).name}")
    if part.act != "open":
        ctx.needs_execution(f"pl.{row.name}", "tile")
    act = _ACTS.get(part.act)
    return NotImplemented if act is None or part.lane else act(ctx, row, args, node)


def _of_lane(ctx: Context, row: OpSpec, args: Args) -> tuple[OpSpec, Args]:
    """The form of an op that the running lane has, and its arguments."""
    own = counterpart(row, lane=True)
    return own, {param.name: ctx.lane if param.name == "lane" else args[param.name] for param in own.params}


def _pop(ctx: Context, row: OpSpec, args: Args, node: ast.AST) -> object:
    """A tile out of a FIFO; without shape and dtype it has the type that its target is annotated with."""
    type: TileType | None = None
    if args["shape"] is None and args["dtype"] is None and ctx.wanted is not None and ctx.wanted[0] is node:
        annotated = ctx.wanted[1]()
        if not isinstance(annotated, TileType):
            said = "no type of the language" if annotated is None else annotated
            raise ParserTypeError(f"{row.name} gives a tile, its target is annotated as {said}", help="annotate it as pl.Tile[[…], pl.FP32]")
        type = annotated
    if type is None and ctx.lane is None:
        return NotImplemented
    given = args["shape"] if type is None else type.shape
    if given is None:
        return NotImplemented  # The row says what is missing.
    if not isinstance(given, tuple | list):
        raise ParserTypeError(f"`shape` must be a list, got {describe_value(given)}")
    ready: Args = {**args, "shape": [ctx.index(extent, "an extent") for extent in given], "dtype": args["dtype"] if type is None else type.dtype}
    if ctx.lane is not None:
        row, ready = _of_lane(ctx, row, ready)
    (tile,) = ctx.builder.apply(row, "system", ready)
    return tile if type is None else _as_annotated(ctx, tile, type)


def _as_annotated(ctx: Context, tile: SSAValue, type: TileType) -> SSAValue:
    """The tile with the valid region and the space of an annotation; an extent that only the run knows is that of what arrives."""
    if ANY in type.valid:
        tile = Rewriter.replace_value_with_new_type(tile, d.IRType(type))
    elif not type.fully_valid and type.rank == 2:
        rows, columns = (ctx.index(extent, "a valid extent") for extent in type.valid)
        (tile,) = ctx.builder.apply(table()["set_validshape"], "tile", {"input": tile, "valid_rows": rows, "valid_cols": columns})
    return tile


def _push(ctx: Context, row: OpSpec, args: Args, node: ast.AST) -> object:
    if ctx.lane is None:
        return NotImplemented
    own, ready = _of_lane(ctx, row, args)
    return perform(ctx, own, "system", ready, f"pl.{row.name}")


def _free(ctx: Context, row: OpSpec, args: Args, node: ast.AST) -> object:
    tile = args["tile"]
    owner = tile.owner if isinstance(tile, SSAValue) else None
    while isinstance(owner, d.ApplyOp) and owner.op == "set_validshape":
        owner = owner.args[0].owner
    popped = counterpart(row, act="pop")
    if isinstance(owner, d.LoadOp) or (isinstance(owner, d.ApplyOp) and not _is_of(owner, popped)):
        raise InvalidOperationError(f"{row.name} takes a tile that {popped.name} gave", help="tiles that came from elsewhere have no slot to give back")
    if isinstance(owner, d.ApplyOp):
        _check_freed(ctx, row.name, owner, args)
    return NotImplemented


def _is_of(op: d.ApplyOp, row: OpSpec) -> bool:
    """Whether an op has the part of a row in its FIFO, as a whole or for a lane."""
    return facts(op.op).fifo is not None and counterpart(table()[op.op]) is row


def _check_freed(ctx: Context, name: str, pop: d.ApplyOp, args: Args) -> None:
    """The slot of one pop is given back once, with the facts of that pop."""
    given = apply_args(pop)
    for fact in ("split", "id"):
        if args[fact] is not None and args[fact] != (given[fact] or 0):
            raise ArgumentError(f"{name} has {fact}={args[fact]}, its tile came with {fact}={given[fact] or 0}", help=f"leave `{fact}` out")
    tile = value_of(args["tile"])
    if any(isinstance(use.operation, d.EffectOp) and use.operation.op == name and use.operation.parent is ctx.builder.block for use in tile.uses):
        raise InvalidOperationError(f"{name} gives this slot back twice", help="each tile has one slot")


_ACTS: Mapping[str, Callable[[Context, OpSpec, Args, ast.AST], object]] = {"pop": _pop, "push": _push, "free": _free}
