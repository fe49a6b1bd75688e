"""Products of few rows with a transposed B, by tiles: columns of B, as they lie in memory, are the rows of a tile; A is packed as what they are multiplied by.

So B, which is large, is read once and never packed, and C comes out transposed, 32 columns at a time.
"""

from __future__ import annotations

from tilejit.backends.cpu.llvm.text import Emitter, Index, Module, Value
from tilejit.backends.cpu.llvm.vector import binary, constant, select, shuffle, typed
from tilejit.backends.cpu.memory.storage import Array
from tilejit.backends.cpu.nests.transpose import transpose_into
from tilejit.backends.cpu.products import dots as vectors
from tilejit.backends.cpu.products.elements import Elements
from tilejit.backends.cpu.products.kernels import LINE, PARAMS, ask_beyond, function_emitter, params_of
from tilejit.backends.cpu.products.packed import clear_without_depth
from tilejit.backends.cpu.products.packing import pack_across
from tilejit.backends.cpu.products.tiles import ROW_BYTES, SIDE, begin_tiles, end_tiles, move_tile, multiply_tiles, whole_steps, zero_tiles

LEAST_ROWS = 9
"""Below, vectors read memory as fast, and need no packing."""
_ROWS, _COLUMNS = 2 * SIDE, 2 * SIDE
_STEPS = 2048
"""Words along the depth that A is packed for at a time: 256 KiB."""
_AHEAD = 16
"""Tiles ahead that memory is asked for."""
_LEFT, _RIGHT = (4, 5), (6, 7)


