"""What differs in an interpreter inside this process that is not its first one."""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import mmap
from functools import cache


@cache
def is_main() -> bool:
    """Whether this is the interpreter that the process started with."""
    for name in ("_interpreters", "_xxsubinterpreters"):
        if importlib.util.find_spec(name) is not None:
            interpreters = importlib.import_module(name)
            return bool(interpreters.get_current() == interpreters.get_main())
    return True


def lasting(memory: mmap.mmap) -> mmap.mmap:
    """Memory that goes with its last user, but in another interpreter stays.

    One that is never destroyed is taken apart while the process ends. Python gives up the GIL to unmap memory, and who asks for it back then
    gets the end of its thread: the process would never be over.
    """
    if not is_main():
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(memory))
    return memory
