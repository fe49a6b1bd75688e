"""Products of a row with a B of short rows or columns, one behind the other, as a cache of keys or values lies: sums stay in registers.

What a sum has is added in the order of the other functions for few rows (few.py, dots.py), so it has their bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

from tilejit.backends.cpu.llvm.host import host
from tilejit.backends.cpu.llvm.text import Emitter, Index, Module, Value
from tilejit.backends.cpu.llvm.vector import picked, select, splat
from tilejit.backends.cpu.products import dots as apart
from tilejit.backends.cpu.products.elements import Elements
from tilejit.backends.cpu.products.few import PIECE
from tilejit.backends.cpu.products.kernels import LINE, PARAMS, ask_beyond, function_emitter, lane_mask, masked_load, masked_store, params_of

_AHEAD = 4096
"""Bytes to ask for ahead, into the second cache. Behind the end of this B often lies the next one: it comes in while something else is computed, such as the
maximum of scores."""
_UNROLL = 4
"""Rows of B in one turn."""


def takes_rows(n: Index, kind: Elements) -> TypeGuard[int]:
    """Whether sums of so many columns fit half of the registers."""
    return kind.plain and isinstance(n, int) and 0 < n <= host().vector_registers // 2 * kind.lanes


def takes_columns(k: Index, kind: Elements) -> TypeGuard[int]:
    """Whether columns are whole vectors, of which as many as one has lanes are summed side by side: that takes half of the registers, and the row others."""
    return kind.plain and isinstance(k, int) and 0 < k <= 8 * kind.lanes and k % kind.lanes == 0 and kind.lanes <= host().vector_registers // 2


def stream(module: Module, kind: Elements, n: int) -> str:
    """Rows of B have `n` numbers."""
    name = f"gemm.{kind.name}.short_stream.{n}"
    if name in module.functions:
        return name
    params = params_of(PARAMS)
    a, a_row, a_col, b, _, _, c, c_row, m, _, k, accumulate, *_ = params
    e = function_emitter(module, name, "void", params, "nounwind noinline")
    masks = [None] * (n // kind.lanes) + [lane_mask(e, n % kind.lanes, kind.lanes)] * (n % kind.lanes > 0)
    with e.loop(0, m, name="i") as i:
        row, out = e.offset(a, e.mul(i.iv, a_row), kind.acc), e.offset(c, e.mul(i.iv, c_row), kind.acc)
        places = [e.offset(out, v * kind.lanes, kind.acc) for v in range(len(masks))]
        flags = splat(e, accumulate, kind.lanes)
        before = [select(e, flags, _loaded(e, kind, place, mask), kind.zero(kind.lanes)) for place, mask in zip(places, masks, strict=True)]
        first = e.min(k, PIECE)
        totals = _sums(e, kind, n, masks, (row, a_col), b, (0, first), before)
        with e.loop(first, k, PIECE, totals, name="piece") as piece:
            e.look()
            end = e.min(e.add(piece.iv, PIECE), k)
            own = _sums(e, kind, n, masks, (row, a_col), b, (piece.iv, end), [kind.zero(kind.lanes)] * len(masks))
            piece.next = [kind.add(e, total, more) for total, more in zip(piece.carried, own, strict=True)]
        for place, mask, total in zip(places, masks, piece.results, strict=True):
            if mask is None:
                e.store(total, place, kind.acc_bytes)
            else:
                masked_store(e, kind, total, place, mask, kind.lanes)
    e.void("ret void")
    e.finish()
    return name


def _loaded(e: Emitter, kind: Elements, place: Value, mask: Value | None) -> Value:
    return kind.load_acc(e, place, kind.lanes) if mask is None else masked_load(e, kind, place, mask, kind.lanes)


def _sums(
    e: Emitter, kind: Elements, n: int, masks: Sequence[Value | None], a: tuple[Value, Value], b: Value, along: tuple[Index, Index], start: Sequence[Value]
) -> list[Value]:
    """Add to sums the products of some rows of B."""

    def step(at: Index, sums: Sequence[Value]) -> list[Value]:
        one = splat(e, kind.load_acc(e, e.offset(a[0], e.mul(at, a[1]), kind.acc), 1), kind.lanes)
        right = e.offset(b, e.mul(at, n), kind.acc)
        places = [e.offset(right, v * kind.lanes, kind.acc) for v in range(len(masks))]
        for byte in range(0, n * kind.acc_bytes, LINE):
            ask_beyond(e, right, "i8", _AHEAD + byte, near=2)
        return [kind.multiply_add(e, one, _loaded(e, kind, place, mask), total) for place, mask, total in zip(places, masks, sums, strict=True)]

    sums, (first, end) = list(start), along
    whole = e.add(first, e.inst("i64", f"and {e.i64(e.sub(end, first))}, {-_UNROLL}"))
    for lower, upper, times in ((first, whole, _UNROLL), (whole, end, 1)):
        with e.loop(lower, upper, times, sums, name="k") as loop:
            sums = loop.carried
            for u in range(times):
                sums = step(e.add(loop.iv, u), sums)
            loop.next = sums
        sums = loop.results
    return sums


def dots(module: Module, kind: Elements, k: int) -> str:
    """Columns of B have `k` numbers; columns beside whole blocks of them are left to what serves any."""
    name = f"gemm.{kind.name}.short_dots.{k}"
    if name in module.functions:
        return name
    params = params_of(PARAMS)
    a, a_row, a_col, b, b_row, b_col, c, c_row, m, n, depth, accumulate, scratch, context = params
    e = function_emitter(module, name, "void", params, "nounwind noinline")
    lanes = kind.lanes
    own = [kind.load_acc(e, e.offset(a, part, kind.acc), lanes) for part in range(0, k, lanes)]
    whole = e.inst("i64", f"and i64 {n.text}, {-lanes}")
    with e.loop(0, whole, lanes, name="j") as j:
        e.look()
        sums: list[Value] = []
        for column in range(lanes):
            at = e.offset(b, e.mul(e.add(j.iv, column), k), kind.acc)
            total = kind.zero(lanes)
            for part, one in enumerate(own):
                place = e.offset(at, part * lanes, kind.acc)
                ask_beyond(e, place, "i8", _AHEAD, near=2)
                total = kind.multiply_add(e, one, kind.load_acc(e, place, lanes), total)
            sums.append(total)
        total, owners = apart.collapsed(e, kind, sums)
        total = picked(e, total, None, [owners.index(column) for column in range(lanes)])
        out = e.offset(c, j.iv, kind.acc)
        flags = splat(e, accumulate, lanes)
        e.store(select(e, flags, kind.add(e, kind.load_acc(e, out, lanes), total), total), out, kind.acc_bytes)
    with e.when(e.icmp("slt", whole, n), "beside"):
        right, out = e.offset(b, e.mul(whole, k), kind.acc), e.offset(c, whole, kind.acc)
        values = [a, a_row, a_col, right, b_row, b_col, out, c_row, m, e.i64(e.sub(n, whole)), depth, accumulate, scratch, context]
        e.void(f"call void @{apart.dots(module, kind)}({', '.join(map(str, values))})")
    e.void("ret void")
    e.finish()
    return name
