"""How this thread's processor computes with floats: `torch.set_flush_denormal` and the like change what Python computes, and so what is compiled."""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from functools import cache

STANDARD = 0
FLUSHED_OPERANDS, FLUSHED_RESULTS, ROUNDING = 0x0040, 0x8000, 0x6000
"""Bits of x86-64's MXCSR that change results."""
MASK = FLUSHED_OPERANDS | FLUSHED_RESULTS | ROUNDING
_MXCSR_AT = 28
"""Where C libraries of Linux keep it in a `fenv_t` of x86-64."""

# Not as literals: Python would compute with those when it compiles this file, and read the first one under the mode of then.
_denormal, _least, _half, _one, _little = struct.unpack("<5d", struct.pack("<5q", 1, 1 << 52, 0x3FE << 52, 0x3FF << 52, 0x380 << 52))


def bits() -> int:
    """0, or what of it is not as usual in this thread, in the bits of MXCSR."""
    usual = _denormal != 0.0 and _least * _half != 0.0 and _one + _little == _one and _one - _little == _one
    return STANDARD if usual else _asked()


def described(mode: int) -> str:
    """The same in words."""
    rounding = ("", "rounds down", "rounds up", "rounds to zero")[(mode & ROUNDING) >> 13]
    flushed = " and ".join(what for bit, what in ((FLUSHED_OPERANDS, "operands"), (FLUSHED_RESULTS, "results")) if mode & bit)
    return ", ".join(filter(None, [f"flushes denormal {flushed}" if flushed else "", rounding]))


def take(mode: int) -> None:
    """Compute so in this thread from now on; `mode` is what `bits` told in some thread. Where no C library can do it, nothing changes."""
    if bits() == mode or (library := _library()) is None or (state := _state(library)) is None:
        return
    state[_MXCSR_AT // 4] = state[_MXCSR_AT // 4] & ~MASK | mode
    library.fesetenv(ctypes.byref(state))


@contextmanager
def held(mode: int) -> Generator[None]:
    """Computes so inside."""
    before = bits()
    take(mode)
    try:
        yield
    finally:
        take(before)


def usual() -> AbstractContextManager[None]:
    """Computes as usual, for what reads the text of a kernel: its literals are those that Python read when it was imported, whatever the thread does by now."""
    return held(STANDARD)


def _asked() -> int:
    """What the C library says; where it is another one, what arithmetic tells: flushing is then one bit for operands and results."""
    library = _library()
    state = None if library is None else _state(library)
    if state is not None:
        return state[_MXCSR_AT // 4] & MASK
    up, down = _one + _little != _one, -_one - _little != -_one
    rounding = 0x4000 if up else 0x2000 if down else 0x6000 if _one - _little != _one else 0
    flushed = FLUSHED_OPERANDS | FLUSHED_RESULTS if _denormal == 0.0 or _least * _half == 0.0 else 0
    return flushed | rounding


def _state(library: ctypes.CDLL) -> ctypes.Array[ctypes.c_uint32] | None:
    """This thread's `fenv_t`."""
    state = (ctypes.c_uint32 * 16)()
    return state if library.fegetenv(ctypes.byref(state)) == 0 else None


@cache
def _library() -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL("libm.so.6") if sys.platform == "linux" and os.uname().machine == "x86_64" else None
    except OSError:
        return None
