"""Compile-time values: names, attribute chains, operators and calls evaluated on the real Python objects."""

from __future__ import annotations

import ast
import builtins
import operator
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial, reduce
from types import BuiltinFunctionType, CellType, FunctionType, MappingProxyType, ModuleType
from typing import Any, cast

import numpy as np

from tilejit.errors import (
    SLIP,
    InvalidOperationError,
    KernelArithmeticError,
    ParserTypeError,
    TilejitError,
    UndefinedVariableError,
    UnsupportedFeatureError,
    did_you_mean,
)
from tilejit.frontend import foreign
from tilejit.kinds import class_name, is_a, true_module
from tilejit.types.number_bytes import number_bytes

Recorder = Callable[[str, object], None]
"""Told each compile-time value that a body read: the path as written, and the value."""

MISSING = object()
FunctionTypes = (FunctionType, partial)
"""User functions: what they do may change, so calling one is recorded."""


class Namespace(Mapping[str, object]):
    """What a function sees besides its locals, as Python does: closure cells, then globals, then builtins; read when asked."""

    def __init__(
        self,
        function: Callable[..., object] | None = None,
        extra: Mapping[str, object] | None = None,
        globals: Mapping[str, object] | None = None,
        enclosing: Mapping[str, object] | None = None,
    ) -> None:
        self._extra = extra or {}
        self._enclosing = enclosing or {}
        self._globals: Mapping[str, object] = globals if globals is not None else getattr(function, "__globals__", {})
        self._builtins: Mapping[str, object] = getattr(function, "__builtins__", vars(builtins))
        code = getattr(function, "__code__", None)
        cells = getattr(function, "__closure__", None) or ()
        self._cells = dict(zip(code.co_freevars, cells, strict=True)) if code is not None else {}

    def __getitem__(self, name: str) -> object:
        if name in self._extra:
            return self._extra[name]
        cell = self._cells.get(name)
        if cell is not None:
            try:
                return cell.cell_contents
            except ValueError:
                pass  # A cell that is not bound yet: Python would look no further, but a global of that name is the better guess.
        if name in self._enclosing:
            return self._enclosing[name]
        if name in self._globals:
            return self._globals[name]
        return self._builtins[name]

    @property
    def globals(self) -> Mapping[str, object]:
        """The module's names."""
        return self._globals

    @property
    def builtins(self) -> Mapping[str, object]:
        """What every function of its module sees."""
        return self._builtins

    @property
    def extra(self) -> Mapping[str, object]:
        """Names that hide all others."""
        return self._extra

    def cell(self, name: str) -> CellType | None:
        """The closure cell of `name`, if there is one; it may be empty."""
        return None if name in self._extra else self._cells.get(name)

    def __iter__(self) -> Iterator[str]:
        return iter({**self._builtins, **self._globals, **self._enclosing, **self._cells, **self._extra})

    def __len__(self) -> int:
        return sum(1 for _ in self)


BINARY: dict[type[ast.operator], Callable[[Any, Any], object]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.MatMult: operator.matmul,
}


def _inverted(value: Any) -> object:
    """`~value`, without the warning that Python 3.12 has for flags: where warnings are errors a kernel would compile in one process and not in the other."""
    return ~int(value) if type(value) is bool else ~value


UNARY: dict[type[ast.unaryop], Callable[[Any], object]] = {ast.UAdd: operator.pos, ast.USub: operator.neg, ast.Invert: _inverted, ast.Not: operator.not_}


def _contains(item: Any, container: Any) -> bool:
    return item in container


def _lacks(item: Any, container: Any) -> bool:
    return item not in container


