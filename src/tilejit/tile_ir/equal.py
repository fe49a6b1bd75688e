"""Structural equality and hash of programs: two programs are equal when they do the same things in the same order.

A launch of a kernel is the same as a call of it, and blocks of calls the same as a launch with blocks (the form before and after
outlining). A function is written down as canonical lines, one per op whose place in the order matters (everything that reads or
changes memory, control flow). Constants, and pure ops on values, are expressions: they appear where they are first needed, and equal
ones are one; those that data may make fail appear also where nobody needs them. Spans, names, comments, and extents and valid regions that
follow from the operands are left out; so are extent checks, which follow from the ops they guard. Symbols are numbered as they appear.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Block, Operation, SSAValue

from tilejit import ops
from tilejit.ops.facts import Effect, Fails
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import constant_of
from tilejit.tile_ir.literal import write_literal, write_type
from tilejit.tile_ir.program import Program
from tilejit.types.values import ANY, BufferType, Dim, TileType, ValueType

_IGNORED = frozenset({"span", "hint", "comment", "sym_name", "params", "operandSegmentSizes", "windows", "hidden", "launched"})

_REGIONS: dict[type[Operation], tuple[str, ...]] = {d.IfOp: ("then", "else"), d.WhileOp: ("condition", "body")}
"""Names of the blocks of ops that have several."""

_IMPLIED = frozenset({"returns"})
"""Facts of a function that its return says too."""


def structural_equal(a: Program, b: Program) -> bool:
    """Whether two programs have the same functions by name, each doing the same things."""
    return difference(a, b) is None


def structural_hash(program: Program) -> int:
    """Equal for equal programs, in every process."""
    return int.from_bytes(bytes.fromhex(structural_digest(program))[:8], "big", signed=True)


def structural_digest(program: Program) -> str:
    """SHA-256 of the canonical text, as hexadecimal digits."""
    digest = hashlib.sha256()
    for name, function in sorted(program.functions.items()):
        digest.update(f"@{name}\n".encode())
        for line in canonical_lines(function):
            digest.update(line.text.encode() + b"\n")
    return digest.hexdigest()


def assert_structural_equal(a: Program, b: Program) -> None:
    """Raises AssertionError that says where two programs differ."""
    found = difference(a, b)
    if found is not None:
        raise AssertionError(found)


def difference(a: Program, b: Program) -> str | None:
    """Where two programs differ, in words; None when they are equal."""
    left, right = a.functions, b.functions
    for name in [*left, *right]:
        if name not in left or name not in right:
            return f"only the {'first' if name in left else 'second'} program has a function `{name}`"
    for name, function in left.items():
        ours, theirs = canonical_lines(function), canonical_lines(right[name])
        for number, (x, y) in enumerate(zip(ours, theirs, strict=False)):
            if x.text != y.text:
                return f"function `{name}` differs at {x.place} (step {number}):\n  first:  {x}\n  second: {y}"
        if len(ours) != len(theirs):
            longer, which = (ours, "first") if len(ours) > len(theirs) else (theirs, "second")
            rest = longer[min(len(ours), len(theirs))]
            return f"function `{name}`: only the {which} program goes on at {rest.place}, with {rest}"
    return None


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the canonical text, and the op it is about."""

    text: str
    op: Operation
    path: tuple[str, ...] = ()
    """The ops around it, outermost first, each with its place among its neighbours."""

    @property
    def place(self) -> str:
        """Where in the function: `body[3].for[0].store`."""
        return ".".join(self.path)

    def __str__(self) -> str:
        span = self.op.span if isinstance(self.op, d.TileOp) else None
        return f"{self.text.strip()}  ({span})" if span else self.text.strip()


def canonical_lines(function: d.FuncOp) -> list[Line]:
    """The canonical text of a function."""
    writer = _Writer()
    params = ", ".join(writer.define(arg) + ": " + writer.full_type(d.type_of(arg)) for arg in function.body.block.args)
    writer.lines.append(Line(f"func ({params}) {writer.attributes(function)}", function, ("signature",)))
    writer.block(function.body.block, "", "body")
    return writer.lines


