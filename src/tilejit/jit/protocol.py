"""Arguments of foreign classes: the protocol they implement, or a registered function that turns them into arrays."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Protocol, cast, runtime_checkable

from tilejit.errors import ArgumentError
from tilejit.jit.reads.encode import encode_value, type_identity
from tilejit.types.annotations import DynVar


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
    _registry[cls] = convert


def adapt(value: object, param: str) -> Adapted | None:
    """The stand-in for a foreign argument; None when its class is neither a KernelArgument nor registered."""
    cls = type(value)
    if hasattr(cls, "__abi_slots__"):
        return _by_protocol(value, param)
    convert = next((_registry[base] for base in cls.__mro__ if base in _registry), None)
    if convert is None:
        return None
    converted = convert(value)
    return _by_protocol(converted, param) if hasattr(type(converted), "__abi_slots__") else Adapted(converted, "")


def _by_protocol(value: object, param: str) -> Adapted:
    name = type(value).__qualname__
    if not hasattr(type(value), "__cache_signature__"):
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
    return encode_value(cast("KernelArgument", value).__cache_signature__(), f"{param}.__cache_signature__()", _PlainValues()).hex()


class _PlainValues:
    """A signature holds no code: classes count by name."""

    def function_digest(self, function: Callable[..., object]) -> bytes:
        name = getattr(function, "__qualname__", repr(function))
        help = "return numbers, texts and tuples of them from __cache_signature__"
        raise ArgumentError(f"a cache signature holds plain values, got the function {name}", help=help)

    def class_digest(self, cls: type) -> bytes:
        return type_identity(cls).encode()

    def symbol_number(self, symbol: DynVar) -> int:
        return 0


def _described(slots: object) -> str:
    return f"a tuple of {len(cast('tuple[object, ...]', slots))}" if isinstance(slots, tuple) else f"a {type(slots).__qualname__}"


def registration_hint(value: object) -> str:
    """What to do about an argument of an unknown class."""
    name = type(value).__qualname__
    return (
        "pass a NumPy array, a torch tensor, or an object with DLPack or the array interface; "
        f"for a class of your own: tilejit.register_argument({name}, convert), or methods __cache_signature__ and __abi_slots__"
    )
