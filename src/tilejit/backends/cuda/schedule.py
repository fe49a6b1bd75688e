"""How much a program does at once: rows, columns, warps, stages, from the sizes of a nest and what a GPU is good at."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace

from tilejit.backends.cuda.text.types import padded
from tilejit.backends.schedules import AnySchedule, Choices
from tilejit.dtypes import DType
from tilejit.errors import OptionError

MOST_CELLS = 1 << 14
"""Cells of a tensor-level value that a program holds at once in registers."""
LONGEST_ROW = 1 << 14
"""Longer rows run in chunks."""
CHUNK = 4096


@dataclass(frozen=True)
class RowSchedule:
    """Blocks of a nest over rows: rows and columns at once, and whether a row takes several chunks."""

    rows: int
    columns: int
    chunked: bool
    warps: int
    stages: int = 3
    parts: int = 0
    """Programs that hold a row together; 0: each has rows of its own."""

    def __str__(self) -> str:
        how = f" in {self.parts} programs" if self.parts else " in chunks" if self.chunked else ""
        return f"{self.rows} rows × {self.columns} columns{how}, {self.warps} warps"


def rows_of(rows: int | None, columns: int | None, width: int, live: int) -> RowSchedule:
    """For `rows` rows of `columns` columns (None: the run knows) of elements of `width` bytes, with `live` values at once."""
    if columns is None or padded(columns) > LONGEST_ROW:
        return RowSchedule(1, CHUNK, True, 8)
    wide = padded(columns)
    wanted = max(1, min(4096, 16384 // max(width, 1)) // wide)
    if rows is not None:
        wanted = min(wanted, padded(rows), max(1, padded(rows) // _FILLED))
    block = 1 << (wanted.bit_length() - 1)
    warps = max(1, min(16, block * wide * max(width, 2) // 2048))
    return RowSchedule(block, wide, False, 1 << int(math.log2(warps)))


def again_of(columns: int | None, width: int, readings: int) -> RowSchedule | None:
    """Rows that are needed several times, `readings` in all: the caches have them still, and more warps run than if registers held them.

    What is made of a row is made anew each time, for which there is the time that memory takes: of wide cells more."""
    if columns is None or not 2 <= readings <= (2 if width <= 2 else 3) or not 8 << 10 <= padded(columns) * width <= 32 << 10:
        return None
    return RowSchedule(1, padded(columns), True, 16)


_FILLED = 264
"""Programs that fill a large GPU, two for each processor."""


def cells_of(rows: int | None, columns: int | None, width: int) -> RowSchedule | None:
    """Blocks of columns for cells that need nothing of the rest of their row; None where whole rows are as good: there are many, and none is long."""
    fits = columns is not None and padded(columns) <= LONGEST_ROW and not is_uneven(columns, padded(columns))
    if columns is not None and (columns <= 1024 or (fits and (rows is None or rows >= _FILLED))):
        return None
    wide = min(16384 // max(width, 1), padded(columns or 16384))
    while columns is not None and wide > 512 and ((rows or 1) * -(-columns // wide) < _FILLED or (wide > 2048 and is_uneven(columns, wide))):
        wide //= 2
    return RowSchedule(1, wide, True, max(1, min(8, wide * max(width, 2) // 2048)))


def is_uneven(columns: int, wide: int) -> bool:
    """Whether blocks of so many columns leave more than an eighth of what they hold empty."""
    return -columns % wide > columns // 8


def pull_of(swaps: bool, rows: int | None, columns: int | None, width: int) -> RowSchedule:
    """Blocks of an operator that only moves cells of `width` bytes; a transposition needs as many rows as columns to read and write whole lines."""
    if swaps:
        tall = 128 if width == 1 else 64
        return RowSchedule(min(tall, padded(rows or tall)), min(64, padded(columns or 64)), True, 4)
    wide = min(1024, padded(columns or 1024))
    return RowSchedule(max(1, 2048 // wide), wide, True, 4)


@dataclass(frozen=True)
class BlockSchedule:
    """A program of the user's own blocks, or one whose blocks are fixed."""

    warps: int
    stages: int
    """How many turns of a loop are under way at once, where it copies tiles."""

    def __str__(self) -> str:
        return f"{self.warps} warps, {self.stages} stages"


_SHAPES = re.compile(r"\(((?:\d+, )*\d+),\)")


def warps_of(text: str) -> int:
    """Warps for a program of the user's own blocks: by the largest tile in it."""
    cells = [math.prod(int(n) for n in found.split(", ")) for found in _SHAPES.findall(text)]
    spans = [int(n) for n in re.findall(r"tl\.arange\(0, (\d+)\)", text)]
    largest = max([*cells, 1, *(a * b for i, a in enumerate(spans) for b in spans[i + 1 :])])
    if largest >= 1 << 14:
        return 8
    return 4 if largest >= 1 << 10 else 2 if largest >= 1 << 8 else 1


