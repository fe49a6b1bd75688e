"""Arguments of foreign classes: the protocol they implement, or a registered function that turns them into arrays."""

from __future__ import annotations

import enum
import hashlib
import json
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np

from tilejit.errors import ArgumentError
from tilejit.jit.reads.plain import encode
from tilejit.jit.reads.questions import MISSING, content, refusal
from tilejit.kinds import class_name, is_torch_tensor, module_of
from tilejit.runtime.call.bindings import bases_of, own_names


@runtime_checkable
class KernelArgument(Protocol):
    """What a class implements so that its objects can be passed to kernels."""

    def __cache_signature__(self) -> Hashable:
        """Everything besides shape and dtype that the code may depend on: equal for objects that share a kernel, the same in every process."""
        ...

    def __abi_slots__(self) -> tuple[object, ...]:
        """What the kernel is given in its place: one array or number."""
        ...


@dataclass(frozen=True, slots=True)
class Adapted:
    """A foreign argument as the kernel sees it."""

    value: object
    signature: str
    """The encoded cache signature, as hexadecimal digits; empty for registered classes, whose arrays say all."""


_registry: dict[type, Callable[..., object]] = {}


def register_argument(cls: type, convert: Callable[..., object]) -> None:
    """Pass objects of `cls` and its subclasses to kernels as what `convert(object)` returns: an array, a number, or a KernelArgument."""
    if module_of(cls) == "builtins" or is_taken(cls) or issubclass(cls, np.generic):
        what = f"kernels take a {cls.__qualname__} as it is: a function registered for it would not be asked"
        raise ArgumentError(what, help="register a class of your own, which may be derived from it, or convert the argument before the call")
    _registry[cls] = convert


def is_taken(cls: type) -> bool:
    """Whether arguments of exactly this class are what they are, for all calls, warm ones too."""
    return any(cls is kind for kind in _TAKEN) or is_torch_tensor(cls)


_TAKEN = (np.ndarray, int, float, bool)


def is_adapted(cls: type) -> bool:
    """Whether something stands for arguments of this class now; a class may be registered at any time."""
    return not is_taken(cls) and (_speaks(cls, "__abi_slots__") or any(base in _registry for base in bases_of(cls)))


def _speaks(cls: type, name: str) -> bool:
    """Whether a class or a base of it has a method of the protocol, whatever its metaclass answers."""
    return any(name in own_names(base) for base in bases_of(cls))


def adapt(value: object, param: str) -> Adapted | None:
    """The stand-in for a foreign argument; None when its class is neither a KernelArgument nor registered."""
    cls = type(value)
    if not is_adapted(cls):
        return None
    if _speaks(cls, "__abi_slots__"):
        return _by_protocol(value, param)
    converted = next(_registry[base] for base in bases_of(cls) if base in _registry)(value)
    return _by_protocol(converted, param) if _speaks(type(converted), "__abi_slots__") else Adapted(converted, "")


def _by_protocol(value: object, param: str) -> Adapted:
    name = class_name(type(value))
    if not _speaks(type(value), "__cache_signature__"):
        raise ArgumentError(f"argument `{param}`: {name} has __abi_slots__ but no __cache_signature__", help=f"define {name}.__cache_signature__(self)")
    whole = cast("KernelArgument", value)
    slots = whole.__abi_slots__()
    if not isinstance(slots, tuple) or len(slots) != 1:
        raise ArgumentError(
            f"argument `{param}`: {name}.__abi_slots__() must return a tuple of one array or number, got {_described(slots)}",
            help=f"write return (self.data,) in {name}.__abi_slots__",
        )
    return Adapted(slots[0], signature_digest(value, param))


def signature_digest(value: object, param: str = "argument") -> str:
    """The cache signature of a KernelArgument as the key has it."""
    path = f"{param}.__cache_signature__()"
    written = json.dumps(encode(cast("KernelArgument", value).__cache_signature__(), lambda item: _written(item, path)))
    return hashlib.sha256(written.encode()).hexdigest()


def _written(value: object, path: str) -> object:
    """What is not plain in a signature: sets, members of enums, classes by name; nothing that holds code."""

    def again(item: object) -> object:
        return encode(item, lambda inner: _written(inner, path))

    if isinstance(value, set | frozenset):
        return ["set", *sorted(json.dumps(again(item)) for item in cast("set[object]", value))]
    if isinstance(value, enum.Enum):
        return ["enum", type_identity(type(value)), value.name]
    if isinstance(value, type):
        return ["class", type_identity(value)]
    if isinstance(value, np.dtype):
        return ["numpy dtype", cast("np.dtype[Any]", value).str]
    found = content(value)
    if found is not MISSING:
        return ["content", type_identity(type(value)), again(found)]
    if callable(value):
        name = getattr(value, "__qualname__", type(value).__qualname__)
        help = "return numbers, texts and tuples of them from __cache_signature__"
        raise ArgumentError(f"a cache signature holds plain values, got the function {name}", help=help)
    raise refusal(path, f"a {type_identity(type(value))}")


def type_identity(cls: type) -> str:
    """A class by module and name."""
    return f"{module_of(cls)}.{cls.__qualname__}"


def _described(slots: object) -> str:
    return f"a tuple of {len(cast('tuple[object, ...]', slots))}" if isinstance(slots, tuple) else f"a {type(slots).__qualname__}"


def registration_hint(value: object) -> str:
    """What to do about an argument of an unknown class."""
    name = type(value).__qualname__
    if module_of(type(value)) in ("builtins", "numpy"):
        return "pass a NumPy array, such as np.asarray(…, np.float32), a torch tensor, or an object with DLPack or the array interface"
    return (
        "pass a NumPy array, a torch tensor, or an object with DLPack or the array interface; "
        f"for a class of your own: tilejit.register_argument({name}, convert), or methods __cache_signature__ and __abi_slots__"
    )
