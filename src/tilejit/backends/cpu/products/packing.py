"""Packing: parts of an operand are written as panels, in which a micro-kernel finds what it needs next side by side.

A panel has the words of `size` rows of A or columns of B step by step along the depth: to[step][size]. Rows or columns that are missing, and
numbers that are missing in the last word, are 0, so that kernels need no tails.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilejit.backends.cpu.llvm.text import Emitter, Index, Module, Value
from tilejit.backends.cpu.llvm.vector import constant, joined, shuffle, width_of
from tilejit.backends.cpu.products.elements import Elements, Side
from tilejit.backends.cpu.products.kernels import function_emitter, params_of
from tilejit.backends.cpu.products.tiles import clear_words, pack_tiles, whole_steps

_PARAMS = "ptr to, ptr from, i64 across, i64 along, i64 count, i64 k"


def pack_left(module: Module, kind: Elements, size: int) -> str:
    """`void (ptr to, ptr from, i64 across, i64 along, i64 count, i64 k)`: a panel of from[i*across + k*along], of which i < count are there."""
    return pack_tiles(module, kind) if kind.tiles else _packing(module, kind, kind.a, size)


def pack_right(module: Module, kind: Elements, size: int) -> str:
    """The same for B, with the head of the panel."""
    pack = _packing(module, kind, kind.b, size)
    if kind.tiles:
        return _pack_whole(module, kind, pack, size)
    if not kind.corrected:
        return pack
    name = f"{pack}.head"
    if name in module.functions:
        return name
    params = params_of(_PARAMS)
    to, *rest = params
    e = function_emitter(module, name, "void", params, "nounwind noinline")
    words = e.offset(to, size, kind.word)
    e.void(f"call void @{pack}({words}, {', '.join(map(str, rest))})")
    steps = _quotient_up(e, params[-1], kind.group)
    vectors = size // kind.lanes
    with e.loop(0, steps, carried=[kind.zero(kind.lanes)] * vectors, name="k") as loop:
        row = e.offset(words, e.mul(loop.iv, size), kind.word)
        for v, total in enumerate(loop.carried):
            loop.next[v] = kind.correction(e, kind.load_words(e, e.offset(row, v * kind.lanes, kind.word), kind.lanes), total)
    for v, total in enumerate(loop.results):
        e.store(kind.sub(e, kind.zero(kind.lanes), total), e.offset(to, v * kind.lanes, kind.acc), kind.acc_bytes)
    e.void("ret void")
    e.finish()
    return name


def pack_across(module: Module, kind: Elements, size: int) -> str:
    """The same for rows of A that take the place of columns of B in products by tiles."""
    return _pack_whole(module, kind, _packing(module, kind, kind.a, size), size)


def _pack_whole(module: Module, kind: Elements, pack: str, size: int) -> str:
    """A panel, and zeros up to a whole tile."""
    name = f"{pack}.whole"
    if name not in module.functions:
        params = params_of(_PARAMS)
        e = function_emitter(module, name, "void", params, "nounwind noinline")
        e.void(f"call void @{pack}({', '.join(map(str, params))})")
        there = e.mul(_quotient_up(e, params[-1], kind.group), size)
        clear_words(e, kind, params[0], there, e.mul(whole_steps(e, kind, params[-1]), size))
        e.void("ret void")
        e.finish()
    return name


def _quotient_up(e: Emitter, a: Index, b: int) -> Index:
    if b == 1:
        return a
    return e.inst("i64", f"udiv i64 {e.i64(e.add(a, b - 1)).text}, {b}")


def _packing(module: Module, kind: Elements, side: Side, size: int) -> str:
    name = f"gemm.pack.{side.name}.{size}"
    if name in module.functions:
        return name
    params = params_of(_PARAMS)
    to, source, across, along, count, k = params
    e = function_emitter(module, name, "void", params, "nounwind noinline")
    stem = e.fresh("pack")
    e.cbr(e.icmp("eq", count, size), f"{stem}.full", f"{stem}.part")
    e.place(f"{stem}.full")
    e.cbr(e.icmp("eq", across, 1), f"{stem}.rows", f"{stem}.other")
    e.place(f"{stem}.rows")
    _any(e, kind, side, size, params, _pack_rows(e, kind, side, size, to, source, along, k))
    e.place(f"{stem}.other")
    e.cbr(e.icmp("eq", along, 1), f"{stem}.turn", f"{stem}.part")
    e.place(f"{stem}.turn")
    _any(e, kind, side, size, params, _pack_turned(e, kind, side, size, to, source, across, k))
    e.place(f"{stem}.part")
    _any(e, kind, side, size, params, 0)
    e.finish()
    return name


def _any(e: Emitter, kind: Elements, side: Side, size: int, params: Sequence[Value], done: Index) -> None:
    """Pack what is left after so much of the depth (whole words), and return."""
    to, source, across, along, count, k = params
    place = e.offset(to, e.mul(done, size), side.lane)
    start = e.offset(source, e.mul(done, along), side.memory)
    values = [place, start, across, along, count, e.i64(e.sub(k, done))]
    e.void(f"call void @{_pack_any(e.module, kind, side, size)}({', '.join(map(str, values))})")
    e.void("ret void")


def _pack_rows(e: Emitter, kind: Elements, side: Side, size: int, to: Value, source: Value, along: Index, k: Value) -> Index:
    """The panel's rows are contiguous: as many at a time as a word has are mixed, in pieces of a vector and what is left; says how far it got."""
    group = kind.group
    whole = e.inst("i64", f"and i64 {k.text}, {-group}")
    pieces: list[tuple[int, int]] = []
    at, width = 0, kind.lanes * group
    while at < size:
        while at + width > size:
            width //= 2
        pieces.append((at, width))
        at += width
    with e.loop(0, whole, group) as loop:
        rows = [e.offset(source, e.mul(e.add(loop.iv, u), along), side.memory) for u in range(group)]
        out = e.offset(to, e.mul(loop.iv, size), side.lane)
        for at, width in pieces:
            loaded = [side.load(e, e.offset(row, at, side.memory), width) for row in rows]
            e.store(mixed(e, loaded), e.offset(out, at * group, side.lane), kind.acc_bytes)
    return whole


