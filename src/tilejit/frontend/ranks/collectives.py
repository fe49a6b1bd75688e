"""Collectives in kernels: checked, and kept as statements."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from xdsl.ir import SSAValue

from tilejit.dtypes import INT32
from tilejit.errors import AliasError, ArgumentError, DTypeError, InvalidOperationError, OptionError
from tilejit.frontend.context import Context
from tilejit.frontend.ranks.groups import Args, group_of, in_kernel, member, same_dtype
from tilejit.frontend.values import NoValue, describe_value, shaped, static_integer
from tilejit.ops import table
from tilejit.ops.ranks import REDUCIBLE
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.arguments import value_of
from tilejit.types.enums import ReduceOp
from tilejit.types.values import BufferType


def collective(name: str, written: Sequence[str] = ("target",)) -> Callable[[Context, Args, ast.AST], object]:
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
            ctx.aliases.write(value_of(args[operand]))
        return args["target"] if "target" in args else NoValue(what)

    return built


def _checked_options(what: str, args: Args) -> dict[str, object]:
    out: dict[str, object] = {}
    if "op" in args:
        out["op"] = member(ReduceOp, args["op"], "op")
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
        same_dtype(what, target, source)
