"""`@pl.program`, `@pl.function` and `@pl.inline`."""

from __future__ import annotations

import inspect
import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import FrameType
from typing import overload

from tilejit.errors import ArgumentError, InvalidOperationError, ParserSyntaxError, ParserTypeError
from tilejit.frontend.fold import Namespace
from tilejit.frontend.hosts import launched_names, speaks_of_ranks
from tilejit.frontend.program import FunctionSource, build_function, build_program
from tilejit.frontend.source import FunctionText, function_text
from tilejit.frontend.values import InlineFunction
from tilejit.tile_ir.program import Function, HostFunction, Program, SubWorker
from tilejit.types.enums import FunctionType, Level, Role

PythonFunction = Callable[..., object]


@dataclass(frozen=True, slots=True)
class Method:
    """A function in the body of a `@pl.program` class, waiting for the class."""

    python: PythonFunction
    options: Mapping[str, object]
    enclosing: Mapping[str, object] = field(repr=False)

    def __call__(self, *args: object, **kwargs: object) -> object:
        raise InvalidOperationError(f"`{self.python.__name__}` is a method of a program and has no meaning outside a kernel")


def _is_host(attrs: object, role: Role) -> bool:
    return isinstance(attrs, dict) and attrs.get("level") is Level.HOST and attrs.get("role") is role


@overload
def function(python: PythonFunction) -> Function: ...
@overload
def function(
    *,
    type: FunctionType = ...,
    level: Level | None = ...,
    role: Role | None = ...,
    attrs: Mapping[str, object] | None = ...,
    auto_scope: bool = ...,
    strict_ssa: bool = ...,
    external_source: object = ...,
) -> Callable[[PythonFunction], Function]: ...
def function(
    python: PythonFunction | None = None,
    *,
    type: FunctionType = FunctionType.Opaque,
    level: Level | None = None,
    role: Role | None = None,
    attrs: Mapping[str, object] | None = None,
    auto_scope: bool = True,
    strict_ssa: bool = False,
    external_source: object = None,
) -> Function | Callable[[PythonFunction], Function]:
    """Read a kernel function now; in a `@pl.program` class, together with the class."""
    if not isinstance(type, FunctionType):
        raise ArgumentError(f"`type` takes a pl.FunctionType, got {type!r}", help="write @pl.function(type=pl.FunctionType.InCore)")
    if attrs is not None:
        warnings.warn("attrs= of @pl.function is deprecated, use pl.func_attr({...}) in the body", DeprecationWarning, stacklevel=2)
    facts = {"level": level, "role": role, "auto_scope": None if auto_scope else False, "external_source": external_source, **(attrs or {})}
    options = {"type": type, "strict_ssa": strict_ssa, "attrs": {name: value for name, value in facts.items() if value is not None}}

    def decorate(target: PythonFunction) -> Function:
        enclosing = _enclosing(sys._getframe(1 if python is None else 2))
        return _decorated(target, options, enclosing)

    return decorate(python) if python is not None else decorate


def _decorated(target: PythonFunction, options: Mapping[str, object], enclosing: Mapping[str, object]) -> Function:
    if not inspect.isfunction(target):
        raise ArgumentError(f"@pl.function decorates functions, got {target!r}")
    if next(iter(inspect.signature(target).parameters), None) == "self":
        return Method(target, options, enclosing)  # type: ignore[return-value]
    if _is_host(options["attrs"], Role.SubWorker):
        return SubWorker(target.__name__, target)  # type: ignore[return-value]
    source = _source(target, options, enclosing)
    if source.kind == FunctionType.Inline.value:  # as in a program: it is read where it is called
        text = FunctionText(source.node, source.source, source.comments)
        scoped = source.attrs.get("auto_scope") is not False
        return InlineFunction(source.name, text, source.namespace, target, scoped)  # type: ignore[return-value]
    return build_function(source)


def _enclosing(frame: FrameType | None) -> Mapping[str, object]:
    """Names around a definition that its annotations may use without the body capturing them."""
    names: dict[str, object] = {}
    while frame is not None and frame.f_code.co_name != "<module>":
        for name, value in frame.f_locals.items():
            names.setdefault(name, value)
        if "__qualname__" not in frame.f_locals:
            break
        frame = frame.f_back
    return names


def _source(target: PythonFunction, options: Mapping[str, object], enclosing: Mapping[str, object], strict_ssa: bool = False) -> FunctionSource:
    text = function_text(target)
    kind, attrs = options["type"], options["attrs"]
    assert isinstance(kind, FunctionType) and isinstance(attrs, dict)
    return FunctionSource(
        target.__name__,
        text.node,
        text.source,
        Namespace(target, enclosing=enclosing),
        kind.value,
        attrs=attrs,
        comments=text.comments,
        annotations=dict(getattr(target, "__annotations__", {})),
        strict_ssa=strict_ssa or bool(options["strict_ssa"]),
    )


@overload
def program(cls: type) -> Program: ...
@overload
def program(*, strict_ssa: bool = ...) -> Callable[[type], Program]: ...
def program(cls: type | None = None, *, strict_ssa: bool = False) -> Program | Callable[[type], Program]:
    """Read a class of kernel functions."""

    def decorate(owner: type) -> Program:
        if not isinstance(owner, type):
            raise ArgumentError(f"@pl.program decorates classes, got {owner!r}")
        sources: list[FunctionSource] = []
        members = [member for member in vars(owner).values() if isinstance(member, Method) and _is_host(member.options["attrs"], Role.Orchestrator)]
        speak = any(speaks_of_ranks(member.python) for member in members)
        hosts = {member.python.__name__: HostFunction(member.python, member.enclosing) for member in members if speak}
        workers = {name: member for name, member in vars(owner).items() if isinstance(member, SubWorker)}
        for name, member in vars(owner).items():
            if isinstance(member, Method) and name in hosts:
                continue
            if isinstance(member, Method):
                sources.append(_source(member.python, member.options, member.enclosing, strict_ssa))
            elif isinstance(member, InlineFunction):
                text = member.text
                sources.append(FunctionSource(name, text.node, text.source, member.namespace, "inline", comments=text.comments))
            elif isinstance(member, Function):
                raise ParserSyntaxError(f"`{name}` of program {owner.__name__} needs `self` as its first parameter")
        if not sources and not hosts:
            raise ParserTypeError(f"program {owner.__name__} has no functions", help="decorate its methods with @pl.function")
        launched = launched_names({name: function_text(host.python).node for name, host in hosts.items()})
        built = build_program(owner.__name__, sources, owner=owner, launched=launched)
        return replace(built, hosts=hosts, sub_workers=workers) if hosts else built

    return decorate(cls) if cls is not None else decorate


def inline(python: PythonFunction) -> InlineFunction:
    """A function that is expanded at each call site."""
    if not inspect.isfunction(python):
        raise ArgumentError(f"@pl.inline decorates functions, got {python!r}")
    text: FunctionText = function_text(python)
    return InlineFunction(python.__name__, text, Namespace(python, enclosing=_enclosing(sys._getframe(1))), python)


__all__ = ["InlineFunction", "Method", "function", "inline", "program"]
