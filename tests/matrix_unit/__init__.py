"""A matrix unit (AMX) for processors without one: programs are compiled for it, and what the processor takes for illegal instructions is done by unit.c.

`TEST_MATRIX_UNIT=1 python -m tests.differential` and the like run so; `python -m tests.levels` does at a level of its own, where the unit is missing.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import llvmlite.binding as llvm

from tilejit.backends.cpu.llvm import host as processor
from tilejit.runtime import machine

VARIABLE = "TEST_MATRIX_UNIT"
_SOURCE = Path(__file__).parent / "unit.c"
_NAMES = ("amx-tile", "amx-bf16", "amx-int8")
_BESIDE = {"avx512_bf16", "avx512_vnni"}
"""What every processor with the unit has too."""


def can_begin() -> bool:
    """Whether this machine lacks the unit, and has what stands in for it: Linux, vectors of 512 bits and a C compiler."""
    fits = sys.platform == "linux" and machine.architecture() == "x86_64" and machine.features() >= _BESIDE
    return fits and not machine.may_use_tiles() and shutil.which("cc") is not None


def begin_if_asked() -> None:
    """Let this process, and those that it forks, have a matrix unit, if the environment says so."""
    if os.environ.get(VARIABLE):
        _begin()


def _begin() -> None:
    assert can_begin(), "this machine has a matrix unit, or lacks what the stand-in needs"
    unit = _compiled()
    assert unit.unit_begin() == 0
    here = machine.features() | {name.replace("-", "_") for name in _NAMES}
    found = llvm.get_host_cpu_features()
    found.update(dict.fromkeys(_NAMES, True))
    machine.features = lambda: here  # type: ignore[assignment] # the real ones ask the system, once
    machine.may_use_tiles = processor.may_use_tiles = lambda: True  # type: ignore[assignment]
    llvm.get_host_cpu_features = lambda: found  # type: ignore[assignment]
    processor._host.cache_clear()
    machine.fingerprint.cache_clear()


def instructions_done() -> int:
    """How many instructions the stand-in has done in this process."""
    assert _unit is not None
    return int(_unit.unit_done())


_unit: ctypes.CDLL | None = None


def _compiled() -> ctypes.CDLL:
    global _unit
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "unit.so"
        subprocess.run(["cc", "-O3", "-march=native", "-shared", "-fPIC", "-o", path, _SOURCE], check=True)
        _unit = ctypes.CDLL(str(path))
    _unit.unit_done.restype = ctypes.c_uint64
    return _unit
