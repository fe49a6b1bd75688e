"""Of what class an object is, and of which module a class, whatever they say of themselves: proxies have the `__class__` of something else, or none to give."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from typing_extensions import TypeIs

T = TypeVar("T")


def is_a(value: object, *kinds: type[T]) -> TypeIs[T]:
    """Whether an object of somebody's is of one of these classes. `isinstance` would ask the object, and take its word."""
    return issubclass(type(value), kinds)


def defining_module(value: object) -> str:
    """The module that an object's class says it is of, for messages; "" where it says none."""
    return module_of(type(value))


def module_of(cls: type) -> str:
    """The module of a class, whatever its metaclass answers; "" where it has none: `type` does not look for it if nobody says."""
    try:
        found = _module_of(cls)
    except AttributeError:
        found = None
    return found if isinstance(found, str) else ""


_module_of: Callable[[type], object] = vars(type)["__module__"].__get__
class_name: Callable[[type], str] = vars(type)["__qualname__"].__get__
"""What a class is called, whatever its metaclass answers."""


def true_module(value: object) -> str:
    """The module that has an object's class under its name; "" where none has: which module a class says it is of anybody may set."""
    cls = type(value)
    name = module_of(cls)
    held = getattr(sys.modules.get(name), "__dict__", None)
    return name if type(held) is dict and held.get(class_name(cls)) is cls else ""


def is_torch_tensor(cls: type) -> bool:
    """Whether a class is torch's tensor itself; False where nobody has loaded torch."""
    return cls is getattr(sys.modules.get("torch"), "Tensor", None)
