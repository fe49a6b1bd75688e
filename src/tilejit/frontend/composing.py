"""Composed rows in a program: the calls that take their place, and methods, which are such calls of another spelling."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.ir import SSAValue

from tilejit import ops
from tilejit.errors import ParserTypeError
from tilejit.frontend import calls, functions
from tilejit.frontend.context import Context
from tilejit.frontend.values import InlineFunction, MethodReference, describe_value
from tilejit.ops.binding import Bound
from tilejit.ops.compose import INLINE_HELP
from tilejit.ops.spec import OpFunction, OpSpec, ParamKind
from tilejit.tile_ir import dialect as d
from tilejit.types.values import ShapedType


class BuildKit:
    """Writes the steps of a composed row into the program."""

    def __init__(self, ctx: Context, row: OpSpec, level: str, node: ast.AST) -> None:
        self.ctx, self.title, self.level = ctx, row.title, level
        # The steps stand where the call stands, but their operands have no names of the user's.
        self.node = ast.copy_location(ast.Constant(None), node) if isinstance(node, ast.expr) else ast.Constant(None)

    def __call__(self, name: str, *args: object, **keywords: object) -> object:
        return calls.op_call(self.ctx, ops.step(self.level, name), args, keywords, self.node)

    def call(self, function: object, *args: object) -> tuple[object, ...]:
        if isinstance(function, MethodReference):
            function = self.ctx.program.resolve(function.name, self.ctx.span(self.node))
        if isinstance(function, OpFunction):
            found = calls.op_call(self.ctx, function, args, {}, self.node)
        elif isinstance(function, InlineFunction):
            found = functions.splice(self.ctx, function, args, {}, ast.copy_location(ast.Call(self.node, [], []), self.node))
        else:
            raise ParserTypeError(f"{self.title} takes an op or an inline function, got {describe_value(function)}", help=INLINE_HELP)
        return found if isinstance(found, tuple) else (found,)

    def type(self, value: object) -> ShapedType:
        if not isinstance(value, SSAValue) or not isinstance(type := d.type_of(value), ShapedType):
            raise ParserTypeError(f"{self.title} takes a tensor or tile, got {describe_value(value)}")
        return type

    def extent(self, value: SSAValue, axis: int) -> object:
        known = self.type(value).shape[axis]
        return known if isinstance(known, int) else self.ctx.builder.dim(value, axis)

    def valid(self, value: SSAValue, axis: int) -> object:
        type = self.type(value)
        known = type.valid[axis]
        return known if isinstance(known, int) else self.extent(value, axis) if type.level == "tensor" else self.ctx.builder.valid(value, axis)


def compose(ctx: Context, bound: Bound, args: Mapping[str, object], node: ast.AST) -> object:
    """What a call of a composed row evaluates to."""
    row = bound.row
    assert row.compose is not None
    given = {name: calls.known_value(row, name, arg) if row.param(name).kind is ParamKind.Static else arg for name, arg in args.items()}
    return row.compose(BuildKit(ctx, row, bound.level, node), **given)


@dataclass(frozen=True, slots=True)
class Method:
    """`x.sum`: an op that waits for the rest of its arguments."""

    function: OpFunction
    owner: SSAValue

    def arguments(self, args: list[object]) -> list[object]:
        """The arguments with the owner first; `x.reshape(2, 3)` may leave out the brackets of its list."""
        if ops.takes_list(self.function) and args and not isinstance(args[0], tuple | list):
            args = [list(args)]
        return [self.owner, *args]
