"""Kernels whose questions are being asked in this thread: a helper that calls the kernel it is read by would never end."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Generator

from tilejit.errors import UnsupportedFeatureError
from tilejit.jit.definition import Kernel
from tilejit.jit.reads.trace import Trace

_here = threading.local()


@contextlib.contextmanager
def asking(kernel: Kernel) -> Generator[Callable[[Trace], Trace]]:
    """Hold the place of `kernel` while its questions are asked; gives a function that takes note of the trace."""
    active: dict[Kernel, Trace | None] = _here.__dict__.setdefault("active", {})
    if kernel in active:
        trace = active[kernel]
        helper = f"`{trace.answers.asking}`" if trace is not None and trace.answers.asking else "something that it reads"
        raise UnsupportedFeatureError(
            f"kernel `{kernel.definition.name}` is called by {helper}, which it asks while it is compiled", help="compute the value without calling the kernel"
        )
    active[kernel] = None

    def note(trace: Trace) -> Trace:
        active[kernel] = trace
        return trace

    try:
        yield note
    finally:
        del active[kernel]
