"""Middling products on several threads: groups of rows times panels of columns, each trip a product of its own whose panel of B its thread packs for itself.

What a thread reads of A and B, and the panel, then stay in its own second cache, in call after call. Packing together (packed.py) packs B once, but every
thread reads what others have just written: 80 us of 250 for a product of 512 on 16 threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilejit.backends.cpu.function import FunctionWriter
from tilejit.backends.cpu.llvm.text import Emitter, Index, Value
from tilejit.backends.cpu.products.elements import Elements
from tilejit.backends.cpu.products.gemm import Gemm, call_variant, scratch_bytes
from tilejit.backends.cpu.products.packed import whole_words
from tilejit.backends.cpu.schedule import GemmSchedule
from tilejit.backends.cpu.teams import team
from tilejit.backends.cpu.teams.counts import nanoseconds, quotient, quotient_up
from tilejit.backends.cpu.teams.product import Product, captured
from tilejit.passes.cost import WORTH_NS
from tilejit.runtime.call import abi

_GROUPS = {4: 2, 8: 4, 32: 8}
"""Groups of rows from so many threads on; below, there is one. So often B is packed in all, but the groups are what few columns leave for many threads."""
_USUAL = 4
_LEAST_ROWS = 96
"""The least rows of a group: with fewer packing would show."""
_LEAST_PANELS = 4


def by_squares(product: Product, kind: Elements, schedule: GemmSchedule) -> bool:
    """Whether what a thread reads stays in its own cache, and packing is little beside the product: B as rows, A not packed at all."""
    m, n, k = product.sizes
    if not (isinstance(m, int) and isinstance(n, int) and isinstance(k, int)) or any(extent != 1 for extent in product.batch):
        return False
    if kind.tiles or kind.corrected or product.rounded is not None:  # products by tiles take too little, and tiles of C are rounded while they are near
        return False
    whole = whole_words(kind, schedule)
    if product.a.strides[-1] != 1 or product.b.strides[-1] != 1 or whole == 0 or k % whole:
        return False
    read = (m * kind.a.dtype.get_byte() + n * kind.b.dtype.get_byte()) * k // _USUAL
    return m >= _USUAL * _LEAST_ROWS and n >= _LEAST_PANELS * schedule.vectors * kind.lanes and read <= schedule.own_bytes


def share_squares(
    f: FunctionWriter, product: Product, kind: Elements, schedule: GemmSchedule, alone: Callable[[], None], others: Sequence[Value]
) -> None:
    """Write it. Trips that follow each other are one product of more columns."""
    m, n, k = product.sizes
    assert isinstance(m, int) and isinstance(n, int) and isinstance(k, int)
    columns = schedule.vectors * kind.lanes
    across = -(-n // columns)

    def together(crew: Value) -> None:
        e = f.e
        rows = _rows_of_group(e, f.context, m, schedule.rows)

        def body(inner: FunctionWriter, captures: team.Captures, begin: Value, end: Value) -> None:
            g, own, high = inner.e, captured(product, captures), captures.index(rows)
            scratch = inner.allocate(scratch_bytes(g.module, own.operand, own.b.dtype, None, n, k), own.span)
            last = quotient(g, g.sub(end, 1), across)
            with g.loop(quotient(g, begin, across), g.add(last, 1), name="groups") as group:
                g.look()
                top, before = g.mul(group.iv, high), g.mul(group.iv, across)
                left = g.mul(g.max(g.sub(begin, before), 0), columns)
                right = g.min(g.mul(g.sub(end, before), columns), n)
                a = g.offset(own.a.pointer, g.mul(top, own.a.strides[-2]), own.a.dtype.llvm)
                b = g.offset(own.b.pointer, left, own.b.dtype.llvm)
                c = g.offset(own.c.pointer, g.add(g.mul(top, own.c.strides[-2]), left), own.c.dtype.llvm)
                sizes = g.min(g.sub(m, top), high), g.sub(right, left), k
                gemm = Gemm((a, own.a.strides[-2], 1), (b, own.b.strides[-2], 1), (c, own.c.strides[-2]), sizes, own.accumulate, scratch)
                call_variant(g, "packed", own.operand, gemm, own.b.dtype)

        task, args = team.write_range_task(f, [], body)
        count = e.mul(quotient_up(e, m, rows), across)
        team.run_phases(f, crew, [team.Trips(task, args, count, nanoseconds(e, rows, columns, k), in_long_pieces=True)])

    team.run_together(f, [(nanoseconds(f.e, m, n, k), WORTH_NS)], together, alone, others)


def _rows_of_group(e: Emitter, context: Value, m: int, block: int) -> Index:
    """In whole blocks, for the threads that the call may use."""
    threads = e.load("i64", e.offset(context, abi.THREADS, "i64"), 8)
    rows: Index = -(-m // block) * block
    for least, groups in _GROUPS.items():
        if m >= groups * _LEAST_ROWS:
            fewer = -(-m // (groups * block)) * block
            rows = e.inst("i64", f"select {e.icmp('sge', threads, least)}, i64 {fewer}, {e.i64(rows)}")
    return rows
