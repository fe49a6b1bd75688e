"""Prints a program as `@pl.program` source that parses back to an equal program."""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from tilejit import ops
from tilejit.errors import InternalError
from tilejit.ops.facts import Effect
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.alias import Aliases
from tilejit.tile_ir.expressions import Expressions, inline_ops
from tilejit.tile_ir.names import name_of
from tilejit.tile_ir.nesting import nested_values
from tilejit.tile_ir.program import Program
from tilejit.tile_ir.spelling import call_text, static_text
from tilejit.types.enums import FunctionType
from tilejit.types.values import ANY, ArrayType, BufferType, Dim, ScalarType, ShapedType, ValueType


def print_program(program: Program, prefix: str = "pl", concise: bool = False) -> str:
    """The program as Python source; `concise` leaves out annotations of locals and nests values that are used once."""
    return _ProgramPrinter(program, prefix, concise).text()


def print_function(program: Program, name: str, prefix: str = "pl", concise: bool = False) -> str:
    """A module-level function as Python source; with the functions it calls it is printed as a program."""
    if len(program.functions) > 1:
        return print_program(program, prefix, concise)
    return _ProgramPrinter(program, prefix, concise).function_text(name)


HEAD = "# tilejit."
"""How the text of a program begins: its names are values, not memory that others may show."""


class _ProgramPrinter:
    def __init__(self, program: Program, prefix: str, concise: bool) -> None:
        self.program = program
        self.prefix = prefix
        self.concise = concise
        self.functions = program.functions
        self.aliases = Aliases(program)
        self.symbols = _symbols(self.functions.values())

    def head(self, title: str) -> list[str]:
        lines = [f"{HEAD}{title}", f"import tilejit.language as {self.prefix}"]
        lines += ["import tilejit.language.distributed as pld", ""] if any(map(_concerns_ranks, self.program.module.walk())) else [""]
        lines += [f'{symbol} = {self.prefix}.dynamic("{symbol}")' for symbol in self.symbols]
        return [*lines, "", ""] if self.symbols else [*lines, ""]

    def function_text(self, name: str) -> str:
        return "\n".join([*self.head(f"function: {name}"), *_FunctionPrinter(self, self.functions[name], method=False).lines()]) + "\n"

    def text(self) -> str:
        name = self.program.name
        lines = [*self.head(f"program: {name}"), f"@{self.prefix}.program", f"class {name}:"]
        for function in self.functions.values():
            lines += [*_FunctionPrinter(self, function).lines(), ""]
        return "\n".join(lines).rstrip() + "\n"


