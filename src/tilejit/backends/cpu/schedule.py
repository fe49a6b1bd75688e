"""What is chosen before CPU code is written, as data: one frozen value per loop nest, kind of matrix product, transposition, and for all copies.

Each kind of nest has one function here that chooses; emission only follows. A `Book` holds the choices of one program by name, and
gives others where it was told to (backends/schedules.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tilejit.backends.cpu.llvm.host import host
from tilejit.backends.schedules import COPIES, Choices, products_of
from tilejit.dtypes import DType
from tilejit.errors import OptionError
from tilejit.runtime.machine import cache_bytes

_MIB = 1 << 20
_STREAM_BYTES, _PREFETCH_BYTES = 24 * _MIB, _MIB
"""Outputs that no cache holds until somebody reads them; inputs that the second cache does not hold."""


@dataclass(frozen=True, slots=True)
class NestSchedule:
    """A loop nest over rows and columns: elementwise ops, expands, reductions, masks, stores."""

    lanes: int
    """Elements per vector in the main loop over columns."""
    middle: int
    """The same in the loop between that and single elements."""
    recompute: int
    """Work per element up to which a value is computed again in a later sweep over its row, instead of being kept in a row buffer."""
    stream_bytes: int
    """From this size on an output is stored past the caches; 0: never."""
    prefetch_bytes: int
    """From this size on the next row of an input is asked for while this one is computed on; 0: never."""
    prefetch_outputs: bool
    """Whether that of an output is too: where the second cache is large the last one is slow."""
    threads: bool
    """Whether the nest may be shared out."""
    stretch: int
    """Columns that a thread takes at once, where columns are shared out and not rows."""


@dataclass(frozen=True, slots=True)
class GemmSchedule:
    """The matrix products that are summed in one type."""

    rows: int
    """Rows of a register block."""
    vectors: int
    """Vectors in a row of it: accumulators, one row of B and a broadcast of A fit the registers."""
    kc: int
    """Depth of a packed panel in words: a panel of A stays in the first cache, one of B in the second; the deeper, the less often C is read and written."""
    mc: int
    """Rows of A packed at a time: they stay in the second cache."""
    nc: int
    """Columns of B packed at a time: they stay in the last cache."""
    unroll: int
    """Steps along the depth in one turn."""
    in_place: bool
    """Whether rows of A that lie as in a panel are read where they are: each needs an address of its own, which narrow blocks do not hide."""
    direct_n: int
    direct_k: int
    """Up to these sizes B stays in the first caches as it is, and packing does not pay."""
    few_rows: int
    """Up to this many rows the product is bound by reading B once."""
    large_elements: int
    large_few_rows: int
    """The same for a B of so many elements at least, which is not in the first caches."""
    few_dots: int
    """The same where B is transposed: it need not be packed then, and can be read again from the caches."""
    tile_rows: int
    tile_columns: int
    """The part of C that a thread takes at once."""
    shared_bytes: int
    """Memory for what all threads pack together: it stays in the last cache."""
    pieces: int
    """Stretches that a product is cut into for several threads, if they are not too narrow then."""
    stream_pieces: int
    stream_columns: int
    """The same where B is read once, row after row, and the least columns of one: neighbouring stretches that a thread takes are one."""
    deep_bytes: int
    deep_columns: int
    """From this size on a B of so many columns at most is cut into pieces along the depth, of long stretches of rows, where there are few rows of A."""
    deep_piece: int
    """Rows of such a piece where blocks of rows of A share what is read of it; 0: it is cut into columns then."""
    stream_depth: int
    """Words along the depth after which sums of such blocks go back to memory."""
    asks: bool
    """Whether rows of B are asked for ahead there: processors with a large second cache, or that take two vectors for a line, see for themselves what is read
    next."""
    least_columns: int
    least_rows: int
    """The least of each: below, packing the other operand anew for every stretch would show."""
    own_bytes: int
    """Where no more of A and B is read for a part of C, its thread packs for itself what it needs, which its second cache keeps for the most part; 0: never."""
    thin_rows: int
    """Up to this many rows every thread packs A, which is little, and its own columns of B as it needs them."""


@dataclass(frozen=True, slots=True)
class TransposeSchedule:
    """A copy whose sides run along different axes."""

    in_registers: bool
    """Turn blocks of 8 × 8 elements in registers, instead of copying element by element."""
    stream_bytes: int
    """From this size on lines are stored past the caches; 0: never."""
    prefetch_bytes: int
    """From this size on what is read next is asked for; 0: never."""


@dataclass(frozen=True, slots=True)
class CopySchedule:
    """All other copies, conversions and fills."""

    lanes: int
    middle: int


Schedule = NestSchedule | GemmSchedule | TransposeSchedule | CopySchedule


def _lanes(dtypes: Sequence[DType], lanes: int) -> int:
    """As many elements as keep the widest type of a nest within so many 32-bit registers' worth."""
    return lanes if max((dtype.bits for dtype in dtypes), default=32) <= 32 else lanes // 2


