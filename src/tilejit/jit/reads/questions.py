"""The questions that passes ask of Python: a closed table of operations, each a function of raw objects."""

from __future__ import annotations

import operator as python_operator
import time
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tilejit.errors import Span, UncacheableValueError, UnsupportedFeatureError
from tilejit.frontend import fold
from tilejit.frontend.fold import CLOCK
from tilejit.jit.reads.natures import nature
from tilejit.jit.reads.plain import NotPlain, encode, is_plain
from tilejit.kinds import is_a, true_module
from tilejit.runtime.arrays import is_masked

if TYPE_CHECKING:
    from tilejit.jit.definition import Definition
    from tilejit.types.annotations import DynVar


class _Missing:
    """What a name is bound to that is not bound."""

    def __repr__(self) -> str:
        return "nothing"


MISSING = _Missing()
ARRAY_LIMIT = 64 << 10
"""Arrays up to this many bytes are taken by content."""


def name(owner: Definition, root: str) -> object:
    """What a function sees under a name: closure, globals, builtins, `self`."""
    return owner.namespace.get(root, MISSING)


def around(owner: Definition, root: str, *names: str) -> object:
    """What a chain of names leads to for an annotation in quotes that starts at a name of the function or class around the definition."""
    found = owner.around.get(root, MISSING)
    return MISSING if names and is_language(found) else followed(found, names)


def default(owner: Definition, param: str) -> object:
    """A parameter's default that is no plain value."""
    return next(item.default for item in owner.params if item.name == param)


def argument(given: Mapping[str, object], param: str) -> object:
    """What the call gave for a parameter that is read while compiling."""
    return given.get(param, MISSING)


def chain(owner: Definition, root: str, *names: str) -> object:
    """What a chain of names leads to, if it does; the language is not looked into."""
    found = name(owner, root)
    return MISSING if names and is_language(found) else followed(found, names)


def followed(found: object, names: Sequence[str]) -> object:
    """Where attributes lead from an object: MISSING where there is nothing, or an error. What needs it asks again and says so."""
    for attribute in names:
        try:
            found = getattr(found, attribute) if found is not MISSING else MISSING
        except Exception:
            return MISSING
    return found


def quoted(owner: Definition) -> str:
    """What annotations in quotes make of a function's parameters, where more than chains of names decides it."""
    return owner.quoted.described_now()


def quoted_here(owner: Definition) -> object:
    """The same for one process: MISSING where they name other classes by now, though of the same names, so that the function has to be read again."""
    told = owner.quoted.told_now()
    return MISSING if told is None else told


def symbol(value: DynVar, owner: object) -> object:
    """Which extent of a function's parameters a symbol names in their annotations: symbols of one literal are told apart by identity alone."""
    from tilejit.jit.reads.owners import maybe_definition

    definition = maybe_definition(owner)
    return definition.symbols.get(value, "no extent of a parameter") if definition is not None else MISSING


def kind(value: object, owner: object, param: str) -> object:
    """Whether a value is of one of the classes that a function's `param: pl.constexpr[…]` names."""
    from tilejit.jit.reads.owners import maybe_definition

    definition = maybe_definition(owner)
    only = next((item.only for item in definition.params if item.name == param), None) if definition is not None else None
    return MISSING if only is None else isinstance(value, only)


def is_language(value: object) -> bool:
    """Whether a value is our own package, or a module of ours under another name (`tilejit.compat`): then what is in it is no read."""
    if not is_a(value, types.ModuleType):
        return False
    return _is_ours(cast("dict[str, object]", object.__getattribute__(value, "__dict__")).get("__name__")) or _is_ours(true_module(value))


def _is_ours(name: object) -> bool:
    """Whether a module of that name is of our package."""
    return is_a(name, str) and (name.startswith("tilejit.") or name == "tilejit")


