"""Values in PTO text: tiles in local memory, and values too large for one, which are computed block by block where they are used."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import ChainMap
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from xdsl.ir import Operation, SSAValue

from tilejit.backends.pto.write.memory import Memory, MemoryWriter, Part, Region
from tilejit.backends.pto.write.plan import Plan, array_operands
from tilejit.backends.pto.write.text import Extent, element_name, hint_of, known_extent
from tilejit.dtypes import DType
from tilejit.errors import InternalError
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.pto.elements import ELEMENTS
from tilejit.tile_ir.pto.specs import CAPACITY, TileSpec
from tilejit.types.values import Dim, TileType


@dataclass(frozen=True)
class Tile:
    """A tile of the text."""

    name: str
    spec: TileSpec
    valid: tuple[Extent, Extent]

    @property
    def type(self) -> str:
        return f"!pto.tile_buf<{self.spec.text(long=True)}>"

    @property
    def loc(self) -> str:
        return self.spec.loc


@dataclass(frozen=True)
class Lazy:
    """A value that no tile holds: its blocks are computed from its op. `versions` says what the memories it reads held when it was defined."""

    valid: tuple[Extent, Extent]
    versions: tuple[tuple[str, int], ...]


def rounded_up(size: int, period: int) -> int:
    return -(-size // period) * period


class BlockWriter(MemoryWriter, ABC):
    """Tiles, and blocks of values."""

    def __init__(self, function: d.FuncOp, arch: str, plan: Plan) -> None:
        super().__init__(function, arch)
        self.plan = plan
        self.values: dict[SSAValue, Tile | Lazy] = {}
        self.memo: ChainMap[object, Tile] = ChainMap()
        self.boxes: ChainMap[SSAValue, tuple[Memory, int]] = ChainMap()
        """Where tiles were loaded from or stored to, and what the memory held then."""
        self.versions: dict[str, int] = {}
        self.capacity = CAPACITY["a5" if arch == "a5" else "a3"]

    @abstractmethod
    def compute(self, op: Operation, region: Region) -> Tile:
        """One block of the result of an op."""

    # tiles ----------------------------------------------------------------------------------------------------------------------

    def tile(self, rows: int, cols: int, valid: tuple[Extent, Extent], dtype: DType, hint: str | None = None, pad: int = 0, open: bool = False) -> Tile:
        """A new vec tile for a matrix of `rows` x `cols`, padded to whole 32 bytes; `open`: its valid region will be set later."""
        element = ELEMENTS[element_name(dtype)]
        known = (None, None) if open else (known_extent(valid[0]), known_extent(valid[1]))
        column = cols == 1 and rows > 1
        shape = (rounded_up(rows, self.plan.period), 1) if column else (rows, rounded_up(cols, self.plan.period))
        return self.alloc(TileSpec("vec", element, *shape, known, "col_major" if column else "row_major", pad=pad), valid, hint)

    def alloc(self, spec: TileSpec, valid: tuple[Extent, Extent], hint: str | None = None) -> Tile:
        name = self.name(hint or spec.loc)
        made = Tile(name, spec, valid)
        given = "".join(f" {label} = {self.ssa(v)}" for label, v, known in zip(("valid_row", "valid_col"), valid, spec.valid) if known is None)
        self.line(f"{name} = pto.alloc_tile{given} : {made.type}")
        return made

    def result(self, op: Operation, region: Region, dtype: DType | None = None, pad: int = 0) -> Tile:
        """A tile for a block of the result of an op."""
        type = d.shaped_type(op.results[0])
        valid = (region.rows.count, region.cols.count)
        return self.tile(region.rows.size, region.cols.size, valid, dtype or type.dtype, hint_of(op.results[0]), pad)

    def like(self, tile: Tile, dtype: DType | None = None, hint: str | None = None) -> Tile:
        """A new vec tile of the same shape and valid region."""
        spec = tile.spec
        element = spec.element if dtype is None else ELEMENTS[element_name(dtype)]
        return self.alloc(TileSpec("vec", element, spec.rows, spec.cols, spec.valid, spec.blayout), tile.valid, hint)

    def moved(self, part: Part, by: Extent) -> Part:
        return Part(self.add(part.start, by), part.size, part.count)

    def seen_as(self, tile: Tile, spec: TileSpec, valid: tuple[Extent, Extent], hint: str | None = None) -> Tile:
        """The bytes of a tile as another type."""
        made = Tile(self.name(hint or tile.name[1:]), spec, valid)
        self.line(f"{made.name} = pto.treshape {tile.name} : {tile.type} -> {made.type}")
        return made

    def reread(self, tile: Tile, dtype: DType) -> Tile:
        """The bytes of a tile as elements of another type of the same size."""
        element = ELEMENTS[element_name(dtype)]
        return tile if element == tile.spec.element else self.seen_as(tile, replace(tile.spec, element=element), tile.valid)

    def dest(self, name: str, ins: Sequence[Tile | tuple[str, str]], out: Tile, inner: str = "", tail: str = "") -> Tile:
        """One op in destination style."""
        operands = [(item.name, item.type) if isinstance(item, Tile) else item for item in ins]
        names, types = ", ".join(item[0] for item in operands), ", ".join(item[1] for item in operands)
        self.line(f"pto.{name} ins({names}{inner} : {types}) outs({out.name} : {out.type}){tail}")
        return out

    # geometry -------------------------------------------------------------------------------------------------------------------

    def extent(self, value: SSAValue, axis: int) -> Extent:
        """An extent of a value."""
        dim = d.shaped_type(value).shape[axis]
        if isinstance(dim, int):
            return dim
        if dim in self.symbols:
            return self.symbols[dim]
        if value in self.memories:
            return self.memories[value].shape[axis]
        for operand in array_operands(value.owner) if isinstance(value.owner, Operation) else ():
            if len(d.shaped_type(operand).shape) == len(d.shaped_type(value).shape):
                return self.extent(operand, axis)
        raise self.refuse(value.owner if isinstance(value.owner, Operation) else self.function, "a value whose extents are not known")

    def matrix(self, value: SSAValue) -> tuple[Extent, Extent]:
        """The extents of a value as a matrix: leading dims merged."""
        dims = [self.extent(value, axis) for axis in range(len(d.shaped_type(value).shape))]
        return self.product(dims[:-1]), dims[-1] if dims else 1

    def valid_of(self, value: SSAValue) -> tuple[Extent, Extent]:
        """The extents of the valid region of a value as a matrix."""
        found = self.values.get(value)
        if found is not None:
            return found.valid
        return self.matrix(value)

    def known_valid(self, type: TileType, op: Operation) -> tuple[Extent, Extent] | None:
        """The valid region that a type states, as a matrix; None where the run decides."""
        if not all(isinstance(dim, int) for dim in type.valid):
            return None
        leading = [dim for dim in type.valid[:-1] if isinstance(dim, int)]
        self.check_rows(type.shape, type.valid, op)
        rows = 1
        for dim in leading:
            rows *= dim
        last = type.valid[-1] if type.valid else 1
        assert isinstance(last, int)
        return rows, last

    def check_rows(self, shape: Sequence[Dim], valid: Sequence[Dim], op: Operation) -> None:
        """The valid rows of merged leading dims are the first ones: only the outermost dim that is no 1 may be valid in part."""
        outer = next((axis for axis, dim in enumerate(shape[:-1]) if dim != 1), 0)
        if tuple(valid[outer + 1 : -1]) != tuple(shape[outer + 1 : -1]):
            rule = "a PTO tile is a matrix, its valid region a number of rows and of columns: only the outermost dim and the last one may be valid in part"
            raise self.refuse(op, "a tile of rank 3 or more that is valid in part of an inner dim", rule)

    def whole(self, value: SSAValue) -> Region:
        """All of a value of constant shape."""
        rows, cols = self.matrix(value)
        if isinstance(rows, str) or isinstance(cols, str):
            owner = value.owner
            raise self.refuse(owner if isinstance(owner, Operation) else self.function, "a value of dynamic size that is needed as a whole")
        valid = self.valid_of(value)
        return Region(Part(0, rows, valid[0]), Part(0, cols, valid[1]))

    # memories and versions --------------------------------------------------------------------------------------------------------

    def seen(self, value: SSAValue) -> tuple[tuple[str, int], ...]:
        """What the memories that a value is computed from hold now."""
        pointers = {self.memories[root].root for root in self.plan.reads(value) if root in self.memories}
        return tuple(sorted((pointer, self.versions.get(pointer, 0)) for pointer in pointers))

    def touch(self, memory: Memory) -> None:
        """The memory was written."""
        self.versions[memory.root] = self.versions.get(memory.root, 0) + 1

    # blocks -----------------------------------------------------------------------------------------------------------------------

    def pull(self, value: SSAValue, region: Region, op: Operation) -> Tile:
        """A block of a value in the vec memory."""
        key = (value, region, self.seen(value))
        if key not in self.memo:
            self.memo[key] = self.to_vec(self._pulled(value, region, op), value, op)
        return self.memo[key]

    def pull_anywhere(self, value: SSAValue, region: Region, op: Operation) -> Tile:
        """A block of a value wherever it is: a product may stay in the accumulator."""
        known = self.memo.get((value, region, self.seen(value)))
        return known if known is not None else self._pulled(value, region, op)

    def _pulled(self, value: SSAValue, region: Region, op: Operation) -> Tile:
        memory = self.memories.get(value)
        if memory is not None:
            return self.load(memory, region, op, hint_of(value))
        found = self.values.get(value)
        if isinstance(found, Tile):
            return found if region == self.whole(value) else self._part_of_tile(value, found, region, op)
        if found is None or not isinstance(value.owner, Operation):
            raise self.refuse(op, "an operand of this kind")
        if found.versions != self.seen(value):
            raise InternalError(f"a block of {value} is computed after the memory it reads changed")
        return self.compute(value.owner, region)

    def _part_of_tile(self, value: SSAValue, tile: Tile, region: Region, op: Operation) -> Tile:
        """Parts of tiles pass through global memory: local memories have no such move on every chip."""
        return self.load(self.spill(value, tile, op), region, op, hint_of(value))

    def spill(self, value: SSAValue, tile: Tile, op: Operation) -> Memory:
        """A tile in global memory."""
        known = self.boxes.get(value)
        if known is not None and self.versions.get(known[0].root, 0) == known[1]:
            return known[0]
        shape = d.shaped_type(value).shape
        memory = self.workspace(d.shaped_type(value).dtype, shape, op, hint_of(value) or "tile")
        tile = self.converted(tile, value, memory.dtype, op)
        self.store(tile, memory, Region(Part(0, 0, tile.valid[0]), Part(0, 0, tile.valid[1])), op)
        self.boxes[value] = (memory, self.versions[memory.root])
        return memory

    def source_box(self, value: SSAValue) -> Memory | None:
        """The global memory that still holds a value: a tensor, or the place a tile was loaded from or stored to."""
        if value in self.memories:
            return self.memories[value]
        if value not in self.boxes:
            return None
        memory, version = self.boxes[value]
        return memory if self.versions.get(memory.root, 0) == version else None

    def memory_of(self, value: SSAValue, op: Operation) -> Memory:
        """A value in global memory: where it came from, or the workspace."""
        known = self.source_box(value)
        if known is not None:
            return known
        found = self.values.get(value)
        if isinstance(found, Tile):
            return self.spill(value, found, op)
        memory = self.materialised(value, op)
        self.boxes[value] = (memory, self.versions[memory.root])
        return memory

    def load(self, memory: Memory, region: Region, op: Operation, hint: str | None = None) -> Tile:
        """A block of a box in the vec memory."""
        out = self.tile(region.rows.size, region.cols.size, (region.rows.count, region.cols.count), memory.dtype, hint)
        return self.dest("tload", [self.slice(memory, region, op)], out)

    def store(self, tile: Tile, memory: Memory, region: Region, op: Operation, atomic: bool = False) -> None:
        """The valid region of a tile into a box; region: where, and how much of it."""
        name, type = self.slice(memory, region, op)
        tail = " {atomicType = #pto<atomic_type atomic_add>}" if atomic else ""
        self.line(f"pto.tstore ins({tile.name} : {tile.type}) outs({name} : {type}){tail}")
        self.touch(memory)

    def to_vec(self, tile: Tile, value: SSAValue, op: Operation) -> Tile:
        """A tile in the vec memory: products leave the accumulator in the data type of the value."""
        if tile.loc == "vec":
            return tile
        dtype, spec = d.shaped_type(value).dtype, tile.spec
        rows, cols = (known if (known := spec.valid[axis]) is not None else spec.shape[axis] for axis in (0, 1))
        if self.arch == "a5":
            return self.dest("tmov", [tile], self.tile(rows, cols, tile.valid, dtype, hint=hint_of(value)))
        element = ELEMENTS[element_name(dtype)]
        moved = self.dest("tmov", [tile], self.alloc(TileSpec("vec", element, *spec.shape, spec.valid), tile.valid, hint_of(value)))
        sizes = (rows, rounded_up(cols, self.plan.period))
        if sizes == spec.shape or spec.shape[1] < sizes[1]:
            return moved
        # Boxes of the cube core are larger than the value: its window is an ordinary tile.
        small = TileSpec("vec", element, *sizes, spec.valid)
        zero = self.ssa(0)
        name = self.define(f"pto.subset {moved.name}[{zero}, {zero}] sizes [{sizes[0]}, {sizes[1]}] : {moved.type}", hint_of(value))
        return Tile(name, small, tile.valid)

    # loops over blocks --------------------------------------------------------------------------------------------------------------

    @contextmanager
    def scope(self) -> Generator[None]:
        """Tiles made inside are unknown outside."""
        self.memo, self.boxes = self.memo.new_child(), self.boxes.new_child()
        yield
        self.memo, self.boxes = self.memo.parents, self.boxes.parents

    @contextmanager
    def stretch(self, extent: Extent, size: int, hint: str, start: Extent = 0) -> Generator[Part]:
        """The body once for every `size` rows or columns of `extent`, beginning at `start`."""
        if isinstance(extent, int) and isinstance(start, int) and extent - start <= size:
            with self.scope():
                yield Part(start, extent - start, extent - start)
            return
        variable = self.name(hint)
        with self.scope(), self.inside(f"scf.for {variable} = {self.ssa(start)} to {self.ssa(extent)} step {self.ssa(size)} {{"):
            even = isinstance(extent, int) and isinstance(start, int) and (extent - start) % size == 0
            count: Extent = size if even else self.least(self.sub(extent, variable), size, "count")
            yield Part(variable, size, count)

    def for_blocks(self, value: SSAValue, op: Operation, body: Callable[[Region], None]) -> None:
        """Run `body` for every block of a value; what belongs to whole rows is computed before the blocks of a row."""
        valid = self.valid_of(value)
        sizes = self.plan.block(value, tuple(v if isinstance(v, int) else None for v in valid))
        with self.stretch(valid[0], sizes[0], "row") as rows:
            self._hoist(value, rows, op)
            with self.stretch(valid[1], sizes[1], "col") as cols:
                body(Region(rows, cols))

    def _hoist(self, value: SSAValue, rows: Part, op: Operation) -> None:
        """Columns that a block needs (the results of row reductions) are computed once for all blocks of a row."""
        todo, known = [value], {value}
        while todo:
            for operand in self.plan.row_operands(todo.pop()):
                if operand in known or not isinstance(self.values.get(operand), Lazy):
                    continue
                known.add(operand)
                if d.shaped_type(operand).shape[-1:] == (1,):
                    self.pull(operand, Region(rows, Part(0, 1, 1)), op)
                else:
                    todo.append(operand)

    def copy(self, value: SSAValue, target: Memory, op: Operation, atomic: bool = False) -> None:
        """A value into a box of memory, block by block; a matrix of the same extents."""

        def block(region: Region) -> None:
            tile = self.converted(self.pull_anywhere(value, region, op), value, target.dtype, op)
            self.store(tile, target, region, op, atomic)

        before = dict(self.versions)
        self.for_blocks(value, op, block)
        self.versions = before
        self.touch(target)

    def converted(self, tile: Tile, value: SSAValue, dtype: DType, op: Operation) -> Tile:
        """A tile in the data type of the memory it goes to."""
        own = d.shaped_type(value).dtype
        if tile.loc == "acc" and (dtype is own or dtype.is_float) and element_name(dtype) in ("f32", "f16", "bf16", "i32"):
            return tile
        tile = self.to_vec(tile, value, op)
        if dtype is own:
            return tile
        return self.dest("tcvt", [tile], self.like(tile, dtype), " {rmode = #pto<round_mode RINT>}")

    def materialised(self, value: SSAValue, op: Operation) -> Memory:
        """All blocks of a value in the workspace."""
        type = d.shaped_type(value)
        target = self.workspace(type.dtype, type.shape, op, hint_of(value) or "value")
        self.copy(value, target, op)
        return target

