"""Attributes that are computed when first asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from functools import cached_property as lazy
else:

    class lazy:
        """As functools.cached_property of Python 3.12, which takes no lock: a warm start asks for dozens of these, and a process that is forked while
        another thread computes one would wait for that lock for ever.

        Two threads that ask at once may both compute; what the first one found stays, and both have it.
        """

        def __init__(self, function: Any) -> None:
            self._function = function
            self.__doc__ = function.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self._name = name

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            return instance.__dict__.setdefault(self._name, self._function(instance))


__all__ = ["lazy"]
