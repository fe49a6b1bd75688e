"""The decorators: `@pl.jit`, `.host`, `.incore`, `.inline`, `.opaque`, `.extern`, with their options."""

from __future__ import annotations

import ast
import inspect
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import cast, overload

from tilejit.errors import ArgumentError, ParserSyntaxError
from tilejit.frontend.source import unwrapped
from tilejit.frontend.texts import remember
from tilejit.jit.bound import ByReference
from tilejit.jit.definition import Definition
from tilejit.jit.function import JITFunction
from tilejit.jit.reads.plain import is_plain
from tilejit.kinds import is_a
from tilejit.runtime.config import flag
from tilejit.types.annotations import DirectedAnnotation, DynVar, ScalarAnnotation, TensorAnnotation, TileAnnotation
from tilejit.types.enums import Level
from tilejit.types.python_text import statements


class _Decorator:
    """`@pl.jit.incore` and its siblings, with or without options."""

    def __init__(self, kind: str, options: frozenset[str]) -> None:
        self._kind = kind
        self._options = options

    @overload
    def __call__(self, function: Callable[..., object], /) -> JITFunction: ...
    @overload
    def __call__(self, /, **options: object) -> Callable[[Callable[..., object]], JITFunction]: ...
    def __call__(self, function: Callable[..., object] | None = None, /, **options: object) -> JITFunction | Callable[[Callable[..., object]], JITFunction]:
        for name in options:
            if name not in self._options:
                raise TypeError(f"@pl.jit{'' if self._kind == 'orchestration' else '.' + self._kind} does not take `{name}=`")
        options = {name: _PLAIN[name](name, value) for name, value in options.items() if value is not None}
        if function is None:
            return lambda decorated: _decorate(decorated, self._kind, options, depth=2)
        return _decorate(function, self._kind, options, depth=2)


def _names(option: str, scalars: object) -> tuple[str, ...]:
    """What `runtime_scalars=` was given."""
    if isinstance(scalars, str):
        raise ArgumentError(f"{option} is a tuple of names", help=f"write {option}=({scalars!r},)")
    if not isinstance(scalars, Iterable):
        raise ArgumentError(f"{option} is a tuple of names of parameters, got {scalars!r}")
    return tuple(_text(option, name) for name in cast("Iterable[object]", scalars))


def _text(option: str, value: object) -> str:
    if not isinstance(value, str):
        raise ArgumentError(f"{option} takes texts, got {value!r}", help=f"write {option} in quotes")
    return str.__str__(value)


def _level(option: str, value: object) -> Level:
    if not isinstance(value, Level):
        raise ArgumentError(f"{option} is one of pl.Level, got {value!r}", help=f"write {option}=pl.Level.AIV or {option}=pl.Level.AIC")
    return value


_PLAIN: Mapping[str, Callable[[str, object], object]] = {
    "auto_scope": flag, "strict": flag, "eager": flag, "on_drift": _text, "runtime_scalars": _names, "level": _level,
}  # fmt: skip
"""Options as the plain values that they stand for: they are part of the key, where an object of a class of one's own has no value."""


class _Jit(_Decorator):
    """`@pl.jit`."""

    def __init__(self) -> None:
        super().__init__("orchestration", frozenset({"auto_scope", "strict", "runtime_scalars", "on_drift", "eager"}))
        self.incore = _Decorator("incore", frozenset({"level"}))
        self.inline = _Decorator("inline", frozenset({"auto_scope"}))
        self.opaque = _Decorator("opaque", frozenset())
        self.host = _Decorator("host", frozenset({"auto_scope"}))

    def extern(
        self,
        *,
        core_type: str = "aiv",
        source: str | os.PathLike[str] | None = None,
        aic_source: str | os.PathLike[str] | None = None,
        aiv_source: str | os.PathLike[str] | None = None,
        dual_aiv_dispatch: bool = False,
        include_dirs: Sequence[str | os.PathLike[str]] | None = None,
    ) -> Callable[[Callable[..., object]], JITFunction]:
        """A function whose body is C++ code for Ascend; in Python it is `...`."""
        if core_type not in ("aiv", "aic", "mixed"):
            raise ValueError(f'core_type is "aiv", "aic" or "mixed", got {core_type!r}')
        if dual_aiv_dispatch and core_type != "mixed":
            raise ValueError('dual_aiv_dispatch=True needs core_type="mixed"')
        wanted = {"aic_source": aic_source, "aiv_source": aiv_source} if core_type == "mixed" else {"source": source}
        for name, path in wanted.items():
            if path is None:
                raise ValueError(f'@pl.jit.extern(core_type="{core_type}") needs {" and ".join(f"{key}=" for key in wanted)}')
            if not os.path.isfile(path):
                raise ValueError(f"{name}: there is no file {os.fspath(path)}")
        if isinstance(include_dirs, str | os.PathLike):
            raise TypeError(f"include_dirs is a list of directories: write include_dirs=[{os.fspath(include_dirs)!r}]")
        for path in include_dirs or ():
            if not os.path.isdir(path):
                raise ValueError(f"include_dirs: there is no directory {os.fspath(path)}")
        files = {name: _text(name, os.fsdecode(path)) for name, path in wanted.items() if path is not None}
        folders = tuple(_text("include_dirs", os.fsdecode(path)) for path in include_dirs or ())
        both = flag("dual_aiv_dispatch", dual_aiv_dispatch)
        options = {"core_type": _text("core_type", core_type), **files, "dual_aiv_dispatch": both, "include_dirs": folders}
        return lambda function: _header_only(_decorate(function, "extern", options, depth=2))


