"""Plain values: what passes may hold of Python itself. Exact types, immutable, written as JSON with a tag each and read back."""

from __future__ import annotations

import builtins
import enum
import math
import operator
import sys
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from tilejit.dtypes import DTYPES, DType
from tilejit.errors import ArtifactError
from tilejit.jit.reads.typed import TypedFloat
from tilejit.json_text import writer
from tilejit.kinds import is_a, true_module
from tilejit.ops.spec import OpFunction
from tilejit.types import annotations as language_types
from tilejit.types.annotations import RUNTIME, MemRef, Once, RuntimeMarker
from tilejit.types.enums import ENUMS
from tilejit.types.number_bytes import number_bytes, number_of_bytes
from tilejit.types.scopes import Marker

_ATOMS = frozenset({int, str, bool, type(None)})
"""Types that JSON has as they are."""
_NUMBERS = (int, float)

BUILTINS = (
    len, min, max, abs, int, float, bool, round, divmod, sum, range, str, tuple, list, dict, isinstance, issubclass, getattr, hasattr, sorted, reversed,
    enumerate, zip, map, filter, any, all, pow, repr, type, slice, ord, chr, hash, id, iter, next, set, frozenset, bytes, complex, callable, format, print,
    input, open, exec, eval, compile, breakpoint, __import__, globals, locals, vars, dir, super, object, bin, hex, oct, ascii, memoryview, bytearray,
)  # fmt: skip
"""Functions of Python that passes know by identity."""
_BUILTIN_NAMES = {id(function): function.__name__ for function in BUILTINS}
_PURE = (len, min, max, abs, int, float, bool, round, divmod, sum, range, str, tuple, list, pow, sorted, slice, ord, chr, complex, bin, hex, oct)
PURE = frozenset(map(id, _PURE))
"""Those whose result follows from plain arguments alone, if `follows` has no objection."""
_MATHS = tuple(value for value in vars(math).values() if isinstance(value, types.BuiltinFunctionType) and value.__self__ is math)
MATHS = frozenset(map(id, _MATHS))
"""Those of `math`, of which the same is true."""

_ALIASES = {"IOError": OSError, "EnvironmentError": OSError, "ExceptionGroup": ExceptionGroup, "Ellipsis": ..., "NotImplemented": NotImplemented}
_MADE_AT_RUN_TIME = 1 << 9
"""The flag of classes that a program makes, and Python itself of few."""


def is_builtin(name: str, value: object) -> bool:
    """Whether every process has this under this name, without anybody having put it there."""
    if is_a(value, types.BuiltinFunctionType):
        return value.__self__ is builtins and value.__name__ == name
    if type(value) is type and not value.__flags__ & _MADE_AT_RUN_TIME:
        return _ALIASES.get(name) is value or (value.__name__ == name and value.__module__ == "builtins")
    return name in _ALIASES and _ALIASES[name] is value


def language_path(value: object) -> str | None:
    """`pl.FP32`, `pl.Level.CORE_GROUP`, `pl.tile.full`, …: how the language spells one of its own objects, or None."""
    kind = type(value)
    if kind is OpFunction or kind is Marker:
        return repr(value)
    if kind in _ATOMS or kind is tuple or kind is list or kind is float:
        return None
    if is_a(value, DType):
        return f"pl.{value.name}" if DTYPES.get(value.name) is value else None
    if is_a(value, enum.Enum) and ENUMS.get(type(value).__name__) is type(value):
        return f"pl.{type(value).__name__}.{value.name}"
    if is_a(value, enum.EnumMeta) and ENUMS.get(value.__name__) is value:
        return f"pl.{value.__name__}"
    if is_a(value, RuntimeMarker):
        return repr(RUNTIME)
    if kind is MemRef:
        return None
    if kind is type or kind is _Function:
        name = cast("type", value).__name__
        if getattr(language_types, name, None) is value:
            return f"{'pld' if name in _DISTRIBUTED else 'pl'}.{name}"
    return None


_Function = type(language_path)
_DISTRIBUTED = ("DistributedTensor", "CommCtx")