def assigned(module: types.ModuleType, *names: str) -> object:
    """Which names of the language somebody has assigned; the table is not loaded. All of them where a module only looks like ours, or looks elsewhere."""
    own = vars(module)
    tell = own.get("assigned")
    if tell is None:
        return names
    return tell(names) if type(module) is types.ModuleType and tell.__globals__ is own and own.get("__getattr__") is own["_looked_up"] else names


def attribute(owner: object, name: str, turn: int = 0, path: str = "") -> object:
    return fold.attribute(owner, name, path.strip("`") or f"(…).{name}")


def call(function: Callable[..., object], args: Sequence[object], keywords: Mapping[str, object], turn: int = 0, path: str = "") -> object:
    return fold.call(function, args, keywords, path or type(function).__name__)


def items(value: Any, path: str = "") -> object:
    """The members of a container, or what an iterator gives, in order: a plain tuple, or a list with objects in it."""
    found = cast("list[object]", fold.guarded(path or "unpacking", list, value))
    return tuple(found) if all(map(is_plain, found)) else found


def truth(value: object, path: str = "") -> object:
    return fold.guarded(path or "a condition", bool, value)


def text(value: object, conversion: int, spec: str, path: str = "") -> object:
    """An object as an f-string or `pl.print` shows it."""
    shown = repr(value) if conversion == ord("r") else ascii(value) if conversion == ord("a") else str(value) if conversion == ord("s") else value
    return str(fold.guarded(path or "this f-string", format, shown, spec))


def operator(symbol: str, *operands: object, path: str = "") -> object:
    """A unary, binary or comparing operator by the name of its `ast` class."""
    return fold.guarded(path or symbol, OPERATORS[symbol], *operands)


OPERATORS: dict[str, Callable[..., object]] = {
    **{kind.__name__: function for table in (fold.BINARY, fold.UNARY, fold.COMPARE) for kind, function in table.items()},
    "Is": python_operator.is_,
    "IsNot": python_operator.is_not,
}
"""By the names of their `ast` classes; of objects `is` means what it says."""


def content(value: object, path: str = "") -> object:
    """What an object is by content, as plain values; MISSING where it has none that would tell."""
    try:
        return _content(value, 0)
    except NotPlain:
        return MISSING


_ATOMS = frozenset({int, float, bool, str, bytes, type(None)})


def _content(value: object, depth: int) -> object:
    if type(value) in _ATOMS:
        return value
    if depth > 16:
        raise NotPlain(value)
    if is_a(value, bool, np.bool_):
        return bool(value)
    for base in (int, float, str, bytes):
        if is_a(value, base) and not is_a(value, np.generic):
            return base.__str__(value) if base is str else base(value)  # type: ignore[arg-type,call-overload]
    if is_a(value, np.ndarray):
        return _array(cast("np.ndarray[Any, Any]", value))
    if is_a(value, list, tuple):
        made = [_content(item, depth + 1) for item in cast("Sequence[object]", value)]
        return tuple(made) if is_a(value, tuple) else made
    if is_a(value, dict):
        return {_content(key, depth + 1): _content(item, depth + 1) for key, item in cast("dict[object, object]", value).items()}
    if is_a(value, set, frozenset):
        return tuple(_content(item, depth + 1) for item in cast("set[object]", value))
    encode(value)  # plain, or NotPlain
    return value


def _array(value: np.ndarray[Any, Any]) -> object:
    if is_masked(value) or value.dtype.hasobject or value.nbytes > ARRAY_LIMIT:
        raise NotPlain(value)
    found = value[()] if value.ndim == 0 else value.tolist()
    if value.dtype.kind not in "biufcSU":
        encode(found)  # dates, for one, are not plain
    return found


