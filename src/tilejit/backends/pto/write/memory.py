"""Global memory in PTO text: boxes of parameters and of the workspace, their slices, and how scalars reach them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from xdsl.ir import Operation, SSAValue

from tilejit.backends.pto.write.text import Extent, TextWriter, element_name, scalar_name, stored
from tilejit.dtypes import DType
from tilejit.tile_ir import dialect as d
from tilejit.types.values import ANY, BufferType, Dim, ScalarType


@dataclass(frozen=True)
class Part:
    """A stretch of rows or columns: where it starts, how large it can be, and how large it is."""

    start: Extent
    size: int
    count: Extent


@dataclass(frozen=True)
class Region:
    """A box of a value seen as a matrix (leading dims merged)."""

    rows: Part
    cols: Part

    @property
    def turned(self) -> Region:
        return Region(self.cols, self.rows)


@dataclass(frozen=True)
class Memory:
    """A box of global memory: dims of the whole, where the box begins, how far it reaches, and which dims count."""

    pointer: str
    view: str
    whole: tuple[Extent, ...]
    dtype: DType
    origin: tuple[Extent, ...]
    box: tuple[Extent, ...]
    kept: tuple[int, ...]
    root: str
    """The pointer whose memory this is a part of."""

    @property
    def shape(self) -> tuple[Extent, ...]:
        return tuple(self.box[i] for i in self.kept)

    @property
    def regular(self) -> bool:
        """Whether the last dim that counts is the one whose elements are neighbours."""
        return not self.kept or self.kept[-1] == len(self.whole) - 1


@dataclass(frozen=True)
class Workspace:
    """Global memory a kernel needs beyond its tensors: one pointer parameter; per block as many elements as the product of `dims`."""

    name: str
    dtype: DType
    dims: tuple[Dim, ...]


class MemoryWriter(TextWriter):
    """Views and slices."""

    def __init__(self, function: d.FuncOp, arch: str) -> None:
        super().__init__(function, arch)
        self.symbols: dict[str, str] = {}
        self.workspaces: list[Workspace] = []
        self.arguments: list[str] = []
        self.memories: dict[SSAValue, Memory] = {}
        self.scalars: dict[SSAValue, str] = {}
        self._parameters: set[str] = set()

    def parameters(self) -> None:
        """Tensors and scalars in order; then the dynamic extents by name; then the workspace."""
        names = self.function.names
        buffers: list[tuple[SSAValue, str, BufferType]] = []
        for name, argument in zip(names, self.function.body.block.args):
            type, label = d.type_of(argument), self.name(str(name))
            self._parameters.add(label[1:])
            if isinstance(type, BufferType):
                self.arguments.append(f"{label}: !pto.ptr<{element_name(type.dtype)}>")
                buffers.append((argument, label, type))
            elif isinstance(type, ScalarType):
                self.arguments.append(f"{label}: {scalar_name(type.dtype)}")
                self.scalars[argument] = label
            else:
                raise self.refuse(self.function, f"the parameter `{name}`")
        for _, _, type in buffers:
            for dim in type.shape:
                if dim == ANY:
                    raise self.refuse(self.function, "a tensor parameter whose extents have no name")
                if isinstance(dim, str) and dim not in self.symbols:
                    self.symbols[dim] = self.name(dim)
                    self.arguments.append(f"{self.symbols[dim]}: index")
        for argument, label, type in buffers:
            shape = tuple(dim if isinstance(dim, int) else self.symbols[dim] for dim in type.shape)
            self.memories[argument] = self.memory(label, shape, type.dtype)

    def memory(self, pointer: str, shape: tuple[Extent, ...], dtype: DType) -> Memory:
        """All of what a pointer of the top points to."""
        dtype = stored(dtype)
        shape = shape or (1,)
        dims = (1, *shape) if len(shape) == 1 else shape
        view = self.define_at_top(self._view_text(pointer, dims, self.strides(dims), dtype), f"{pointer[1:]}_view")
        return Memory(pointer, view, dims, dtype, (0,) * len(dims), dims, tuple(range(len(dims) - len(shape), len(dims))), pointer)

    def _view_text(self, pointer: str, shape: tuple[Extent, ...], strides: tuple[Extent, ...], dtype: DType) -> str:
        # Of matrices the layout is only a name; with more dims it says which of them are rows.
        layout = "nd" if strides[-1] == 1 or len(shape) > 2 else "dn"
        extents = f"shape = [{', '.join(map(self.ssa, shape))}], strides = [{', '.join(map(self.ssa, strides))}]"
        return f"pto.make_tensor_view {pointer}, {extents} {{layout = #pto.layout<{layout}>}} : {view_type(len(shape), dtype)}"

    def fixed(self, extents: tuple[Extent, ...]) -> bool:
        """Whether extents are known at the top: numbers and dynamic extents of parameters."""
        return all(isinstance(extent, int) or extent in self.symbols.values() for extent in extents)

    def strides(self, dims: tuple[Extent, ...]) -> tuple[Extent, ...]:
        """Of a contiguous array; products of dynamic extents of parameters are taken at the top."""
        at_top, out = self.fixed(dims[1:]), list[Extent]([1])
        for dim in reversed(dims[1:]):
            out.append(self.mul_at_top(out[-1], dim) if at_top else self.mul(out[-1], dim))
        return tuple(reversed(out))

    def mul_at_top(self, a: Extent, b: Extent) -> Extent:
        if isinstance(a, int) and isinstance(b, int):
            return a * b
        return b if a == 1 else a if b == 1 else self.define_at_top(f"arith.muli {self.ssa(a)}, {self.ssa(b)} : index", "size")

    def workspace(self, dtype: DType, dims: tuple[Dim, ...], op: Operation, hint: str = "scratch") -> Memory:
        """Memory of this block that outlives tiles: for what is too large for them, and for ways between the cores that lead through it."""
        if ANY in dims:
            raise self.refuse(op, "a value whose size only the run knows and that does not fit into a tile")
        label = self.name(f"{hint}_gm")
        self.workspaces.append(Workspace(label[1:], stored(dtype), dims))
        element = element_name(dtype)
        size: Extent = 1
        for dim in dims:
            size = self.mul_at_top(size, dim if isinstance(dim, int) else self.symbols[dim])
        block = self.define_at_top("pto.get_block_idx", "block")
        index = self.define_at_top(f"arith.index_cast {block} : i64 to index", "block_index")
        offset = self.define_at_top(f"arith.muli {index}, {self.ssa(size)} : index", "block_offset")
        pointer = self.define_at_top(f"pto.addptr {label}, {offset} : !pto.ptr<{element}> -> !pto.ptr<{element}>", hint)
        return self.memory(pointer, tuple(dim if isinstance(dim, int) else self.symbols[dim] for dim in dims), dtype)

    # boxes ----------------------------------------------------------------------------------------------------------------------

    def element_offset(self, memory: Memory, indices: tuple[Extent, ...]) -> Extent:
        """How far an element of a box is from the pointer; one index per dim that counts."""
        strides, out = self.strides(memory.whole), list(memory.origin)
        for dim, index in zip(memory.kept, indices, strict=True):
            out[dim] = self.add(out[dim], index)
        total: Extent = 0
        for place, stride in zip(out, strides):
            total = self.add(total, self.mul(place, stride))
        return total

    def reshaped(self, memory: Memory, shape: tuple[Extent, ...], op: Operation) -> Memory:
        """The same elements in row-major order with other dims."""
        if memory.box[1:] != memory.whole[1:]:
            raise self.refuse(op, "another shape of a part of a tensor that is not contiguous")
        pointer, element = memory.pointer, element_name(memory.dtype)
        start = self.element_offset(memory, (0,) * len(memory.kept))
        if start != 0:
            pointer = self.define(f"pto.addptr {pointer}, {self.ssa(start)} : !pto.ptr<{element}> -> !pto.ptr<{element}>")
        dims = shape if len(shape) > 1 else (1, *(shape or (1,)))
        text = self._view_text(pointer, dims, self.strides(dims), memory.dtype)
        at_top = start == 0 and self.fixed(dims) and (pointer in self.top or pointer[1:] in self._parameters)
        view = self.define_at_top(text, "view") if at_top else self.define(text, "view")
        return Memory(pointer, view, dims, memory.dtype, (0,) * len(dims), dims, tuple(range(len(dims) - len(shape or (1,)), len(dims))), memory.root)

    def box(self, memory: Memory, offsets: tuple[Extent, ...], extents: tuple[Extent, ...], drop: tuple[int, ...] = ()) -> Memory:
        """A part of a box; offsets and extents per dim that counts."""
        origin, box = list(memory.origin), list(memory.box)
        for dim, offset, extent in zip(memory.kept, offsets, extents, strict=True):
            origin[dim] = self.add(origin[dim], offset)
            box[dim] = extent
        kept = tuple(dim for place, dim in enumerate(memory.kept) if place not in drop)
        return replace(memory, origin=tuple(origin), box=tuple(box), kept=kept)

    def starts(self, offsets: Sequence[Extent], sizes: Sequence[Extent], extents: Sequence[Extent]) -> tuple[Extent, ...]:
        """Where a box begins: one that the run may find empty stays at the end of its memory instead of past it."""
        return tuple(
            offset if offset == 0 or (isinstance(size, int) and size > 0) else self.least(offset, extent)
            for offset, size, extent in zip(offsets, sizes, extents, strict=True)
        )

    # slices -----------------------------------------------------------------------------------------------------------------------

    def slice(self, memory: Memory, region: Region, op: Operation, turned: bool = False) -> tuple[str, str]:
        """The part of a box that a region says, as a slice for tload and tstore; `turned`: its transpose (`region` is of the transpose)."""
        if len(memory.kept) > 2:
            # Leading dims of extent 1 do not count.
            memory = replace(memory, kept=(*(dim for dim in memory.kept[:-1] if memory.box[dim] != 1), memory.kept[-1]))
        whole = not turned and memory.regular and region.rows.start == 0 and region.cols.start == 0
        if whole and len(memory.kept) > 2 and region.cols.count == memory.shape[-1] and self._is_product(region.rows.count, memory.shape[:-1]):
            return self._partition(memory.view, len(memory.whole), memory.dtype, memory.origin, memory.box)
        if len(memory.kept) <= 2 and memory.regular and not turned:
            origin, sizes = list(memory.origin), list(memory.box)
            parts = ((region.rows, region.cols) if len(memory.kept) == 2 else (region.cols,)) if memory.kept else ()
            for dim, part in zip(memory.kept, parts):
                origin[dim] = self.add(origin[dim], part.start)
                sizes[dim] = part.count
            return self._partition(memory.view, len(memory.whole), memory.dtype, tuple(origin), tuple(sizes))
        return self._strided(memory, region, op, turned)

    def _is_product(self, count: Extent, extents: tuple[Extent, ...]) -> bool:
        out = 1
        for extent in extents:
            if not isinstance(extent, int):
                return False
            out *= extent
        return count == out

    def _strided(self, memory: Memory, region: Region, op: Operation, turned: bool) -> tuple[str, str]:
        """A slice of a matrix view made for it: a transpose, a box that crosses dims, merged leading dims."""
        strides = self.strides(memory.whole)
        *leading, last = memory.kept or (len(memory.whole) - 1,)
        for outer, inner in pairwise(leading):
            if any(extent != 1 for extent in memory.whole[outer + 1 : inner]) or memory.box[inner] != memory.whole[inner]:
                raise self.refuse(op, "a block of a tensor of rank 3 or more that is not contiguous")
        row_stride: Extent = strides[leading[-1]] if leading else 1
        shape: tuple[Extent, ...] = (self.product([memory.box[dim] for dim in leading]), memory.box[last] if memory.kept else 1)
        pair: tuple[Extent, ...] = (row_stride, strides[last])
        pointer = self._moved_pointer(memory)
        shape, pair = (shape[::-1], pair[::-1]) if turned else (shape, pair)
        view = self.define(self._view_text(pointer, shape, pair, memory.dtype), "view")
        return self._partition(view, 2, memory.dtype, (region.rows.start, region.cols.start), (region.rows.count, region.cols.count))

    def rearranged(self, memory: Memory, shape: tuple[Extent, ...], axes: tuple[int | None, ...], by: tuple[int, ...] = ()) -> tuple[str, str]:
        """All of a box as another array: its dim i runs along dim axes[i] of the box, in steps of by[i], or stands still."""
        strides = self.strides(memory.whole)
        steps: tuple[Extent, ...] = tuple(0 if axis is None else strides[memory.kept[axis]] for axis in axes)
        steps = tuple(self.mul(step, n) for step, n in zip(steps, by)) if by else steps
        pointer = self._moved_pointer(memory)
        dims, steps = (shape, steps) if len(shape) > 1 else ((1, *shape), (0, *steps))
        view = self.define(self._view_text(pointer, dims, steps, memory.dtype), "view")
        return self._partition(view, len(dims), memory.dtype, (0,) * len(dims), dims)

    def _moved_pointer(self, memory: Memory) -> str:
        """A pointer to the first element of a box."""
        start: Extent = 0
        for place, stride in zip(memory.origin, self.strides(memory.whole)):
            start = self.add(start, self.mul(place, stride))
        if start == 0:
            return memory.pointer
        element = element_name(memory.dtype)
        return self.define(f"pto.addptr {memory.pointer}, {self.ssa(start)} : !pto.ptr<{element}> -> !pto.ptr<{element}>")

    def _partition(self, view: str, rank: int, dtype: DType, offsets: tuple[Extent, ...], sizes: tuple[Extent, ...]) -> tuple[str, str]:
        dims = "".join(f"{size}x" if isinstance(size, int) else "?x" for size in sizes)
        type = f"!pto.partition_tensor_view<{dims}{element_name(dtype)}>"
        places = f"offsets = [{', '.join(map(self.ssa, offsets))}], sizes = [{', '.join(map(self.ssa, sizes))}]"
        return self.define(f"pto.partition_view {view}, {places} : {view_type(rank, dtype)} -> {type}", "slice"), type

    # single elements ----------------------------------------------------------------------------------------------------------------

    def load_scalar(self, memory: Memory, indices: tuple[Extent, ...], hint: str | None) -> str:
        element, offset = element_name(memory.dtype), self.ssa(self.element_offset(memory, indices))
        return self.define(f"pto.load_scalar {memory.pointer}[{offset}] : !pto.ptr<{element}> -> {scalar_name(memory.dtype)}", hint)

    def store_scalar(self, memory: Memory, indices: tuple[Extent, ...], value: str) -> None:
        element, offset = element_name(memory.dtype), self.ssa(self.element_offset(memory, indices))
        self.line(f"pto.store_scalar {value}, {memory.pointer}[{offset}] : !pto.ptr<{element}>, {scalar_name(memory.dtype)}")


def view_type(rank: int, dtype: DType) -> str:
    return f"!pto.tensor_view<{'?x' * rank}{element_name(dtype)}>"
