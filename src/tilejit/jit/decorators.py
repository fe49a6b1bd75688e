"""The decorators: `@pl.jit`, `.incore`, `.inline`, `.opaque`, with their options."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from typing import cast, overload

from tilejit.jit.definition import Definition
from tilejit.jit.function import JITFunction


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
        scalars = options.get("runtime_scalars")
        if scalars is not None:
            if isinstance(scalars, str):
                raise TypeError(f"runtime_scalars is a tuple of names: write runtime_scalars=({scalars!r},)")
            options["runtime_scalars"] = tuple(cast("tuple[str, ...]", scalars))
        if function is None:
            return lambda decorated: _decorate(decorated, self._kind, options, depth=2)
        return _decorate(function, self._kind, options, depth=2)


class _Jit(_Decorator):
    """`@pl.jit`."""

    def __init__(self) -> None:
        super().__init__("orchestration", frozenset({"auto_scope", "strict", "runtime_scalars", "on_drift"}))
        self.incore = _Decorator("incore", frozenset({"level"}))
        self.inline = _Decorator("inline", frozenset({"auto_scope"}))
        self.opaque = _Decorator("opaque", frozenset())


def _decorate(function: Callable[..., object], kind: str, options: Mapping[str, object], depth: int) -> JITFunction:
    if isinstance(function, staticmethod | classmethod):
        function = function.__func__
    plain = inspect.unwrap(function)
    if not inspect.isfunction(plain):
        raise TypeError(f"@pl.jit decorates a function, got {type(function).__name__}")
    if plain.__name__ == "<lambda>":
        raise TypeError("@pl.jit cannot decorate a lambda: a kernel is a `def` with annotated parameters")
    extra = _annotation_names(plain, sys._getframe(depth).f_locals) if "<locals>" in plain.__qualname__ else {}
    return JITFunction(Definition(plain, kind, dict(options), extra))


def _annotation_names(function: Callable[..., object], seen: Mapping[str, object]) -> dict[str, object]:
    """Names that only string annotations of a nested function mention: Python keeps no closure for them."""
    import ast

    found: dict[str, object] = {}
    for annotation in function.__annotations__.values():
        if isinstance(annotation, str):
            names = {node.id for node in ast.walk(ast.parse(annotation)) if isinstance(node, ast.Name)}
            found.update({name: seen[name] for name in names if name in seen})
    return {name: value for name, value in found.items() if name not in function.__code__.co_freevars}


jit = _Jit()