def is_open(value: object, name: str) -> bool:
    """Whether somebody may have set `value.name`: attributes of objects of the language and of Python's functions, except what is fixed by their classes."""
    if language_path(value) is None:
        return type(value) is types.BuiltinFunctionType
    if is_a(value, enum.EnumMeta):
        return name not in value.__members__
    fixed = ("name", "value") if is_a(value, enum.Enum) else DType.__dataclass_fields__ if is_a(value, DType) else ()
    return name not in fixed


_PARTS = ("tilejit.language", "tilejit.types.", "tilejit.tile_ir.", "tilejit.frontend.")


def is_part(value: object) -> bool:
    """Whether an object of ours becomes part of programs as it is: what the language consists of, annotations, views, functions of programs and inline
    functions, none of which changes. All else of ours (errors, compiled programs, settings of a run, …) is like any object of the user."""
    return true_module(value).startswith(_PARTS) and not is_a(value, type, Once)


def _is_number(value: np.generic) -> bool:
    """Whether a NumPy scalar is plain: no record, which can be changed in place, and no subclass."""
    package = true_module(value).partition(".")[0]
    return package == "ml_dtypes" or (package == "numpy" and value.dtype.kind not in "VO")


class NotPlain(Exception):
    """A value that is no plain one."""


def encode(value: object, other: Callable[[object], object] | None = None, shared: Callable[[object], object] | None = None) -> Any:
    """A plain value as JSON, with a tag wherever JSON has no such type. What is not plain is given to `other`, lists and dicts to `shared`."""
    kind = type(value)
    if shared is not None and (kind is list or kind is dict):
        return shared(value)
    if kind in _ATOMS:
        return value if kind is not int or cast("int", value).bit_length() < _LONG else ["int", hex(cast("int", value))]
    if kind is float:
        number = cast("float", value)
        return ["float", "nan" if math.isnan(number) else number.hex()]
    if kind is tuple or kind is list:
        return [kind.__name__, *[encode(item, other, shared) for item in cast("tuple[object, ...]", value)]]
    if kind is TypedFloat:
        return ["typed", cast("TypedFloat", value).dtype.name, encode(float(cast("float", value)))]
    path = language_path(value)
    if path is not None:
        return ["pl", path]
    if kind is slice or kind is range:
        part = cast("slice", value)
        return [kind.__name__, *[encode(item, other) for item in (part.start, part.stop, part.step)]]
    if kind is dict:
        return ["dict", *[[encode(key, other), encode(item, other)] for key, item in cast("dict[object, object]", value).items()]]
    if kind is complex:
        return ["complex", encode(cast("complex", value).real), encode(cast("complex", value).imag)]
    if kind is bytes:
        return ["bytes", cast("bytes", value).hex()]
    if value is Ellipsis:
        return ["..."]
    if id(value) in _BUILTIN_NAMES:
        return ["builtin", _BUILTIN_NAMES[id(value)]]
    if kind is np.str_ or kind is np.bytes_:  # an array of one would drop zeros at the end
        return ["numpy text", str.__str__(cast("str", value))] if kind is np.str_ else ["numpy bytes", bytes(cast("bytes", value)).hex()]
    if is_a(value, np.generic) and _is_number(value):
        return ["numpy", _dtype_name(value.dtype) if kind.__module__ == "numpy" else f"ml_dtypes.{value.dtype.name}", number_bytes(value).hex()]
    if other is None:
        raise NotPlain(value)
    return other(value)


def _dtype_name(dtype: np.dtype[Any]) -> str:
    """How the type of a NumPy scalar is written: two of the same size that are not the same type have letters of their own."""
    return dtype.str if np.dtype(dtype.str).char == dtype.char else dtype.char


def written(value: object) -> str:
    """A plain value in writing: equal for two if and only if they are the same to a kernel."""
    return dumps(encode(value))


dumps = writer(",", ":")
"""Of what `encode` made: a tree."""