@dataclass
class _Writer:
    lines: list[Line] = field(default_factory=list[Line])
    names: dict[SSAValue, str] = field(default_factory=dict[SSAValue, str])
    expressions: dict[str, str] = field(default_factory=dict[str, str])
    symbols: dict[str, str] = field(default_factory=dict[str, str])
    path: tuple[str, ...] = ()
    count: int = 0

    def line(self, text: str, op: Operation) -> None:
        self.lines.append(Line(text, op, (*self.path, op.name.removeprefix("tile."))))

    def define(self, value: SSAValue) -> str:
        """A new number for a value."""
        self.names[value] = f"%{self.count}"
        self.count += 1
        return self.names[value]

    def use(self, value: SSAValue, indent: str) -> str:
        """The number of a value; expressions are written down at their first use."""
        if value not in self.names:
            self.make(value, indent)
        return self.names[value]

    def make(self, value: SSAValue, indent: str) -> None:
        """Write down an expression after those it needs; long chains must not recurse."""
        pending = [value]
        while pending:
            op = pending[-1].owner
            assert isinstance(op, Operation)
            missing = [operand for operand in op.operands if operand not in self.names]
            if missing:
                pending += reversed(missing)
                continue
            pending.pop()
            if any(result not in self.names for result in op.results):
                self.expression(op, indent)

    def expression(self, op: Operation, indent: str) -> None:
        if isinstance(op, d.ConstOp):
            self.names[op.result] = f"{write_literal(op.static('value'))}:{d.type_of(op.result).dtype.name}"
            return
        text = self.text_of(op, indent)
        start = self.expressions.get(text)
        if start is None:
            first = self.count
            for result in op.results:
                self.define(result)
            self.expressions[text] = str(first)
            self.line(f"{indent}%{first} = {text}", op)
        else:
            for offset, result in enumerate(op.results):
                self.names[result] = f"%{int(start) + offset}"

    def text_of(self, op: Operation, indent: str) -> str:
        operands = ", ".join(self.use(operand, indent) for operand in op.operands)
        segments = op.attributes.get("operandSegmentSizes") or op.properties.get("operandSegmentSizes")
        shape = f" [{segments}]" if segments is not None else ""
        results = ", ".join(self.result_type(op, result) for result in op.results)
        return f"{op.name} ({operands}){shape} {self.attributes(op)} -> {results}"

    def block(self, block: Block, indent: str, name: str) -> None:
        outer = self.path
        number = 0
        for op in block.ops:
            if not isinstance(op, d.CheckOp) and not is_expression(op):
                self.path = (*outer, f"{name}[{number}]")
                self.statement(op, indent)
                number += 1
        for op in block.ops:
            if is_expression(op) and _may_fail(op):  # what nobody uses fails all the same
                for result in op.results:
                    self.use(result, indent)
        self.path = outer

    def statement(self, op: Operation, indent: str) -> None:
        launch = _launch(op)
        if launch is not None:
            callee, args, blocks = launch
            shown = ", ".join(self.use(arg, indent) for arg in args)
            times = self.use(blocks, indent) if blocks is not None else "once"
            self.line(f"{indent}launch {callee} ({shown}) {times}", op)
            return
        text = self.text_of(op, indent)
        if not op.regions:
            names = ", ".join(self.define(result) for result in op.results)
            self.line(f"{indent}{names + ' = ' if names else ''}{text}", op)
            return
        self.line(f"{indent}{text}", op)
        for name, region in zip(_REGIONS.get(type(op), ("body",)), op.regions, strict=False):
            arguments = ", ".join(self.define(arg) for arg in region.block.args)
            self.line(f"{indent}({arguments}) {{", op)
            self.block(region.block, indent + "  ", f"{op.name.removeprefix('tile.')}.{name}")
        names = ", ".join(self.define(result) for result in op.results)
        self.line(f"{indent}}} {names}", op)

    def attributes(self, op: Operation) -> str:
        parts: list[str] = []
        for name, attribute in sorted({**op.attributes, **op.properties}.items()):
            if name in _IGNORED:
                continue
            if name == "attrs" and isinstance(attribute, d.Static) and isinstance(attribute.data, dict):
                facts = {key: value for key, value in attribute.data.items() if key not in _IMPLIED}
                parts.append(f"attrs={write_literal(facts)}")
            elif isinstance(attribute, d.Static):
                parts.append(f"{name}={write_literal(attribute.data)}")
            elif isinstance(attribute, StringAttr):
                parts.append(f"{name}={attribute.data!r}")
            else:
                parts.append(f"{name}={attribute}")
        return "{" + ", ".join(parts) + "}"

    def result_type(self, op: Operation, result: SSAValue) -> str:
        """What of a result's type does not follow from the operands."""
        type = d.type_of(result)
        if not isinstance(type, BufferType | TileType):
            return self.full_type(type)
        where = type.layout if isinstance(type, BufferType) else type.space
        if isinstance(op, d.CreateOp | d.ViewOp | d.LoadOp):
            return f"{where} {type.dtype} {self.shape_of(op, type.shape)}"
        return f"{where} {type.dtype} rank {type.rank}"

    def shape_of(self, op: d.CreateOp | d.ViewOp | d.LoadOp, shape: tuple[Dim, ...]) -> str:
        """The extents, with what the operands say about the dynamic ones (a symbol is then only a name for it)."""
        operands = iter([] if isinstance(op, d.LoadOp) else op.extents)
        dims: list[str] = []
        for dim in shape:
            if not isinstance(dim, int):
                operand = next(operands, None)
                constant = constant_of(operand) if operand is not None else None
                dims.append(ANY if constant is None else str(constant))
            else:
                dims.append(str(dim))
        return "[" + ", ".join(dims) + "]"

    def full_type(self, type: ValueType) -> str:
        if isinstance(type, BufferType):
            return write_type(BufferType(tuple(self.symbol(dim) for dim in type.shape), type.dtype, type.layout))
        if isinstance(type, TileType):
            shape, valid = (tuple(self.symbol(dim) for dim in dims) for dims in (type.shape, type.valid))
            return write_type(TileType(shape, type.dtype, valid, type.space))
        return write_type(type)

    def symbol(self, dim: Dim) -> Dim:
        if isinstance(dim, int) or dim == ANY:
            return dim
        return self.symbols.setdefault(dim, f"s{len(self.symbols)}")


