"""Tile kernels in Python, run natively."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilejit import errors, ir, language, runtime, testing
    from tilejit.jit.protocol import register_argument
    from tilejit.runtime.arrays import DeviceTensor
    from tilejit.runtime.artifact.compiled import CompiledProgram
    from tilejit.runtime.config import RunConfig, eager

__version__ = "0.1.0"
__all__ = ["CompiledProgram", "DeviceTensor", "RunConfig", "eager", "errors", "ir", "language", "register_argument", "runtime", "testing"]

_NAMES = {
    "CompiledProgram": "tilejit.runtime.artifact.compiled",
    "DeviceTensor": "tilejit.runtime.arrays",
    "RunConfig": "tilejit.runtime.config",
    "eager": "tilejit.runtime.config",
    "register_argument": "tilejit.jit.protocol",
}
_MODULES = ("errors", "ir", "language", "runtime", "testing")


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return import_module(f"tilejit.{name}")
    if name in _NAMES:
        return getattr(import_module(_NAMES[name]), name)
    raise AttributeError(f"module 'tilejit' has no attribute {name!r}", name=name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
