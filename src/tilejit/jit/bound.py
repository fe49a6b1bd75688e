"""Kernels as things that are copied, pickled and bound to objects: as Python does it with functions and methods."""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any, Self, cast


class ByReference:
    """A copy of a kernel is the kernel; a pickle says where it is found, if it is.

    What a kernel knows is in slots, `_bound_as` among them: `functools.wraps(kernel)` copies all that `vars(kernel)` has onto another one.
    """

    __slots__ = ()
    _bound_as: tuple[Any, object] | None
    """The kernel in the class, and the object it is bound to."""

    @abstractmethod
    def origin(self) -> Callable[..., object]:
        """The function that was decorated."""

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        if self._bound_as is None:
            return self
        from copy import deepcopy

        kernel, instance = self._bound_as
        return kernel.__get__(deepcopy(instance, memo))

    def __reduce__(self) -> tuple[object, ...]:
        from pickle import PicklingError

        function = self.origin()
        if self._bound_as is not None:
            kernel, instance = self._bound_as
            place = next(((base, name) for base, name, value in _names_of(instance) if value is kernel or getattr(value, "__func__", None) is kernel), None)
            if place is None:
                raise PicklingError(f"Can't pickle {self!r}: its class has it under no name")
            return _bound_to, (instance, *place)
        module = sys.modules.get(function.__module__)
        names = cast("dict[str, object]", vars(module)) if module is not None else {}
        for name in (function.__qualname__, *[name for name, value in names.items() if value is self]):
            try:
                found = _by_reference(function.__module__, name)
            except (ImportError, AttributeError):
                continue
            if found is self:
                return _by_reference, (function.__module__, name)
        raise PicklingError(f"Can't pickle {self!r}: it's not the same object as {function.__module__}.{function.__qualname__}")


def _names_of(instance: object) -> Iterator[tuple[type, str, object]]:
    owner = instance if isinstance(instance, type) else type(instance)
    return ((base, name, value) for base in owner.__mro__ for name, value in vars(base).items())


def _bound_to(instance: object, base: type, name: str) -> object:
    """What a class has under a name, for an instance whose own class may have another one there."""
    return vars(base)[name].__get__(*((None, instance) if isinstance(instance, type) else (instance, type(instance))))


def _by_reference(module: str, qualified: str) -> object:
    """The kernel that a pickle names."""
    found: object = import_module(module)
    for part in qualified.split("."):
        found = getattr(found, part)
    return found


class BoundKernels(dict[Any, Any]):
    """The kernels bound to one object. A copy of the object is another one: it starts without."""

    def __init__(self, owner: object = None) -> None:
        super().__init__()
        self.owner = owner

    def __reduce__(self) -> tuple[object, ...]:
        return (BoundKernels, ())


_BOUND = "__tilejit_kernels__"


def bound_kernels(instance: object) -> BoundKernels | None:
    """Where the kernels bound to an object are kept: in the object, so that they live as long as it does; None: it has no place for them."""
    attributes = getattr(instance, "__dict__", None)
    found = attributes.get(_BOUND) if isinstance(attributes, Mapping) else None
    if isinstance(found, BoundKernels) and found.owner is instance:
        return found
    made = BoundKernels(instance)
    if isinstance(attributes, dict):
        attributes[_BOUND] = made
    elif isinstance(instance, type):
        type.__setattr__(instance, _BOUND, made)
    else:
        return None
    return made