def _is(one: Any, other: Any) -> bool:
    """`is` while compiling: of numbers and texts, type and value are known but no identity, so that is what is compared."""
    kind = type(one)
    if one is other or kind is not type(other):
        return one is other
    if kind is tuple:
        return len(one) == len(other) and all(map(_is, one, other))
    if kind is float or kind is complex:
        return repr(one) == repr(other)
    if kind is range or kind is slice:
        return _is((one.start, one.stop, one.step), (other.start, other.stop, other.step))
    if true_module(one) in ("numpy", "ml_dtypes") and hasattr(one, "tobytes"):
        return class_name(kind) != "ndarray" and one.dtype == other.dtype and number_bytes(one) == number_bytes(other)
    return kind in (int, str, bytes) and one == other


def _is_not(one: Any, other: Any) -> bool:
    return not _is(one, other)


COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], object]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: _is,
    ast.IsNot: _is_not,
    ast.In: _contains,
    ast.NotIn: _lacks,
}


def _has_numpy(value: object) -> bool:
    return is_a(value, np.generic) or (is_a(value, tuple, list, set, frozenset, dict) and any(map(_has_numpy, cast("Iterable[object]", value))))


def guarded(what: str | ast.AST, function: Callable[..., object], *args: object, **kwargs: object) -> object:
    """`function(*args)` while compiling; what it raises becomes an error of the kernel text."""
    start = time.perf_counter()
    try:
        if is_a(function, BuiltinFunctionType) and any(map(_has_numpy, (*args, *kwargs.values()))):
            with np.errstate(all="ignore"):  # an operator gives what it gives, whatever np.seterr says now: it is not asked again at each call
                return function(*args, **kwargs)
        return function(*args, **kwargs)
    except TilejitError:
        raise
    except ZeroDivisionError as error:
        what = what if isinstance(what, str) else f"`{ast.unparse(what)}`"
        raise KernelArithmeticError(
            f"{what} divides by zero", help="its divisor is 0 for these shapes and scalars: pl.static_assert can say so earlier"
        ) from error
    except Exception as error:
        what = what if isinstance(what, str) else f"`{ast.unparse(what)}`"
        path = what.strip("`").partition("(")[0]
        raise ParserTypeError(f"{what} failed while compiling: {type(error).__name__}: {error}", help=elsewhere(path)) from error
    finally:
        CLOCK.seconds = time.perf_counter() - start


class _Clock(threading.local):
    seconds = 0.0
    """How long the last function took that was called while compiling, by itself."""


CLOCK = _Clock()


def members(owner: object) -> list[str]:
    """The names of what an object has; of one that cannot say those in its dict, which may have other keys than texts."""
    try:
        found: Iterable[object] = dir(owner)
    except Exception:  # its class may have an answer of its own
        found = getattr(owner, "__dict__", ())
    return [name for name in found if isinstance(name, str)]


def attribute(owner: object, name: str, path: str) -> object:
    """`owner.name` on a Python object."""
    try:
        return getattr(owner, name)
    except AttributeError:
        if is_language(owner):
            help = foreign.missing_name(name) or did_you_mean(name, members(owner), SLIP)
            raise InvalidOperationError(f"`{path}` is not part of the language", help=help) from None
        kind = UndefinedVariableError if is_a(owner, ModuleType) else ParserTypeError
        candidates = [candidate for candidate in members(owner) if not candidate.startswith("_")]
        raise kind(f"`{path}` does not exist: {describe(owner)} has no `{name}`", help=did_you_mean(name, candidates)) from None
    except TilejitError:
        raise
    except Exception as error:
        raise ParserTypeError(f"reading `{path}` failed while compiling: {type(error).__name__}: {error}") from error


_DEEDS = (input, open, exec, eval, compile, __import__)
"""Builtins that are called for what they do: a kernel is read any number of times, and not at all when it comes from a cache."""
_CALLERS = (map, filter, iter, reduce)
"""Functions that call what they are given first; other builtins call what is given by `key=`."""


