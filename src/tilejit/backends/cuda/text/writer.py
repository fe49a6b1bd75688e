"""Writes the text of one kernel: lines with indentation, unique names, the source line each belongs to, and what the text needs."""

from __future__ import annotations

import keyword
import re
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from tilejit.backends.cuda.plan import Apply, Expr, Parameter, Var
from tilejit.backends.cuda.text import library
from tilejit.errors import Span

_RESERVED = frozenset({"tl", "triton", "libdevice", "block", "range", "float", "int", *keyword.kwlist, *library.HELPERS})
_PROGRAM = "tl.program_id(0)"
SCRATCH_SIZE = "SCRATCH_BYTES"
"""Stands for the size of a program's scratch memory until that is known."""


@dataclass
class Writer:
    """The text of a kernel under construction."""

    name: str
    lines: list[tuple[int, str, Span | None]] = field(default_factory=list[tuple[int, str, Span | None]])
    prologue: dict[str, str] = field(default_factory=dict[str, str])
    """Values made once at the start: text by expression."""
    parameters: list[tuple[Parameter, Expr | None]] = field(default_factory=list[tuple[Parameter, Expr | None]])
    helpers: dict[str, None] = field(default_factory=dict[str, None])
    taken: set[str] = field(default_factory=set[str])
    depth: int = 1
    span: Span | None = None
    scratch: int = 0
    rooms: dict[str, Expr] = field(default_factory=dict[str, Expr])
    """Further memory of each program, of sizes that the host computes: bytes by name."""
    blocks: int = 0
    """How many blocks there are, where that is known and programs are blocks of the user."""
    last_first: bool = False
    """Whether blocks are numbered from the last one: those start first."""
    walks: bool = False
    """Whether a program does several blocks, one after the other."""
    copied: int = 0
    """Bytes that one turn of a loop copies by descriptors."""

    # names --------------------------------------------------------------------------------------------------------------

    def fresh(self, hint: str | None) -> str:
        """A name that nothing else has."""
        base = re.sub(r"\W", "_", hint or "t").strip("_") or "t"
        if not base[0].isalpha():
            base = f"v{base}"
        name, count = base, 0
        while name in self.taken or name in _RESERVED:
            count += 1
            name = f"{base}_{count}"
        self.taken.add(name)
        return name

    # lines --------------------------------------------------------------------------------------------------------------

    def line(self, text: str) -> None:
        self.lines.append((self.depth, text, self.span))

    def let(self, hint: str | None, expression: str) -> str:
        """Name an expression."""
        if re.fullmatch(r"[A-Za-z_]\w*", expression):
            return expression
        name = self.fresh(hint)
        self.line(f"{name} = {expression}")
        return name

    @contextmanager
    def block(self, head: str) -> Generator[None]:
        """Indented lines under a head such as `if x:`."""
        self.line(head)
        self.depth += 1
        start = len(self.lines)
        yield
        if len(self.lines) == start:
            self.line("pass")
        self.depth -= 1

    def once(self, hint: str, expression: str) -> str:
        """A value that needs nothing but constants, made at the start of the kernel."""
        if expression not in self.prologue:
            self.prologue[expression] = self.fresh(hint)
        return self.prologue[expression]

    def program(self) -> str:
        """The number of this program."""
        return self.once("program", _PROGRAM)

    def arange(self, extent: int) -> str:
        return self.once(f"i{extent}", f"tl.arange(0, {extent})")

    # what the text needs --------------------------------------------------------------------------------------------------

    def helper(self, name: str) -> str:
        """A function of the library."""
        for needed in library.needs(name):
            self.helper(needed)
        self.helpers[name] = None
        return name

    def parameter(self, hint: str, kind: str, type: str, argument: Expr | None, divisible: bool = False) -> str:
        """A parameter that takes `argument`; equal arguments share one."""
        for at, (parameter, given) in enumerate(self.parameters):
            if parameter.kind == kind and parameter.type == type and given == argument and (argument is not None or kind != "scalar"):
                self.parameters[at] = (replace(parameter, divisible=parameter.divisible or divisible), given)
                return parameter.name
        name = self.fresh(hint)
        self.parameters.append((Parameter(name, kind, type, divisible), argument))  # type: ignore[arg-type]
        return name

    def slice(self, size: int) -> int:
        """Scratch memory of this program: the place of a new piece."""
        place = self.scratch
        self.scratch = -(-(place + size) // 128) * 128
        return place

    def room(self, extents: Sequence[int | str], width: int) -> tuple[str, str] | None:
        """Memory of this program for so many cells of `width` bytes, extents being numbers or parameters; its name, and that of all programs' memory.

        None where an extent is no parameter: then the host does not know it."""
        given = {parameter.name: argument for parameter, argument in self.parameters if parameter.kind == "scalar"}
        size: Expr = width
        for extent in extents:
            known = extent if isinstance(extent, int) else given.get(extent)
            if known is None:
                return None
            size = Apply("mul", (size, known), "INDEX", ("INDEX", "INDEX"))
        name = f"{self.name}_room{len(self.rooms)}"
        self.rooms[name] = size
        return name, self.parameter("room", "pointer", "*i8", Var(name), divisible=True)

    # the whole ------------------------------------------------------------------------------------------------------------

    def finish(self) -> tuple[str, tuple[tuple[int, Span], ...]]:
        """The text of the module, and the lines that belong to each place of the source."""
        head = ["import triton", "import triton.language as tl", "from triton.language.extra import libdevice", ""]
        for name in self.helpers:
            head += ["", *library.HELPERS[name].strip().splitlines(), ""]
        head += ["", "@triton.jit", f"def {self.name}({', '.join(parameter.name for parameter, _ in self.parameters)}):"]
        number = self._numbered()
        values = [f"    {name} = {expression}" for expression, name in self.prologue.items() if expression != _PROGRAM]
        head += [*values, *number] if self.walks else [*number, *values]
        inward = 1 if self.walks else 0
        spans: list[tuple[int, Span]] = []
        body: list[str] = []
        previous: tuple[object, ...] | None = None
        for depth, text, span in self.lines:
            here = (span.filename, span.line) if span is not None else None
            if span is not None and here != previous:
                source = _source_line(span)
                if source:
                    body.append("    " * (depth + inward) + f"# {source}")
                spans.append((len(head) + len(body) + 1, span))
                previous = here
            body.append("    " * (depth + inward) + text)
        if not self.lines:
            body.append("    " * (1 + inward) + "pass")
        text = "\n".join([*head, *body]) + "\n"
        return text.replace(SCRATCH_SIZE, str(self.scratch)), tuple(spans)

    def _numbered(self) -> list[str]:
        """What gives a program its number, or leads it from block to block."""
        name = self.program() if self.walks else self.prologue.get(_PROGRAM)
        if name is None:
            return []
        last = f"{self.blocks - 1} - " if self.last_first else ""
        if not self.walks:
            return [f"    {name} = {last}{_PROGRAM}"]
        turn = self.fresh("turn") if last else name
        loop = f"    for {turn} in range({_PROGRAM}, {self.blocks}, tl.num_programs(0)):"
        return [loop, f"        {name} = {last}{turn}"] if last else [loop]


def _source_line(span: Span) -> str:
    """The user's line, for the comment above what was made of it."""
    line = span.source.line(span.line)
    return f"{span.line}: {line.strip()}" if line else ""
