"""Large products: blocks of A and B are packed as panels that stay in the caches, and multiplied by a micro-kernel."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tilejit.backends.cpu.llvm.text import Emitter, Index, Module, Value
from tilejit.backends.cpu.llvm.vector import binary
from tilejit.backends.cpu.products.elements import Elements
from tilejit.backends.cpu.products.kernels import (
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
from tilejit.backends.cpu.products.tiles import SIDE, begin_tiles, end_tiles, tile_kernel, whole_steps
from tilejit.backends.cpu.schedule import GemmSchedule

_FEW_ROWS = 32
_STRIP = 256
"""Columns of B that are packed at a time for few rows."""


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
    return replace(found, rows=rows, vectors=2, kc=round_up(found.kc, SIDE), mc=round_up(found.mc, rows), nc=round_up(found.nc, rows))


def scratch_bytes(kind: Elements, block: GemmSchedule, m: int | None, n: int | None, k: int | None) -> int:
    """Bytes of packing memory of one product; less when sizes are known."""
    columns = block.vectors * kind.lanes
    depth = block.kc if k is None else min(round_up(-(-k // kind.group), SIDE if kind.tiles else 1), block.kc)
    rows = block.mc if m is None else min(round_up(m, block.rows), block.mc)
    width = block.nc if n is None else min(round_up(n, columns), block.nc)
    return round_up(depth * rows * kind.acc_bytes, 64) + (depth + (1 if kind.corrected else 0)) * width * kind.acc_bytes + 64


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

    with e.when(e.icmp("sle", m, _FEW_ROWS), "few"):
        # They use a panel of B once: it is multiplied before it leaves the second cache.
        with e.loop(0, k, deep, name="pc") as pc:
            depth, steps = along(pc.iv)
            parts.pack_rows(0, m, pc.iv, depth, steps)
            with e.loop(0, n, max(columns, _STRIP // columns * columns), name="jc") as jc:
                width = e.min(e.sub(n, jc.iv), max(columns, _STRIP // columns * columns))
                parts.pack_columns(jc.iv, width, pc.iv, depth, steps)
                parts.multiply(0, m, jc.iv, width, steps, binary(e, "or", accumulate, e.icmp("sgt", pc.iv, 0)))
        e.void("ret void")
        e.place(e.fresh("unreached"))
    with e.loop(0, n, block.nc, name="jc") as jc:
        width = e.min(e.sub(n, jc.iv), block.nc)
        with e.loop(0, k, deep, name="pc") as pc:
            depth, steps = along(pc.iv)
            adding = binary(e, "or", accumulate, e.icmp("sgt", pc.iv, 0))
            parts.pack_columns(jc.iv, width, pc.iv, depth, steps)
            with e.loop(0, m, block.mc, name="ic") as ic:
                e.look()
                height = e.min(e.sub(m, ic.iv), block.mc)
                parts.pack_rows(ic.iv, height, pc.iv, depth, steps)
                parts.multiply(ic.iv, height, jc.iv, width, steps, adding)
    e.void("ret void")
    e.finish()
    return name


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

    def pack_columns(self, first: Index, width: Index, down: Index, depth: Index, steps: Index) -> None:
        e, kind, (b, b_row, b_col) = self.e, self.kind, self.b
        columns = self.block.vectors * kind.lanes
        with e.loop(0, width, columns, name="pack_b") as loop:
            e.look()
            at = e.offset(b, e.add(e.mul(down, b_row), e.mul(e.add(first, loop.iv), b_col)), kind.b.memory)
            to, count = e.offset(self.packed[1], e.mul(loop.iv, panel_steps(e, kind, steps)), kind.word), e.min(e.sub(width, loop.iv), columns)
            e.void(f"call void @{pack_right(e.module, kind, columns)}({to}, {at}, {b_col}, {b_row}, {e.i64(count)}, {e.i64(depth)})")

    def pack_rows(self, first: Index, height: Index, down: Index, depth: Index, steps: Index) -> None:
        e, kind, (a, a_row, a_col), rows = self.e, self.kind, self.a, self.block.rows
        with e.loop(0, height, rows, name="pack_a") as loop:
            at = e.offset(a, e.add(e.mul(e.add(first, loop.iv), a_row), e.mul(down, a_col)), kind.a.memory)
            to, count = e.offset(self.packed[0], e.mul(loop.iv, steps), kind.word), e.min(e.sub(height, loop.iv), rows)
            e.void(f"call void @{pack_left(e.module, kind, rows)}({to}, {at}, {a_row}, {a_col}, {e.i64(count)}, {e.i64(depth)})")

    def multiply(self, top: Index, height: Index, left: Index, width: Index, steps: Index, adding: Value) -> None:
        e, kind, (c, c_row) = self.e, self.kind, self.c
        corner = e.offset(c, e.add(e.mul(top, c_row), left), kind.acc)
        values = [*self.packed, corner, c_row, e.i64(height), e.i64(width), e.i64(steps), adding]
        e.void(f"call void @{block_function(e.module, kind, self.block)}({', '.join(map(str, values))})")


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
    """`void (ptr a, ptr b, ptr c, i64 c_row, i64 height, i64 width, i64 steps, i1 accumulate)`: a part of C from its panels.

    Panels follow each other; register blocks at the edges of C go through a tile of their own.
    """
    name = f"gemm.blocks.{kind.name}"
    if name in module.functions:
        return name
    params = params_of("ptr a, ptr b, ptr c, i64 c_row, i64 height, i64 width, i64 steps, i1 accumulate")
    packed_a, packed_b, corner, c_row, height, width, steps, accumulate = params
    e = function_emitter(module, name, "void", params, "nounwind noinline")
    columns = block.vectors * kind.lanes
    tile = e.alloca(f"[{block.rows * columns} x {kind.acc}]")
    micro = tile_kernel(module, kind) if kind.tiles else packed_kernel(module, kind, block)
    if kind.tiles:
        begin_tiles(e)
    with e.loop(0, width, columns, name="jr") as jr:
        right = e.offset(packed_b, e.mul(jr.iv, panel_steps(e, kind, steps)), kind.word)
        wide = e.sub(width, jr.iv)
        with e.loop(0, height, block.rows, name="ir") as ir:
            left = e.offset(packed_a, e.mul(ir.iv, steps), kind.word)
            high = e.sub(height, ir.iv)
            place = e.offset(corner, e.add(e.mul(ir.iv, c_row), jr.iv), kind.acc)
            full = binary(e, "and", e.icmp("sge", wide, columns), e.icmp("sge", high, block.rows))
            stem = e.fresh("block")
            e.cbr(full, f"{stem}.full", f"{stem}.edge")
            e.place(f"{stem}.full")
            e.void(f"call void @{micro}({left}, {right}, {place}, {c_row}, {steps}, {accumulate})")
            e.br(f"{stem}.done")
            e.place(f"{stem}.edge")
            e.void(f"call void @{micro}({left}, {right}, {tile}, i64 {columns}, {steps}, i1 false)")
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