def mixed(e: Emitter, rows: Sequence[Value]) -> Value:
    """The lanes of 1, 2 or 4 rows, those of the same column side by side."""
    if len(rows) == 1:
        return rows[0]
    half = len(rows) // 2
    first, second = mixed(e, rows[::2]) if half > 1 else rows[0], mixed(e, rows[1::2]) if half > 1 else rows[1]
    width = width_of(first.type)
    if width == 1:
        return joined(e, [first, second])
    return shuffle(e, first, second, [lane for i in range(width) for lane in (i, width + i)])


_TURN = 4
"""Side of the squares of words that are transposed in registers."""


def _pack_turned(e: Emitter, kind: Elements, side: Side, size: int, to: Value, source: Value, across: Index, k: Value) -> Index:
    """Contiguous along the depth: squares of words are transposed in registers; says how far it got."""
    step = _TURN * kind.group
    whole = e.inst("i64", f"and i64 {k.text}, {-step}")
    squares, left = size - size % _TURN, size % _TURN

    def turn(column: Value, out: Value, first: Index, rows: int) -> None:
        loaded = [kind.words(e, side.load(e, e.offset(column, e.mul(across, e.add(first, i)), side.memory), step)) for i in range(rows)]
        for j, turned in enumerate(_transposed(e, loaded)):
            e.store(turned, e.offset(out, e.add(first, j * size), kind.word), kind.acc_bytes)

    with e.loop(0, whole, step) as loop:
        column = e.offset(source, loop.iv, side.memory)
        out = e.offset(to, e.mul(loop.iv, size), side.lane)
        with e.loop(0, squares, _TURN) as first:
            turn(column, out, first.iv, _TURN)
        if left:
            turn(column, out, squares, left)
    return whole


def _transposed(e: Emitter, rows: list[Value]) -> list[Value]:
    """The columns of two or four rows of four."""
    if len(rows) == 2:
        return [shuffle(e, rows[0], rows[1], [j, _TURN + j]) for j in range(_TURN)]
    assert len(rows) == _TURN, "panels have an even size"
    low = [shuffle(e, rows[i], rows[i + 1], [0, 4, 1, 5]) for i in (0, 2)]
    high = [shuffle(e, rows[i], rows[i + 1], [2, 6, 3, 7]) for i in (0, 2)]
    return [shuffle(e, first, second, picks) for first, second in (low, high) for picks in ([0, 1, 4, 5], [2, 3, 6, 7])]


def _pack_any(module: Module, kind: Elements, side: Side, size: int) -> str:
    """Any strides, panels that are not full, words that are not: number by number into a panel of zeros."""
    name = f"gemm.pack.any.{side.name}.{size}"
    if name in module.functions:
        return name
    params = params_of(_PARAMS)
    to, source, across, along, count, k = params
    e = function_emitter(module, name, "void", params, "nounwind noinline")
    zero = constant(kind.word, 0)
    with e.loop(0, e.mul(_quotient_up(e, k, kind.group), size)) as loop:
        e.store(zero, e.offset(to, loop.iv, kind.word), kind.acc_bytes)
    with e.loop(0, k) as step:
        column = e.offset(source, e.mul(step.iv, along), side.memory)
        within = e.inst("i64", f"and i64 {step.iv.text}, {kind.group - 1}")
        out = e.offset(e.offset(to, e.mul(e.sub(step.iv, within), size), side.lane), within, side.lane)
        with e.loop(0, count) as loop:
            one = side.load(e, e.offset(column, e.mul(loop.iv, across), side.memory), 1)
            e.store(one, e.offset(out, e.mul(loop.iv, kind.group), side.lane), kind.acc_bytes // kind.group)
    e.void("ret void")
    e.finish()
    return name
