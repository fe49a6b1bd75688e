"""Kernels that are called where they cannot be compiled: by a helper that they read themselves, which would never end, or in an import of the compiler."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Generator

from tilejit.errors import UnsupportedFeatureError
from tilejit.jit.definition import Definition, Kernel
from tilejit.jit.reads.trace import Trace
from tilejit.runtime.locks import imported_here

_here = threading.local()


@contextlib.contextmanager
def asking(kernel: Kernel) -> Generator[Callable[[Trace], Trace]]:
    """Hold the place of `kernel` while its questions are asked; gives a function that takes note of the trace."""
    active: dict[Kernel, Trace | None] = _here.__dict__.setdefault("active", {})
    if kernel in active:
        trace = active[kernel]
        if trace is not None and trace.answers.asking:
            what = f"is called by `{trace.answers.asking}`, which it asks while it is compiled"
            raise UnsupportedFeatureError(f"kernel `{kernel.definition.name}` {what}", help="compute the value without calling the kernel")
        raise UnsupportedFeatureError(
            f"kernel `{kernel.definition.name}` is called while this thread compiles it: by its annotations, or by what came in between (a signal, `__del__`)",
            help="compute annotations without calling the kernel; let a handler set a flag, and call the kernel when the other call has returned",
        )
    active[kernel] = None

    def note(trace: Trace) -> Trace:
        active[kernel] = trace
        return trace

    try:
        yield note
    finally:
        del active[kernel]


def refuse_in_import(definition: Definition) -> None:
    """Refuse to compile where this thread is in an import of the compiler: a signal handler or a finalizer came in between."""
    module = imported_here()
    if module is not None:
        raise UnsupportedFeatureError(
            f"kernel `{definition.name}` has to be compiled, but this thread is importing `{module}` for another one: "
            "a signal handler or a `__del__` that came in between calls it",
            help="call it once with such arguments beforehand, or let the handler set a flag and call the kernel when the other call has returned",
        )
