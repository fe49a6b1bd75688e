"""Scratch memory of a call: one large reservation per thread, whose pages exist only once they are touched."""

from __future__ import annotations

import ctypes
import mmap
import sys
import threading
from contextlib import suppress

from tilejit import config
from tilejit.errors import ResourceError
from tilejit.runtime.interpreter import lasting

_SMALLEST = 1 << 24
_NO_RESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000 if sys.platform == "linux" else 0)
"""Python 3.11 lacks the name. Without the flag the reservation counts as memory, and a fork may fail for want of it."""


_HUGE = 1 << 21
"""Bytes of a large page. Scratch memory beyond the first of them is used for panels of products, which are read with fewer misses from large pages."""


class Arena:
    """Address space for scratch tensors. `base` and `end` go into the context block of a call."""

    def __init__(self, size: int) -> None:
        self._memory = lasting(_reserve(size))
        self.base = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self.end = self.base + len(self._memory)


def _reserve(size: int) -> mmap.mmap:
    while True:
        try:
            if sys.platform == "win32":
                return mmap.mmap(-1, size)
            return _in_large_pages(mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE))
        except OSError as error:
            # A limit on address space (ulimit -v, small containers) is no reason to fail: less may do.
            if size <= _SMALLEST:
                help = f"raise the memory limit or set {config.ARENA_BYTES.variable}"
                raise ResourceError(f"cannot reserve {size} bytes of scratch memory: {error}", help=help) from None
            size //= 2


def _in_large_pages(memory: mmap.mmap) -> mmap.mmap:
    """Ask for them where there are any; little scratch memory stays in small ones."""
    if hasattr(mmap, "MADV_HUGEPAGE") and len(memory) > _HUGE:
        with suppress(OSError):
            memory.madvise(mmap.MADV_HUGEPAGE, _HUGE)
    return memory


_local = threading.local()


def this_thread() -> Arena:
    """The arena of the calling thread, made at its first call and again when the setting changes."""
    size = config.ARENA_BYTES.value
    if getattr(_local, "size", None) != size:
        _local.arena = Arena(size)
        _local.size = size
    arena = _local.arena
    assert isinstance(arena, Arena)
    return arena
