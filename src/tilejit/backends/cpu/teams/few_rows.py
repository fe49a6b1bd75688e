"""Products of a few rows on several threads: each reads long stretches of rows of B, piece by piece, whose sums are added up in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilejit.backends.cpu.function import FunctionWriter
from tilejit.backends.cpu.llvm.text import Value
from tilejit.backends.cpu.products.elements import Elements
from tilejit.backends.cpu.products.few import COLUMNS, TOGETHER, piece_of
from tilejit.backends.cpu.products.gemm import Gemm, call_variant, scratch_bytes
from tilejit.backends.cpu.products.kernels import lane_mask, masked_load, masked_store
from tilejit.backends.cpu.schedule import GemmSchedule
from tilejit.backends.cpu.teams import team
from tilejit.backends.cpu.teams.counts import nanoseconds, quotient, remainder
from tilejit.backends.cpu.teams.product import Product, captured
from tilejit.passes.cost import WORTH_NS

_STRETCH = 256
"""Columns whose sums a thread adds up at once."""


def by_depth(product: Product, kind: Elements, schedule: GemmSchedule) -> bool:
    """Whether columns of B are too few for each thread to read long stretches of them; sizes must be known."""
    m, n, k = product.sizes
    if not (isinstance(m, int) and isinstance(n, int) and isinstance(k, int)):
        return False
    piece = piece_of(schedule, m)
    return piece > 0 and n <= schedule.deep_columns and k >= 2 * piece and n * k * kind.b.dtype.get_byte() >= schedule.deep_bytes


def share_by_depth(
    f: FunctionWriter, product: Product, kind: Elements, schedule: GemmSchedule, alone: Callable[[], None], others: Sequence[Value]
) -> None:
    """Write the pieces as a phase, and adding up their sums as another. The first piece is added to C, as on one thread."""
    m, n, k = product.sizes
    assert isinstance(m, int) and isinstance(n, int) and isinstance(k, int)
    depth = piece_of(schedule, m)
    width = n if m < TOGETHER else COLUMNS
    pieces, across = -(-k // depth), -(-n // width)

    def multiply(sums: Value) -> team.Trips:
        def body(inner: FunctionWriter, captures: team.Captures, begin: Value, end: Value) -> None:
            g, own, memory = inner.e, captured(product, captures), captures.value(sums)
            scratch = inner.allocate(scratch_bytes(g.module, own.operand, own.b.dtype, m, min(n, width), depth), own.span)
            with g.loop(begin, end, name="pieces") as piece:
                g.look()
                number, column = quotient(g, piece.iv, across), g.mul(remainder(g, piece.iv, across), width)
                first = g.mul(number, depth)
                a = g.offset(own.a.pointer, g.mul(first, own.a.strides[-1]), own.a.dtype.llvm)
                b = g.offset(own.b.pointer, g.add(g.mul(first, own.b.strides[-2]), column), own.b.dtype.llvm)
                later = g.icmp("sgt", number, 0)
                apart = g.inst("ptr", f"getelementptr {kind.acc}, ptr {memory.text}, {g.i64(g.mul(g.sub(number, 1), m * n))}")
                c = g.offset(g.inst("ptr", f"select {later}, {apart}, {own.c.pointer}"), column, kind.acc)
                row = g.inst("i64", f"select {later}, i64 {n}, {g.i64(own.c.strides[-2])}")
                flag = own.accumulate if isinstance(own.accumulate, Value) else Value(str(own.accumulate).lower(), "i1")
                adding = g.inst("i1", f"select {later}, i1 false, {flag}")
                left, right = (a, own.a.strides[-2], own.a.strides[-1]), (b, own.b.strides[-2], own.b.strides[-1])
                sizes = m, g.min(g.sub(n, column), width), g.min(g.sub(k, first), depth)
                call_variant(g, "stream", own.operand, Gemm(left, right, (c, row), sizes, adding, scratch), own.b.dtype)

        task, args = team.write_range_task(f, [], body)
        return team.Trips(task, args, pieces * across, nanoseconds(f.e, depth, m, min(n, width)))

    def add(sums: Value) -> team.Trips:
        def body(inner: FunctionWriter, captures: team.Captures, begin: Value, end: Value) -> None:
            g, c, memory = inner.e, captures.array(product.c), captures.value(sums)
            end = g.i64(g.min(g.mul(end, _STRETCH), n))
            with g.loop(0, m, name="rows") as row, g.loop(g.mul(begin, _STRETCH), end, kind.lanes, name="j") as j:
                mask = lane_mask(g, g.sub(end, j.iv), kind.lanes)
                place = g.offset(c.pointer, g.add(g.mul(row.iv, c.strides[-2]), j.iv), kind.acc)
                at = g.offset(memory, g.add(g.mul(row.iv, n), j.iv), kind.acc)
                with g.loop(0, pieces - 1, carried=[masked_load(g, kind, place, mask, kind.lanes)], name="pieces") as piece:
                    more = masked_load(g, kind, g.offset(at, g.mul(piece.iv, m * n), kind.acc), mask, kind.lanes)
                    piece.next = [kind.add(g, piece.carried[0], more)]
                masked_store(g, kind, piece.results[0], place, mask, kind.lanes)

        task, args = team.write_range_task(f, [], body)
        return team.Trips(task, args, -(-n // _STRETCH), nanoseconds(f.e, _STRETCH, m, pieces))

    def together(crew: Value) -> None:
        sums = f.allocate((pieces - 1) * m * n * kind.acc_bytes, product.span)
        team.run_phases(f, crew, [multiply(sums), add(sums)])

    team.run_together(f, [(nanoseconds(f.e, m, n, k), WORTH_NS)], together, alone, others)
