"""Arithmetic on numbers of trips, folded where they are known; and what a product takes."""

from __future__ import annotations

from tilejit.backends.cpu.llvm.text import Emitter, Index
from tilejit.passes.cost import OPERATIONS_PER_NS


def nanoseconds(e: Emitter, size: Index, across: Index, k: Index) -> Index:
    work = e.mul(e.mul(size, across), k)
    return max(1, work // OPERATIONS_PER_NS) if isinstance(work, int) else e.max(quotient(e, work, OPERATIONS_PER_NS), 1)


def quotient(e: Emitter, a: Index, b: Index) -> Index:
    if b == 1:
        return a
    return a // b if isinstance(a, int) and isinstance(b, int) else e.inst("i64", f"sdiv {e.i64(a)}, {e.i64(b).text}")


def quotient_up(e: Emitter, a: Index, b: Index) -> Index:
    return quotient(e, e.sub(e.add(a, b), 1), b)


def remainder(e: Emitter, a: Index, b: Index) -> Index:
    if b == 1:
        return 0
    return a % b if isinstance(a, int) and isinstance(b, int) else e.inst("i64", f"srem {e.i64(a)}, {e.i64(b).text}")