def _launch(op: Operation) -> tuple[str, Sequence[SSAValue], SSAValue | None] | None:
    """A call or launch without results, alone or alone in a region of blocks: what runs, on what, how often."""
    if isinstance(op, d.LaunchOp):
        return op.callee.data, op.args, op.blocks
    if isinstance(op, d.CallOp) and not op.results:
        return op.callee.data, op.args, None
    if isinstance(op, d.RegionOp) and op.blocks is not None and op.static("name_hint") is None and not op.static("options"):
        inner = [item for item in op.body.block.ops if not is_expression(item) and not isinstance(item, d.CheckOp | d.YieldOp)]
        call = inner[0] if len(inner) == 1 else None
        if isinstance(call, d.CallOp) and not call.results and all(argument.first_use is None for argument in op.body.block.args):
            return call.callee.data, call.args, op.blocks
    return None


def asks_place(op: d.ApplyOp) -> bool:
    """Whether an op asks where the code runs (block index, …) or takes from a FIFO: its place in the program is part of its meaning."""
    return ops.facts(op.op).effect is not Effect.Nothing


def _may_fail(op: Operation) -> bool:
    """Whether data decides if an op fails; where extents and regions do, the text of a program says as much."""
    return isinstance(op, d.ApplyOp) and ops.facts(op.op).fails is Fails.Indices


def is_expression(op: Operation) -> bool:
    """Whether an op is a pure function of values: its place in the order does not matter."""
    if isinstance(op, d.ConstOp | d.DimOp | d.ValidOp):
        return True
    if not isinstance(op, d.ApplyOp):
        return False
    if op.op not in ops.table() or asks_place(op):
        return False
    return not any(isinstance(d.type_of(operand), BufferType) for operand in op.operands)
