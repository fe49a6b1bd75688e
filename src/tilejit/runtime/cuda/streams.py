"""The stream a call runs on: torch's current one, the one that an array names, or an object with the CUDA stream protocol."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from tilejit.errors import ArgumentError
from tilejit.runtime.arrays import ArrayView

LEGACY_DEFAULT = 1
"""How the array interface and DLPack spell the default stream; 0 is left out there because it is ambiguous."""


_local = threading.local()


@contextmanager
def on_stream(stream: object) -> Generator[None]:
    """Calls inside run on this stream; None: on the one that is current where their arrays come from."""
    if stream is None:
        yield
        return
    before = getattr(_local, "stream", None)
    _local.stream = stream_handle(stream)
    try:
        yield
    finally:
        _local.stream = before


@contextmanager
def seated(stream: int) -> Generator[None]:
    """Inside, this thread is a rank with a stream of its own: programs report its failures apart from those of other ranks."""
    before, _local.seat = seat(), stream
    try:
        yield
    finally:
        _local.seat = before


def seat() -> int:
    """The stream of the rank that this thread is; 0: it is none."""
    return getattr(_local, "seat", 0)


def stream_of(first: ArrayView) -> int:
    """The stream of a call whose first array is this one; 0 is the default stream."""
    chosen = getattr(_local, "stream", None)
    if chosen is not None:
        return chosen
    if first.framework == "torch":
        from tilejit.runtime import torch

        return torch.current_stream(int(first.device.partition(":")[2] or 0))
    return 0 if first.stream == LEGACY_DEFAULT else first.stream


def stream_handle(stream: object) -> int:
    """The handle of a stream: an int, an object with `__cuda_stream__`, a torch, CuPy or Numba stream."""
    if isinstance(stream, int) and not isinstance(stream, bool):
        return stream
    protocol: Any = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        pair: Any = protocol() if callable(protocol) else protocol
        return int(pair[1])
    for name in ("cuda_stream", "ptr", "handle"):
        found: Any = getattr(stream, name, None)
        if found is not None:
            return int(getattr(found, "value", found) or 0)
    raise ArgumentError(
        f"a {type(stream).__name__} is no CUDA stream", help="pass a torch or CuPy stream, an object with __cuda_stream__, or the handle as an int"
    )
