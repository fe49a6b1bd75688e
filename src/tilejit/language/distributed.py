"""What a program for several ranks imports as `pld`; names are looked up when they are first used."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

from tilejit.errors import UnsupportedFeatureError, did_you_mean
from tilejit.language import Namespace, assigned_in  # pyright: ignore[reportAttributeAccessIssue]  # the stub has what kernels see

_NAMES = {
    **dict.fromkeys(("DistributedTensor", "CommCtx"), "tilejit.types.annotations"),
    **dict.fromkeys(("NotifyOp", "WaitCmp", "AtomicType", "ReduceOp"), "tilejit.types.enums"),
}
NAMESPACES = ("system", "tensor", "tile")
_LOADED: dict[str, object] = {}


def find(name: str) -> object | None:
    """What a name means, whatever somebody assigned to it."""
    from tilejit import ops

    if name in _NAMES:
        return getattr(import_module(_NAMES[name]), name)
    return Namespace(f"pld.{name}", f"pld.{name}") if name in NAMESPACES else ops.public("pld", name)


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


_looked_up = __getattr__
"""How names are looked up, unless somebody puts another function there."""


def assigned(names: Sequence[str]) -> tuple[str, ...]:
    """Which of these names somebody has assigned: they are not the language's own any more."""
    return assigned_in(globals(), _LOADED, names)


def public_names() -> list[str]:
    """Every name a program can use as `pld.name`."""
    from tilejit import ops

    return sorted({*_NAMES, *NAMESPACES, *ops.public_names("pld")})


def __dir__() -> list[str]:
    return public_names()
