"""Statements of the op table: rows that change a tensor, order things, or only mean something to a scheduler."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from xdsl.ir import SSAValue

from tilejit.errors import ParserTypeError, ShapeError, UnsupportedFeatureError
from tilejit.frontend import buffers, windows
from tilejit.frontend.context import Context
from tilejit.frontend.values import NoValue, TaskHandle, describe_value, shaped
from tilejit.ops import table
from tilejit.ops.spec import OpSpec
from tilejit.tile_ir import dialect as d
from tilejit.types.enums import SplitMode
from tilejit.types.values import BufferType, TileType

Args = Mapping[str, object]


def is_statement(row: OpSpec, args: Args) -> bool:
    """Whether a call stands for a `tile.effect`: it has no result, or what it changes is a tensor in memory."""
    return row.family == "effect" or (writes(row) is not None and isinstance(shaped(args[str(writes(row))]), BufferType))


def writes(row: OpSpec) -> str | None:
    """The parameter that a row changes when it is a tensor in memory."""
    name = row.attrs.get("writes")
    return name if isinstance(name, str) else None


def perform(ctx: Context, row: OpSpec, level: str, args: Args, shown: str) -> object:
    """Keep a statement in the program; it evaluates to the tensor that it changes, if any."""
    ctx.builder.perform(row, level, args)
    name = writes(row)
    target = args[name] if name is not None else None
    if not isinstance(target, SSAValue):
        return NoValue(shown)
    ctx.aliases.write(target)
    return target


# rows that the front end gives a meaning of its own -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PrefetchHandle:
    """A context, session or event of a prefetch: nothing happens, so there is nothing to hold."""

    kind: str


def _task_dummy(ctx: Context, args: Args, node: ast.AST) -> object:
    deps = args["deps"]
    if not isinstance(deps, tuple | list):
        raise ParserTypeError(f"`deps` must be a list of task ids, got {describe_value(deps)}", help="pl.system.task_dummy(deps=[a, b])")
    for item in deps:
        if item is not None and not isinstance(item, TaskHandle | SSAValue):
            raise ParserTypeError(f"`deps` takes task ids, got {describe_value(item)}", help="`with pl.at(…) as tid:` binds one")
    ctx.builder.perform(table()["task_dummy"], "system", {"deps": ()})
    ctx.tasks += 1
    return TaskHandle(f"task{ctx.tasks}")


def _handle(kind: str, **takes: str) -> Callable[[Context, Args, ast.AST], object]:
    """A prefetch op: its handles are checked, and it gives one of `kind`."""

    def made(ctx: Context, args: Args, node: ast.AST) -> object:
        for name, wanted in takes.items():
            given = args[name]
            if not isinstance(given, PrefetchHandle) or given.kind != wanted:
                raise ParserTypeError(f"`{name}` must be a prefetch {wanted}, got {describe_value(given)}", help=f"pl.prefetch.{_MAKERS[wanted]} gives one")
        src = shaped(args.get("src"))
        if src is not None and src.rank != 1:
            raise ParserTypeError(f"pl.prefetch.async_prefetch takes a flat tensor, got {src}", help="flatten it first: pl.reshape(src, [-1])")
        return PrefetchHandle(kind) if kind else NoValue("pl.prefetch.wait")

    return made


_MAKERS = {"context": "make_context()", "session": "session(ctx)", "event": "async_prefetch(src, ctx)"}


def _gather_row(ctx: Context, args: Args, node: ast.AST) -> object:
    """Into a tensor in memory: the window is read, turned and stored there."""
    target, source = args["dst"], args["src"]
    type = shaped(target)
    assert isinstance(target, SSAValue) and isinstance(source, SSAValue)
    if not isinstance(type, BufferType):
        return NotImplemented
    ctx.needs_execution("pl.gather_row", "tensor")
    window = {"shape": args["shapes"], "offset": args["src_offset"], "valid_shape": args["valid_shape"], "drop_dims": None, "clamp": False}
    value = windows.slice_buffer(ctx, buffers.spill(ctx, source), window)
    rank = d.shaped_type(value).rank
    if rank > 2:
        value = buffers.reshape(ctx, value, [ctx.builder.dim(value, axis) for axis in (rank - 2, rank - 1)])
    if args["transpose"]:
        (value,) = ctx.builder.apply(table()["transpose"], "tensor", {"input": value, "axis1": 0, "axis2": 1})
    return buffers.assemble(ctx, target, value, args["dst_offset"])


def _shard(ctx: Context, args: Args, node: ast.AST) -> object:
    """The half of the running lane; the whole tile where nothing is divided."""
    tile = args["x"]
    assert isinstance(tile, SSAValue)
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


def _unshard(ctx: Context, args: Args, node: ast.AST) -> object:
    if ctx.lane is None or ctx.split is SplitMode.NONE:
        return NotImplemented
    raise UnsupportedFeatureError(
        "aic_gather inside a pl.split_aiv that divides tiles: the lanes run one after the other", help="store both halves and load them after the loop"
    )


def _pop(name: str) -> Callable[[Context, Args, ast.AST], object]:
    """A tile out of a FIFO; without shape and dtype it has the type that its target is annotated with."""

    def popped(ctx: Context, args: Args, node: ast.AST) -> object:
        if args["shape"] is not None or args["dtype"] is not None or ctx.wanted is None or ctx.wanted[0] is not node:
            return NotImplemented
        type = ctx.wanted[1]()
        if not isinstance(type, TileType):
            raise ParserTypeError(f"{name} gives a tile, its target is annotated as {type}", help="annotate it as pl.Tile[[…], pl.FP32]")
        shape = [ctx.index(extent, "an extent") for extent in type.shape]
        return ctx.builder.apply_typed(table()[name], {**args, "shape": shape, "dtype": type.dtype}, [type])[0]

    return popped


STRUCTURAL: dict[str, Callable[[Context, Args, ast.AST], object]] = {
    "task_dummy": _task_dummy,
    "prefetch_make_context": _handle("context"),
    "prefetch_session": _handle("session", ctx="context"),
    "prefetch_async_prefetch": _handle("event", ctx="context"),
    "prefetch_wait": _handle("", event="event", session_handle="session"),
    "gather_row": _gather_row,
    "tpop_from_aic": _pop("tpop_from_aic"),
    "tpop_from_aiv": _pop("tpop_from_aiv"),
    "aiv_shard": _shard,
    "aic_gather": _unshard,
}
