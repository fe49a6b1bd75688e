"""Windows, signals, transfers and collectives in kernels: checked, and built from views of a peer's copy, loads, stores and statements."""

from __future__ import annotations

import ast
import enum
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeVar

from xdsl.ir import SSAValue

from tilejit.dtypes import INT32, INT64, DType
from tilejit.errors import (
    AliasError,
    ArgumentError,
    DTypeError,
    InvalidOperationError,
    OptionError,
    OutOfBoundsError,
    ParserSyntaxError,
    RangeError,
    ShapeError,
)
from tilejit.frontend import buffers, windows
from tilejit.frontend.context import Context
from tilejit.frontend.values import CommContext, NoValue, describe_value, is_number, plain_number, shaped, static_integer
from tilejit.ops import table
from tilejit.ops.dtype_rules import fits
from tilejit.ops.ranks import ADDABLE, REDUCIBLE
from tilejit.tile_ir import dialect as d
from tilejit.types.enums import AtomicType, MemorySpace, NotifyOp, ReduceOp, WaitCmp
from tilejit.types.values import BufferType, ScalarType, same_extent, shape_text

Args = Mapping[str, object]
_Member = TypeVar("_Member", bound=enum.Enum)


def comm_name(window: str) -> str:
    """The parameter that tells a function the group of a window."""
    return f"{window}__comm"


def group_of(ctx: Context, value: object, what: str, given: object = None) -> SSAValue:
    """The group of a window, or of a part of one; printed programs give it."""
    type = shaped(value)
    if isinstance(given, SSAValue):
        return given
    if isinstance(value, SSAValue) and isinstance(type, BufferType):
        found = ctx.windows.get(ctx.aliases.root(value))
        if found is not None:
            return found
    shown = str(type) if type is not None else describe_value(value)
    help = "annotate the parameter as pld.DistributedTensor[…]; the host function makes it with pld.alloc_window_buffer and pld.window"
    raise ArgumentError(f"{what} needs a window, got {shown}", help=help)


def groups_of(ctx: Context, function: d.FuncOp, names: Sequence[str], operands: Sequence[SSAValue], node: ast.AST) -> list[SSAValue]:
    """The groups of the windows that a called function takes, for its hidden parameters."""
    taken = function.static("windows", ())
    assert isinstance(taken, tuple)
    found = [group_of(ctx, operands[names.index(name)], f"parameter `{name}` of `{function.symbol}`") for name in taken]
    if found and not function.static("hidden"):
        cut = next((name for name in taken if operands[names.index(name)] not in ctx.windows), None)
        if cut is not None:
            raise ArgumentError(f"`{function.symbol}` can be launched, and takes whole windows: `{cut}` is a part of one", help="make it an inline function")
        return []
    return found


def _ready(ctx: Context, what: str) -> None:
    ctx.needs_execution(what, "tensor")


def _member(kind: type[_Member], value: object, what: str) -> _Member:
    """An enum argument; the numbers of the members are taken too."""
    if isinstance(value, kind):
        return value
    number = static_integer(value) if is_number(value) else None
    if number is not None and number in [member.value for member in kind]:
        return kind(number)
    choices = ", ".join(f"pld.{kind.__name__}.{member.name}" for member in kind)
    raise OptionError(f"{what} is one of {choices}, got {describe_value(value)}", help=f"write {what}=pld.{kind.__name__}.{next(iter(kind)).name}")


# queries --------------------------------------------------------------------------------------------------------------


def _get_comm_ctx(ctx: Context, args: Args, node: ast.AST) -> object:
    return CommContext(group_of(ctx, args["window"], "pld.system.get_comm_ctx"))