def same(one: object, other: object) -> bool:
    """Whether two plain values are the same, by type and value: 1, True and 1.0 differ, and a NaN equals itself."""
    kind = type(one)
    if kind in _ATOMS:
        return kind is type(other) and one == other
    if kind is float:
        return type(other) is float and one.hex() == other.hex()  # type: ignore[attr-defined]
    if kind is tuple or kind is list:
        items, members = cast("tuple[object, ...]", one), cast("tuple[object, ...]", other)
        return kind is type(other) and len(items) == len(members) and all(map(same, items, members))
    if kind is dict:
        pairs, others = cast("dict[object, object]", one), cast("dict[object, object]", other)
        alike = type(other) is dict and len(pairs) == len(others) and all(map(same, pairs, others))  # in their order
        return alike and all(map(same, pairs.values(), others.values()))
    return written(one) == written(other)


def is_plain(value: object) -> bool:
    """Whether a value is plain, members included. Lists and dicts are not: they are somebody's, and change."""
    kind = type(value)
    if kind in _ATOMS or kind is float or kind is TypedFloat or kind is bytes or kind is complex or id(value) in _BUILTIN_NAMES or value is Ellipsis:
        return True
    if kind is tuple:
        return all(map(is_plain, cast("tuple[object, ...]", value)))
    if kind is slice or kind is range:
        part = cast("slice", value)
        return is_plain(part.start) and is_plain(part.stop) and is_plain(part.step)
    if is_a(value, np.generic):
        return _is_number(value)
    return language_path(value) is not None


_DEEP = 50
"""Containers in one another that nobody writes by hand."""


def is_deep(value: object) -> bool:
    """Whether so many containers lie in one another that Python's stack may be too short for them; found without recursion."""
    layer, seen = [value], set[int]()
    for _ in range(_DEEP):
        if not layer:
            return False
        layer = [item for one in layer for item in _inside(one) if id(item) not in seen]
        seen.update(map(id, layer))
    return bool(layer)


def _inside(value: object) -> Iterable[object]:
    if type(value) is dict:
        return cast("dict[object, object]", value).values()
    return cast("tuple[object, ...]", value) if type(value) is tuple or type(value) is list else ()


def steady(value: object) -> object:
    """The value with one object for each NaN: `in` and `==` of tuples look at identity first, of which no key knows."""
    kind = type(value)
    if kind in _ATOMS:
        return value
    if kind is float:
        return value if value == value else math.nan
    if kind is tuple or kind is list:
        made = kind(map(steady, cast("tuple[object, ...]", value)))
        return value if all(map(operator.is_, made, cast("tuple[object, ...]", value))) else made
    if kind is dict:
        return {steady(key): steady(item) for key, item in cast("dict[object, object]", value).items()}
    if kind is slice:
        part = cast("slice", value)
        parts = (part.start, part.stop, part.step)
        return value if steady(parts) is parts else slice(*map(steady, parts))
    if kind is complex or is_a(value, np.generic):
        return value if value == value else _NANS.setdefault(written(value), decode(encode(value)))
    return value


def another(value: object) -> object:
    """An equal object that nobody else has; the value itself where Python has one for all that are equal."""
    kind = type(value)
    if kind is int:
        return cast("int", value) ^ 1 ^ 1
    if kind is str:
        return cast("str", value).encode("utf-8", "surrogatepass").decode("utf-8", "surrogatepass")
    if kind is tuple:
        return (*cast("tuple[object, ...]", value),)
    return decode(encode(value)) if kind in (float, bytes, complex, slice, range) or is_a(value, np.generic) else value


def interned(value: object) -> object:
    """A text that could be a name as Python's own constants have it: one object for all that are equal."""
    return sys.intern(value) if type(value) is str and value.isascii() and value.replace("_", "a").isalnum() else value


_NANS: dict[str, object] = {}
"""Those of other types than float, by their writing."""


def is_settled(value: object) -> bool:
    """Whether the text of a plain value follows from the value, and the number of a text: NumPy scalars follow print options, very long integers a limit."""
    kind = type(value)
    if kind is int:
        return cast("int", value).bit_length() < _LONG
    if kind is str or kind is bytes:
        return len(cast("str", value)) < _LONG_TEXT
    if kind in _GROUPS:
        return all(map(is_settled, cast("tuple[object, ...]", value)))
    if kind is slice or kind is range:
        part = cast("slice", value)
        return is_settled((part.start, part.stop, part.step))
    if kind is dict:
        return all(is_settled(pair) for pair in cast("dict[object, object]", value).items())
    return not is_a(value, np.generic)