class _FunctionPrinter:
    """One function: names for its values, lines for its ops."""

    def __init__(self, program: _ProgramPrinter, function: d.FuncOp, method: bool = True) -> None:
        self.program = program
        self.prefix = program.prefix
        self.function = function
        self.out: list[str] = []
        self.method = method
        self.indent = int(method)
        self.names: dict[SSAValue, str] = {}
        self.taken = {program.prefix, "self", "float", *program.symbols, *keyword.kwlist, *keyword.softkwlist}
        self.counts: dict[str, int] = {}
        """Up to where the names made of a stem are taken."""
        self.inline = inline_ops(function)
        self.nested = nested_values(function) if program.concise else set[SSAValue]()
        self.expressions = Expressions(program.prefix, self.named)

    # names and types ------------------------------------------------------------------------------------------------------

    def name(self, value: SSAValue, wanted: str | None = None, default: str = "t") -> str:
        """A new name for a value: the user's, made unique."""
        stem = wanted or _hint(value) or ("n" if default == "t" and isinstance(d.type_of(value), ScalarType) else default)
        name, count = stem, self.counts.get(stem, 0)
        while name in self.taken:
            count += 1
            name = f"{stem}_{count}"
        self.counts[stem] = count
        self.taken.add(name)
        self.names[value] = name
        return name

    def named(self, value: SSAValue) -> str | None:
        """The name of a value that has one, or its text if it is written where it is used."""
        return self.names.get(value)

    def show(self, value: SSAValue) -> str:
        return self.expressions.text(value)

    def listed(self, values: Sequence[SSAValue]) -> str:
        return "[" + ", ".join(self.show(value) for value in values) + "]"

    def annotation(self, type: ValueType) -> str | None:
        """A type as an annotation, or None where it has extents without a name."""
        p = self.prefix
        if isinstance(type, ScalarType):
            return f"{p}.Scalar[{p}.{type.dtype.name}]"
        if isinstance(type, ArrayType):
            return f"{p}.Array[{type.extent}, {p}.{type.dtype.name}]"
        if any(isinstance(dim, str) and dim not in self.program.symbols for dim in type.shape):
            return None
        shape = "[" + ", ".join(str(dim) for dim in type.shape) + "]"
        if isinstance(type, BufferType):
            layout = "" if type.layout == "ND" else f", {p}.TensorLayout.{type.layout}"
            return f"{p}.Tensor[{shape}, {p}.{type.dtype.name}{layout}]"
        return f"{p}.{'Tensor' if type.level == 'tensor' else 'Tile'}[{shape}, {p}.{type.dtype.name}]"

    # lines ----------------------------------------------------------------------------------------------------------------

    def line(self, text: str) -> None:
        self.out.append("    " * self.indent + text)

    @contextmanager
    def deeper(self) -> Generator[None]:
        self.indent += 1
        start = len(self.out)
        yield
        if len(self.out) == start:
            self.line("pass")
        self.indent -= 1

    def assign(self, op: Operation, text: str) -> None:
        """A statement that binds the results of `op`."""
        names = [self.name(result) for result in op.results]
        note = self.annotation(d.type_of(op.results[0])) if len(names) == 1 and not self.program.concise else None
        self.line(f"{', '.join(names)}{': ' + note if note else ''} = {text}")

    def lines(self) -> list[str]:
        self.line(f"@{self.prefix}.function({self.decorator()})")
        params = [*(["self"] if self.method else []), *self.parameters()]
        result = self.result_annotation()
        self.line(f"def {self.function.symbol}({', '.join(params)}){' -> ' + result if result else ''}:")
        with self.deeper():
            attrs = {name: value for name, value in self.function.attrs.items() if name not in (*_DECORATOR, "returns")}
            if unwritten := self.unwritten():
                attrs["unwritten"] = unwritten
            if attrs:
                self.line(f"{self.prefix}.func_attr({static_text(attrs, self.prefix)})")
            self.block(self.function.body.block)
        return self.out

    def unwritten(self) -> tuple[str, ...]:
        """Outputs that folding left without a write: the parser would take them for a mistake."""
        names, directions = self.function.names, self.function.directions
        written = self.program.aliases.written_params(self.function.symbol)
        return tuple(str(name) for index, name in enumerate(names) if directions[index] == "Out" and index not in written)

    def decorator(self) -> str:
        kind = FunctionType(self.function.static("kind"))
        facts = [f"type={self.prefix}.FunctionType.{kind.name}"]
        facts += [f"{name}={static_text(value, self.prefix)}" for name, value in self.function.attrs.items() if name in _DECORATOR]
        return ", ".join(facts)

    def parameters(self) -> Iterator[str]:
        names, directions = self.function.names, self.function.directions
        for argument, name, direction in zip(self.function.body.block.args, names, directions, strict=True):
            note = self.annotation(d.type_of(argument))
            if note is None:
                raise InternalError(f"parameter {name} of {self.function.symbol} has an extent without a name")
            wrapped = note if direction == "In" else f"{self.prefix}.{direction}[{note}]"
            yield f"{self.name(argument, wanted=str(name))}: {wrapped}"

    def result_annotation(self) -> str | None:
        returned = d.end_of(self.function.body.block, d.ReturnOp)
        notes = [self.annotation(d.type_of(value)) for value in returned.values]
        if not notes or None in notes:
            return None
        texts = [note for note in notes if note is not None]
        return texts[0] if len(texts) == 1 else f"{self.prefix}.Tuple[{', '.join(texts)}]"

    def block(self, block: Block) -> None:
        for op in block.ops:
            comments = op.attributes.get("comment")
            if isinstance(comments, d.Static) and isinstance(comments.data, tuple):
                for comment in comments.data:
                    self.line(f"# {comment}")
            if isinstance(op, d.CheckOp) or op in self.inline or any(result in self.nested for result in op.results):
                continue
            statement = _STATEMENTS.get(type(op))
            if statement is not None:
                statement(self, op)
            else:
                self.assign(op, self.expressions.of(op))

    # statements -----------------------------------------------------------------------------------------------------------

    def apply(self, op: d.ApplyOp) -> None:
        if ops.facts(op.op).rebinds:
            # Writing into a named tile rebinds that name: give the new value's name the old tile first.
            # A result of an operator on tensors would be changed for all its names: the new value is made of a copy.
            target = op.args[0]
            text, name, copies = self.show(target), self.name(op.results[0]), d.shaped_type(target).level == "tensor"
            if not copies:
                self.line(f"{name} = {text}")
            self.names[target], old = f"+{text}" if copies else name, self.names.get(target)
            self.line(f"{name} = {self.expressions.of(op)}")
            if old is not None:
                self.names[target] = old
            else:
                del self.names[target]
            return
        self.assign(op, self.expressions.of(op))

    def store(self, op: d.StoreOp) -> None:
        atomic = f", atomic={self.prefix}.AtomicType.Add" if op.static("atomic") else ""
        self.line(f"{self.prefix}.store({self.show(op.value)}, {self.listed(op.offsets)}, {self.show(op.buffer)}{atomic})")

    def write(self, op: d.WriteOp) -> None:
        self.line(f"{self.prefix}.write({self.show(op.buffer)}, {self.listed(op.indices)}, {self.show(op.value)})")

    def for_(self, op: d.ForOp) -> None:
        kind, stage = op.static("kind"), op.static("stage")
        bounds = [self.show(value) for value in (op.lower, op.upper, op.step)]
        if bounds[2] == "1":
            bounds = bounds[:2] if bounds[0] != "0" else bounds[1:2]
        facts = [*bounds, *([f"stage={stage}"] if stage is not None else [])]
        iv, *carried = op.body.block.args
        if carried:
            facts.append(f"init_values={_tuple([self.show(init) for init in op.inits])}")
        index = self.name(iv, default="i")
        target = f"{index}, {_tuple([self.name(argument, default='c') for argument in carried])}" if carried else index
        self.line(f"for {target} in {self.prefix}.{kind}({', '.join(facts)}):")
        self.body(op, op.body.block)

    def body(self, op: Operation, block: Block) -> None:
        """A nested block whose yield binds the results of `op`."""
        with self.deeper():
            for result in op.results:
                if result not in self.names:
                    self.name(result, default="r")
            self.block(block)

    def while_(self, op: d.WhileOp) -> None:
        condition = d.end_of(op.before.block, d.ConditionOp)
        if list(condition.values) != list(op.before.block.args):
            raise InternalError("a loop whose condition computes other values than it tests cannot be printed", span=op.span)
        inits = [self.show(init) for init in op.inits]
        names = [self.name(argument, default="c") for argument in op.before.block.args]
        for argument, name in zip(op.body.block.args, names, strict=True):
            self.names[argument] = name
        if names:
            self.line(f"for {_tuple(names)} in {self.prefix}.while_(init_values={_tuple(inits)}):")
        else:
            self.line(f"while {self.show(condition.condition)}:")
        with self.deeper():
            if names:
                self.line(f"{self.prefix}.cond({self.show(condition.condition)})")
            for result in op.results:
                self.name(result, default="r")
            self.block(op.body.block)

    def if_(self, op: d.IfOp) -> None:
        self.line(f"if {self.show(op.condition)}:")
        self.body(op, op.then.block)
        if op.results or not isinstance(op.orelse.block.first_op, d.YieldOp):
            self.line("else:")
            self.body(op, op.orelse.block)

    def yield_(self, op: d.YieldOp) -> None:
        parent = op.parent_op()
        if not op.values or parent is None:
            return
        if isinstance(parent, d.RegionOp):
            for result, value in zip(parent.results, op.values, strict=True):
                self.line(f"{self.name(result, default='r')} = {self.show(value)}")
            return
        names = ", ".join(self.names[result] for result in parent.results)
        self.line(f"{names} = {self.prefix}.yield_({', '.join(self.show(value) for value in op.values)})")

    def region(self, op: d.RegionOp) -> None:
        hints = [_HINTS[name].format(p=self.prefix, value=static_text(value, self.prefix)) for name, value in op.options.items()]
        facts = [f"optimizations=[{', '.join(hints)}]"] if hints else []
        if op.static("name_hint") is not None:
            facts.append(f"name_hint={op.static('name_hint')!r}")
        if op.blocks is None:
            self.line(f"with {self.prefix}.at({', '.join([f'level={self.prefix}.Level.CORE_GROUP', *facts])}):")
        else:
            index = [self.name(argument, default="b") for argument in op.body.block.args]
            call = f"{self.prefix}.spmd({', '.join([self.show(op.blocks), *facts])})"
            self.line(f"for {index[0]} in {call}:" if index else f"with {call}:")
        with self.deeper():
            self.block(op.body.block)

    def call(self, op: d.CallOp) -> None:
        callee = self.program.functions[op.callee.data]
        text = f"self.{op.callee.data}({', '.join(self.show(arg) for arg in op.args)})"
        if not op.results:
            self.line(text)
            return
        returned = d.end_of(callee.body.block, d.ReturnOp)
        results = iter(op.results)
        own = set(callee.body.block.args)
        names = ["_" if value in own else self.name(next(results)) for value in returned.values]
        self.line(f"{', '.join(names)} = {text}")

    def launch(self, op: d.LaunchOp) -> None:
        call = f"self.{op.callee.data}({', '.join(self.show(arg) for arg in op.args)})"
        if op.blocks is None:
            self.line(call)
            return
        self.line(f"with {self.prefix}.spmd({self.show(op.blocks)}):")
        with self.deeper():
            self.line(call)

    def effect(self, op: d.EffectOp) -> None:
        statics = op.statics
        if op.op in ops.table():
            self.line(call_text(op, self.prefix, self.show))
            return
        shown = [self.show(arg) for arg in op.args]
        if op.static("op") == "print" and isinstance(parts := statics.get("parts"), tuple):
            operands = iter(shown)
            shown = [next(operands) if part is None else repr(part) if isinstance(part, str) else _f_string(part, operands) for part in parts]
        elif statics.get("message"):
            shown.append(repr(statics["message"]))
        self.line(f"{self.prefix}.{op.static('op')}({', '.join(shown)})")

    def return_(self, op: d.ReturnOp) -> None:
        if op.values:
            self.line(f"return {', '.join(self.show(value) for value in op.values)}")