def _query(row: str, spelled: str) -> Callable[[Context, Args, ast.AST], object]:
    def built(ctx: Context, args: Args, node: ast.AST) -> object:
        group = args["ctx"]
        if isinstance(group, SSAValue) and d.type_of(group) == ScalarType(INT64):
            group = CommContext(group)
        if not isinstance(group, CommContext):
            raise ArgumentError(f"{spelled} takes the context of a group, got {describe_value(group)}", help=f"{spelled}(pld.get_comm_ctx(window))")
        return ctx.builder.apply(table()[row], "scalar", {"comm": group.value})[0]

    return built


def _on_host(ctx: Context, args: Args, node: ast.AST) -> object:
    name = ast.unparse(node.func) if isinstance(node, ast.Call) else "this"
    help = (
        "a kernel asks its group: pld.nranks(pld.get_comm_ctx(window))"
        if name.endswith("world_size")
        else "windows are made in the host function and passed in"
    )
    raise ParserSyntaxError(f"{name} belongs to a host function: `{ctx.frame.name}` runs on a rank", help=help)


# signals --------------------------------------------------------------------------------------------------------------


def _signal(ctx: Context, args: Args, name: str, what: str) -> tuple[SSAValue, SSAValue, list[SSAValue]]:
    """A signal, its group and the cell that is meant."""
    signal = args[name]
    comm = group_of(ctx, signal, what, args.get("comm"))
    assert isinstance(signal, SSAValue)
    type = d.shaped_type(signal)
    if type.dtype is not INT32:
        raise DTypeError(f"{what} takes a signal of INT32, got {type}", help="pld.window(buf, […], dtype=pl.INT32)")
    if not isinstance(args["offsets"], tuple | list):
        raise ArgumentError(f"{what} takes one offset per dim, got {describe_value(args['offsets'])}", help="write offsets=[0, 0]")
    return signal, comm, buffers.element_indices(ctx, signal, args["offsets"])


def _integer(ctx: Context, value: object, what: str) -> SSAValue:
    """An integer scalar as INT32."""
    if is_number(value):
        number = plain_number(value)
        if isinstance(number, float):
            raise DTypeError(f"{what} is an integer, got {number!r}", help="a cell of a signal holds an INT32")
        if not fits(int(number), INT32):
            raise RangeError(f"{what} = {number} is outside the range of INT32", help="a cell of a signal holds an INT32")
        return ctx.scalar(int(number), INT32)
    scalar = ctx.scalar(value)
    dtype = getattr(d.type_of(scalar), "dtype", None)
    if not isinstance(dtype, DType) or not dtype.is_integer:
        raise DTypeError(f"{what} is an integer, got {describe_value(value)}", help="convert it first: pl.cast(…, pl.INT32)")
    return scalar if dtype is INT32 else ctx.cast_scalar(scalar, INT32)


def _peer(ctx: Context, value: object) -> SSAValue:
    known = static_integer(value) if is_number(value) else None
    if known is not None and known < 0:
        raise OutOfBoundsError(f"peer {known}: ranks of a group count from 0", help="peers are numbers in the group of the window")
    return ctx.index(value, "`peer`")


def _notify(ctx: Context, args: Args, node: ast.AST) -> object:
    op = _member(NotifyOp, args["op"], "op")
    target, comm, cell = _signal(ctx, args, "target", "pld.system.notify")
    value = _integer(ctx, args["value"], "`value`")
    peer = _peer(ctx, args["peer"])
    ctx.builder.perform(table()["notify"], "pld.system", {"target": target, "peer": peer, "offsets": cell, "value": value, "op": op, "comm": comm})
    ctx.aliases.write(target)
    return NoValue("pld.system.notify")


def _wait(ctx: Context, args: Args, node: ast.AST) -> object:
    cmp = _member(WaitCmp, args["cmp"], "cmp")
    signal, comm, cell = _signal(ctx, args, "signal", "pld.system.wait")
    expected = _integer(ctx, args["expected"], "`expected`")
    ctx.builder.perform(table()["wait"], "pld.system", {"signal": signal, "offsets": cell, "expected": expected, "cmp": cmp, "comm": comm})
    return NoValue("pld.system.wait")