_GROUPS = (tuple, list, set, frozenset, type({}.keys()), type({}.values()), type({}.items()))
_LONG, _LONG_TEXT = 2000, 600
"""Bits of integers that Python writes, and characters of those that it reads, whatever its limit is: that is 640 digits or more."""


_CONVERTING = frozenset(map(id, (str, int)))
"""Between numbers and texts."""


def follows(function: object, given: Sequence[object], names: Mapping[str, object]) -> bool:
    """Whether what a builtin gives follows from these plain arguments: not from what `key=` calls (`hash` has a seed), a codec or handler of errors that
    somebody registered, or, as numbers and texts are turned into each other, the interpreter's limit."""
    called = [id(function)] if names.get("key") is None else [id(function), id(names["key"])]
    if not PURE.issuperset(called) or (function is str and len(given) + len(names) > 1):
        return False
    return _CONVERTING.isdisjoint(called) or (is_settled(given) and is_settled(names))


def decode(data: object, other: Callable[[str, list[Any]], object] | None = None) -> object:
    """What `encode` wrote; ArtifactError for anything else. `other` reads the tags that are not of plain values."""
    if not isinstance(data, list):
        if type(data) in _ATOMS:
            return data
        raise ArtifactError("a value of the cache has an unknown form")
    rows = cast("list[Any]", data)
    tag = rows[0] if rows else None
    try:
        read = _READERS.get(cast("str", tag))
        if read is not None:
            return read(rows[1:], other)
        if other is not None and isinstance(tag, str):
            return other(tag, rows[1:])
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError):
        pass
    raise ArtifactError("a value of the cache has an unknown form")


_Other = Callable[[str, list[Any]], object] | None


def _members(rows: list[Any], other: _Other) -> list[object]:
    return [decode(item, other) for item in rows]


def _numpy(rows: list[Any], other: _Other) -> object:
    name, data = rows
    package, _, rest = str(name).partition(".")
    dtype = np.dtype(getattr(__import__("ml_dtypes"), rest)) if package == "ml_dtypes" else np.dtype(name)
    return number_of_bytes(bytes.fromhex(data), dtype)


def _of_language(rows: list[Any], other: _Other) -> object:
    from importlib import import_module  # by name: kernels see the facade, nothing here depends on it

    first, *names = str(rows[0]).split(".")
    found: object = import_module({"pl": "tilejit.language", "pld": "tilejit.language.distributed"}[first])
    for name in names:
        found = getattr(found, name)
    if language_path(found) != rows[0]:
        raise ValueError(rows[0])
    return found


def _builtin(rows: list[Any], other: _Other) -> object:
    found = vars(builtins)[rows[0]]
    if id(found) not in _BUILTIN_NAMES:
        raise ValueError(rows[0])
    return found


_READERS: dict[str, Callable[[list[Any], _Other], object]] = {
    "int": lambda rows, other: int(rows[0], 16),
    "float": lambda rows, other: math.nan if rows[0] == "nan" else float.fromhex(rows[0]),
    "typed": lambda rows, other: TypedFloat(cast("float", decode(rows[1])), DTYPES[rows[0]]),
    "tuple": lambda rows, other: tuple(_members(rows, other)),
    "list": _members,
    "slice": lambda rows, other: slice(*_members(rows, other)),
    "range": lambda rows, other: range(*cast("list[int]", _members(rows, other))),
    "dict": lambda rows, other: {decode(key, other): decode(item, other) for key, item in rows},
    "complex": lambda rows, other: complex(*cast("list[float]", _members(rows, other))),
    "bytes": lambda rows, other: bytes.fromhex(rows[0]),
    "...": lambda rows, other: ...,
    "pl": _of_language,
    "builtin": _builtin,
    "numpy": _numpy,
    "numpy text": lambda rows, other: np.str_(rows[0]),
    "numpy bytes": lambda rows, other: np.bytes_(bytes.fromhex(rows[0])),
}
"""How each tag is read."""