def _header_only(function: JITFunction) -> JITFunction:
    definition = function.definition
    last = definition.text.node.body[-1]
    if len(definition.text.node.body) > 2 or not (isinstance(last, ast.Expr) and isinstance(last.value, ast.Constant) and last.value.value is ...):
        message = f"the body of the extern function `{definition.name}` must be `...`"
        raise ParserSyntaxError(message, span=definition.span(last), help="its code is the C++ file")
    return function


def _decorate(function: Callable[..., object], kind: str, options: Mapping[str, object], depth: int) -> JITFunction:
    if is_a(function, staticmethod, classmethod):
        function = function.__func__
    plain = function.origin() if is_a(function, ByReference) else unwrapped(function)
    if not inspect.isfunction(plain):
        raise TypeError(f"@pl.jit decorates a function, got {type(function).__name__}")
    if plain.__name__ == "<lambda>":
        raise TypeError("@pl.jit cannot decorate a lambda: a kernel is a `def` with annotated parameters")
    parameters = inspect.signature(plain, follow_wrapped=False).parameters
    unknown = [name for name in cast("tuple[str, ...]", options.get("runtime_scalars", ())) if name not in parameters]
    if unknown:
        raise TypeError(f"runtime_scalars names `{unknown[0]}`, which is no parameter of {plain.__name__}")
    remember(plain)
    around = _annotation_names(plain, sys._getframe(depth)) if "." in plain.__qualname__ else {}
    return JITFunction(Definition(plain, kind, dict(options), around=around))


def _annotation_names(function: FunctionType, frame: FrameType | None) -> dict[str, object]:
    """Names of the function or class around a definition that its annotations in quotes mention: Python keeps no closure for them.

    Those of locals are in a text that is not read yet: of functions around, whatever could stand in one is kept.
    """
    texts = [annotation for annotation in function.__annotations__.values() if isinstance(annotation, str)]
    names = {node.id for text in texts for node in ast.walk(statements(text)) if isinstance(node, ast.Name)}
    hidden, found = {*function.__code__.co_varnames, *function.__code__.co_cellvars} - names, dict[str, object]()
    code, in_function = function.__code__, False
    # What decorates need not be what the definition stands in: `pl.jit(make())`, a project's own decorator. The code of what does holds that of the function.
    while "." in code.co_qualname and (held := _holding(code, frame)) is not None:
        frame, between = held
        for ended in between:  # whose own names nobody has any more
            hidden |= {*ended.co_varnames, *ended.co_cellvars, *(() if _is_function(ended) or in_function else ended.co_names)}
            in_function |= _is_function(ended)
        seen = frame.f_locals
        if _is_function(frame.f_code):
            hidden |= {*function.__code__.co_freevars, *found}  # the former it follows itself
            found |= {name: value for name, value in seen.items() if name not in hidden and (name in names or _may_annotate(value))}
        elif not in_function:  # the names of a class are not those of functions in its functions
            found |= {name: seen[name] for name in names.difference(hidden, found) if name in seen}
        code, in_function = frame.f_code, in_function or _is_function(frame.f_code)
    return found


def _may_annotate(value: object) -> bool:
    """Whether a value can be part of an annotation, and holds nothing that its owner may want to be rid of."""
    return is_a(value, ModuleType, DynVar, TensorAnnotation, TileAnnotation, ScalarAnnotation, DirectedAnnotation) or is_plain(value)


def _is_function(code: CodeType) -> bool:
    return bool(code.co_flags & inspect.CO_OPTIMIZED)


def _holding(code: CodeType, frame: FrameType | None) -> tuple[FrameType, list[CodeType]] | None:
    """The innermost of what runs, from `frame` on, in whose text the one with this code stands, and what of that has ended; None: all, or it is a module."""
    while frame is not None:
        between = _between(frame.f_code, code)
        if between is not None:
            return (frame, between) if frame.f_locals is not frame.f_globals else None
        frame = frame.f_back
    return None


def _between(outer: CodeType, code: CodeType) -> list[CodeType] | None:
    """The functions and classes in `outer` around this code, from the inside; None: it stands elsewhere."""
    for part in outer.co_consts:
        if part is code:
            return []
        if isinstance(part, CodeType) and (found := _between(part, code)) is not None:
            return [*found, part]
    return None


jit = _Jit()
