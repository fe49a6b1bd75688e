"""Large matrix products on several threads: A and B are packed once, by all threads, and then all multiply, tile by tile of C.

    pack       trips: panels of A, unless its rows lie as they would there, and pieces of those of B × blocks of the depth; whoever takes a trip writes once
    multiply   trips: tiles of C (× blocks of the depth, where there are few tiles: each has a C of its own then); a tile is converted when it is done
    add        trips: rows of C, only after blocks of the depth were multiplied apart

The steps are phases of one run of the team: a thread waits once for all packing, and once more where the depth is shared out, for each part of the depth
that the packing memory holds. The only writes that threads share are those to the counters of trips. Whatever the number of threads, every element of C is
a sum over the same blocks of the depth in the same order.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilejit.backends.cpu.function import FunctionWriter
from tilejit.backends.cpu.llvm.text import Emitter, Index, Value
from tilejit.backends.cpu.llvm.vector import binary
from tilejit.backends.cpu.memory.storage import Array, sub_box
from tilejit.backends.cpu.nests.nest import convert_box
from tilejit.backends.cpu.products.elements import Elements
from tilejit.backends.cpu.products.kernels import added, head_words, lane_mask, masked_load, masked_store
from tilejit.backends.cpu.products.packed import block_function, packed_row, panel_steps, steps_of
from tilejit.backends.cpu.products.packing import pack_left, pack_right
from tilejit.backends.cpu.products.tiles import SIDE
from tilejit.backends.cpu.schedule import GemmSchedule
from tilejit.backends.cpu.teams import team
from tilejit.backends.cpu.teams.counts import nanoseconds, quotient, quotient_up, remainder
from tilejit.backends.cpu.teams.product import Product

_FEW_TILES = 8
"""Up to so many tiles of C the depth is shared out too."""
_APART_BYTES = 64 << 20
"""The most memory for that."""
_PACK_PER_STEP = 4
"""Operations that a word costs to pack, for the estimate."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How one product is cut."""

    kind: Elements
    block: GemmSchedule
    panels: tuple[Index, Index]
    """Of A and B."""
    tiles: tuple[Index, Index]
    """Along the rows and columns of C."""
    apart: bool
    """Whether blocks of the depth are multiplied apart."""
    lying: int = 0
    """Panels of A that are not packed: its rows lie as they would there."""

    @property
    def columns(self) -> int:
        return self.block.vectors * self.kind.lanes

    @property
    def deep(self) -> int:
        """Steps of the depth in a block."""
        return self.block.kc * self.kind.group

    @property
    def tile(self) -> tuple[int, int]:
        rows, columns = self.block.rows, self.columns
        return max(1, self.block.tile_rows // rows) * rows, max(1, self.block.tile_columns // columns) * columns

    @property
    def cuts(self) -> int:
        """Pieces along the depth in which a panel of B is packed: as much work as a panel of A. A head is made from the whole of it."""
        return 1 if self.kind.corrected else 8

    @property
    def piece(self) -> int:
        """Steps of the depth in one of them, in whole tiles."""
        return -(-self.block.kc // (self.cuts * SIDE)) * SIDE * self.kind.group

    def pieces(self, e: Emitter, panels: tuple[Index, Index]) -> Index:
        """Trips that pack a block of the depth."""
        return e.add(e.sub(panels[0], self.lying), e.mul(panels[1], self.cuts))

    def sizes(self, e: Emitter) -> tuple[Index, Index]:
        """Words of a block of the depth of packed A and of packed B."""
        a = e.mul(self.panels[0], self.block.rows * self.block.kc)
        return a, e.mul(self.panels[1], self.columns * (self.block.kc + head_words(self.kind, 1)))


def plan_of(e: Emitter, kind: Elements, block: GemmSchedule, sizes: tuple[Index, Index, Index], *, lies: bool = False) -> Plan:
    m, n, k = sizes
    bare = Plan(kind, block, (0, 0), (0, 0), apart=False)
    panels = quotient_up(e, m, block.rows), quotient_up(e, n, bare.columns)
    tiles = quotient_up(e, m, bare.tile[0]), quotient_up(e, n, bare.tile[1])
    apart = False
    if isinstance(m, int) and isinstance(n, int) and isinstance(k, int):
        few = -(-m // bare.tile[0]) * -(-n // bare.tile[1]) <= _FEW_TILES
        apart = few and k >= 2 * bare.deep and m * n * -(-k // bare.deep) * kind.acc_bytes <= _APART_BYTES
    # Of a deeper A a block is rows with gaps between them, which have fewer places in the caches than panels.
    lying = m // block.rows if lies and isinstance(m, int) and isinstance(k, int) and k <= bare.deep else 0
    return Plan(kind, block, panels, tiles, apart, lying)


def multiply_together(f: FunctionWriter, product: Product, plan: Plan, crew: Value) -> None:
    """Write the steps of a product for a team."""
    e, kind = f.e, plan.kind
    m, n, k = product.sizes
    words = plan.sizes(e)
    each = e.mul(e.add(*words), kind.acc_bytes)
    # As many blocks of the depth at a time as the packing memory holds.
    blocks = e.min(e.max(quotient(e, plan.block.shared_bytes, each), 1), e.max(quotient_up(e, k, plan.deep), 1))
    packed_a = f.allocate(e.mul(e.mul(words[0], blocks), kind.acc_bytes), product.span)
    packed_b = f.allocate(e.mul(e.mul(words[1], blocks), kind.acc_bytes), product.span)
    sums = f.allocate(e.mul(e.mul(e.mul(m, n), blocks), kind.acc_bytes), product.span) if plan.apart else product.c.pointer
    with e.loop(0, k, e.mul(blocks, plan.deep), name="deep") as loop:
        part = e.min(e.sub(k, loop.iv), e.mul(blocks, plan.deep))
        here = quotient_up(e, part, plan.deep)
        adding = binary(e, "or", flag_of(product.accumulate), e.icmp("sgt", loop.iv, 0))
        step = _Step(f, product, plan, words, (packed_a, packed_b, sums), (loop.iv, part, here), adding)
        team.run_phases(f, crew, [step.pack(), step.multiply(), *([step.add()] if plan.apart else [])])


_SIDE = 4
"""C is cut into so many times so many squares, and tiles are numbered square by square: whoever takes a stretch of them needs few panels of A and of B."""


def _square(e: Emitter, tiles: tuple[Index, Index]) -> tuple[Index, Index]:
    """Rows and columns of tiles in a square."""
    return quotient_up(e, tiles[0], _SIDE), quotient_up(e, tiles[1], _SIDE)


def _places(e: Emitter, tiles: tuple[Index, Index]) -> Index:
    """How many numbers the tiles have, with those of places beside C."""
    return e.mul(e.mul(*_square(e, tiles)), _SIDE * _SIDE)


def _place(e: Emitter, number: Index, tiles: tuple[Index, Index]) -> tuple[Index, Index]:
    """Row and column of the tile of a number: down first, so that panels of B are used again while they are in the caches."""
    down, across = _square(e, tiles)
    size = e.mul(down, across)
    square, inside = quotient(e, number, size), remainder(e, number, size)
    row = e.add(e.mul(remainder(e, square, _SIDE), down), remainder(e, inside, down))
    return row, e.add(e.mul(quotient(e, square, _SIDE), across), quotient(e, inside, down))


def _round(e: Emitter, target: Array, c: Array, corner: tuple[Index, Index], size: tuple[Index, Index]) -> None:
    """Convert a tile of C while it is in the caches."""
    lead = c.rank - 2
    parts = [sub_box(e, array, [0] * lead + list(corner), [1] * lead + list(size)) for array in (target, c)]
    convert_box(e, parts[0], parts[1], parts[1].shape)


def flag_of(flag: Value | bool) -> Value:
    return flag if isinstance(flag, Value) else Value("true" if flag else "false", "i1")


class _Step:
    """A part of the depth: from where, how much, and in how many blocks."""

    def __init__(
        self, f: FunctionWriter, product: Product, plan: Plan, words: tuple[Index, Index],
        memory: tuple[Value, ...], depth: tuple[Value, Index, Index], adding: Value,
    ) -> None:  # fmt: skip
        self.f, self.product, self.plan, self.words, self.memory, self.depth, self.adding = f, product, plan, words, memory, depth, adding

    def pack(self) -> team.Trips:
        plan, product = self.plan, self.product
        first, part, blocks = self.depth

        def body(inner: FunctionWriter, captures: team.Captures, begin: Value, end: Value) -> None:
            g, kind = inner.e, plan.kind
            a, b = captures.array(product.a), captures.array(product.b)
            start, whole = captures.value(first), captures.index(part)
            panels = captures.index(plan.panels[0]), captures.index(plan.panels[1])
            with g.loop(begin, end, name="panels") as loop:
                g.look()
                every = plan.pieces(g, panels)
                block, number = quotient(g, loop.iv, every), remainder(g, loop.iv, every)
                k = g.mul(block, plan.deep)
                depth = g.min(g.sub(whole, k), plan.deep)
                steps = steps_of(g, kind, depth)
                stem = g.fresh("side")
                packed_panels = g.sub(panels[0], plan.lying)
                g.cbr(g.icmp("slt", number, packed_panels), f"{stem}.a", f"{stem}.b")
                for label, side, operand, memory in (("a", kind.a, a, self.memory[0]), ("b", kind.b, b, self.memory[1])):
                    g.place(f"{stem}.{label}")
                    left = label == "a"
                    size = plan.block.rows if left else plan.columns
                    rest = g.sub(number, packed_panels)
                    own, piece = (g.add(number, plan.lying), 0) if left else (quotient(g, rest, plan.cuts), remainder(g, rest, plan.cuts))
                    first_step = g.mul(piece, plan.piece)
                    across, along = operand.strides[-2:] if left else (operand.strides[-1], operand.strides[-2])
                    extent = captures.index(product.sizes[0 if left else 1])
                    at = g.add(g.mul(g.mul(own, size), across), g.mul(g.add(g.add(start, k), first_step), along))
                    words = captures.index(self.words[0 if left else 1])
                    panel = g.mul(g.mul(own, size), steps if left else panel_steps(g, kind, steps))
                    panel = g.add(panel, g.mul(quotient(g, first_step, kind.group), size))
                    here = depth if left or plan.cuts == 1 else g.max(g.min(g.sub(depth, first_step), plan.piece), 0)
                    to = g.offset(captures.value(memory), g.add(g.mul(block, words), panel), kind.word)
                    pack = pack_left(g.module, kind, size) if left else pack_right(g.module, kind, size)
                    count = g.min(g.sub(extent, g.mul(own, size)), size)
                    values = [to, g.offset(operand.pointer, at, side.memory), *map(g.i64, (across, along, count, here))]
                    g.void(f"call void @{pack}({', '.join(map(str, values))})")
                    g.br(f"{stem}.done")
                g.place(f"{stem}.done")

        e = self.f.e
        estimate = nanoseconds(e, plan.block.rows, _PACK_PER_STEP, e.min(part, plan.deep))
        return self._trips(body, e.mul(plan.pieces(e, plan.panels), blocks), estimate)

    def multiply(self) -> team.Trips:
        plan, product = self.plan, self.product
        _, part, blocks = self.depth
        tile = plan.tile

        def body(inner: FunctionWriter, captures: team.Captures, begin: Value, end: Value) -> None:
            g, kind = inner.e, plan.kind
            m, n = (captures.index(size) for size in product.sizes[:2])
            down, across = (captures.index(count) for count in plan.tiles)
            whole, many, adding = captures.index(part), captures.index(blocks), captures.value(self.adding)
            words = [captures.index(size) for size in self.words]
            memory = [captures.value(pointer) for pointer in self.memory]
            row_of_c = n if plan.apart else captures.index(product.c.strides[-2])
            source, first = captures.array(product.a), captures.value(self.depth[0])
            run = block_function(g.module, kind, plan.block)
            with g.loop(begin, end, name="tiles") as loop:
                tiles = _places(g, (down, across))
                number, only = (remainder(g, loop.iv, tiles), quotient(g, loop.iv, tiles)) if plan.apart else (loop.iv, 0)
                i, j = (g.mul(place, side) for place, side in zip(_place(g, number, (down, across)), tile, strict=True))
                # Places beside C have no rows or columns.
                height, width = g.min(g.sub(m, i), tile[0]), g.min(g.sub(n, j), tile[1])
                corner = g.offset(memory[2], g.add(g.mul(i, row_of_c), j), kind.acc)
                with g.loop(only, g.add(only, 1) if plan.apart else many, name="blocks") as block:
                    g.look()
                    steps = steps_of(g, kind, g.min(g.sub(whole, g.mul(block.iv, plan.deep)), plan.deep))
                    left = g.offset(memory[0], g.add(g.mul(block.iv, words[0]), g.mul(i, steps)), kind.word)
                    right = g.offset(memory[1], g.add(g.mul(block.iv, words[1]), g.mul(j, panel_steps(g, kind, steps))), kind.word)
                    own = g.offset(corner, g.mul(g.mul(m, n), block.iv), kind.acc) if plan.apart else corner
                    add = Value("false", "i1") if plan.apart else binary(g, "or", adding, g.icmp("sgt", block.iv, 0))
                    # Whole blocks of rows where they lie, the others packed.
                    there = g.max(g.min(g.sub(plan.lying * plan.block.rows, i), tile[0]), 0) if plan.lying else 0
                    where = g.offset(source.pointer, g.add(g.mul(i, source.strides[-2]), g.add(first, g.mul(block.iv, plan.deep))), kind.a.memory)
                    for count, rows_of_a, strides, to in (
                        (there, where, (g.mul(source.strides[-2], kind.a.dtype.get_byte()), kind.acc_bytes), own),
                        (g.sub(height, there), g.offset(left, g.mul(there, steps), kind.word), (packed_row(kind), plan.block.rows * kind.acc_bytes),
                         g.offset(own, g.mul(there, row_of_c), kind.acc)),
                    )[0 if plan.lying else 1 :]:  # fmt: skip
                        with g.when(g.icmp("sgt", count, 0), "rows"):
                            values = [rows_of_a, *map(g.i64, strides), right, to, *map(g.i64, (row_of_c, count, width, steps)), add]
                            g.void(f"call void @{run}({', '.join(map(str, values))})")
                if product.rounded is not None and not plan.apart:
                    over = g.icmp("sge", g.add(first, whole), captures.index(product.sizes[2]))
                    with g.when(over, "last"):
                        _round(g, captures.array(product.rounded), captures.array(product.c), (i, j), (g.max(height, 0), g.max(width, 0)))

        e = self.f.e
        tiles = _places(e, plan.tiles)
        depth = e.min(part, plan.deep) if plan.apart else part
        return self._trips(body, e.mul(tiles, blocks) if plan.apart else tiles, nanoseconds(e, tile[0], tile[1], depth))

    def add(self) -> team.Trips:
        """Add the sums of the blocks up in order, row by row."""
        plan, product = self.plan, self.product
        blocks = self.depth[2]

        def body(inner: FunctionWriter, captures: team.Captures, begin: Value, end: Value) -> None:
            g, kind = inner.e, plan.kind
            c, (m, n) = captures.array(product.c), (captures.index(size) for size in product.sizes[:2])
            sums, many, adding = captures.value(self.memory[2]), captures.index(blocks), captures.value(self.adding)
            with g.loop(begin, end, name="rows") as row, g.loop(0, n, kind.lanes, name="j") as j:
                g.look()
                mask = lane_mask(g, g.sub(n, j.iv), kind.lanes)
                place = g.offset(c.pointer, g.add(g.mul(row.iv, c.strides[-2]), j.iv), kind.acc)
                at = g.offset(sums, g.add(g.mul(row.iv, n), j.iv), kind.acc)
                total = added(g, kind, masked_load(g, kind, at, mask, kind.lanes), place, mask, adding)
                with g.loop(1, many, carried=[total], name="blocks") as block:
                    more = masked_load(g, kind, g.offset(at, g.mul(g.mul(m, n), block.iv), kind.acc), mask, kind.lanes)
                    block.next = [kind.add(g, block.carried[0], more)]
                masked_store(g, kind, block.results[0], place, mask, kind.lanes)

        e = self.f.e
        return self._trips(body, product.sizes[0], nanoseconds(e, product.sizes[1], _PACK_PER_STEP, blocks))

    def _trips(self, body: team.RangeBody, count: Index, estimate: Index) -> team.Trips:
        task, args = team.write_range_task(self.f, [], body)
        return team.Trips(task, args, count, estimate)