def _defer_wait(ctx: Context, args: Args, node: ast.AST) -> object:
    """The region that has it stands last (deferred.py), so a wait there holds up nobody else."""
    what = "pld.system.defer_wait"
    if ctx.plane != "execution" or ctx.block is not None:
        raise ParserSyntaxError(f"{what} belongs in a region of its own", help="with pl.at(level=pl.Level.CORE_GROUP) as tid:")
    if _member(WaitCmp, args["cmp"], "cmp") is not WaitCmp.Ge:
        raise OptionError(f"{what} takes cmp=pld.WaitCmp.Ge only", help="cells must not go down while it is pending")
    known = static_integer(args["expected"]) if is_number(args["expected"]) else None
    if known is not None and known < 0:
        raise RangeError(f"{what} expects {known}, which is below zero", help="expected is a number from 0 on")
    if not isinstance(args["signal"], SSAValue) or args["signal"] not in ctx.windows:
        raise ArgumentError(f"{what} takes a signal that is a parameter itself", help="pass the whole window and give the offsets")
    return _wait(ctx, args, node)


# transfers ------------------------------------------------------------------------------------------------------------


def peer_copy(ctx: Context, window: object, peer: object, what: str, given: object = None) -> SSAValue:
    """A peer's copy of a window, or of a part of one."""
    comm = group_of(ctx, window, what, given)
    assert isinstance(window, SSAValue)
    return ctx.builder.peer(window, comm, _peer(ctx, peer))


def _peer_view(ctx: Context, args: Args, node: ast.AST) -> object:
    return peer_copy(ctx, args["window"], args["peer"], "pld.tensor.peer_view", args["comm"])


def _comm(ctx: Context, args: Args, node: ast.AST) -> object:
    window = args["window"]
    assert isinstance(window, SSAValue)
    return ctx.builder.comm(window)


def _remote_load(ctx: Context, args: Args, node: ast.AST) -> object:
    remote = peer_copy(ctx, args["target"], args["peer"], "pld.tile.remote_load")
    given = {"tensor": remote, "offsets": args["offsets"], "shapes": args["shape"], "valid_shape": args["valid_shape"]}
    return buffers.load(ctx, {**given, "target_memory": MemorySpace.Vec, "clamp": False})


def _remote_store(ctx: Context, args: Args, node: ast.AST) -> object:
    what, source = "pld.remote_store", args["src_tile"]
    own = shaped(source)
    assert isinstance(source, SSAValue) and own is not None
    if isinstance(own, BufferType) and ctx.aliases.root(source) in ctx.windows:
        raise ArgumentError(f"{what} takes a value or a plain tensor, got a window", help="pld.tensor.put copies from a window")
    remote = peer_copy(ctx, args["target"], args["peer"], what)
    _same_dtype(what, d.shaped_type(remote), own)
    _ready(ctx, what)
    type = d.shaped_type(remote)
    if own.level == "tile" and (type.rank < 2 or any(extent != 1 for extent in own.shape[:-2])):
        raise ShapeError(f"{what} writes rows and columns of the last two dims: {own} into {type}", help="give the window at least two dims, the tile two")
    with _adding(ctx, remote, _atomic(what, args["atomic"], type.dtype)) as add:
        buffers.put(ctx, remote, source, windows.per_dim(args["offsets"], type, "offsets"), add)
    return NoValue(what)


@contextmanager
def _adding(ctx: Context, remote: SSAValue, add: bool) -> Generator[bool]:
    """Around a store into a peer's copy: one that adds has that copy to itself."""
    view = remote.owner
    args = {"peer": view.peer, "comm": view.comm} if isinstance(view, d.PeerOp) else {}
    if add:
        ctx.builder.perform(table()["lock"], "pld.system", args)
    yield add
    if add:
        ctx.builder.perform(table()["unlock"], "pld.system", args)


