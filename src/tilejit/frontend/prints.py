"""`pl.print`: texts, values of the run, and f-strings of both, which are shown when the kernel runs."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import NoReturn

import numpy as np
from xdsl.ir import SSAValue

from tilejit.errors import ParserTypeError, UnsupportedFeatureError
from tilejit.frontend import fold
from tilejit.frontend.context import Context
from tilejit.frontend.values import NoValue, RunText, describe_value, is_known
from tilejit.runtime.call.printing import text_of
from tilejit.tile_ir import dialect as d
from tilejit.types.annotations import DynVar
from tilejit.types.values import ScalarType

Piece = str | tuple[str, str]
"""Of an f-string: a text, or the conversion and the format of the operand that stands there."""


def print_(ctx: Context, node: ast.Call) -> object:
    """What stands between the operands of a print: None where one goes by itself, the pieces of an f-string."""
    other = next((keyword for keyword in node.keywords if keyword.arg != "flush"), None)
    if other is not None:
        help = 'write one f-string, with what stands between the values: print(f"{i}, {x[i, 0]}")'
        what = f"a print in a kernel takes no `{other.arg or '**'}`: it writes a line to where the process writes"
        ctx.fail(UnsupportedFeatureError, what, other.value, help=help)
    parts: list[object] = []
    operands: list[SSAValue] = []
    for item in node.args:
        parts.append(_pieces(ctx, item, operands) if isinstance(item, ast.JoinedStr) else _part(ctx, item, operands))
    ctx.builder.effect("print", operands, {"parts": tuple(parts)})
    return NoValue("pl.print")


def _part(ctx: Context, item: ast.expr, operands: list[SSAValue]) -> str | tuple[Piece, ...] | None:
    value = ctx.value(item)
    if isinstance(value, SSAValue):
        operands.append(value)
        return None
    return _text(_shown(ctx, item, value, operands))


def _refuse(ctx: Context, item: ast.expr) -> NoReturn:
    what = f"`{ast.unparse(item.value if isinstance(item, ast.FormattedValue) else item)}` is a text of what only the run knows, made before it is printed"
    ctx.fail(UnsupportedFeatureError, what, item, help='write the f-string into the print itself, or its values: print("row", i, x[i, 0])')


def _shown(ctx: Context, item: ast.expr, value: object, operands: list[SSAValue], inside: bool = False) -> list[Piece]:
    """A value as Python shows it, members of the run among it."""

    def several(members: Iterable[object]) -> list[Piece]:
        return [piece for member in members for piece in (", ", *_shown(ctx, item, member, operands, inside=True))][1:]

    if isinstance(value, SSAValue):
        operands.append(value)
        return [("", "")]
    if isinstance(value, RunText):
        _refuse(ctx, item)
    if isinstance(value, NoValue | DynVar):
        return [describe_value(value)]
    if is_known(value):
        return [str(fold.guarded("this print", repr if inside else str, value))]
    if isinstance(value, dict):
        pairs = [piece for key, member in value.items() for piece in (f", {key!r}: ", *_shown(ctx, item, member, operands, inside=True))]
        return ["{", str(pairs[0])[2:], *pairs[1:], "}"]
    if isinstance(value, tuple | list):
        ends = "[]" if isinstance(value, list) else ("(", ",)" if len(value) == 1 else ")")
        return [ends[0], *several(value), ends[1]]
    if isinstance(value, type({}.values()) | type({}.items())):
        return [f"{type(value).__name__}([", *several(value), "])"]
    return [describe_value(value)]


def _text(pieces: Iterable[Piece]) -> str | tuple[Piece, ...]:
    """Pieces with texts that follow each other as one."""
    out: list[Piece] = []
    for piece in pieces:
        if isinstance(piece, str) and out and isinstance(out[-1], str):
            piece = f"{out.pop()}{piece}"
        out.append(piece)
    return out[0] if len(out) == 1 and isinstance(out[0], str) else tuple(out)


def _pieces(ctx: Context, text: ast.JoinedStr, operands: list[SSAValue]) -> str | tuple[Piece, ...]:
    """An f-string, taken apart at the values that only the run knows."""
    pieces: list[Piece] = []
    for part in text.values:
        value = ctx.value(part.value) if isinstance(part, ast.FormattedValue) else None
        if isinstance(value, RunText):
            _refuse(ctx, part)
        if isinstance(part, ast.FormattedValue) and isinstance(value, SSAValue):
            conversion = chr(part.conversion) if part.conversion > 0 else ""
            pieces.append((conversion, _checked(ctx, part, value, conversion)))
            operands.append(value)
            continue
        if isinstance(part, ast.FormattedValue):
            _format(ctx, part)
        known = ctx.value(ast.copy_location(ast.JoinedStr([part]), text))
        shown = isinstance(known, RunText) and isinstance(part, ast.FormattedValue) and not part.format_spec
        pieces += _shown(ctx, part, value, operands) if shown else [str(known)]
    return _text(pieces)


def _format(ctx: Context, part: ast.FormattedValue) -> str:
    """What stands behind the `:`, which the texts of the program hold."""
    spec = ctx.value(part.format_spec) if part.format_spec is not None else ""
    if isinstance(spec, RunText) or not isinstance(spec, str):
        what = f"the format of `{ast.unparse(part.value)}` is known only at run time"
        ctx.fail(UnsupportedFeatureError, what, part, help="write it as a number: {x:.3f}")
    return spec


def _checked(ctx: Context, part: ast.FormattedValue, value: SSAValue, conversion: str) -> str:
    """The format of a value of the run, which must suit its type."""
    spec, type = _format(ctx, part), d.type_of(value)
    if spec and not conversion and not isinstance(type, ScalarType):
        what = f"the format `{spec}` is for numbers, `{ast.unparse(part.value)}` is {describe_value(value)}"
        ctx.fail(ParserTypeError, what, part, help=f"leave it out, or print the elements: {{{ast.unparse(part.value)}[…]:{spec}}}")
    try:
        text_of(np.zeros((), type.dtype.numpy)[()], conversion, spec)
    except (TypeError, ValueError) as error:
        what = f"`{ast.unparse(part.value)}`, {describe_value(value)}, cannot be printed as `{spec}`: {error}"
        ctx.fail(ParserTypeError, what, part, help=f"leave the format out: {{{ast.unparse(part.value)}}}")
    return spec


def asserted_text(message: str) -> str:
    """The message of an assertion of the run, which is a text known while compiling."""
    return f"{message} (values of the run are not in this text: print them before the assert)" if isinstance(message, RunText) else message
