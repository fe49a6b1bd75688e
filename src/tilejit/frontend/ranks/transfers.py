"""Transfers: built from views of a peer's copy, loads and stores, with a word to the engine where the copy is on another machine."""

from __future__ import annotations

import ast
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager

from xdsl.ir import SSAValue

from tilejit.dtypes import DType
from tilejit.errors import ArgumentError, DTypeError, ShapeError
from tilejit.frontend import buffers, windows
from tilejit.frontend.context import Context
from tilejit.frontend.ranks.groups import Args, group_of, in_kernel, member, peer_of, ready, same_dtype
from tilejit.frontend.values import NoValue, describe_value, shaped, static_integer
from tilejit.ops import table
from tilejit.ops.ranks import ADDABLE
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.arguments import value_of
from tilejit.types.enums import AtomicType, MemorySpace
from tilejit.types.values import BufferType, same_extent, shape_text


def peer_copy(ctx: Context, window: object, peer: object, what: str, given: object = None) -> SSAValue:
    """A peer's copy of a window, or of a part of one."""
    comm = group_of(ctx, window, what, given)
    assert isinstance(window, SSAValue)
    return ctx.builder.peer(window, comm, peer_of(ctx, peer))


def peer_view(ctx: Context, args: Args, node: ast.AST) -> object:
    return peer_copy(ctx, args["window"], args["peer"], "pld.tensor.peer_view", args["comm"])


def comm(ctx: Context, args: Args, node: ast.AST) -> object:
    return ctx.builder.comm(value_of(args["window"]))


def remote_load(ctx: Context, args: Args, node: ast.AST) -> object:
    remote = peer_copy(ctx, args["target"], args["peer"], "pld.tile.remote_load")
    type = d.shaped_type(remote)
    sizes = args["shape"] if args["valid_shape"] is None else args["valid_shape"]
    _tell(ctx, "fetch", remote, windows.per_dim(args["offsets"], type, "offsets"), windows.per_dim(sizes, type, "shape"))
    given = {"tensor": remote, "offsets": args["offsets"], "shapes": args["shape"], "valid_shape": args["valid_shape"]}
    return buffers.load(ctx, {**given, "target_memory": MemorySpace.Vec, "clamp": False})


def remote_store(ctx: Context, args: Args, node: ast.AST) -> object:
    what, source = "pld.remote_store", args["src_tile"]
    own = shaped(source)
    assert isinstance(source, SSAValue) and own is not None
    if isinstance(own, BufferType) and ctx.aliases.root(source) in ctx.windows:
        raise ArgumentError(f"{what} takes a value or a plain tensor, got a window", help="pld.tensor.put copies from a window")
    remote = peer_copy(ctx, args["target"], args["peer"], what)
    same_dtype(what, d.shaped_type(remote), own)
    ready(ctx, what)
    type = d.shaped_type(remote)
    if own.level == "tile" and (type.rank < 2 or any(extent != 1 for extent in own.shape[:-2])):
        raise ShapeError(f"{what} writes rows and columns of the last two dims: {own} into {type}", help="give the window at least two dims, the tile two")
    add, offsets = _atomic(what, args["atomic"], type.dtype), windows.per_dim(args["offsets"], type, "offsets")
    lead = max(type.rank - own.rank, 0)
    written = [1] * lead + [ctx.builder.valid(source, axis) for axis in range(own.rank - type.rank + lead, own.rank)]
    with _written(ctx, remote, offsets, written, add):
        buffers.put(ctx, remote, source, offsets, add)
    return NoValue(what)


def _tell(ctx: Context, row: str, remote: SSAValue, offsets: Sequence[object], sizes: Sequence[object]) -> None:
    """A word to the engine about a box of a peer's copy, which may be on another machine."""
    view = remote.owner
    assert isinstance(view, d.PeerOp)
    box = {"offsets": windows.indices(ctx, offsets, "an offset"), "shape": windows.indices(ctx, sizes, "an extent")}
    ctx.builder.perform(table()[row], "pld.system", {"view": remote, **box, "peer": view.peer, "comm": view.comm})


@contextmanager
def _written(ctx: Context, remote: SSAValue, offsets: Sequence[object], sizes: Sequence[object], add: bool) -> Generator[None]:
    """Around a store into a box of a peer's copy: one that adds has that copy to itself."""
    view = remote.owner
    assert isinstance(view, d.PeerOp)
    if add:
        ctx.builder.perform(table()["lock"], "pld.system", {"peer": view.peer, "comm": view.comm})
        _tell(ctx, "fetch", remote, offsets, sizes)
    yield
    _tell(ctx, "flush", remote, offsets, sizes)
    if add:
        ctx.builder.perform(table()["unlock"], "pld.system", {"peer": view.peer, "comm": view.comm})


def _atomic(what: str, mode: object, dtype: DType) -> bool:
    add = member(AtomicType, mode, "atomic") is AtomicType.Add
    if add and dtype not in ADDABLE:
        names = ", ".join(sorted(item.name for item in ADDABLE))
        raise DTypeError(f"{what} cannot add to elements of {dtype}", help=f"an atomic add works on {names}")
    return add


