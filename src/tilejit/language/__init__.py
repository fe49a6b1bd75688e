"""What a kernel imports as `pl`; names are looked up when they are first used, so that importing it costs nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module

from tilejit.types.groups import GROUPS

_NAMES: dict[str, str] = {
    **dict.fromkeys(("Tensor", "Tile", "Scalar", "Array", "Tuple", "Out", "InOut", "DynVar"), "tilejit.types.annotations"),
    **dict.fromkeys(("TensorView", "TileView", "MemRef", "constexpr", "dynamic", "like", "once", "untracked", "RUNTIME", "AUTO"), "tilejit.types.annotations"),
    "jit": "tilejit.jit.decorators",
    "autotune": "tilejit.jit.tune.function",
    "JITFunction": "tilejit.jit.function",
    **dict.fromkeys(("program", "function", "inline", "InlineFunction"), "tilejit.frontend.decorators"),
    **dict.fromkeys(("parse", "loads", "parse_program", "loads_program"), "tilejit.frontend.text"),
}
"""Where a name lives, for those that are an attribute of a module."""

_TABLES = {
    "tilejit.dtypes": "DTYPES",
    "tilejit.types.enums": "ENUMS",
    "tilejit.types.scopes": "MARKERS",
}
"""Tables of names: the module and its dict."""

_ALIASES = {
    "Mem": "MemorySpace",
    "ND": "TensorLayout.ND",
    "DN": "TensorLayout.DN",
    "NZ": "TensorLayout.NZ",
    "MX_A_ZZ": "TensorLayout.MX_A_ZZ",
    "MX_B_NN": "TensorLayout.MX_B_NN",
    "TaskId": "Scalar[TASK_ID]",
}
"""Second names: another name of the language, a member of one, or an annotation."""

_LOADED: dict[str, object] = {}
"""What was looked up so far."""
_MISSING = object()


class Namespace:
    """`pl.tensor`, `pl.tile`, `pld.tile`, …: the ops that have a spelling there."""

    def __init__(self, name: str, shown: str) -> None:
        self.__dict__ = {}  # a dict of its own, whose version tells warm calls of every change; that of a dict that shares its names with others may not
        self.__name__ = name
        self.__qualname__ = shown
        self.loaded: dict[str, object] = {}
        """What was looked up so far."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        found = _member_of_namespace(self.__name__, name)
        if found is None:
            raise _missing(repr(self), name, dir(self))
        self.__dict__[name] = self.loaded[name] = found
        return found

    def __dir__(self) -> list[str]:
        from tilejit import ops

        return sorted({*ops.public_names(self.__name__), *_ENUMS_IN_NAMESPACE.get(self.__name__, ())})

    def __repr__(self) -> str:
        return self.__qualname__


_ENUMS_IN_NAMESPACE = {"tile": ("MaskPattern",)}


def _member_of_namespace(namespace: str, name: str) -> object | None:
    if name in _ENUMS_IN_NAMESPACE.get(namespace, ()):
        return find(name)
    from tilejit import ops

    return ops.public(namespace, name)


def _missing(owner: str, name: str, candidates: list[str]) -> AttributeError:
    from tilejit.errors import SLIP, did_you_mean
    from tilejit.frontend.foreign import missing_name

    hint = missing_name(name) or did_you_mean(name, candidates, SLIP)
    return AttributeError(f"{owner} has no `{name}`" + (f"; {hint}" if hint else ""), name=name)


def find(name: str) -> object | None:
    """What a name of the language means, whatever somebody assigned to it."""
    if name in _NAMES:
        return getattr(import_module(_NAMES[name]), name)
    if name in GROUPS:
        return Namespace(name, f"pl.{name}")
    if name in _ALIASES:
        return _alias(_ALIASES[name])
    for module, table in _TABLES.items():
        rows: dict[str, object] = getattr(import_module(module), table)
        if name in rows:
            return rows[name]
    from tilejit import ops

    return ops.public("pl", name)


def _alias(text: str) -> object:
    owner, dot, member = text.partition(".")
    if dot:
        return getattr(find(owner), member)
    owner, bracket, argument = text.rstrip("]").partition("[")
    found = find(owner)
    return found[find(argument)] if bracket else found  # type: ignore[index]


def __getattr__(name: str) -> object:
    if name.startswith("__"):
        raise AttributeError(name)
    found = find(name)
    if found is None:
        raise _missing("tilejit.language", name, __dir__())
    globals()[name] = _LOADED[name] = found
    return found


_looked_up = __getattr__
"""How names are looked up, unless somebody puts another function there."""


def assigned(names: Sequence[str]) -> tuple[str, ...]:
    """Which of these names somebody has assigned: they are not the language's own any more. Nothing is loaded."""
    return assigned_in(globals(), _LOADED, names)


def assigned_in(own: Mapping[str, object], loaded: Mapping[str, object], names: Sequence[str]) -> tuple[str, ...]:
    """Those of the names, `exp` or `tile.full`, that a module has and did not load itself."""
    return tuple(name for name in names if _is_assigned(own, loaded, name))


def _is_assigned(own: Mapping[str, object], loaded: Mapping[str, object], name: str) -> bool:
    first, _, second = name.partition(".")
    if first in own and own[first] is not loaded.get(first, _MISSING):
        return True
    group = own.get(first)
    return bool(second) and isinstance(group, Namespace) and _is_assigned(vars(group), group.loaded, second)


def public_names() -> list[str]:
    """Every name a kernel can use as `pl.name`."""
    from tilejit import ops

    tables = [name for module, table in _TABLES.items() for name in getattr(import_module(module), table)]
    return sorted({*_NAMES, *GROUPS, *_ALIASES, *tables, *ops.public_names("pl")})


def __dir__() -> list[str]:
    return public_names()
