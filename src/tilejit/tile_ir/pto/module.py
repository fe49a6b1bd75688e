"""A PTO file that was read: its module, where every op stands in the text, and how it is printed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from io import StringIO

from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation
from xdsl.printer import Printer

from tilejit.errors import PtoVerifyError, SourceText, Span, TilejitError
from tilejit.lazy import lazy
from tilejit.tile_ir.pto.attributes import EnumAttr
from tilejit.tile_ir.pto.spec import A2A3, A5

ARCH_KEY = "pto.target_arch"
_ARCH = re.compile(r'"?pto\.target_arch"?\s*=\s*"([^"\n]*)"')


def arch_family(text: str | None) -> str:
    """The family of rules an architecture's name means."""
    return A5 if text is not None and text.lower() == A5 else A2A3


def written_arch(text: str) -> str | None:
    """What the file says about its architecture, before it is read: it decides how types are read."""
    bare = re.sub(r"//[^\n]*", "", text)
    match = _ARCH.search(bare)
    return match.group(1) if match else None


class PtoPrinter(Printer):
    """Prints modules; `long_tiles`: every key of a tile type."""

    long_tiles = False
    span: Callable[[Operation], Span | None] | None = None
    """Where an op stands that cannot be printed."""

    def print_op(self, op: Operation) -> None:
        try:
            super().print_op(op)
        except TilejitError:
            raise
        except Exception:
            # xDSL's printers take for granted what only its verifiers check: the innermost op is the one to show.
            raise PtoVerifyError(f"`{op.name}` cannot be printed: it breaks a rule of its dialect", span=self.span and self.span(op)) from None


@dataclass(eq=False)
class PtoFile:
    """A parsed file."""

    module: ModuleOp
    text: str
    filename: str
    arch: str
    """The family whose rules hold: "a3" or "a5"."""
    places: dict[Operation, tuple[int, int]] = field(default_factory=dict[Operation, tuple[int, int]], repr=False)
    """Where every op begins and ends, in characters of the text."""

    @lazy
    def source(self) -> SourceText:
        return SourceText(self.filename, tuple(self.text.split("\n")))

    def span(self, op: Operation) -> Span | None:
        """The first line of an op; of the op around it where the text leaves it out, as it may with `scf.yield`."""
        written: Operation | None = op
        while written is not None and written not in self.places:
            written = written.parent_op()
        if written is None:
            return None
        place, name = self.places[written], enclosing_function(op)
        return span_at(self.source, self.text, *place, name.sym_name.data if name is not None else "")

    def functions(self) -> Iterator[FuncOp]:
        """All functions, also those of nested modules; declarations too."""
        return (op for op in self.module.walk() if isinstance(op, FuncOp))

    def definitions(self) -> list[FuncOp]:
        return [function for function in self.functions() if function.body.blocks]

    def entries(self) -> list[FuncOp]:
        """Functions that can be launched: marked ones, or the only definition."""
        found = self.definitions()
        marked = [function for function in found if is_entry(function)]
        return marked or (found if len(found) == 1 else [])

    def print(self, long_tiles: bool = False, generic: bool = False) -> str:
        """The canonical text."""
        stream = StringIO()
        printer = PtoPrinter(stream, print_generic_format=generic)
        printer.long_tiles, printer.span = long_tiles, self.span
        printer.print_op(self.module)
        return stream.getvalue() + "\n"


def span_at(source: SourceText, text: str, start: int, end: int, function: str = "") -> Span:
    """The part on one line of `text[start:end]`."""
    start = min(start, len(text))
    line_start = text.rfind("\n", 0, start) + 1
    line_end = text.find("\n", start)
    line_end = len(text) if line_end < 0 else line_end
    line = text.count("\n", 0, start) + 1
    last = min(max(end, start + 1), max(line_end, start + 1))
    return Span(source, line, start - line_start + 1, line, last - line_start + 1, function)


def enclosing_function(op: Operation) -> FuncOp | None:
    """The function an op belongs to."""
    while True:
        parent = op.parent_op()
        if parent is None or isinstance(op, FuncOp):
            return op if isinstance(op, FuncOp) else None
        op = parent


def is_entry(function: FuncOp) -> bool:
    return any(isinstance(function.attributes.get(name), UnitAttr) for name in ("pto.entry", "hacc.entry"))


def kernel_kind(function: FuncOp) -> str | None:
    """`cube` or `vector` of a function for one kind of core."""
    found = function.attributes.get("pto.kernel_kind")
    return found.data if isinstance(found, EnumAttr) else None
