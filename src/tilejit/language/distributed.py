"""What a program for several ranks imports as `pld`; names are looked up when they are first used."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

from tilejit.errors import UnsupportedFeatureError, did_you_mean

_NAMES = {
    **dict.fromkeys(("DistributedTensor", "CommCtx"), "tilejit.types.annotations"),
    **dict.fromkeys(("NotifyOp", "WaitCmp", "AtomicType", "ReduceOp"), "tilejit.types.enums"),
}
NAMESPACES = ("system", "tensor", "tile")
_LOADED: dict[str, object] = {}


class Namespace:
    """`pld.system`, `pld.tensor`, `pld.tile`."""

    def __init__(self, name: str) -> None:
        self.__name__ = f"pld.{name}"

    def __getattr__(self, name: str) -> object:
        from tilejit import ops

        if name.startswith("__"):
            raise AttributeError(name)
        found = ops.public(self.__name__, name)
        if found is None:
            hint = did_you_mean(name, dir(self))
            raise AttributeError(f"{self.__name__} has no `{name}`" + (f"; {hint}" if hint else ""), name=name)
        self.__dict__[name] = found
        return found

    def __dir__(self) -> list[str]:
        from tilejit import ops

        return list(ops.public_names(self.__name__))

    def __repr__(self) -> str:
        return self.__name__


def find(name: str) -> object | None:
    """What a name means, whatever somebody assigned to it."""
    from tilejit import ops

    if name in _NAMES:
        return getattr(import_module(_NAMES[name]), name)
    return Namespace(name) if name in NAMESPACES else ops.public("pld", name)


def __getattr__(name: str) -> object:
    from tilejit import ops

    if name.startswith("__"):
        raise AttributeError(name)
    found = find(name)
    if found is None:
        long = next((space for space in NAMESPACES if ops.public(f"pld.{space}", name) is not None), None)
        if long is not None:
            raise UnsupportedFeatureError(f"pld.{name} has no short form", help=f"write pld.{long}.{name}")
        hint = did_you_mean(name, public_names())
        raise AttributeError(f"tilejit.language.distributed has no `{name}`" + (f"; {hint}" if hint else ""), name=name)
    globals()[name] = _LOADED[name] = found
    return found


def assigned(names: Sequence[str]) -> tuple[str, ...]:
    """Which of these names somebody has assigned: they are not the language's own any more."""
    own = globals()
    return tuple(name for name in names if (first := name.partition(".")[0]) in own and own[first] is not _LOADED.get(first))


def public_names() -> list[str]:
    """Every name a program can use as `pld.name`."""
    from tilejit import ops

    return sorted({*_NAMES, *NAMESPACES, *ops.public_names("pld")})


def __dir__() -> list[str]:
    return public_names()
