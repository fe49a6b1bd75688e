"""Products of few rows with B row after row, which are bound by reading it once: nothing is packed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tilejit.backends.cpu.llvm.host import host
from tilejit.backends.cpu.llvm.text import Emitter, Index, Module, Value
from tilejit.backends.cpu.llvm.vector import binary, pieces_of, splat
from tilejit.backends.cpu.products.elements import Elements
from tilejit.backends.cpu.products.kernels import LINE, PARAMS, ask_beyond, function_emitter, lane_mask, masked_load, masked_store, params_of
from tilejit.backends.cpu.products.packing import mixed
from tilejit.backends.cpu.schedule import GemmSchedule

TOGETHER = 4
"""Rows of A that share what was read of B."""


def unit(kind: Elements) -> int:
    """Columns that are computed together: where a product is cut into stretches, they begin at multiples of it."""
    return kind.lanes * max(2, kind.group)


PIECE = 128
"""Rows of B whose products are summed on their own where rows of A come one by one: threads then read stretches of whole rows, and any number of them has the
same sums."""
COLUMNS = 1024
"""Columns of B that are read at once where blocks of rows of A are summed in pieces: at least a page of memory of each row."""
_WIDTH = 4096
"""Columns of such sums at a time: they stay in the first cache."""
_STREAM_DEPTH = {1: 8, 2: 4, 4: 2}
"""Words along the depth that are read side by side for a single row, by the numbers in a word."""
_ROWS_AHEAD = 8
"""Rows of B after which those come that are asked for now."""
_AHEAD_PIECES = 4
"""Pieces of B, as wide as what is computed together and as deep, after which the one comes that is asked for now."""


def piece_of(schedule: GemmSchedule, m: int) -> int:
    """Rows of B whose products with so many rows of A are summed on their own; 0: all of them."""
    return PIECE if m < TOGETHER else schedule.deep_piece


@dataclass(frozen=True, slots=True)
class _Operands:
    a: tuple[Value, Value, Value]
    b: tuple[Value, Value]
    c: tuple[Value, Value]


def stream(module: Module, kind: Elements) -> str:
    """Columns of B are adjacent: it is read once, and C, which is small, is updated in place.

    A deep B may be read in pieces: the first is added to C, sums of the others are made in scratch memory, so that threads can take pieces each."""
    name, deep = f"gemm.{kind.name}.stream", module.schedules.gemm(kind.accumulator).deep_piece
    if name in module.functions or not deep:
        return name if deep else _stream_piece(module, kind, name)
    params = params_of(PARAMS)
    a, a_row, a_col, b, b_row, b_col, c, c_row, m, n, k, accumulate, scratch, context = params
    e = function_emitter(module, name, "void", params, "nounwind noinline")
    piece = _stream_piece(module, kind, f"{name}_piece")
    stem = e.fresh("depth")
    e.cbr(binary(e, "and", e.icmp("sge", m, TOGETHER), e.icmp("sgt", k, deep)), f"{stem}.deep", f"{stem}.flat")
    e.place(f"{stem}.flat")
    e.void(f"call void @{piece}({', '.join(map(str, params))})")
    e.void("ret void")
    e.place(f"{stem}.deep")
    sums, rest = scratch, e.offset(scratch, e.mul(m, COLUMNS), kind.acc)
    with e.loop(0, n, COLUMNS, name="part") as part, e.loop(0, k, deep, name="piece") as depth:
        e.look()
        later, width, corner = e.icmp("sgt", depth.iv, 0), e.i64(e.min(e.sub(n, part.iv), COLUMNS)), e.offset(c, part.iv, kind.acc)
        left = e.offset(a, e.mul(depth.iv, a_col), kind.a.memory)
        right = e.offset(b, e.add(e.mul(depth.iv, b_row), part.iv), kind.b.memory)
        place, distance = e.inst("ptr", f"select {later}, {sums}, {corner}"), e.inst("i64", f"select {later}, {width}, {c_row}")
        adding = e.inst("i1", f"select {later}, i1 false, {accumulate}")
        sizes = m, width, e.i64(e.min(e.sub(k, depth.iv), deep))
        values = [left, a_row, a_col, right, b_row, b_col, place, distance, *sizes, adding, rest, context]
        e.void(f"call void @{piece}({', '.join(map(str, values))})")
        with e.when(later, "add"):
            _add_sums(e, kind, (corner, c_row), sums, (m, width))
    e.void("ret void")
    e.finish()
    return name


def _stream_piece(module: Module, kind: Elements, name: str) -> str:
    """The same without pieces for blocks of rows, whose sums take the depth in its order."""
    if name in module.functions:
        return name
    params = params_of(PARAMS)
    a, a_row, a_col, b, b_row, _, c, c_row, m, n, k, accumulate, scratch, _ = params
    e = function_emitter(module, name, "void", params, "nounwind noinline")
    with e.when(binary(e, "xor", accumulate, Value("true", "i1")), "clear"), e.loop(0, m) as i, e.loop(0, n) as j:
        e.store(kind.zero(1), e.offset(c, e.add(e.mul(i.iv, c_row), j.iv), kind.acc), kind.acc_bytes)
    operands = _Operands((a, a_row, a_col), (b, b_row), (c, c_row))
    single = replace(kind, dot=None)
    whole, wide = (e.inst("i64", f"and i64 {size.text}, {-many}") for size, many in ((k, kind.group), (n, unit(kind))))
    lower: Index = 0
    for rows in (2 * TOGETHER, TOGETHER) if kind.group < 4 and host().vector_registers == 32 else (TOGETHER,):
        upper = e.inst("i64", f"and i64 {m.text}, {-rows}")
        _blocks(e, kind, operands, (0, whole), (lower, upper, rows), (0, wide, unit(kind)))
        if kind.dot is not None:
            _blocks(e, single, operands, (whole, k), (lower, upper, rows), (0, wide, unit(kind)))
        _blocks(e, single, operands, (0, k), (lower, upper, rows), (wide, n, 1))
        lower = upper
    with e.when(e.icmp("slt", lower, m), "below"):
        _below(e, kind, operands, scratch, (lower, m, n, k))
    e.void("ret void")
    e.finish()
    return name


def _add_sums(e: Emitter, kind: Elements, c: tuple[Value, Value], sums: Value, sizes: tuple[Index, Value]) -> None:
    """Add sums, rows without gaps, to C."""
    rows, width = sizes
    with e.loop(0, rows, name="i") as i, e.loop(0, width, kind.lanes, name="j") as j:
        mask = lane_mask(e, e.sub(width, j.iv), kind.lanes)
        place = e.offset(c[0], e.add(e.mul(i.iv, c[1]), j.iv), kind.acc)
        more = masked_load(e, kind, e.offset(sums, e.add(e.mul(i.iv, width), j.iv), kind.acc), mask, kind.lanes)
        masked_store(e, kind, kind.add(e, masked_load(e, kind, place, mask, kind.lanes), more), place, mask, kind.lanes)


_Range = tuple[Index, Index, int]
"""From, to, how many at a time."""


def _blocks(e: Emitter, kind: Elements, operands: _Operands, along: tuple[Index, Index], down: _Range, across: _Range) -> None:
    """Add to a part of C the products of a part of the depth: the sums of some rows and columns stay in registers while a piece of B is read."""
    (b, b_row), (c, c_row) = operands.b, operands.c
    rows, width = down[2], across[2]
    pieces, each = (width // kind.lanes, kind.lanes) if width > 1 else (1, 1)
    depth = e.module.schedules.gemm(kind.accumulator).stream_depth
    words = e.alloca(f"[{depth * rows} x {kind.word}]")
    with e.loop(along[0], along[1], depth * kind.group, name="k") as part, e.loop(down[0], down[1], rows, name="i") as i:
        e.look()
        steps = e.inst("i64", f"udiv i64 {e.i64(e.min(e.sub(along[1], part.iv), depth * kind.group)).text}, {kind.group}")
        with e.loop(0, steps, name="word") as step:
            for r in range(rows):
                word = _word_of_a(e, kind, operands.a, e.add(i.iv, r), e.add(part.iv, e.mul(step.iv, kind.group)))
                e.store(word, e.offset(words, e.add(e.mul(step.iv, rows), r), kind.word), kind.acc_bytes)
        top = e.offset(b, e.mul(part.iv, b_row), kind.b.memory)
        outs = [e.offset(c, e.mul(e.add(i.iv, r), c_row), kind.acc) for r in range(rows)]
        with e.loop(across[0], across[1], width, name="j") as j:
            later = _later(e, j.iv, across, e.mul(b_row, depth * kind.group)) if width > 1 else 0
            places = [e.offset(out, e.add(j.iv, v * each), kind.acc) for out in outs for v in range(pieces)]
            start = [kind.load_acc(e, place, each) for place in places] + ([kind.zero(each)] * pieces if kind.corrected else [])
            with e.loop(0, steps, 1, start, name="k") as step:
                rights = [e.offset(top, e.add(e.mul(e.add(e.mul(step.iv, kind.group), u), b_row), j.iv), kind.b.memory) for u in range(kind.group)]
                if width > 1:
                    _ask_for_later(e, kind, rights, later, width)
                right = pieces_of(e, kind.words(e, mixed(e, [kind.b.load(e, place, width) for place in rights])), each)
                ones = [splat(e, kind.load_words(e, e.offset(words, e.add(e.mul(step.iv, rows), r), kind.word), 1), each) for r in range(rows)]
                sums = [kind.multiply_add(e, ones[r], right[v], step.carried[r * pieces + v]) for r in range(rows) for v in range(pieces)]
                extra = step.carried[rows * pieces :]
                step.next = sums + [kind.correction(e, word, total) for word, total in zip(right, extra, strict=bool(extra))]
            totals, extra = step.results[: rows * pieces], step.results[rows * pieces :]
            for cell, (place, total) in enumerate(zip(places, totals, strict=True)):
                e.store(kind.sub(e, total, extra[cell % pieces]) if extra else total, place, kind.acc_bytes)


def scratch_bytes(kind: Elements, schedule: GemmSchedule, m: int, n: int | None, k: int | None) -> int:
    """For the sums of a piece, of so many rows at most."""
    piece = piece_of(schedule, m)
    deep = m * COLUMNS if m >= TOGETHER and piece and (k is None or k > piece) else 0
    return (deep + (TOGETHER - 1) * min(_WIDTH, n or _WIDTH)) * kind.acc_bytes


def _below(e: Emitter, kind: Elements, operands: _Operands, scratch: Value, sizes: tuple[Index, Value, Value, Value]) -> None:
    """The rows below blocks of them, piece by piece of the depth: the first is added to C, sums of the others are made in scratch memory."""
    (a, a_row, a_col), (b, b_row), (c, c_row) = operands.a, operands.b, operands.c
    lower, m, n, k = sizes
    rows, a = e.sub(m, lower), e.offset(a, e.mul(lower, a_row), kind.a.memory)
    with e.loop(0, n, _WIDTH, name="part") as part:
        width = e.i64(e.min(e.sub(n, part.iv), _WIDTH))
        corner = e.offset(c, e.add(e.mul(lower, c_row), part.iv), kind.acc)
        with e.loop(0, k, PIECE, name="piece") as piece:
            later = e.icmp("sgt", piece.iv, 0)
            sums = e.inst("ptr", f"select {later}, {scratch}, {corner}"), e.inst("i64", f"select {later}, {width}, {c_row}")
            with e.when(later, "clear"), e.loop(0, e.mul(rows, width)) as j:
                e.store(kind.zero(1), e.offset(scratch, j.iv, kind.acc), kind.acc_bytes)
            own = _Operands((a, a_row, a_col), (e.offset(b, part.iv, kind.b.memory), b_row), sums)
            _piece(e, kind, own, (piece.iv, e.i64(e.min(e.add(piece.iv, PIECE), k))), rows, width)
            with e.when(later, "add"):
                _add_sums(e, kind, (corner, c_row), scratch, (rows, width))


def _piece(e: Emitter, kind: Elements, operands: _Operands, along: tuple[Value, Value], rows: Index, width: Value) -> None:
    """Add to sums the products of a piece."""
    (start, end), depth, single = along, _STREAM_DEPTH[kind.group], replace(kind, dot=None)
    deep = e.add(start, e.inst("i64", f"and {e.i64(e.sub(end, start))}, {-depth * kind.group}"))
    wide = e.inst("i64", f"and {width}, {-unit(kind)}")
    _sweep(e, kind, operands, (start, deep, depth), (0, rows, 1), (0, wide, unit(kind)))
    _sweep(e, single, operands, (deep, end, 1), (0, rows, 1), (0, wide, unit(kind)))
    _sweep(e, single, operands, (start, end, 1), (0, rows, 1), (wide, width, 1))


def _sweep(e: Emitter, kind: Elements, operands: _Operands, along: _Range, down: _Range, across: _Range) -> None:
    """The same for rows one by one: B is read row after row, some words at a time."""
    (a, a_row, a_col), (b, b_row), (c, c_row) = operands.a, operands.b, operands.c
    depth, rows, width = along[2], down[2], across[2]
    asks = e.module.schedules.gemm(kind.accumulator).asks
    with e.loop(along[0], along[1], depth * kind.group, name="k") as step, e.loop(down[0], down[1], rows, name="i") as i:
        e.look()
        ones = [[_word_of_a(e, kind, (a, a_row, a_col), e.add(i.iv, r), e.add(step.iv, u * kind.group)) for u in range(depth)] for r in range(rows)]
        right = [e.offset(b, e.mul(e.add(step.iv, u), b_row), kind.b.memory) for u in range(depth * kind.group)]
        outs = [e.offset(c, e.mul(e.add(i.iv, r), c_row), kind.acc) for r in range(rows)]
        pieces, each = (width // kind.lanes, kind.lanes) if kind.dot is not None else (1, width)
        spread = [[splat(e, one, each) for one in row] for row in ones]
        with e.loop(across[0], across[1], width, name="j") as j:
            places = [[e.offset(out, e.add(j.iv, v * each), kind.acc) for v in range(pieces)] for out in outs]
            totals = [[kind.load_acc(e, place, each) for place in row] for row in places]
            extra = [kind.zero(each)] * pieces
            for u in range(depth):
                places_of_b = [e.offset(at, j.iv, kind.b.memory) for at in right[u * kind.group : (u + 1) * kind.group]]
                if width > 1 and asks:
                    _ask_for_later(e, kind, places_of_b, e.mul(b_row, _ROWS_AHEAD), width)
                loaded = [kind.b.load(e, place, width) for place in places_of_b]
                words = pieces_of(e, kind.words(e, mixed(e, loaded)), each)
                extra = [kind.correction(e, word, total) for word, total in zip(words, extra, strict=True)] if kind.corrected else extra
                totals = [[kind.multiply_add(e, spread[r][u], words[v], totals[r][v]) for v in range(pieces)] for r in range(rows)]
            for r in range(rows):
                for v, total in enumerate(totals[r]):
                    e.store(kind.sub(e, total, extra[v]) if kind.corrected else total, places[r][v], kind.acc_bytes)


def _later(e: Emitter, column: Value, across: _Range, below: Index) -> Index:
    """Elements to the place of the piece that comes some pieces later: to the right of this one, or so many further on, `below`, at the left."""
    ahead = _AHEAD_PIECES * across[2]
    back = e.sub(across[1], across[0])
    return e.inst("i64", f"select {e.icmp('slt', e.add(column, ahead), across[1])}, i64 {ahead}, {e.i64(e.sub(e.add(below, ahead), back))}")


def _ask_for_later(e: Emitter, kind: Elements, places: Sequence[Value], later: Index, width: int) -> None:
    """The processor itself sees no order in pieces of rows.

    They go to the second cache: rows whose length is a power of two share few places in the first one.
    """
    for place in places:
        for lane in range(0, width, LINE // kind.b.dtype.get_byte()):
            ask_beyond(e, place, kind.b.memory, e.add(later, lane), near=2)


def _word_of_a(e: Emitter, kind: Elements, a: tuple[Value, Value, Value], row: Index, first: Index) -> Value:
    start = e.offset(a[0], e.add(e.mul(row, a[1]), e.mul(first, a[2])), kind.a.memory)
    return kind.words(e, mixed(e, [kind.a.load(e, e.offset(start, e.mul(a[2], u), kind.a.memory), 1) for u in range(kind.group)]))
