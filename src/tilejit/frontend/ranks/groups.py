"""The group of a window, what a kernel may ask about it, and arguments that several rules read."""

from __future__ import annotations

import ast
import enum
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from xdsl.ir import SSAValue

from tilejit.dtypes import INT64
from tilejit.errors import ArgumentError, DTypeError, InvalidOperationError, OptionError, OutOfBoundsError, ParserSyntaxError
from tilejit.frontend.context import Context
from tilejit.frontend.values import CommContext, describe_value, is_number, shaped, static_integer
from tilejit.ops import table
from tilejit.tile_ir import dialect as d
from tilejit.types.values import BufferType, ScalarType

Args = Mapping[str, object]
Member = TypeVar("Member", bound=enum.Enum)


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


def ready(ctx: Context, what: str) -> None:
    """Transfers stand where tensors are computed."""
    ctx.needs_execution(what, "tensor")


def member(kind: type[Member], value: object, what: str) -> Member:
    """An enum argument; the numbers of the members are taken too."""
    if isinstance(value, kind):
        return value
    number = static_integer(value) if is_number(value) else None
    if number is not None and number in [member.value for member in kind]:
        return kind(number)
    choices = ", ".join(f"pld.{kind.__name__}.{member.name}" for member in kind)
    raise OptionError(f"{what} is one of {choices}, got {describe_value(value)}", help=f"write {what}=pld.{kind.__name__}.{next(iter(kind)).name}")


def get_comm_ctx(ctx: Context, args: Args, node: ast.AST) -> object:
    return CommContext(group_of(ctx, args["window"], "pld.system.get_comm_ctx"))


def query(row: str, spelled: str) -> Callable[[Context, Args, ast.AST], object]:
    """A number of the group."""

    def built(ctx: Context, args: Args, node: ast.AST) -> object:
        group = args["ctx"]
        if isinstance(group, SSAValue) and d.type_of(group) == ScalarType(INT64):
            group = CommContext(group)
        if not isinstance(group, CommContext):
            raise ArgumentError(f"{spelled} takes the context of a group, got {describe_value(group)}", help=f"{spelled}(pld.get_comm_ctx(window))")
        return ctx.builder.apply(table()[row], "scalar", {"comm": group.value})[0]

    return built


def on_host(ctx: Context, args: Args, node: ast.AST) -> object:
    """What only a host function may say."""
    name = ast.unparse(node.func) if isinstance(node, ast.Call) else "this"
    help = (
        "a kernel asks its group: pld.nranks(pld.get_comm_ctx(window))"
        if name.endswith("world_size")
        else "windows are made in the host function and passed in"
    )
    raise ParserSyntaxError(f"{name} belongs to a host function: `{ctx.frame.name}` runs on a rank", help=help)


def peer_of(ctx: Context, value: object) -> SSAValue:
    """The number of a rank in a group."""
    known = static_integer(value) if is_number(value) else None
    if known is not None and known < 0:
        raise OutOfBoundsError(f"peer {known}: ranks of a group count from 0", help="peers are numbers in the group of the window")
    return ctx.index(value, "`peer`")


def same_dtype(what: str, one: object, other: object) -> None:
    """Transfers and collectives convert nothing."""
    if getattr(one, "dtype", None) is not getattr(other, "dtype", None):
        raise DTypeError(f"{what} converts nothing: {one} and {other}", help="convert the source first: pl.cast(…)")


def in_kernel(kind: type[Exception], message: str, help: str) -> InvalidOperationError:
    """An InvalidOperationError that is a TypeError or ValueError too."""
    both = type("InvalidOperationError", (InvalidOperationError, kind), {"__module__": InvalidOperationError.__module__})
    error = both(message, help=help)
    assert isinstance(error, InvalidOperationError)
    return error
