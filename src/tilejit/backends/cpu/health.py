"""What the code for this processor uses of it: for `tilejit doctor`."""

from __future__ import annotations

from collections.abc import Iterator

from tilejit import config
from tilejit.backends.cpu.llvm.host import host
from tilejit.backends.cpu.llvm.text import Module
from tilejit.backends.cpu.products.elements import Elements
from tilejit.dtypes import BF16, INT8
from tilejit.runtime import machine
from tilejit.runtime.targets import Finding
from tilejit.runtime.threads import thread_count


def findings() -> Iterator[Finding]:
    """Vectors, what multiplies narrow numbers, caches and threads."""
    here, level = host(), config.CPU.value
    limit = f", as far as TILEJIT_CPU={level} allows" if level else ""
    yield Finding("vectors", f"{here.vector_registers} of {here.vector_bits} bits ({here.cpu}){limit}")
    units = []
    for dtype in (BF16, INT8):
        dot = Elements.of(Module(), dtype).packed.dot
        units.append(f"{dtype.name} by {dot.feature if dot else 'vectors of wider numbers'}")
    yield Finding("products", ", ".join(units))
    yield Finding("caches", ", ".join(f"{size >> 10} KiB" if size < 1 << 20 else f"{size >> 20} MiB" for size in machine.cache_bytes()))
    yield Finding("threads", f"{thread_count()}, of {machine.processors()} processors that this process may use")
