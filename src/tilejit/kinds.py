"""Of what class an object is, whatever it says of itself: proxies have the `__class__` of something else, and some have none to give."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from typing_extensions import TypeIs

T = TypeVar("T")


def is_a(value: object, *kinds: type[T]) -> TypeIs[T]:
    """Whether an object of somebody's is of one of these classes. `isinstance` would ask the object, and take its word."""
    return issubclass(type(value), kinds)
