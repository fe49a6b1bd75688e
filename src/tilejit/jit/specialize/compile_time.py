"""Arguments that are no single tensor or number: compile-time values and objects, and containers of tensors, which are taken apart."""

from __future__ import annotations

import enum
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, TypeVar, cast

import numpy as np

from tilejit.errors import ArgumentError
from tilejit.jit.definition import Definition
from tilejit.jit.protocol import registration_hint
from tilejit.jit.reads.plain import is_plain, steady
from tilejit.jit.specialize.meta import Bundle, CompileTime, Constant
from tilejit.jit.specialize.signature import JitParam
from tilejit.kinds import is_a
from tilejit.runtime.arrays import scalar_of, view_of

Made = TypeVar("Made")
Tensor = Callable[[Definition, JitParam, object], Made]
"""Describes a tensor argument."""


class Parts:
    """The arguments of one call that are not simply tensors and numbers."""

    def __init__(self, definition: Definition, tensor: Tensor[Any], number: Tensor[Any]) -> None:
        self.definition = definition
        self.objects: dict[str, object] = {}
        """What the body asks while compiling, by parameter."""
        self.of_classes: dict[str, object] = {}
        """Plain values that are of the classes that their parameters name."""
        self._spread: dict[str, dict[str, object]] = {}
        self._taken: set[str] = set()
        self._tensor, self._number = tensor, number

    def spread(self, values: Mapping[str, object]) -> Mapping[str, object]:
        """The arguments with containers replaced by the tensors in them."""
        if not self._spread:
            return values
        return {name: item for key, value in values.items() for name, item in self._spread.get(key, {key: value}).items()}

    def classify(self, param: JitParam, value: object) -> Any:
        """What an argument of an open parameter is."""
        try:
            found = self._classified(param, value)
        except RecursionError:
            what = f"`{param.name}` has containers in containers without end, or nearly so"
            raise ArgumentError(f"{self.definition.label}: {what}", help="pass its members by themselves") from None
        if param.only is not None and isinstance(found, Constant):
            self.of_classes[param.name] = value if is_plain(value) else found.value
        return found

    def _classified(self, param: JitParam, value: object) -> Any:
        if param.only is not None and not isinstance(value, param.only):
            wanted = " or ".join(kind.__name__ for kind in param.classes)
            what = f"`{param.name}` is a compile-time {wanted}, got {type(value).__name__}: {value!r}"
            raise ArgumentError(f"{self.definition.label}: {what}", help=f"pass a value of {wanted}, or change the annotation")
        if scalar_of(value) is not None and not _has_own_class(value):
            return self._number(self.definition, param, value)
        if is_plain(value) and not isinstance(value, tuple):
            return Constant(steady(value))
        if param.kind == "other" and _is_tensor(value):
            return self._tensor(self.definition, param, value)
        if any(map(_is_tensor, leaves(value))):
            return self._bundle(param, param.name, value)
        if is_plain(value):
            return Constant(steady(value))
        if param.kind == "static" or is_known_kind(value):
            self.objects[param.name] = value
            return CompileTime()
        what = f"`{param.name}` must be a tensor, a number or a compile-time value, got {type(value).__name__}"
        help = f"{registration_hint(value)}; to read it while compiling: {param.name}: pl.constexpr"
        raise ArgumentError(f"{self.definition.label}: {what}", help=help)

    def _bundle(self, param: JitParam, name: str, value: object) -> Bundle[Any]:
        """A container, whose tensors are parameters of their own."""
        if (own := _own_way(value)) is not None:
            what = f"`{param.name}` has tensors in a {type(value).__name__}, whose own `{own}` a kernel would not call"
            raise ArgumentError(f"{self.definition.label}: {what}", help="pass a plain dict, list or tuple of what it gives")
        kind, keys, items = members_of(value)
        classes = [type(key).__name__ for key in keys if isinstance(key, int | str) and not is_plain(key)]
        keys = tuple(self._key(param, key) for key in keys)
        names = member_names(self.definition, name, keys or tuple(range(len(items))), self._taken)
        members = [self._member(param, flat, item) for flat, item in zip(names, items, strict=True)]
        return Bundle(kind, names, tuple(members), keys, classes[0] if classes else "")

    def _key(self, param: JitParam, key: object) -> object:
        """A key as the body sees it: a plain value."""
        if isinstance(key, int | str) and not is_plain(key):
            return int.__int__(key) if isinstance(key, int) else str.__str__(key)
        if not is_plain(key):
            what = f"`{param.name}` is a dict with tensors in it, and one of its keys is a {type(key).__name__}"
            raise ArgumentError(f"{self.definition.label}: {what}", help="let numbers, texts or tuples of these be the keys")
        return steady(key)

    def _member(self, param: JitParam, name: str, value: object) -> Any:
        if _is_tensor(value):
            self._spread.setdefault(param.name, {})[name] = value
            return self._tensor(self.definition, param._replace(name=name), value)
        if is_plain(value):
            return Constant(steady(value))
        if any(map(_is_tensor, leaves(value))):
            return self._bundle(param, name, value)
        self.objects[name] = value
        return CompileTime()


