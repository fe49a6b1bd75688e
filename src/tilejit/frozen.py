"""Frozen dataclasses that say what they are when somebody sets an attribute."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import NoReturn, TypeVar

Class = TypeVar("Class", bound=type)


def of_the_language(cls: Class) -> Class:
    """A frozen dataclass whose objects users name: with `slots=True` Python's own refusal is a TypeError about `super` for what is no field."""

    def refuse_to_set(self: object, name: str, value: object) -> NoReturn:
        raise FrozenInstanceError(f"{self!r} is part of the language and frozen: `{name}` cannot be set; keep it in an object of your own")

    def refuse_to_delete(self: object, name: str) -> NoReturn:
        raise FrozenInstanceError(f"{self!r} is part of the language and frozen: `{name}` cannot be deleted")

    for name, refuse in (("__setattr__", refuse_to_set), ("__delattr__", refuse_to_delete)):
        setattr(cls, name, refuse)
    return cls