def _f_string(pieces: Any, operands: Iterator[str]) -> str:
    """The pieces of an f-string in a print as their text."""
    out: list[str] = []
    for piece in pieces:
        if isinstance(piece, str):
            out.append(piece.encode("unicode_escape").decode().replace("{", "{{").replace("}", "}}").replace('"', '\\"'))
        else:
            conversion, spec = piece
            out.append("{" + next(operands) + (f"!{conversion}" if conversion else "") + (f":{spec}" if spec else "") + "}")
    return f'f"{"".join(out)}"'


_DECORATOR = ("level", "role", "auto_scope", "external_source")
"""Facts of a function that its decorator takes; all others are written as pl.func_attr."""
_HINTS = {"split": "{p}.split({value})", "cross_core_slot": "{p}.cross_core_slot(slot_num={value})"}
"""Options of a region as optimisation hints."""

_STATEMENTS: dict[type[Operation], Callable[[_FunctionPrinter, Any], None]] = {
    d.ApplyOp: _FunctionPrinter.apply,
    d.StoreOp: _FunctionPrinter.store,
    d.WriteOp: _FunctionPrinter.write,
    d.ForOp: _FunctionPrinter.for_,
    d.WhileOp: _FunctionPrinter.while_,
    d.IfOp: _FunctionPrinter.if_,
    d.YieldOp: _FunctionPrinter.yield_,
    d.RegionOp: _FunctionPrinter.region,
    d.CallOp: _FunctionPrinter.call,
    d.LaunchOp: _FunctionPrinter.launch,
    d.EffectOp: _FunctionPrinter.effect,
    d.ReturnOp: _FunctionPrinter.return_,
}


def _concerns_ranks(op: Operation) -> bool:
    return isinstance(op, d.CommOp | d.PeerOp) or (isinstance(op, d.EffectOp) and ops.facts(op.op).effect is Effect.Ranks)


def _tuple(items: Sequence[str]) -> str:
    return "(" + ", ".join(items) + (",)" if len(items) == 1 else ")")


def _hint(value: SSAValue) -> str | None:
    if isinstance(value, BlockArgument):
        hint = name_of(value)
    else:
        hint = value.owner.hint if isinstance(value.owner, d.TileOp) and value.index == 0 else name_of(value)  # type: ignore[attr-defined]
    hint = re.sub(r"\W", "_", hint) if hint else None
    return hint if hint and hint.isidentifier() and not hint.isdecimal() else None


def _symbols(functions: Any) -> list[str]:
    found: dict[str, None] = {}
    for function in functions:
        for argument in function.body.block.args:
            type = d.type_of(argument)
            dims: tuple[Dim, ...] = type.shape if isinstance(type, ShapedType) else ()
            found.update(dict.fromkeys(dim for dim in dims if isinstance(dim, str) and dim != ANY))
    return list(found)