def member_names(definition: Definition, name: str, keys: tuple[object, ...], taken: set[str]) -> tuple[str, ...]:
    """Names for the members of a container as parameters: `xs_0`, `weights_q`; other than those of the function's own and those of the call that are taken."""
    out: list[str] = []
    for position, key in enumerate(keys):
        part = f"{name}_{key}" if isinstance(key, int | str) and f"{name}_{key}".isidentifier() else f"{name}_{position}"
        while part in definition.local_names or part in taken:
            part += "_"
        taken.add(part)
        out.append(part)
    return tuple(out)


def members_of(value: object) -> tuple[str, tuple[object, ...], tuple[object, ...]]:
    """What a container is, its keys where it has any, and its members."""
    if isinstance(value, Mapping):
        pairs = cast("Mapping[object, object]", value)
        return "dict", tuple(pairs), tuple(pairs.values())
    if is_a(value, list):
        return "list", (), tuple(value)
    items = cast("tuple[object, ...]", value)
    return "tuple", _fields_of(items), tuple(items)


_CONTAINERS = (OrderedDict, defaultdict, dict, list, tuple)
_WAYS = (
    *("__getattribute__", "__getitem__", "__iter__", "__reversed__", "__len__", "__bool__", "__contains__", "get", "keys", "values", "items"),
    *("__add__", "__mul__", "__rmul__", "__or__", "__ror__", "__iadd__", "__imul__", "__ior__"),
)
"""What a kernel does with a container that was taken apart; comparing and showing what only the run knows is refused."""


def _own_way(value: object) -> str | None:
    """What a container of a class of its own does in another way than the one that the class is derived from; None: nothing that a kernel would do."""
    classes = type(value).__mro__
    own = classes[: next((place for place, cls in enumerate(classes) if cls in _CONTAINERS), 0)]
    found = next((name for name in _WAYS if any(name in vars(cls) for cls in own)), None)
    if found is None and is_a(value, tuple) and (names := _fields_of(value)):
        odd = (name for place, name in enumerate(names) if not _is_field(own, name, place))
        found = "_fields" if len(names) != len(value) else next(odd, None)
    return found


def _fields_of(value: tuple[object, ...]) -> tuple[str, ...]:
    """The names of a named tuple's members; none: it is no named tuple."""
    return tuple(getattr(type(value), "_fields", ()))


def _is_field(classes: Sequence[type], name: str, place: int) -> bool:
    """Whether a name is that of a member as `collections.namedtuple` makes them."""
    found: Any = next((vars(cls)[name] for cls in classes if name in vars(cls)), None)
    return type(found).__name__ == "_tuplegetter" and found.__reduce__()[1][0] == place


def leaves(value: object, depth: int = 0) -> Iterator[object]:
    """What is in a container, those in it included."""
    if depth > 8 or not is_a(value, tuple, list, dict):
        return
    for item in cast("tuple[object, ...]", tuple(value.values()) if is_a(value, dict) else value):
        yield item
        yield from leaves(item, depth + 1)


def is_known_kind(value: object) -> bool:
    """Whether an object is of a kind that is passed for what it says, not for its data."""
    kinds = (int, float, np.generic, tuple, list, dict, set, frozenset, enum.Enum, SimpleNamespace)
    return is_a(value, *kinds) or callable(value) or hasattr(type(value), "__dataclass_fields__") or is_plain(value)


def _has_own_class(value: object) -> bool:
    """Whether a number is an object too, which may have members and operators of its own."""
    return is_a(value, int, float, np.generic, enum.Enum) and type(value) not in (int, float, bool) and not is_plain(value)


def _is_tensor(value: object) -> bool:
    return not is_a(value, str, int, float, tuple, list, dict, type(None)) and scalar_of(value) is None and view_of(value) is not None