@dataclass(frozen=True)
class ProductSchedule:
    """Blocks of a product."""

    rows: int
    columns: int
    inner: int
    warps: int
    stages: int
    precision: str = "ieee"

    def __str__(self) -> str:
        return f"{self.rows} × {self.columns} × {self.inner}, {self.warps} warps, {self.stages} stages"


def chunks_of(rows: int, columns: int, native: DType | None) -> ProductSchedule:
    """Blocks of a product of tiles that registers do not hold: of its rows and columns as much as they do hold, and of K what shared memory takes of both
    operands several times. `native`: what tensor cores multiply, None where they do not; FP32 they do not either, so each product of a step is written out."""
    least, most = (8, 1 << 13) if native is None else (32 if native.get_byte() == 1 else 16, 1 << (17 if native.get_byte() == 4 else 20))
    size = 8 if native is None else native.get_byte()

    def fits(inner: int) -> bool:
        return rows * columns * inner <= most and rows * columns <= MOST_CELLS and (rows + columns) * inner * size <= _STAGED

    while not fits(least):
        rows, columns = (rows // 2, columns) if rows > columns else (rows, columns // 2)
    inner = least
    while inner < 64 and native is not None and fits(2 * inner):
        inner *= 2
    return ProductSchedule(rows, columns, inner, 4, 3)


_STAGED = 48 << 10
"""Bytes of both operands under way, of which there is room for three on most GPUs and for two on all."""

FEW = (16, 64)
"""Rows up to which a product is bound by reading its right operand: up to what one instruction of tensor cores takes, and up to what it takes of large ones."""
PROCESSORS = 132
"""Programs that keep a large GPU busy: what is cut into so many parts runs on any."""
_SHARED = 227 << 10
"""Bytes of shared memory of a processor."""


def walkers_of(blocks: int, copied: int) -> int:
    """Programs of each processor that walk over the blocks of a kernel which keeps `copied` bytes of descriptors' copies; 0 where each block is a program.

    Making descriptors takes a program longer than a few turns of its loops."""
    walkers = max(1, _SHARED // max(copied, 1))
    return walkers if copied and blocks > 4 * walkers * PROCESSORS else 0


def product_of(rows: int | None, inner: int | None, columns: int | None, batches: int | None, dtype: DType, fast: bool, read: DType) -> ProductSchedule:
    """Blocks for a product of M × K × N in `dtype`, as far as it is known while compiling; the right operand lies in memory as `read`."""
    m, k, n, many = rows or 1024, inner or 1024, columns or 1024, batches or 1
    size = dtype.get_byte()
    if size == 4:
        precise = "tf32x3" if fast and m * n * k >= 1 << 24 else "ieee"
        block = _fitted(m, n, many, 0, ((128, 128), (64, 64), (32, 32)))
        return ProductSchedule(*block, 32, 8 if block[0] == 128 else 4, 3 if precise == "ieee" else 2, precise)
    depth = 64 if size == 2 else 128
    if min(m, n) >= 2048 and m * n * many >= 128 * 256 * PROCESSORS:
        return ProductSchedule(128, 256, depth, 8, 4 if size == 1 or k < 8192 else 3)
    if m <= FEW[-1] and n > 32:
        return _narrow(m, n, k, many, size, read.get_byte())
    blocks = ((128, 128), (64, 128), (64, 64), (32, 64), (16, 64))
    alone = _count(m, n, many, blocks[1]) <= PROCESSORS and 8 * _count(m, n, many, blocks[0]) >= 3 * PROCESSORS
    block = blocks[0] if alone and min(m, n) >= 128 else _fitted(m, n, many, k // depth, blocks)  # all of them at once: then larger ones take less time
    return ProductSchedule(*block, min(depth, max(32, padded(k))), 8 if block == (128, 128) else 4, 4 if alone or block != (128, 128) else 3)


def _narrow(m: int, n: int, k: int, many: int, size: int, width: int) -> ProductSchedule:
    """Blocks of few rows, bound by reading the right operand (of `width` bytes a cell, the left one of `size`): narrow ones, so that there are many, and
    enough copies under way in each."""
    height = max(16, padded(m))
    wides = [wide for wide in (128, 64) if wide <= padded(n) and _count(m, n, many, (height, wide)) >= PROCESSORS * 3 // 4]
    block = max(wides, default=32)
    alone = height == 16 and _count(m, n, many, (height, block)) < PROCESSORS * 3 // 4  # in so few programs, each has to do with more at once
    deep = min(256 if size == 1 or alone or (height == 16 and width == 1) else 128, max(32, padded(k)))
    fitting = (144 << 10) // (deep * (height * size + block * width))
    return ProductSchedule(height, block, deep, 8 if alone and deep == 256 else 4, max(2, min(6, fitting, max(3, (48 << 10) // (block * deep * width) + 1))))


def _count(m: int, n: int, many: int, block: tuple[int, int]) -> int:
    return -(-m // block[0]) * -(-n // block[1]) * many


def pieces_of(blocks: int | None, inner: int | None, chosen: ProductSchedule) -> int:
    """In how many pieces K is cut, for other programs each: where blocks leave most processors idle and have many steps to do. Another kernel adds them up.
    Those that no tensor core does have short steps."""
    return _pieces(blocks or PROCESSORS, -(-(inner or 0) // chosen.inner)) if chosen.inner >= 16 else 1


def _pieces(blocks: int, steps: int) -> int:
    return max(1, min(PROCESSORS // max(blocks, 1), steps // _LEAST_STEPS))


_LEAST_STEPS = 16
"""Of a piece of K: fewer take no longer than the launch that adds them up."""


def pays_to_align(pitch: int, width: int, uses: int, work: int) -> bool:
    """Whether an operand of a product whose rows are `pitch` elements of `width` bytes apart is copied to where they begin at multiples of 16 bytes.

    Else tensor cores wait for what threads fetch element by element. The copy moves each element twice, and a launch takes some microseconds: it must be
    used by so many rows or columns, in a product of so many multiplications."""
    return pitch * width % 16 != 0 and uses >= 512 and work >= 1 << 29


def _fitted(m: int, n: int, many: int, steps: int, blocks: tuple[tuple[int, int], ...]) -> tuple[int, int]:
    """The largest block with which there is work for most processors, no larger than the result: half of a block's size costs more than a few idle ones."""
    for block in blocks:
        count = _count(m, n, many, block)
        fits = block[0] <= max(16, padded(m)) and block[1] <= max(16, padded(n))
        if fits and count * (_pieces(count, steps) if many == 1 else 1) >= PROCESSORS * 3 // 4:
            return block
    rows, columns = blocks[-1]
    return min(rows, max(16, padded(m))), min(columns, max(16, padded(n)))


class Book(Choices):
    """The schedules of one program by kernel: "kernel/rows0", "kernel/product0", "kernel/block0"."""

    def rows(self, kernel: str, chosen: RowSchedule) -> RowSchedule:
        """Of a nest; rows that fit are held whole unless `chunked` says otherwise."""
        name = self.numbered(kernel, "rows")
        out = self.entered(name, chosen, _takes)
        if chosen.parts and (out.rows, out.columns, out.parts) != (chosen.rows, chosen.columns, chosen.parts):  # other blocks, and no gang
            out = replace(out, parts=0, columns=CHUNK if out.columns == chosen.columns else out.columns)
        if not out.chunked and out.columns != chosen.columns:
            raise OptionError(f"the schedule of {name!r} has columns={out.columns}, but holds rows whole", help="say chunked=True too")
        return self._within(name, out, out.rows * out.columns)

    def product(self, kernel: str, chosen: ProductSchedule, summed: bool) -> ProductSchedule:
        """Of a product; `summed` ones hold all products of a step in registers."""
        name = self.numbered(kernel, "product")
        out = self.entered(name, chosen, _takes)
        return self._within(name, out, out.rows * out.columns * (out.inner if summed else 1))

    def block(self, kernel: str, warps: int, stages: int) -> BlockSchedule:
        return self.entered(self.numbered(kernel, "block"), BlockSchedule(warps, stages), _takes)

    def _within(self, name: str, chosen: AnySchedule, cells: int) -> AnySchedule:
        if cells > MOST_AT_ONCE:
            raise OptionError(f"the schedule of {name!r} holds {cells} cells at once", help=f"at most {MOST_AT_ONCE}: smaller blocks")
        return chosen


MOST_AT_ONCE = 1 << 16
"""Cells of one block: four times what the registers of a processor hold in FP32 would be spilled."""
_MOST = {"warps": 32, "rows": 1 << 12, "columns": 1 << 15, "inner": 256}


def _takes(chosen: RowSchedule | ProductSchedule | BlockSchedule, name: str, value: object) -> bool:
    """Whether code can follow a value: blocks and warps are powers of two, tensor cores take no fewer than 16, precision and whole rows are not for choice."""
    if value == getattr(chosen, name) or (name == "parts" and value == 0):
        return True
    if isinstance(value, bool):
        return value or not getattr(chosen, name)
    if not isinstance(value, int):
        return False
    if name == "stages":
        return 1 <= value <= 8
    least = 16 if isinstance(chosen, ProductSchedule) and name != "warps" and chosen.inner >= 16 else 1
    return least <= value <= _MOST.get(name, 0) and value & (value - 1) == 0
