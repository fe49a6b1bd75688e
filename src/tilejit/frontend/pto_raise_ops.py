"""Raising of single PTO ops: what a tile, a pointer and a view become in tile IR, and the ops that are more than one row of its table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.ir import Attribute, SSAValue

from tilejit.dtypes import FP32, DType
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import ApplyArg
from tilejit.tile_ir.pto.elements import ELEMENTS
from tilejit.tile_ir.pto.op import PtoOp
from tilejit.tile_ir.pto.rules import constant
from tilejit.tile_ir.pto.specs import TileSpec
from tilejit.tile_ir.pto.types import TileBufType
from tilejit.types.values import ANY, BufferType, TileType

if TYPE_CHECKING:
    from tilejit.frontend.pto_raise import Raiser


class NotRaisable(Exception):
    """Why a kernel stays with the interpreter."""


@dataclass(eq=False)
class Cell:
    """A tile of the file: a variable of one type."""

    spec: TileSpec
    dtype: DType

    @property
    def type(self) -> TileType:
        return TileType(self.spec.shape, self.dtype, self.spec.shape, "Vec")


@dataclass(frozen=True)
class Pointer:
    """A parameter, moved by an offset in elements."""

    buffer: SSAValue
    offset: SSAValue | None


@dataclass(frozen=True)
class View:
    """A two-dimensional view; `turned`: the memory holds its transpose."""

    buffer: SSAValue
    turned: bool


@dataclass(frozen=True)
class Slice:
    """A box of a view, in the order of the memory."""

    view: View
    offsets: tuple[SSAValue, ...]
    sizes: tuple[SSAValue, ...]


def dtype_of(type: Attribute) -> DType:
    element = ELEMENTS.get(str(type))
    if element is None or element.dtype is None:
        raise NotRaisable(f"scalars of type {type}")
    return element.dtype


def cell_of(op: PtoOp) -> Cell:
    type = op.results[0].type
    assert isinstance(type, TileBufType)
    spec = type.data
    if spec.valid != spec.shape:
        raise NotRaisable("partly valid tiles")
    if spec.element.dtype is None or spec.element.dtype.bits < 8:
        raise NotRaisable(f"tiles of {spec.element}")
    return Cell(spec, spec.element.dtype)


def _alloc(self: Raiser, op: PtoOp) -> None:
    if op.operand("addr") is None:
        cell = cell_of(op)
        self.values[op.results[0]] = cell
        self.contents[cell] = None


def _addptr(self: Raiser, op: PtoOp) -> None:
    pointer = self.values.get(op.operands[0])
    if not isinstance(pointer, Pointer):
        raise NotRaisable("a pointer that is none")
    step = self.index(op.operand("offset"))
    moved = step if pointer.offset is None else self.apply("add", "scalar", lhs=pointer.offset, rhs=step)
    self.values[op.results[0]] = Pointer(pointer.buffer, moved)


def _make_view(self: Raiser, op: PtoOp) -> None:
    """Contiguous two-dimensional views only, or their transposes: a window of the parameter, seen with two dims."""
    pointer = self.values.get(op.operands[0])
    shape, strides = op.groups["shape"], op.groups["strides"]
    if not isinstance(pointer, Pointer) or len(shape) != 2:
        raise NotRaisable("views of another rank")
    turned = constant(strides[1]) != 1
    if turned:
        shape, strides = shape[::-1], strides[::-1]
    if constant(strides[1]) != 1 or (strides[0] is not shape[1] and (constant(strides[0]) is None or constant(strides[0]) != constant(shape[1]))):
        raise NotRaisable("views with gaps")
    extents = [self.index(value) for value in shape]
    known = [constant(value) for value in shape]
    dtype = d.shaped_type(pointer.buffer).dtype
    count = self.apply("mul", "scalar", lhs=extents[0], rhs=extents[1])
    start = pointer.offset if pointer.offset is not None else self.build.const(0)
    flat = self.build.window(pointer.buffer, [start], [count], BufferType((ANY,), dtype))
    type = BufferType(tuple(ANY if size is None else size for size in known), dtype)
    self.values[op.results[0]] = View(self.build.view(flat, [extent for extent, size in zip(extents, known) if size is None], type), turned)


def _partition(self: Raiser, op: PtoOp) -> None:
    view = self.values.get(op.operand("source") or op.operands[0])
    if not isinstance(view, View):
        raise NotRaisable("a view that is none")
    offsets, sizes = (tuple(self.index(value) for value in op.groups[name]) for name in ("offsets", "sizes"))
    self.values[op.results[0]] = Slice(view, offsets[::-1], sizes[::-1]) if view.turned else Slice(view, offsets, sizes)


def _slice(self: Raiser, op: PtoOp, view: str, tile: Cell) -> Slice:
    """A slice that is exactly as large as a tile."""
    value = op.operand(view)
    found = self.values.get(value) if value is not None else None
    if not isinstance(found, Slice) or value is None or not isinstance(value.owner, PtoOp):
        raise NotRaisable("a slice that is none")
    if tuple(constant(size) for size in value.owner.groups["sizes"]) != tile.spec.shape:
        raise NotRaisable("slices of another size than the tile")
    if d.shaped_type(found.view.buffer).dtype is not tile.dtype and tile.spec.loc != "acc":
        raise NotRaisable("slices of another element type")
    return found


def _load(self: Raiser, op: PtoOp) -> None:
    cell = self.cell(op, "dst")
    source = _slice(self, op, "src", cell)
    shape = cell.spec.shape[::-1] if source.view.turned else cell.spec.shape
    loaded = self.build.load(source.view.buffer, source.offsets, source.sizes, TileType(shape, cell.dtype, shape, "Vec"))
    self.write(op, "dst", self.turned(loaded) if source.view.turned else loaded)


def _store(self: Raiser, op: PtoOp) -> None:
    cell = self.cell(op, "src")
    if op.operand("quant") is not None or op.enum("reluPreMode") == "normal_relu":
        raise NotRaisable("quantisation while storing")
    target = _slice(self, op, "dst", cell)
    content = self.content(op, "src")
    self.build.store(self.turned(content) if target.view.turned else content, target.view.buffer, target.offsets, atomic=op.enum("atomicType") == "atomic_add")


def _move(self: Raiser, op: PtoOp) -> None:
    source, target = self.cell(op, "src"), self.cell(op, "dst")
    if source.dtype is not target.dtype or source.spec.shape != target.spec.shape or op.operand("fp") is not None or op.operand("quant") is not None:
        raise NotRaisable("moves that convert")
    if op.enum("reluPreMode") == "normal_relu" or op.enum("accToVecMode").startswith("dual"):
        raise NotRaisable("moves that compute")
    self.write(op, "dst", self.content(op, "src"))


def _fill(self: Raiser, op: PtoOp) -> None:
    cell = self.cell(op, "d")
    shape = [self.build.const(size) for size in cell.spec.shape]
    self.write(op, "d", self.apply("full", "tile", shape=shape, dtype=cell.dtype, value=self.scalar(op.operand("s"))))


def _convert(self: Raiser, op: PtoOp) -> None:
    source, target = self.cell(op, "a"), self.cell(op, "d")
    if not target.dtype.is_float or op.enum("sat_mode") == "ON":
        raise NotRaisable("conversions that saturate")
    if source.dtype is target.dtype:
        self.write(op, "d", self.content(op, "a"))
    else:
        self.write(op, "d", self.apply("cast", "tile", input=self.content(op, "a"), target_type=target.dtype, mode="rint"))


def _row_sum(self: Raiser, op: PtoOp) -> None:
    if self.cell(op, "a").dtype is not FP32:
        raise NotRaisable("sums of other types than f32")
    scratch = self.content(op, "a")
    self.write(op, "d", self.apply("row_sum", "tile", input=scratch, tmp=scratch))


def _matmul(self: Raiser, op: PtoOp) -> None:
    args: dict[str, ApplyArg] = {"lhs": self.content(op, "a"), "rhs": self.content(op, "b")}
    row = "matmul"
    if op.operand("c") is not None:
        row, args["acc"] = "matmul_acc", self.content(op, "c")
    elif op.operand("bias") is not None:
        row, args["bias"] = "matmul_bias", self.content(op, "bias")
    self.write(op, "d", self.apply(row, "tile", **args))


_CHAINS = {"taddc": ("add", "add"), "tsubc": ("sub", "add"), "taddsc": ("add", "add"), "tsubsc": ("sub", "add")}


def _chain(self: Raiser, op: PtoOp) -> None:
    """Two ops in a row, as the text orders their operands."""
    first, second = _CHAINS[op.row.name]
    middle = self.content(op, "b") if op.operand("s") is None else self.scalar(op.operand("s"))
    last = self.content(op, "c") if op.operand("s") is None else self.content(op, "b")
    half = self.apply(first, "tile", lhs=self.content(op, "a"), rhs=middle)
    self.write(op, "d", self.apply(second, "tile", lhs=half, rhs=last))


def _axpy(self: Raiser, op: PtoOp) -> None:
    scaled = self.apply("mul", "tile", lhs=self.content(op, "a"), rhs=self.scalar(op.operand("s")))
    self.write(op, "d", self.apply("add", "tile", lhs=self.content(op, "d"), rhs=scaled))


def _transpose(self: Raiser, op: PtoOp) -> None:
    self.write(op, "dst", self.turned(self.content(op, "src")))


def _extract(self: Raiser, op: PtoOp) -> None:
    cell = self.cell(op, "dst")
    shape = [self.build.const(size) for size in cell.spec.shape]
    offset = [self.index(op.operand("row")), self.index(op.operand("col"))]
    self.write(op, "dst", self.apply("slice", "tile", input=self.content(op, "src"), shape=shape, offset=offset))


def _block_index(self: Raiser, op: PtoOp) -> None:
    place = self.block_index if op.row.name == "get_block_idx" else self.block_count
    self.values[op.results[0]] = self.apply("cast", "scalar", input=place, target_type=dtype_of(op.results[0].type))


OPS: dict[str, Callable[[Raiser, PtoOp], None]] = {
    "alloc_tile": _alloc, "addptr": _addptr, "make_tensor_view": _make_view, "partition_view": _partition, "tload": _load, "tstore": _store,
    "tmov": _move, "texpands": _fill, "tcvt": _convert, "trowsum": _row_sum, "tmatmul": _matmul, "tmatmul.acc": _matmul, "tmatmul.bias": _matmul,
    "textract": _extract, "ttrans": _transpose, "taxpy": _axpy, **dict.fromkeys(_CHAINS, _chain), "get_block_idx": _block_index, "get_block_num": _block_index,
}  # fmt: skip
