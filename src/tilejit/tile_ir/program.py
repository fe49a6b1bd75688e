"""A program: a module of functions under one name. What `@pl.program` and `pl.parse` return and `ir.compile` takes."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from xdsl.dialects.builtin import ModuleOp, StringAttr

from tilejit.errors import InvalidOperationError
from tilejit.tile_ir.function import FuncOp, Param
from tilejit.types.enums import FunctionType
from tilejit.types.values import ValueType


@dataclass(frozen=True, slots=True, eq=False)
class HostFunction:
    """A function that says what the ranks do; it stays Python."""

    python: Callable[..., object]
    enclosing: Mapping[str, object] = field(default_factory=dict[str, object], repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class SubWorker:
    """A Python function that a host function calls on tensors."""

    name: str
    python: Callable[..., object]

    def __call__(self, *args: object) -> object:
        return self.python(*args)


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """Functions of tile IR; compare with `ir.structural_equal`."""

    module: ModuleOp
    hosts: Mapping[str, HostFunction] = field(default_factory=dict[str, HostFunction])
    """Functions that launch the others on ranks."""
    sub_workers: Mapping[str, SubWorker] = field(default_factory=dict[str, SubWorker])

    @property
    def name(self) -> str:
        attr = self.module.attributes.get("name")
        return attr.data if isinstance(attr, StringAttr) else "program"

    @property
    def functions(self) -> dict[str, FuncOp]:
        """Functions by name, in program order."""
        return {op.symbol: op for op in self.module.body.ops if isinstance(op, FuncOp)}

    @property
    def entries(self) -> dict[str, FuncOp]:
        """What can be called: the orchestration functions, or the only function."""
        functions = self.functions
        entries = {name: op for name, op in functions.items() if op.static("kind") == "orchestration" or op.static("launched")}
        return entries or (functions if len(functions) == 1 else {})

    def as_python(self, prefix: str = "pl", concise: bool = False) -> str:
        """The program as source that parses back to an equal program."""
        from tilejit.tile_ir.python import print_program

        return print_program(self, prefix=prefix, concise=concise)

    def __str__(self) -> str:
        return str(self.module)

    def __repr__(self) -> str:
        return f"Program({self.name!r}, functions={list(self.functions)})"

    def _repr_html_(self) -> str:
        """Its functions, and the text, for notebooks."""
        taken = {name: ", ".join(f"{param.name}: {param.type}" for param in function.params) for name, function in self.functions.items()}
        kinds = {name: function.func_type.value for name, function in self.functions.items()}
        rows = "".join(f"<tr><td>{html.escape(name)}</td><td>{kinds[name]}</td><td>{html.escape(text)}</td></tr>" for name, text in taken.items())
        head = "<tr><th>function</th><th>kind</th><th>parameters</th></tr>"
        return f"<table><caption>program <code>{html.escape(self.name)}</code></caption>{head}{rows}</table><pre>{html.escape(self.as_python())}</pre>"


@dataclass(frozen=True, slots=True, eq=False)
class Function:
    """A module-level `@pl.function`: joins each program that calls it by name."""

    program: Program
    """The function and the functions it calls; it comes last."""
    name: str

    @property
    def op(self) -> FuncOp:
        return self.program.functions[self.name]

    @property
    def func_type(self) -> FunctionType:
        """What kind of function it is."""
        return self.op.func_type

    @property
    def params(self) -> list[Param]:
        """Name, type and direction of each parameter."""
        return self.op.params

    @property
    def return_types(self) -> list[ValueType]:
        """The types of what it returns."""
        return self.op.return_types

    @property
    def members(self) -> tuple[str, ...]:
        """The names of the function and of those that it calls."""
        return tuple(self.program.functions)

    def renamed(self, names: Mapping[str, str]) -> Function:
        """The same function for a program that has other functions under some of its names."""
        from tilejit.tile_ir.dialect import CallOp, LaunchOp

        module = self.program.module.clone()
        for op in module.walk():
            if isinstance(op, FuncOp):
                op.sym_name = StringAttr(names.get(op.symbol, op.symbol))
            elif isinstance(op, CallOp | LaunchOp):
                op.callee = StringAttr(names.get(op.callee.data, op.callee.data))
        return Function(replace(self.program, module=module), names.get(self.name, self.name))

    def as_python(self, prefix: str = "pl", concise: bool = False) -> str:
        """The function as source that parses back to an equal function."""
        from tilejit.tile_ir.python import print_function

        return print_function(self.program, self.name, prefix, concise)

    def __cache_signature__(self) -> str:
        """What stands for it in cache keys."""
        from tilejit.tile_ir.equal import structural_digest

        return structural_digest(self.program)

    def __call__(self, *args: object, **kwargs: object) -> Any:
        raise InvalidOperationError(f"`{self.name}` is a kernel function and has no meaning outside a kernel", help="compile it: ir.compile(function)(…)")

    def __repr__(self) -> str:
        return f"Function({self.name!r})"
