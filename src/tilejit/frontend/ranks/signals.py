"""Notify and wait: checked, and kept as statements."""

from __future__ import annotations

import ast

from xdsl.ir import SSAValue

from tilejit.dtypes import INT32, DType
from tilejit.errors import ArgumentError, DTypeError, OptionError, ParserSyntaxError, RangeError
from tilejit.frontend import buffers
from tilejit.frontend.context import Context
from tilejit.frontend.ranks.groups import Args, group_of, member, peer_of
from tilejit.frontend.values import NoValue, describe_value, is_number, plain_number, static_integer
from tilejit.ops import table
from tilejit.ops.dtype_rules import fits
from tilejit.tile_ir import dialect as d
from tilejit.types.enums import NotifyOp, WaitCmp


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


def notify(ctx: Context, args: Args, node: ast.AST) -> object:
    op = member(NotifyOp, args["op"], "op")
    target, comm, cell = _signal(ctx, args, "target", "pld.system.notify")
    value = _integer(ctx, args["value"], "`value`")
    peer = peer_of(ctx, args["peer"])
    ctx.builder.perform(table()["notify"], "pld.system", {"target": target, "peer": peer, "offsets": cell, "value": value, "op": op, "comm": comm})
    ctx.aliases.write(target)
    return NoValue("pld.system.notify")


def wait(ctx: Context, args: Args, node: ast.AST) -> object:
    cmp = member(WaitCmp, args["cmp"], "cmp")
    signal, comm, cell = _signal(ctx, args, "signal", "pld.system.wait")
    expected = _integer(ctx, args["expected"], "`expected`")
    ctx.builder.perform(table()["wait"], "pld.system", {"signal": signal, "offsets": cell, "expected": expected, "cmp": cmp, "comm": comm})
    return NoValue("pld.system.wait")


def defer_wait(ctx: Context, args: Args, node: ast.AST) -> object:
    """The region that has it stands last (deferred.py), so a wait there holds up nobody else."""
    what = "pld.system.defer_wait"
    if ctx.plane != "execution" or ctx.block is not None:
        raise ParserSyntaxError(f"{what} belongs in a region of its own", help="with pl.at(level=pl.Level.CORE_GROUP) as tid:")
    if member(WaitCmp, args["cmp"], "cmp") is not WaitCmp.Ge:
        raise OptionError(f"{what} takes cmp=pld.WaitCmp.Ge only", help="cells must not go down while it is pending")
    known = static_integer(args["expected"]) if is_number(args["expected"]) else None
    if known is not None and known < 0:
        raise RangeError(f"{what} expects {known}, which is below zero", help="expected is a number from 0 on")
    if not isinstance(args["signal"], SSAValue) or args["signal"] not in ctx.windows:
        raise ArgumentError(f"{what} takes a signal that is a parameter itself", help="pass the whole window and give the offsets")
    return wait(ctx, args, node)
