"""Tiles from and to memory: pointers, masks, bounds, and the barriers that global memory needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tilejit.backends.cuda.text import numbers
from tilejit.backends.cuda.text.types import memory, padded
from tilejit.backends.cuda.text.values import Buffer, Dim, Scalar, Tile, index
from tilejit.backends.cuda.text.writer import SCRATCH_SIZE, Writer
from tilejit.dtypes import BOOL, INT4, DType

_INT32_CELLS = 1 << 31


def spread(text: str, axis: int, rank: int) -> str:
    """A vector along one axis of a tile."""
    return text if rank == 1 else f"{text}[{', '.join(':' if i == axis else 'None' for i in range(rank))}]"


def mask(out: Writer, shape: Sequence[int], valid: Sequence[Scalar], known: Sequence[int] | None = None) -> str | None:
    """Which cells of a padded tile are valid; None where all are."""
    parts = [
        spread(f"({out.arange(padded(extent))} < {size.text})", axis, len(shape))
        for axis, (extent, size) in enumerate(zip(shape, valid, strict=True))
        if size.const != padded(extent)
    ]
    return " & ".join(parts) if parts else None


Traffic = tuple[set[object], set[object]]
"""Memory that was written and read."""


@dataclass
class Order:
    """Which memory was read and written since the last barrier: threads of a program see each other's stores only after one."""

    written: set[object] = field(default_factory=set[object])
    read: set[object] = field(default_factory=set[object])

    def before_load(self, out: Writer, root: object) -> None:
        if root in self.written:
            self.barrier(out)
        self.read.add(root)

    def before_store(self, out: Writer, root: object) -> None:
        if root in self.read or root in self.written:
            self.barrier(out)
        self.written.add(root)

    def now(self) -> Traffic:
        return set(self.written), set(self.read)

    def back(self, then: Traffic) -> None:
        """Where another branch starts."""
        self.written, self.read = set(then[0]), set(then[1])

    def join(self, other: Traffic) -> None:
        """Either branch may have been taken."""
        self.written |= other[0]
        self.read |= other[1]

    def barrier(self, out: Writer) -> None:
        out.line("tl.debug_barrier()")
        self.written.clear()
        self.read.clear()


def offsets_text(out: Writer, buffer: Buffer, starts: Sequence[Scalar], vectors: Sequence[tuple[str, int, int] | None], rank: int) -> str:
    """Pointers of a block of cells: a start per dim of the buffer, and per dim the vector that runs along it, with its axis in the tile and its length."""
    base = numbers.add(buffer.offset, numbers.total(numbers.mul(start, dim.stride) for start, dim in zip(starts, buffer.dims, strict=True)))
    text = buffer.pointer if base.const == 0 else f"{buffer.pointer} + {base.text}"
    for vector, dim in zip(vectors, buffer.dims, strict=True):
        if vector is None:
            continue
        steps, axis, span = vector
        if dim.stride.const == 1:
            part = steps
        else:
            reach = dim.stride.bounds[1] if dim.stride.bounds else _INT32_CELLS
            small = reach * span < _INT32_CELLS
            part = f"({steps if small else f'{steps}.to(tl.int64)'} * {dim.stride.text})"
        text += f" + {spread(part, axis, rank)}"
    return text


def tile_pointers(out: Writer, buffer: Buffer, starts: Sequence[Scalar], shape: Sequence[int]) -> str:
    """Pointers of a window whose dims are the last of the buffer's."""
    lead = buffer.rank - len(shape)
    vectors: list[tuple[str, int, int] | None] = [None] * lead
    for axis, extent in enumerate(shape):
        vectors.append((out.arange(padded(extent)), axis, padded(extent)) if extent != 1 else None)
    text = offsets_text(out, buffer, starts, vectors, len(shape))
    return f"{text} + tl.zeros(({'1, ' * len(shape)}), tl.int32)" if all(extent == 1 for extent in shape) else text


def load_text(out: Writer, pointers: str, where: str | None, dtype: DType, options: str = "") -> str:
    """Cells in memory as they are held in registers; what the mask leaves out is 0."""
    zero = "0.0" if dtype.is_float else "0"
    text = f"tl.load({pointers}{options})" if where is None else f"tl.load({pointers}, mask={where}, other={zero}{options})"
    if dtype is BOOL:
        return f"({text} != 0)"
    return f"(({text} << 4).to(tl.int8) >> 4)" if dtype is INT4 else text


def store_line(out: Writer, pointers: str, value: str, where: str | None, dtype: DType) -> str:
    if dtype is BOOL:
        value = f"({value}).to(tl.int8)"
    return f"tl.store({pointers}, {value})" if where is None else f"tl.store({pointers}, {value}, mask={where})"


def scratch_buffer(out: Writer, shape: Sequence[int], dtype: DType) -> Buffer:
    """A piece of the program's scratch memory, row-major."""
    cells = 1
    for extent in shape:
        cells *= extent
    place = out.slice(cells * dtype.get_byte())
    start = out.parameter("scratch", "scratch", "*i8", None)
    base = out.once("scratch_here", f"{start} + {linear_program(out)}.to(tl.int64) * {SCRATCH_SIZE}")
    pointer = out.once("w", f"({base} + {place}).to(tl.pointer_type({memory(dtype)}))")
    return Buffer(pointer, index(0), contiguous(tuple(index(extent) for extent in shape)), dtype, ("scratch", place), scratch=True)


def room_buffer(out: Writer, shape: Sequence[Scalar], dtype: DType) -> Buffer | None:
    """The same of extents that only the run knows; None where the host does not know them either before it launches the kernel."""
    found = out.room([extent.const if isinstance(extent.const, int) else extent.text for extent in shape], dtype.get_byte())
    if found is None:
        return None
    name, start = found
    each = " * ".join([f"{linear_program(out)}.to(tl.int64)", *(extent.text for extent in shape), str(dtype.get_byte())])
    pointer = out.once("w", f"({start} + {each}).to(tl.pointer_type({memory(dtype)}))")
    return Buffer(pointer, index(0), contiguous(shape), dtype, ("scratch", name), scratch=True)


def linear_program(out: Writer) -> str:
    return out.program()


def contiguous(extents: Sequence[Scalar]) -> tuple[Dim, ...]:
    """Dims of a buffer without gaps."""
    dims: list[Dim] = []
    stride = index(1)
    for extent in reversed(extents):
        dims.append(Dim(extent, stride))
        stride = numbers.mul(stride, extent)
    return tuple(reversed(dims))


def as_pointer(buffer: Buffer, dtype: DType) -> str:
    """The address of a buffer's first element as a pointer to another type."""
    start = buffer.pointer if buffer.offset.const == 0 else f"({buffer.pointer} + {buffer.offset.text})"
    return f"{start}.to(tl.pointer_type({memory(dtype)}))"


def tile_of(text: str, dtype: DType, shape: Sequence[int], valid: Sequence[Scalar], zeros: bool = False) -> Tile:
    return Tile(text, dtype, tuple(shape), tuple(valid), zeros)