def nest(dtypes: Sequence[DType], wide: bool, folds: bool, waits_for: int | None) -> NestSchedule:
    """For a nest of these element types: `wide` where many lanes at a time fit the registers, `folds` where rows are folded into one; `waits_for` so many bytes
    of memory, where it does little else."""
    halved = waits_for is not None and host().halves_vectors(near=waits_for <= cache_bytes()[1]) and all(dtype.bits >= 32 for dtype in dtypes)
    return NestSchedule(
        lanes=_lanes(dtypes, 8 if halved else 32 if wide else 16),
        middle=8,
        recompute=3,
        stream_bytes=_STREAM_BYTES if host().is_x86 else 0,
        prefetch_bytes=_PREFETCH_BYTES,
        prefetch_outputs=cache_bytes()[1] >= 2 * _MIB,
        threads=True,
        stretch=64 if folds else 4096,
    )


def gemm(accumulator: DType) -> GemmSchedule:
    """For products on this processor."""
    rows, vectors = 6, 4 if host().vector_registers == 32 else 2
    word, (_, second, last) = accumulator.get_byte(), cache_bytes()
    kc = 4096 // word if second >= _MIB else 256
    mc = -(-min(second // 2, _MIB // 2) // (kc * word * rows)) * rows
    nc = max(512, min(2048, last // 4 // (kc * word * 512) * 512))
    # A matrix unit is faster even where B must be packed for it.
    streams = accumulator.is_float and vectors == 4 and not host().has("amx-tile")
    # Where the second cache is large the last one is far away: a thread should read whole pages of memory, and few of them at a time.
    pages = vectors == 4 and second >= 2 * _MIB
    return GemmSchedule(
        rows=rows, vectors=vectors, kc=kc, mc=mc, nc=nc, unroll=4, in_place=vectors == 4,
        direct_n=256, direct_k=256, few_rows=8, large_elements=1 << 18, large_few_rows=16 if streams else 8, few_dots=32,
        tile_rows=24, tile_columns=64, shared_bytes=max(last // 2, 4 * _MIB),
        pieces=16, stream_pieces=32, stream_columns=128, deep_bytes=4 * _MIB, deep_columns=16384,
        deep_piece=512 if pages else 0, stream_depth=32 if pages else 64, asks=vectors == 4 and second < 2 * _MIB,
        least_columns=128, least_rows=120, own_bytes=2 * second, thin_rows=64,
    )  # fmt: skip


def transpose() -> TransposeSchedule:
    return TransposeSchedule(in_registers=True, stream_bytes=_STREAM_BYTES if host().is_x86 else 0, prefetch_bytes=_PREFETCH_BYTES)


def copies() -> CopySchedule:
    return CopySchedule(lanes=32, middle=8)


class Book(Choices):
    """The schedules of one program by name: "kernel/nest0", "kernel/transpose0", "gemm FP32", "copies"."""

    def nest(self, function: str, dtypes: Sequence[DType], wide: bool, folds: bool, waits_for: int | None) -> NestSchedule:
        return self.entered(self.numbered(function.removeprefix("k_"), "nest"), nest(dtypes, wide, folds, waits_for), _takes)

    def transpose(self, function: str) -> TransposeSchedule:
        return self.entered(self.numbered(function.removeprefix("k_"), "transpose"), transpose(), _takes)

    def gemm(self, accumulator: DType) -> GemmSchedule:
        name = products_of(accumulator)
        chosen: GemmSchedule = self.made.get(name) or self.entered(name, gemm(accumulator), _takes)
        columns = chosen.vectors * (host().vector_bits // accumulator.bits)
        for field, whole, unit in (("nc", columns, f"its {columns} columns of a block"), ("mc", chosen.rows, f"rows={chosen.rows}")):
            if getattr(chosen, field) % whole:
                raise OptionError(f"the schedule of {name!r} has {field}={getattr(chosen, field)}, no multiple of {unit}", help="blocks are packed whole")
        return chosen

    def copies(self, dtypes: Sequence[DType]) -> CopySchedule:
        chosen: CopySchedule = self.made.get(COPIES) or self.entered(COPIES, copies(), _takes)
        return replace(chosen, lanes=_lanes(dtypes, chosen.lanes))


_POWERS_OF_TWO = ("lanes", "middle", "unroll", "stream_depth")
_MAY_BE_NOTHING = frozenset(
    "recompute stream_bytes prefetch_bytes direct_n direct_k few_rows large_few_rows few_dots own_bytes thin_rows deep_piece".split()
)


def _takes(chosen: Schedule, name: str, value: object) -> bool:
    """Whether code can follow a number: vectors and unrolled loops have powers of two, panels of A an even number of rows."""
    if isinstance(value, bool) or not isinstance(value, int):
        return True
    if name in _POWERS_OF_TWO:
        return 1 <= value <= 64 and value & (value - 1) == 0
    if isinstance(chosen, GemmSchedule) and name == "rows":
        return 2 <= value <= 32 and value % 2 == 0
    return value >= (0 if name in _MAY_BE_NOTHING else 1)