def _atomic(what: str, mode: object, dtype: DType) -> bool:
    add = _member(AtomicType, mode, "atomic") is AtomicType.Add
    if add and dtype not in ADDABLE:
        names = ", ".join(sorted(item.name for item in ADDABLE))
        raise DTypeError(f"{what} cannot add to elements of {dtype}", help=f"an atomic add works on {names}")
    return add


def _same_dtype(what: str, one: object, other: object) -> None:
    if getattr(one, "dtype", None) is not getattr(other, "dtype", None):
        raise DTypeError(f"{what} converts nothing: {one} and {other}", help="convert the source first: pl.cast(…)")


def _copied(what: str, to_peer: bool) -> Callable[[Context, Args, ast.AST], object]:
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
        _same_dtype(what, into, out_of)
        if into.rank != out_of.rank:
            raise ShapeError(f"{what} copies between tensors with as many dims: {into} and {out_of}", help="reshape one of them")
        given = [args[name] for name in ("dst_offsets", "src_offsets", "shape")]
        if any(item is None for item in given) and any(item is not None for item in given):
            raise ArgumentError(f"{what} takes dst_offsets, src_offsets and shape together, or none of them", help="give all three")
        add = _atomic(what, args.get("atomic", AtomicType.None_), into.dtype)
        _ready(ctx, what)
        if to_peer:
            target = peer_copy(ctx, target, args["peer"], what)
        else:
            source = peer_copy(ctx, source, args["peer"], what)
        with _adding(ctx, target, add):
            if given[2] is None:
                _same_shape(ctx, what, target, source)
                buffers.put(ctx, target, source, [0] * into.rank, add)
            else:
                _put_region(ctx, what, target, source, given, add)
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


def in_kernel(kind: type[Exception], message: str, help: str) -> InvalidOperationError:
    """An InvalidOperationError that is a TypeError or ValueError too."""
    both = type("InvalidOperationError", (InvalidOperationError, kind), {"__module__": InvalidOperationError.__module__})
    error = both(message, help=help)
    assert isinstance(error, InvalidOperationError)
    return error


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


def _put_region(ctx: Context, what: str, target: SSAValue, source: SSAValue, regions: Sequence[object], add: bool) -> None:
    into, out_of = d.shaped_type(target), d.shaped_type(source)
    extents = windows.per_dim(regions[2], out_of, "shape")
    for axis, extent in enumerate(extents):
        known = static_integer(extent)
        if known is not None and known <= 0:
            raise ShapeError(f"{what} copies at least one element: extent {known} in dim {axis}", help="an extent that only the run knows may be 0")
    at, start = windows.per_dim(regions[0], into, "dst_offsets"), windows.per_dim(regions[1], out_of, "src_offsets")
    windows.check_window(ctx, into, at, extents, "the transfer", "start earlier, or copy less")
    windows.check_window(ctx, out_of, start, extents, "the transfer", "start earlier, or copy less")
    part = ctx.builder.window(
        source, windows.indices(ctx, start, "an offset"), (sizes := windows.indices(ctx, extents, "an extent")),
        BufferType(tuple(windows.extent_of(size) for size in sizes), out_of.dtype),
    )  # fmt: skip
    buffers.put(ctx, target, part, at, add)


# collectives ----------------------------------------------------------------------------------------------------------


def _collective(name: str, written: Sequence[str] = ("target",)) -> Callable[[Context, Args, ast.AST], object]:
    def built(ctx: Context, args: Args, node: ast.AST) -> object:
        what = f"pld.tensor.{name}"
        if ctx.block is not None and static_integer(ctx.block[1]) != 1:
            raise InvalidOperationError(f"{what} in a pl.spmd: every block would be a rank's entry", help="put it under a pl.at")
        if args["signal"] is None:
            raise ArgumentError(f"{what} needs a signal in a kernel", help="only a host function may leave it out")
        ready: dict[str, object] = {**args, **_checked_options(what, args)}
        _check_operands(ctx, what, args, written)
        ready["comm"] = group_of(ctx, args["signal"], what, args["comm"])
        ctx.builder.perform(table()[name], "pld.tensor", ready)
        for operand in written:
            value = args[operand]
            assert isinstance(value, SSAValue)
            ctx.aliases.write(value)
        return args["target"] if "target" in args else NoValue(what)

    return built


