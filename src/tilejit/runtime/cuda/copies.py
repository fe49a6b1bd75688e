"""Arrays of a GPU for code that runs on the host: copied there, and what that code wrote copied back."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager

import numpy as np

from tilejit.runtime.arrays import ArrayView
from tilejit.runtime.cuda import devices
from tilejit.runtime.cuda.streams import stream_of


def fetch(device: devices.Device, stream: int, address: int, into: np.ndarray) -> None:
    """Fill a contiguous array with device memory, after everything before on the stream."""
    with device.active():
        device.driver("cuMemcpyDtoHAsync_v2", into.ctypes.data, address, into.nbytes, stream)
        device.driver("cuStreamSynchronize", stream)


def copied(view: ArrayView) -> np.ndarray:
    """The cells of a contiguous array on a GPU, in the memory of this process."""
    out = np.empty(view.shape, view.dtype.numpy)
    if out.size:
        fetch(_device(view), stream_of(view), view.address, out)
    return out


@contextmanager
def on_host(arguments: Sequence[object], written: Sequence[bool]) -> Generator[list[object]]:
    """The arguments with copies of arrays that are on a GPU; memory given twice is one. Those that are `written` are copied back, also after an error."""
    copies: dict[tuple[int, tuple[int, ...]], np.ndarray] = {}
    back: dict[tuple[int, tuple[int, ...]], ArrayView] = {}
    out: list[object] = []
    for argument, changes in zip(arguments, written, strict=True):
        if not isinstance(argument, ArrayView):
            out.append(argument)
            continue
        key = argument.address, argument.shape
        if key not in copies:
            copies[key] = copied(argument)
        if changes and copies[key].size:
            back[key] = argument
        out.append(copies[key])
    try:
        yield out
    finally:
        for key, view in back.items():
            device, stream = _device(view), stream_of(view)
            with device.active():
                device.driver("cuMemcpyHtoDAsync_v2", view.address, copies[key].ctypes.data, copies[key].nbytes, stream)
                device.driver("cuStreamSynchronize", stream)


def _device(view: ArrayView) -> devices.Device:
    return devices.device(int(view.device.partition(":")[2] or 0))
