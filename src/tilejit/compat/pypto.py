"""Scripts that say `import pypto.language as pl` run here: after `import tilejit.compat.pypto`, `pypto` and its modules are names for ours.

A name that we have is ours; one that only the vendor's tools have can be imported and handed around, and says so when it is used.
"""

from __future__ import annotations

import enum
import importlib
import sys
import types
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from typing import NoReturn

from tilejit.dtypes import DTYPES
from tilejit.errors import PlatformError

ROOT = "pypto"
_TARGETS = {
    ROOT: "tilejit",
    f"{ROOT}.language": "tilejit.language",
    f"{ROOT}.language.distributed": "tilejit.language.distributed",
    f"{ROOT}.ir": "tilejit.ir",
    f"{ROOT}.ir.distributed_compiled_program": "tilejit.ir.distributed_compiled_program",
    f"{ROOT}.runtime": "tilejit.runtime",
    f"{ROOT}.backend": "tilejit.compat.pypto",
    f"{ROOT}.pypto_core": "tilejit",
    f"{ROOT}.pypto_core.ir": "tilejit.ir",
}
"""The modules that mean something here, and which of ours they are."""


def _target(module: str) -> str | None:
    """Which of ours a module is: a part of one that we have as a whole (`pypto.ir.pass_manager`) is that one, a tool of the vendor's none."""
    while module not in _TARGETS:
        module = module.rpartition(".")[0]
    return _TARGETS[module] if module != ROOT else None


class BackendType(enum.Enum):
    """The machines that `.pto` text is written for, by their platform here."""

    Ascend910B = "a2a3"
    Ascend950 = "a5"


_chosen: list[BackendType] = []


def set_backend_type(kind: BackendType) -> None:
    """Remember the machine that a script names; where its kernels run is up to `platform`, as everywhere."""
    if not isinstance(kind, BackendType):
        raise TypeError(f"set_backend_type takes a BackendType, got {kind!r}")
    _chosen[:] = [kind]


def get_backend_type() -> BackendType:
    """The machine that was named last."""
    if not is_backend_configured():
        raise PlatformError("no backend type was set", help="call set_backend_type(BackendType.Ascend910B) first")
    return _chosen[0]


def is_backend_configured() -> bool:
    """Whether a script has named a machine."""
    return bool(_chosen)


def reset_for_testing() -> None:
    """Forget the machine."""
    _chosen.clear()


_OWN = {"BackendType", "set_backend_type", "get_backend_type", "is_backend_configured", "reset_for_testing"}
_EXTRAS: dict[str, dict[str, Callable[[], object]]] = {
    module: {"DataType": lambda: types.SimpleNamespace(**DTYPES)} for module in (ROOT, f"{ROOT}.pypto_core")
}
"""Names that we have elsewhere."""


class VendorOnly:
    """A name of the vendor's tools that has no meaning here."""

    __slots__ = ("_path",)

    def __init__(self, path: str) -> None:
        self._path = path

    def __repr__(self) -> str:
        return f"<{self._path}: not part of tilejit>"

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise PlatformError(f"`{self._path}` belongs to the vendor's tools and has no meaning in tilejit", help="leave it out here, or run this part there")

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):  # questions of Python's own, such as what help() or copy() ask
            raise AttributeError(name)
        self._refuse()

    __call__ = __getitem__ = __iter__ = __len__ = __bool__ = __enter__ = __exit__ = __mro_entries__ = __instancecheck__ = _refuse


class _Alias(types.ModuleType):
    """A module of that name: its attributes are those of ours."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        path = f"{self.__name__}.{name}"
        if path in _TARGETS:
            return importlib.import_module(path)
        if name in _EXTRAS.get(self.__name__, {}):
            return _EXTRAS[self.__name__][name]()
        found = _member(_TARGETS.get(self.__name__) or _target(self.__name__), name)
        return VendorOnly(path) if found is None else found

    def __dir__(self) -> list[str]:
        target = _TARGETS.get(self.__name__)
        return [] if target is None else sorted(_OWN) if target == __name__ else dir(importlib.import_module(target))


def _member(target: str | None, name: str) -> object:
    if target is None or (target == __name__ and name not in _OWN):
        return None
    return getattr(importlib.import_module(target), name, None)


class _Finder:
    """Finds `pypto` and whatever a script imports below it."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None) -> ModuleSpec | None:
        return ModuleSpec(name, _Finder, is_package=True) if name == ROOT or name.startswith(f"{ROOT}.") else None  # type: ignore[arg-type]

    @staticmethod
    def create_module(spec: ModuleSpec) -> types.ModuleType:
        return _Alias(spec.name, f"`{spec.name}` for scripts that import it: {_TARGETS.get(spec.name, 'nothing of ours')}.")

    @staticmethod
    def exec_module(module: types.ModuleType) -> None:
        pass


def install() -> None:
    """Let `import pypto` mean this from now on."""
    known = sys.modules.get(ROOT)
    if known is not None and not isinstance(known, _Alias):
        raise PlatformError(f"`{ROOT}` is imported already", help="import tilejit.compat.pypto first")
    if _Finder not in sys.meta_path:
        sys.meta_path.insert(0, _Finder)  # type: ignore[arg-type]


install()