def _checked_options(what: str, args: Args) -> dict[str, object]:
    out: dict[str, object] = {}
    if "op" in args:
        out["op"] = _member(ReduceOp, args["op"], "op")
    if args.get("mode", "mesh") not in ("mesh", "ring"):
        raise OptionError(f"{what} has no mode {args['mode']!r}", help='mode="mesh" or mode="ring"')
    cores = args.get("core_num", 1)
    if isinstance(cores, bool) or not isinstance(cores, int):
        raise in_kernel(TypeError, f"{what} takes a constant int as `core_num`, got {describe_value(cores)}", "core_num=1")
    if cores != 1:
        raise OptionError(f"{what} in a kernel runs on one core, got core_num={cores}", help="a host function may take more")
    if "root" in args:
        root = args["root"]
        if isinstance(root, bool) or not isinstance(root, int) or root < 0:
            raise in_kernel(ValueError, f"{what} takes a constant rank as `root`, got {describe_value(root)}", "root=0")
    return out


def _check_operands(ctx: Context, what: str, args: Args, written: Sequence[str]) -> None:
    seen: dict[SSAValue, str] = {}
    for name, value in args.items():
        if not isinstance(value, SSAValue) or name == "comm":
            continue
        type = d.shaped_type(value)
        if not isinstance(type, BufferType):
            raise ArgumentError(f"{what} takes tensors in memory, got {type} as `{name}`", help="store it into a tensor first")
        if name in (*written, "signal") and not isinstance(args["comm"], SSAValue):
            group_of(ctx, value, f"`{name}` of {what}")
        if name in ("signal", "send_counts", "recv_counts") and type.dtype is not INT32:
            raise DTypeError(f"{what} takes INT32 as `{name}`, got {type}", help="make that window with dtype=pl.INT32")
        root = ctx.aliases.root(value)
        if root in seen:
            raise AliasError(f"{what} needs different buffers: `{seen[root]}` and `{name}` are one", help="give each its own window")
        seen[root] = name
    target = shaped(args.get("target"))
    if target is not None and "op" in args and target.dtype not in REDUCIBLE:
        raise DTypeError(f"{what} does not reduce {target.dtype}", help=f"it takes {', '.join(sorted(item.name for item in REDUCIBLE))}")
    source = shaped(args.get("local_data") or args.get("input"))
    if source is not None and target is not None:
        _same_dtype(what, target, source)


RULES: dict[str, Callable[[Context, Args, ast.AST], object]] = {
    "world_size": _on_host,
    "alloc_window_buffer": _on_host,
    "window": _on_host,
    "get_comm_ctx": _get_comm_ctx,
    "rank": _query("comm_rank", "pld.system.rank"),
    "nranks": _query("comm_size", "pld.system.nranks"),
    "notify": _notify,
    "wait": _wait,
    "defer_wait": _defer_wait,
    "comm": _comm,
    "peer_view": _peer_view,
    "remote_load": _remote_load,
    "remote_store": _remote_store,
    "put": _copied("pld.tensor.put", to_peer=True),
    "get": _copied("pld.tensor.get", to_peer=False),
    "staged_put": _copied("pld.tile.put", to_peer=True),
    "staged_get": _copied("pld.tile.get", to_peer=False),
    "barrier": _collective("barrier", ()),
    "allreduce": _collective("allreduce"),
    "broadcast": _collective("broadcast"),
    "allgather": _collective("allgather"),
    "reduce_scatter": _collective("reduce_scatter"),
    "all_to_all": _collective("all_to_all"),
    "all_to_all_v": _collective("all_to_all_v", ("target", "recv_counts")),
}