def refuse_deeds(function: object, path: str, args: Sequence[object] = (), keywords: Mapping[str, object] = MappingProxyType({})) -> None:
    """Builtins with side effects have no meaning in a kernel, whoever calls them there."""
    called = [(function, path), *((item, "") for item in args[:1] if any(function is caller for caller in _CALLERS))]
    if is_a(function, BuiltinFunctionType) and "key" in keywords:
        called.append((keywords["key"], ""))
    for item, name in called:
        if any(item is deed for deed in _DEEDS):
            raise UnsupportedFeatureError(f"plain `{name or cast('Any', item).__name__}` in a kernel", help="do it outside the kernel")


def call(function: Callable[..., object], args: Sequence[object], keywords: Mapping[str, object], path: str) -> object:
    """A plain Python call with compile-time arguments."""
    refuse_deeds(function, path, args, keywords)
    if function is globals or function is locals or ((function is vars or function is dir) and not args):
        raise UnsupportedFeatureError(f"`{path}()` in a kernel would give the names of the compiler", help="read what you need by its name")
    return guarded(f"`{path}(…)`", function, *args, **keywords)


def elsewhere(path: str) -> str | None:
    """What to write instead of a function of NumPy, torch or Triton; of Python itself only what arrays have too."""
    owner, _, name = path.rpartition(".")
    if not owner and name != "len":
        return f"write pl.{name}(…), which works on tensors and tiles" if hasattr(builtins, name) and foreign.in_language(name) else None
    return foreign.function_elsewhere(name)


def runtime_argument(path: str, argument: str) -> UnsupportedFeatureError:
    """The error for a Python function called with a value that only exists at run time."""
    return UnsupportedFeatureError(
        f"`{path}` is a Python function and runs while compiling, but {argument} is known only at run time",
        help=elsewhere(path) or "call it with compile-time values, or make it a kernel function with @pl.inline or @pl.jit.inline",
    )


def runtime_text(node: ast.AST) -> UnsupportedFeatureError:
    """The error for a text of values that only exist at run time."""
    return UnsupportedFeatureError(
        f"`{ast.unparse(node)}` needs the text of what only the run knows", help="compute with the value itself; pl.print shows it when the kernel runs"
    )


def describe(value: object) -> str:
    """A few words for a compile-time value in a message."""
    if is_a(value, ModuleType):
        return f"module `{getattr(value, '__name__', '?')}`"
    if is_a(value, type):
        return f"class `{class_name(value)}`"
    try:
        text = repr(value)
    except Exception:
        text = f"a {class_name(type(value))}"
    return text if len(text) <= 60 else text[:57] + "…"


_CONVERSIONS = {ord("r"): repr, ord("s"): str, ord("a"): ascii}


def format_string(
    node: ast.JoinedStr, evaluate: Callable[[ast.expr], object], formatted: Callable[[object, int, str], str | None] = lambda value, conversion, spec: None
) -> str:
    """An f-string of compile-time values; `formatted` may know better how one looks."""
    out: list[str] = []
    for part in node.values:
        if isinstance(part, ast.Constant):
            out.append(str(part.value))
        elif isinstance(part, ast.FormattedValue):
            value = evaluate(part.value)
            spec = format_string(part.format_spec, evaluate, formatted) if isinstance(part.format_spec, ast.JoinedStr) else ""
            found = formatted(value, part.conversion, spec)
            if found is None:
                value = _CONVERSIONS[part.conversion](value) if part.conversion in _CONVERSIONS else value
                found = str(guarded("this f-string", format, value, spec))
            out.append(found)
    return "".join(out)


def is_language(owner: object) -> bool:
    """Whether `owner` is `pl` or one of its namespaces."""
    name = getattr(owner, "__name__", None) if is_a(owner, ModuleType) else true_module(owner)
    return name in ("tilejit.language", "tilejit.pto")


class WithSelf(Mapping[str, object]):
    """A namespace in which `self` is the program."""

    def __init__(self, namespace: Mapping[str, object], reference: object) -> None:
        self._namespace, self._reference = namespace, reference

    def __getitem__(self, name: str) -> object:
        return self._reference if name == "self" else self._namespace[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._namespace)

    def __len__(self) -> int:
        return len(self._namespace)
