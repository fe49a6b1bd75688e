"""`jit-PID.dump`: the code of kernels itself, from which `perf inject --jit` makes files that `perf annotate` and VTune can read.

    header  ::= magic, version, size, machine, 0, process, time, flags
    record  ::= 0 (code), size, time, process, thread, address, address, bytes, number, name "\0", code
"""

from __future__ import annotations

import mmap
import os
import struct
import threading
import time
from collections.abc import Sequence

from tilejit.runtime import machine

HEADER = struct.Struct("<IIIIIIQQ")
MAGIC, VERSION = 0x4A695444, 1
RECORD = struct.Struct("<IIQIIQQQQ")
_LOADED = 0
_MACHINES = {"x86_64": 62, "aarch64": 183}
"""What ELF calls them."""

Function = tuple[int, str, bytes]
"""Address, name, code."""


class Dump:
    """The file of one process. It stays mapped executable: that is how `perf record` learns of it."""

    def __init__(self, path: str) -> None:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        self._number = 0
        os.write(self._file, HEADER.pack(MAGIC, VERSION, HEADER.size, _MACHINES.get(machine.architecture(), 0), 0, os.getpid(), time.monotonic_ns(), 0))
        self._marker = mmap.mmap(self._file, HEADER.size, prot=mmap.PROT_READ | mmap.PROT_EXEC, flags=mmap.MAP_PRIVATE)

    def add(self, functions: Sequence[Function]) -> None:
        """Tell of code that is ready to run."""
        found: list[bytes] = []
        for address, name, code in functions:
            text = name.encode() + b"\0"
            size = RECORD.size + len(text) + len(code)
            who = os.getpid(), threading.get_native_id()
            found.append(RECORD.pack(_LOADED, size, time.monotonic_ns(), *who, address, address, len(code), self._number) + text + code)
            self._number += 1
        os.write(self._file, b"".join(found))