def scratch_bytes(kind: Elements, m: int | None, k: int | None) -> int:
    """Bytes that A takes when it is packed."""
    if not kind.packed.tiles or (m is not None and m < LEAST_ROWS):
        return 0
    steps = _STEPS if k is None else min(-(-k // (SIDE * kind.packed.group)) * SIDE, _STEPS)
    return _ROWS * steps * kind.acc_bytes


def dots(module: Module, kind: Elements) -> str:
    """Products of few rows with a transposed B on this processor: by tiles where it has them and there are rows enough, in whole blocks of columns."""
    alone = vectors.dots(module, kind)
    name = f"gemm.{kind.name}.any_dots"
    if not kind.packed.tiles or name in module.functions:
        return name if kind.packed.tiles else alone
    params = params_of(PARAMS)
    a, a_row, a_col, b, b_row, b_col, c, c_row, m, n, k, accumulate, scratch, context = params
    e = function_emitter(module, name, "void", params, "nounwind noinline")
    whole = select(e, e.icmp("sge", m, LEAST_ROWS), e.inst("i64", f"and i64 {n.text}, {-_COLUMNS}"), Value("0", "i64"))
    for function, first, count in ((_tile_dots(module, kind.packed), 0, whole), (alone, whole, e.i64(e.sub(n, whole)))):
        with e.when(e.icmp("sgt", count, 0), "columns"):
            right, out = e.offset(b, e.mul(b_col, first), kind.b.memory), e.offset(c, first, kind.acc)
            values = [a, a_row, a_col, right, b_row, b_col, out, c_row, m, count, k, accumulate, scratch, context]
            e.void(f"call void @{function}({', '.join(map(str, values))})")
    e.void("ret void")
    e.finish()
    return name


def _tile_dots(module: Module, kind: Elements) -> str:
    """Whole blocks of 32 columns."""
    name = f"gemm.{kind.name}.tile_dots"
    if name in module.functions:
        return name
    params = params_of(PARAMS)
    a, a_row, a_col, b, _, b_col, c, c_row, m, n, k, accumulate, scratch, _ = params
    e = function_emitter(module, name, "void", params, "nounwind noinline")
    clear_without_depth(e, kind, (c, c_row), (m, n, k), accumulate)
    work = _Work(e, kind)
    deep = _STEPS * kind.group
    with e.loop(0, m, _ROWS, name="i") as i, e.loop(0, k, deep, name="pc") as pc:
        depth = e.min(e.sub(k, pc.iv), deep)
        panel_words = e.mul(whole_steps(e, kind, e.i64(depth)), SIDE)
        rows = e.min(e.sub(m, i.iv), _ROWS)
        panels = (scratch, e.offset(scratch, panel_words, kind.word))
        for panel, first in zip(panels, (0, SIDE), strict=True):
            there = e.max(e.min(e.sub(rows, first), SIDE), 0)
            start = e.offset(a, e.add(e.mul(e.add(i.iv, first), a_row), e.mul(pc.iv, a_col)), kind.a.memory)
            e.void(f"call void @{pack_across(module, kind, SIDE)}({panel}, {start}, {a_row}, {a_col}, {e.i64(there)}, {e.i64(depth)})")
        adding = binary(e, "or", accumulate, e.icmp("sgt", pc.iv, 0))
        with e.loop(0, n, _COLUMNS, name="j") as j:
            e.look()  # Whoever is asked there may use tiles too.
            begin_tiles(e)
            columns = e.offset(b, e.add(e.mul(j.iv, b_col), pc.iv), kind.b.memory)
            work.sums(columns, b_col, panels, e.i64(depth))
            work.write(e.offset(c, e.add(e.mul(i.iv, c_row), j.iv), kind.acc), c_row, e.i64(rows), adding)
            end_tiles(e)
    e.void("ret void")
    e.finish()
    return name


class _Work:
    """A block of C while it is computed: the memory beside the tiles, and the steps."""

    def __init__(self, e: Emitter, kind: Elements) -> None:
        self.e, self.kind = e, kind
        self.wide = SIDE * kind.group
        """Numbers along the depth in a tile."""
        self.as_it_lies = kind.b.memory == kind.b.lane
        self.chunk = self.wide if self.as_it_lies else max(self.wide, kind.b.together)
        self.turned = e.alloca(f"[{2 * (self.chunk // self.wide) * SIDE * ROW_BYTES} x i8]")
        """Tiles of B that are not multiplied as they lie in memory: the lower and the upper one of a step, then those of the next."""
        self.kept, self.across = (e.alloca(f"[{_ROWS * _COLUMNS} x {kind.acc}]") for _ in range(2))

    def sums(self, columns: Value, b_col: Value, panels: tuple[Value, Value], depth: Value) -> None:
        """The tiles 0 to 3: 32 columns of B times A."""
        e, kind, wide = self.e, self.kind, self.wide
        zero_tiles(e, 4)
        whole = e.inst("i64", f"and i64 {depth.text}, {-self.chunk}")
        with e.loop(0, whole, self.chunk, name="k") as loop:
            self.ask_ahead(columns, b_col, loop.iv, depth)
            if not self.as_it_lies:
                with e.loop(0, _COLUMNS, name="turn") as row:
                    at = e.offset(columns, e.add(e.mul(row.iv, b_col), loop.iv), kind.b.memory)
                    self.turn(row.iv, kind.b.load(e, at, self.chunk))
            for part in range(self.chunk // wide):
                at = e.add(loop.iv, part * wide)
                if self.as_it_lies:
                    bytes = e.i64(e.mul(b_col, kind.b.dtype.get_byte()))
                    tops = [e.offset(columns, e.add(e.mul(b_col, t * SIDE), at), kind.b.memory) for t in range(2)]
                    self.step([(top, bytes) for top in tops], panels, at)
                else:
                    self.step(self.turned_tiles(part), panels, at)
        with e.loop(whole, depth, wide, name="k") as loop:
            self.fill(columns, b_col, loop.iv, e.i64(e.min(e.sub(depth, loop.iv), wide)))
            self.step(self.turned_tiles(0), panels, loop.iv)

    def turned_tiles(self, part: int) -> list[tuple[Value, Value | int]]:
        return [(self.e.offset(self.turned, (2 * part + t) * SIDE * ROW_BYTES, "i8"), ROW_BYTES) for t in range(2)]

    def turn(self, row: Value, lanes: Value) -> None:
        """Keep a row of the tiles of one or two steps."""
        e = self.e
        for part in range(self.chunk // self.wide):
            piece = lanes if self.chunk == self.wide else shuffle(e, lanes, None, range(part * self.wide, (part + 1) * self.wide))
            e.store(piece, e.offset(self.turned, e.add(e.mul(row, ROW_BYTES), 2 * part * SIDE * ROW_BYTES), "i8"), 2)

    def fill(self, columns: Value, b_col: Value, first: Value, count: Value) -> None:
        """The last tiles, which are not whole: nothing beyond B is read, and what is missing is 0."""
        e, kind = self.e, self.kind
        lane = kind.acc_bytes // kind.group
        with e.loop(0, 2 * SIDE * ROW_BYTES, ROW_BYTES, name="clear") as loop:
            e.store(constant(typed("i8", ROW_BYTES), 0), e.offset(self.turned, loop.iv, "i8"), 1)
        with e.loop(0, _COLUMNS, name="row") as row, e.loop(0, count, name="number") as number:
            at = e.offset(columns, e.add(e.mul(row.iv, b_col), e.add(first, number.iv)), kind.b.memory)
            e.store(kind.b.load(e, at, 1), e.offset(self.turned, e.add(e.mul(row.iv, ROW_BYTES), e.mul(number.iv, lane)), "i8"), lane)

    def step(self, left: list[tuple[Value, Value | int]], panels: tuple[Value, Value], at: Index) -> None:
        """One tile along the depth, that begins at this number."""
        e, kind = self.e, self.kind
        for tile, (pointer, stride) in zip(_LEFT, left, strict=True):
            move_tile(e, "tileloadd", tile, pointer, stride)
        for tile, panel in zip(_RIGHT, panels, strict=True):
            # A word of a panel for each number of the depth and each row, in words: at / group · 16.
            move_tile(e, "tileloadd", tile, e.offset(panel, e.mul(at, SIDE), kind.b.lane), ROW_BYTES)
        for t, one in enumerate(_LEFT):
            for u, other in enumerate(_RIGHT):
                multiply_tiles(e, kind, 2 * t + u, one, other)

    def ask_ahead(self, columns: Value, b_col: Value, at: Value, depth: Value) -> None:
        """Ask for what comes some tiles later in each column, or at the start of the one that is 32 columns further on."""
        e, kind = self.e, self.kind
        later = e.add(at, _AHEAD * self.wide)
        beyond = e.sub(e.add(later, e.mul(b_col, _COLUMNS)), depth)
        place = select(e, e.icmp("slt", later, depth), e.i64(later), e.i64(beyond))
        for row in range(_COLUMNS):
            for line in range(0, self.chunk * kind.b.dtype.get_byte(), LINE):
                ask_beyond(e, columns, kind.b.memory, e.add(e.add(e.mul(b_col, row), place), line // kind.b.dtype.get_byte()), near=2)

    def write(self, place: Value, c_row: Value, rows: Value, adding: Value) -> None:
        """The sums, which are in the tiles column by column, to the rows of C that there are."""
        e, kind = self.e, self.kind
        for tile in range(4):
            at = e.offset(self.kept, tile // 2 * SIDE * _ROWS + tile % 2 * SIDE, kind.acc)
            move_tile(e, "tilestored", tile, at, _ROWS * kind.acc_bytes)
        shape, none = (_ROWS, _COLUMNS), frozenset[int]()
        source = Array(self.kept, kind.accumulator, shape, (1, _ROWS), shape, none)
        transpose_into(e, Array(self.across, kind.accumulator, shape, (_COLUMNS, 1), shape, none), source, shape)
        with e.loop(0, rows, name="row") as row, e.loop(0, _COLUMNS, SIDE, name="column") as column:
            to = e.offset(place, e.add(e.mul(row.iv, c_row), column.iv), kind.acc)
            found = kind.load_acc(e, e.offset(self.across, e.add(e.mul(row.iv, _COLUMNS), column.iv), kind.acc), SIDE)
            stem = e.fresh("write")
            e.cbr(adding, f"{stem}.add", f"{stem}.set")
            for label in ("add", "set"):
                e.place(f"{stem}.{label}")
                e.store(kind.add(e, kind.load_acc(e, to, SIDE), found) if label == "add" else found, to, kind.acc_bytes)
                e.br(f"{stem}.done")
            e.place(f"{stem}.done")
