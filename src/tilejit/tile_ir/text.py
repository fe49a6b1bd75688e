"""A program as MLIR text, and back."""

from __future__ import annotations

from io import StringIO

from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, ModuleOp
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import ParseError

from tilejit.errors import ParserSyntaxError
from tilejit.tile_ir.dialect import TILE
from tilejit.tile_ir.program import Program


def print_text(program: Program) -> str:
    """The program as MLIR text in generic form, without spans."""
    module = program.module.clone()
    for op in module.walk():
        op.attributes.pop("span", None)
    stream = StringIO()
    Printer(stream, print_generic_format=True).print_op(module)
    return stream.getvalue() + "\n"


def parse_text(text: str, filename: str = "<string>") -> Program:
    """The program whose MLIR text is `text`."""
    context = Context()
    context.load_dialect(Builtin)
    context.load_dialect(TILE)
    try:
        module = Parser(context, text, filename).parse_module()
    except (ParseError, ValueError, KeyError) as error:
        raise ParserSyntaxError(f"{filename} is no tile IR text: {error}") from error
    assert isinstance(module, ModuleOp)
    return Program(module)
