"""Large products: blocks of A and B are packed as panels that stay in the caches, and multiplied by a micro-kernel."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tilejit.backends.cpu.llvm.text import Emitter, Index, Module, Value
from tilejit.backends.cpu.llvm.vector import binary
from tilejit.backends.cpu.products.elements import Elements
from tilejit.backends.cpu.products.kernels import (
    LINE,
    PARAMS,
    added,
    function_emitter,
    head_words,
    lane_mask,
    masked_store,
    packed_kernel,
    params_of,
)
from tilejit.backends.cpu.products.packing import pack_left, pack_right
from tilejit.backends.cpu.products.tiles import ROW_BYTES, SIDE, begin_tiles, end_tiles, tile_kernel, whole_steps
from tilejit.backends.cpu.schedule import GemmSchedule

_STRIP = 256
"""Columns of B that are packed at a time for tiles, whose shapes are told once then."""
_DEEPEST = 512
"""Words of the depth of such a strip: it stays in the second cache beside A."""


def round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def steps_of(e: Emitter, kind: Elements, k: Index) -> Index:
    """Words along a depth, as panels have them."""
    if kind.tiles:
        return whole_steps(e, kind, k)
    if kind.group == 1:
        return k
    return -(-k // kind.group) if isinstance(k, int) else e.inst("i64", f"udiv i64 {e.i64(e.add(k, kind.group - 1)).text}, {kind.group}")


def block_of(module: Module, kind: Elements) -> GemmSchedule:
    """The schedule of a product, in blocks that are whole tiles where it is done by tiles."""
    found = module.schedules.gemm(kind.accumulator)
    if not kind.tiles:
        return found
    rows = 2 * SIDE
    # Blocks are done so fast that panels must come from the second cache for all rows.
    columns = round_up(min(found.nc, 2 * found.mc), rows)
    return replace(found, rows=rows, vectors=2, kc=round_up(min(found.kc, _DEEPEST), SIDE), mc=round_up(found.mc, rows), nc=columns)


def scratch_bytes(kind: Elements, block: GemmSchedule, m: int | None, n: int | None, k: int | None) -> int:
    """Bytes of packing memory of one product; less when sizes are known."""
    columns = block.vectors * kind.lanes
    depth = block.kc if k is None else min(round_up(-(-k // kind.group), SIDE if kind.tiles else 1), block.kc)
    rows = block.mc if m is None else min(round_up(m, block.rows), block.mc)
    width = block.nc if n is None else min(round_up(n, columns), block.nc)
    if m is not None and m <= block.mc:
        width = min(width, _strip(kind, columns))
    return round_up(depth * rows * kind.acc_bytes, 64) + (depth + (1 if kind.corrected else 0)) * width * kind.acc_bytes + 64


def _strip(kind: Elements, columns: int) -> int:
    """Columns that are packed and multiplied before the next ones."""
    return max(columns, _STRIP // columns * columns) if kind.tiles else columns


def packed(module: Module, kind: Elements) -> str:
    """The function for any sizes and strides."""
    kind = kind.packed
    name = f"gemm.{kind.name}.packed"
    if name in module.functions:
        return name
    block = block_of(module, kind)
    columns, deep = block.vectors * kind.lanes, block.kc * kind.group
    params = params_of(PARAMS)
    a, a_row, a_col, b, b_row, b_col, c, c_row, m, n, k, accumulate, scratch, _ = params
    e = function_emitter(module, name, "void", params, "nounwind noinline")
    packed_b = e.offset(scratch, _packed_a_bytes(e, kind, block, m, k), "i8")
    parts = _Parts(e, kind, block, (a, a_row, a_col), (b, b_row, b_col), (c, c_row), (scratch, packed_b))
    clear_without_depth(e, kind, (c, c_row), (m, n, k), accumulate)

    def along(first: Index) -> tuple[Index, Index]:
        depth = e.min(e.sub(k, first), deep)
        return depth, steps_of(e, kind, depth)

    lies = parts.lies_as_packed(k)
    # Panels are multiplied before they leave the second cache, and kept for the other rows of A, if there are any.
    strip = _strip(kind, columns)
    again = e.inst("i64", f"zext {e.icmp('sgt', m, block.mc)} to i64")
    with e.loop(0, n, block.nc, name="jc") as jc:
        width = e.min(e.sub(n, jc.iv), block.nc)
        with e.loop(0, k, deep, name="pc") as pc:
            depth, steps = along(pc.iv)
            adding = binary(e, "or", accumulate, e.icmp("sgt", pc.iv, 0))
            with e.loop(0, m, block.mc, name="ic") as ic:
                height = e.min(e.sub(m, ic.iv), block.mc)
                # Rows that lie as a panel would need no packing, but for those below whole blocks.
                there = e.inst("i64", f"select {lies}, {e.i64(e.sub(height, e.inst('i64', f'urem {e.i64(height)}, {block.rows}')))}, i64 0")
                parts.pack_rows(e.add(ic.iv, there), e.sub(height, there), pc.iv, depth, steps)
                with e.loop(0, width, strip, name="strip") as across:
                    e.look()
                    wide, left = e.min(e.sub(width, across.iv), strip), e.add(jc.iv, across.iv)
                    panels = e.offset(packed_b, e.mul(e.mul(across.iv, again), panel_steps(e, kind, steps)), kind.word)
                    with e.when(e.icmp("eq", ic.iv, 0), "first"):
                        parts.pack_columns(panels, left, wide, pc.iv, depth, steps)
                    parts.multiply(panels, (ic.iv, there, height), (left, wide), pc.iv, steps, adding)
    e.void("ret void")
    e.finish()
    return name


def whole_words(kind: Elements, block: GemmSchedule) -> int:
    """A depth is a multiple of this where words of A may be read as they lie; 0: never."""
    if kind.a.memory != kind.a.lane or kind.corrected or not block.in_place:
        return 0
    return SIDE * kind.group if kind.tiles else kind.group


@dataclass(frozen=True, slots=True)
class _Parts:
    """Steps of a product: parts of A and B are packed, and multiplied into a part of C."""

    e: Emitter
    kind: Elements
    block: GemmSchedule
    a: tuple[Value, Value, Value]
    b: tuple[Value, Value, Value]
    c: tuple[Value, Value]
    packed: tuple[Value, Value]

    def lies_as_packed(self, k: Value) -> Value:
        """Whether words of A lie in memory as in a panel, row by row."""
        e, kind = self.e, self.kind
        whole = whole_words(kind, self.block)
        if not whole:
            return Value("false", "i1")
        return binary(e, "and", e.icmp("eq", self.a[2], 1), e.icmp("eq", e.inst("i64", f"urem {k}, {whole}"), 0))

    def pack_columns(self, to: Value, first: Index, width: Index, down: Index, depth: Index, steps: Index) -> None:
        e, kind, (b, b_row, b_col) = self.e, self.kind, self.b
        columns = self.block.vectors * kind.lanes
        with e.loop(0, width, columns, name="pack_b") as loop:
            at = e.offset(b, e.add(e.mul(down, b_row), e.mul(e.add(first, loop.iv), b_col)), kind.b.memory)
            panel, count = e.offset(to, e.mul(loop.iv, panel_steps(e, kind, steps)), kind.word), e.min(e.sub(width, loop.iv), columns)
            e.void(f"call void @{pack_right(e.module, kind, columns)}({panel}, {at}, {b_col}, {b_row}, {e.i64(count)}, {e.i64(depth)})")

    def pack_rows(self, first: Index, height: Index, down: Index, depth: Index, steps: Index) -> None:
        e, kind, (a, a_row, a_col), rows = self.e, self.kind, self.a, self.block.rows
        with e.loop(0, height, rows, name="pack_a") as loop:
            at = e.offset(a, e.add(e.mul(e.add(first, loop.iv), a_row), e.mul(down, a_col)), kind.a.memory)
            to, count = e.offset(self.packed[0], e.mul(loop.iv, steps), kind.word), e.min(e.sub(height, loop.iv), rows)
            e.void(f"call void @{pack_left(e.module, kind, rows)}({to}, {at}, {a_row}, {a_col}, {e.i64(count)}, {e.i64(depth)})")

    def multiply(self, panels: Value, rows: tuple[Value, Value, Index], columns: tuple[Index, Index], down: Value, steps: Index, adding: Value) -> None:
        """Panels of B with rows of A as they lie, up to `there`, and with packed ones."""
        e, kind, block, (c, c_row), (a, a_row, _) = self.e, self.kind, self.block, self.c, self.a
        (top, there, height), (left, wide) = rows, columns
        lane = kind.a.dtype.get_byte()
        for start, count, from_a, across, along in (
            (0, there, e.offset(a, e.add(e.mul(top, a_row), down), kind.a.memory), e.mul(a_row, lane), kind.acc_bytes),
            (there, e.sub(height, there), self.packed[0], packed_row(kind), block.rows * kind.acc_bytes),
        ):
            with e.when(e.icmp("sgt", count, 0), "rows"):
                corner = e.offset(c, e.add(e.mul(e.add(top, start), c_row), left), kind.acc)
                values = [from_a, *map(e.i64, (across, along)), panels, corner, c_row, *map(e.i64, (count, wide, steps)), adding]
                e.void(f"call void @{block_function(e.module, kind, block)}({', '.join(map(str, values))})")


def packed_row(kind: Elements) -> int:
    """Bytes between rows of a panel of A, which are tiles or words of each step."""
    return ROW_BYTES if kind.tiles else kind.acc_bytes


def panel_steps(e: Emitter, kind: Elements, steps: Index) -> Index:
    """Rows of words in a panel of B: its head and so many steps."""
    return e.add(steps, head_words(kind, 1))


def _packed_a_bytes(e: Emitter, kind: Elements, block: GemmSchedule, m: Value, k: Value) -> Value:
    """Bytes of the packed part of A, in whole cache lines: where that of B begins (see `scratch_bytes`)."""
    panels = e.inst("i64", f"udiv i64 {e.i64(e.add(m, block.rows - 1)).text}, {block.rows}")
    rows = e.min(e.mul(panels, block.rows), block.mc)
    size = e.mul(e.mul(rows, e.min(steps_of(e, kind, k), block.kc)), kind.acc_bytes)
    return e.inst("i64", f"and i64 {e.i64(e.add(size, 63)).text}, -64")


def clear_without_depth(e: Emitter, kind: Elements, c: tuple[Value, Value], sizes: tuple[Value, Value, Value], accumulate: Value) -> None:
    """k = 0: the product is 0, which nothing else writes."""
    m, n, k = sizes
    with e.when(e.icmp("sle", k, 0), "empty"):
        with e.when(binary(e, "xor", accumulate, Value("true", "i1")), "clear"), e.loop(0, m) as i, e.loop(0, n) as j:
            e.store(kind.zero(1), e.offset(c[0], e.add(e.mul(i.iv, c[1]), j.iv), kind.acc), kind.acc_bytes)
        e.void("ret void")
        e.place(e.fresh("unreached"))


def block_function(module: Module, kind: Elements, block: GemmSchedule) -> str:
    """A part of C from its panels.

    Panels follow each other; register blocks at the edges of C go through a tile of their own.
    """
    name = f"gemm.blocks.{kind.name}"
    if name in module.functions:
        return name
    params = params_of("ptr a, i64 a_row, i64 a_step, ptr b, ptr c, i64 c_row, i64 height, i64 width, i64 steps, i1 accumulate")
    rows_of_a, a_row, a_step, packed_b, corner, c_row, height, width, steps, accumulate = params
    e = function_emitter(module, name, "void", params, "nounwind noinline")
    columns = block.vectors * kind.lanes
    tile = e.alloca(f"[{block.rows * columns} x {kind.acc}]")
    micro = tile_kernel(module, kind) if kind.tiles else packed_kernel(module, kind, block)
    if kind.tiles:
        begin_tiles(e)
    stride = e.inst("i64", f"select {e.icmp('eq', a_step, kind.acc_bytes)}, {a_row}, {e.i64(e.mul(steps, kind.acc_bytes))}")
    with e.loop(0, width, columns, name="jr") as jr:
        right = e.offset(packed_b, e.mul(jr.iv, panel_steps(e, kind, steps)), kind.word)
        following = e.offset(right, e.mul(panel_steps(e, kind, steps), columns), kind.word)
        wide = e.sub(width, jr.iv)
        with e.loop(0, height, block.rows, name="ir") as ir:
            # Packed or not, a row begins a stride after the one above; panels follow each other.
            left = e.offset(rows_of_a, e.mul(ir.iv, stride), "i8")
            # The next panel is asked for while the first blocks are multiplied, a line in each turn.
            number = e.inst("i64", f"udiv i64 {ir.iv.text}, {block.rows}")
            part = e.offset(following, e.mul(e.mul(number, steps), LINE // block.unroll), "i8")
            ahead = e.inst("ptr", f"select {e.icmp('slt', number, -(-columns * kind.acc_bytes * block.unroll // LINE))}, {part}, {right}")
            high = e.sub(height, ir.iv)
            place = e.offset(corner, e.add(e.mul(ir.iv, c_row), jr.iv), kind.acc)
            full = binary(e, "and", e.icmp("sge", wide, columns), e.icmp("sge", high, block.rows))
            stem = e.fresh("block")
            e.cbr(full, f"{stem}.full", f"{stem}.edge")
            e.place(f"{stem}.full")
            e.void(f"call void @{micro}({left}, {a_row}, {a_step}, {right}, {place}, {c_row}, {steps}, {accumulate}, {ahead})")
            e.br(f"{stem}.done")
            e.place(f"{stem}.edge")
            e.void(f"call void @{micro}({left}, {a_row}, {a_step}, {right}, {tile}, i64 {columns}, {steps}, i1 false, {ahead})")
            _copy_edge(e, kind, block, tile, (place, c_row), (e.min(high, block.rows), wide), accumulate)
            e.br(f"{stem}.done")
            e.place(f"{stem}.done")
    if kind.tiles:
        end_tiles(e)
    e.void("ret void")
    e.finish()
    return name


def _copy_edge(e: Emitter, kind: Elements, block: GemmSchedule, tile: Value, c: tuple[Value, Value], sizes: tuple[Index, Index], accumulate: Value) -> None:
    """The part of a full tile that lies inside C."""
    lanes = kind.lanes
    masks = [lane_mask(e, e.sub(sizes[1], v * lanes), lanes) for v in range(block.vectors)]
    with e.loop(0, sizes[0]) as row:
        for v, mask in enumerate(masks):
            value = kind.load_acc(e, e.offset(tile, e.add(e.mul(row.iv, block.vectors * lanes), v * lanes), kind.acc), lanes)
            place = e.offset(c[0], e.add(e.mul(row.iv, c[1]), v * lanes), kind.acc)
            masked_store(e, kind, added(e, kind, value, place, mask, accumulate), place, mask, lanes)