def copied(what: str, to_peer: bool) -> Callable[[Context, Args, ast.AST], object]:
    """put and get: a copy between a window's copy at a peer and a tensor here."""

    def built(ctx: Context, args: Args, node: ast.AST) -> object:
        args = _unstaged(what, args)
        _check_chunks(what, args)
        target, source = args["dst"], args["src"]
        for value in (target, source):
            if not isinstance(shaped(value), BufferType):
                raise ArgumentError(f"{what} copies between tensors in memory, got {describe_value(value)}", help="pld.remote_store takes computed values")
        assert isinstance(target, SSAValue) and isinstance(source, SSAValue)
        into, out_of = d.shaped_type(target), d.shaped_type(source)
        same_dtype(what, into, out_of)
        if into.rank != out_of.rank:
            raise ShapeError(f"{what} copies between tensors with as many dims: {into} and {out_of}", help="reshape one of them")
        given = [args[name] for name in ("dst_offsets", "src_offsets", "shape")]
        if any(item is None for item in given) and any(item is not None for item in given):
            raise ArgumentError(f"{what} takes dst_offsets, src_offsets and shape together, or none of them", help="give all three")
        add = _atomic(what, args.get("atomic", AtomicType.None_), into.dtype)
        ready(ctx, what)
        if to_peer:
            target = peer_copy(ctx, target, args["peer"], what)
        else:
            source = peer_copy(ctx, source, args["peer"], what)
        if given[2] is None:
            _same_shape(ctx, what, target, source)
        at, start, extents = _region(ctx, what, target, source, given)
        with _written(ctx, target, at, extents, add) if to_peer else _read(ctx, source, start, extents):
            buffers.put(ctx, target, source if given[2] is None else _part(ctx, source, start, extents), at, add)
        return NoValue(what)

    return built


def _unstaged(what: str, args: Args) -> Args:
    """The lowered forms name tiles on the way; a list in the place of the second one is the first of the regions."""
    second = args.get("stage2")
    if not isinstance(second, tuple | list):
        return args
    regions = [second, args["dst_offsets"], args["src_offsets"]]
    if args["shape"] is not None:
        raise ArgumentError(f"{what} got four regions", help="dst_offsets, src_offsets and shape")
    return {**args, "dst_offsets": regions[0], "src_offsets": regions[1], "shape": regions[2]}


def _check_chunks(what: str, args: Args) -> None:
    sizes: list[int] = []
    for name in ("chunk_rows", "chunk_cols"):
        size = args.get(name, 0)
        if isinstance(size, bool) or not isinstance(size, int):
            raise in_kernel(TypeError, f"{what} takes a constant int as `{name}`, got {describe_value(size)}", "0 copies all at once")
        if size < 0:
            raise in_kernel(ValueError, f"{what} takes `{name}` of 0 or more, got {size}", "0 copies all at once")
        sizes.append(size)
    if args.get("pipeline") and not all(sizes):
        raise in_kernel(ValueError, f"{what} with pipeline=True needs chunk_rows and chunk_cols", "the chunks are what is pipelined")


def _same_shape(ctx: Context, what: str, target: SSAValue, source: SSAValue) -> None:
    into, out_of = d.shaped_type(target), d.shaped_type(source)
    for axis, (one, other) in enumerate(zip(into.shape, out_of.shape, strict=True)):
        same = same_extent(one, other)
        if same is False:
            raise ShapeError(
                f"{what} of everything needs equal shapes: {shape_text(into.shape)} and {shape_text(out_of.shape)}",
                help="give dst_offsets, src_offsets and shape",
            )
        if same is None:
            ctx.builder.check(ctx.builder.dim(target, axis), ctx.builder.dim(source, axis), f"{what}, dim {axis}")


def _region(ctx: Context, what: str, target: SSAValue, source: SSAValue, given: Sequence[object]) -> tuple[Sequence[object], Sequence[object], list[SSAValue]]:
    """Where a copy goes, where it comes from, and how large it is; everything where nothing is given."""
    into, out_of = d.shaped_type(target), d.shaped_type(source)
    if given[2] is None:
        return [0] * into.rank, [0] * into.rank, [ctx.builder.dim(target, axis) for axis in range(into.rank)]
    extents = windows.per_dim(given[2], out_of, "shape")
    for axis, extent in enumerate(extents):
        known = static_integer(extent)
        if known is not None and known <= 0:
            raise ShapeError(f"{what} copies at least one element: extent {known} in dim {axis}", help="an extent that only the run knows may be 0")
    at, start = windows.per_dim(given[0], into, "dst_offsets"), windows.per_dim(given[1], out_of, "src_offsets")
    windows.check_window(ctx, into, at, extents, "the transfer", "start earlier, or copy less")
    windows.check_window(ctx, out_of, start, extents, "the transfer", "start earlier, or copy less")
    return at, start, windows.indices(ctx, extents, "an extent")


def _part(ctx: Context, source: SSAValue, start: Sequence[object], sizes: Sequence[SSAValue]) -> SSAValue:
    type = BufferType(tuple(windows.extent_of(size) for size in sizes), d.shaped_type(source).dtype)
    return ctx.builder.window(source, windows.indices(ctx, start, "an offset"), sizes, type)


@contextmanager
def _read(ctx: Context, remote: SSAValue, offsets: Sequence[object], sizes: Sequence[object]) -> Generator[None]:
    """Around a copy out of a box of a peer's copy."""
    _tell(ctx, "fetch", remote, offsets, sizes)
    yield