OPERATIONS: dict[str, Callable[..., object]] = {
    "name": name,
    "around": around,
    "argument": argument,
    "default": default,
    "chain": chain,
    "annotations": quoted,
    "symbol": symbol,
    "kind": kind,
    "assigned": assigned,
    "attr": attribute,
    "item": lambda owner, key, path="": fold.guarded(path or "a subscript", _item, owner, key),
    "call": call,
    "operator": operator,
    "truth": truth,
    "items": items,
    "text": text,
    "content": content,
    "nature": nature,
}
"""All of them. Those that take a `path` use it for messages only."""
MAKING = {"attr": 2, "call": 3}
"""Operations that may make an iterator, which is never shared: after so many operands stands which one it is, from the second on."""
AGAIN = {**OPERATIONS, "annotations": quoted_here}
"""How warm calls ask them."""


def answered(
    operation: str, operands: Sequence[object], raws: Sequence[object], path: str | None = None, operations: Mapping[str, Callable[..., object]] = OPERATIONS
) -> object:
    """The answer to a question. Lists and dicts that the kernel made itself must come back as they were given: it knows of no change in them."""
    made = [*_made(operands, raws)] if len(operands) == len(raws) else []
    before = [_members(one) for one in made]
    CLOCK.seconds, start = 0.0, time.perf_counter()
    answer = operations[operation](*raws) if path is None else operations[operation](*raws, path=path)
    CLOCK.seconds = CLOCK.seconds or time.perf_counter() - start  # of a call what it took by itself
    for one, members in zip(made, before, strict=True):
        now = _members(one)
        if len(now) != len(members) or any(map(python_operator.is_not, now, members)):
            what = f"`{(path or operation).strip('`')}` changes a {type(one).__name__} that the kernel made, which would be lost"
            raise UnsupportedFeatureError(what, help=f"let it work on a copy, and return the new {type(one).__name__} if the kernel needs it")
    return answer


def is_word(operation: str, place: int) -> bool:
    """Whether the operand at a place is a word of the kernel's text, or of ours, whatever values Python gave: names, operators, formats."""
    if operation in ("operator", "argument"):
        return place == 0
    return place >= MAKING["call"] if operation == "call" else place > (operation in ("item", "symbol", "kind"))


def holds_made(operand: object) -> bool:
    """Whether there is a list or dict of the kernel's in an operand."""
    return type(operand) in (list, dict) or (type(operand) is tuple and any(map(holds_made, cast("tuple[object, ...]", operand))))


def _made(operand: object, raw: Any) -> Iterator[Any]:
    """The lists and dicts of the kernel's, as Python is given them; those of the user stand behind numbers."""
    kind = type(operand)
    if kind is list or kind is dict:
        yield raw
    if kind is list or kind is tuple:
        for one, other in zip(cast("list[object]", operand), raw, strict=True):
            if type(one) in _CONTAINERS:
                yield from _made(one, other)
    elif kind is dict:
        for one, other in zip(cast("dict[object, object]", operand).values(), raw.values(), strict=True):
            yield from _made(one, other)


_CONTAINERS = frozenset({list, dict, tuple})


def _members(made: list[object] | dict[object, object]) -> list[object]:
    return [part for pair in made.items() for part in pair] if isinstance(made, dict) else list(made)


SPOKEN = frozenset({"attr", "item", "call", "operator", "truth", "items", "text", "content"})
"""Operations that are told how the kernel's text spells them."""


def _item(owner: Any, key: object) -> object:
    return owner[key]


def refusal(path: str, what: str) -> UncacheableValueError:
    """The error for an object that would have to become part of the program."""
    return UncacheableValueError(
        f"the kernel reads `{path}`, {what}, which cannot become part of a compiled program",
        help="read a number, a text or a tuple of it where it is used, or pass it as an argument",
    )


def nested(path: str, place: Span | None) -> UnsupportedFeatureError:
    """The error for a value that is nested more deeply than Python can follow."""
    what = f"the kernel reads `{path}`, a value that is nested too deeply"
    return UnsupportedFeatureError(what, span=place, help="read the part of it that is needed through a function")
