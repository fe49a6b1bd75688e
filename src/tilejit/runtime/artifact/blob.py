"""Flat position-independent machine code: mapped, patched, then made executable and no longer writable."""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from tilejit.errors import ArtifactError
from tilejit.runtime import machine
from tilejit.runtime.artifact import perf_map
from tilejit.runtime.interpreter import lasting

if TYPE_CHECKING:
    from tilejit.runtime.artifact.sections import Artifact


@dataclass(frozen=True, slots=True)
class Blob:
    """Code and constants in one piece; `entries` are offsets of functions, `externals` offsets of 64-bit address slots."""

    code: bytes = field(repr=False)
    entries: Mapping[str, int]
    externals: Mapping[str, int] = field(default_factory=dict[str, int])


CODE = "kernel.bin"
"""The section of an artifact that is machine code."""


def code_section(blob: Blob, needs: tuple[str, ...]) -> tuple[dict[str, Any], dict[str, Callable[[], bytes]]]:
    """The facts and the section of an artifact in machine code; `needs` are the processor features it uses."""
    facts = {"architecture": machine.architecture(), "needs": list(needs), "functions": dict(blob.entries), "externals": dict(blob.externals)}
    return facts, {CODE: lambda: blob.code}


def blob_of(artifact: Artifact) -> Blob:
    """The machine code of an artifact."""
    code, facts = artifact.section(CODE), artifact.facts
    for offset in (*facts["functions"].values(), *facts["externals"].values()):
        if not 0 <= offset < len(code):
            raise ArtifactError(f"{artifact.name}: offset {offset} is outside the code", help="compile the program again")
    return Blob(code, facts["functions"], facts["externals"])


def check_machine(artifact: Artifact) -> None:
    """Refuse machine code that this processor cannot run, naming what it lacks."""
    architecture = artifact.facts["architecture"]
    if architecture != machine.architecture():
        raise ArtifactError(f"{artifact.name} was compiled for {architecture}, this machine is {machine.architecture()}", help="compile it here")
    missing = machine.missing_features(artifact.facts["needs"])
    if missing:
        feature = "the processor feature" if len(missing) == 1 else "the processor features"
        raise ArtifactError(f"{artifact.name} needs {feature} {', '.join(missing)}, which this machine lacks", help="compile it here")


_UNIT = 64
"""Alignment that code may ask for."""


def joined(first: Blob, second: Blob) -> Blob:
    """Two blobs in one piece; they use different names."""
    start = -(-len(first.code) // _UNIT) * _UNIT
    entries, externals = ({name: start + at for name, at in table.items()} for table in (second.entries, second.externals))
    assert not (entries.keys() & first.entries.keys() or externals.keys() & first.externals.keys())
    return Blob(first.code.ljust(start, b"\xcc") + second.code, {**first.entries, **entries}, {**first.externals, **externals})


class LoadedBlob:
    """A blob in memory; its code is gone when the object is."""

    def __init__(self, blob: Blob, addresses: Mapping[str, int] | None = None) -> None:
        memory = mmap.mmap(-1, max(len(blob.code), 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=mmap.PROT_READ | mmap.PROT_WRITE)
        self._memory = lasting(memory)
        self._memory[: len(blob.code)] = blob.code
        for name, slot in blob.externals.items():
            struct.pack_into("<Q", self._memory, slot, (addresses or {}).get(name) or external_address(name))
        anchor = ctypes.c_char.from_buffer(self._memory)
        self._base = ctypes.addressof(anchor)
        del anchor
        _make_executable(self._base, len(self._memory))
        self._entries = dict(blob.entries)
        perf_map.note(self._base, blob.code, self._entries)

    def address(self, name: str) -> int:
        """The address of a function."""
        if name not in self._entries:
            raise ArtifactError(f"the code has no function `{name}`")
        return self._base + self._entries[name]

    def has(self, name: str) -> bool:
        """Whether there is such a function."""
        return name in self._entries

    def copy(self) -> LoadedBlob:
        """The same code in memory of its own."""
        return LoadedBlob(Blob(self._memory[:], self._entries))


def _mprotect() -> Callable[[int, int, int], int] | None:
    if os.name != "posix":
        return None
    return ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, use_errno=True)(("mprotect", ctypes.CDLL(None)))


_protect = _mprotect()
"""Found when the module is loaded, because the first call of a warm start should not wait for it."""


def _make_executable(address: int, size: int) -> None:
    if _protect is None:
        raise ArtifactError("blobs of machine code are for POSIX systems", help="use platform='reference'")
    if _protect(address, size, mmap.PROT_READ | mmap.PROT_EXEC) != 0:
        help = "native kernels cannot run here: use platform='reference'"
        raise ArtifactError(f"the system refuses executable memory (errno {ctypes.get_errno()})", help=help)


@cache
def external_address(name: str) -> int:
    """The address of a C library function that generated code calls."""
    for library in (None, "libm.so.6"):
        try:
            function = getattr(ctypes.CDLL(library), name)
        except (OSError, AttributeError):
            continue
        address = ctypes.cast(function, ctypes.c_void_p).value
        if address:
            return address
    raise ArtifactError(f"generated code needs the C function `{name}`, which this system lacks")
