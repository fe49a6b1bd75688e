"""The base of the PTO writer: lines of text, the views of parameters, and a tile for every value."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.ir import Operation, SSAValue

from tilejit.dtypes import BOOL, DType
from tilejit.errors import UnsupportedFeatureError
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.pto.elements import ELEMENTS
from tilejit.tile_ir.pto.specs import TileSpec
from tilejit.tile_ir.pto.verify import CAPACITY
from tilejit.types.values import BufferType, ScalarType, TileType


def element_name(dtype: DType) -> str:
    """The PTO spelling of a data type."""
    if dtype is BOOL:
        return "i1"
    assert dtype.pto is not None
    return dtype.pto


@dataclass(frozen=True)
class TileName:
    """A tile of the text."""

    name: str
    spec: TileSpec

    @property
    def type(self) -> str:
        return f"!pto.tile_buf<{self.spec.text(long=True)}>"


@dataclass(frozen=True)
class Window:
    """A box of a parameter: its pointer and view, the extents of the box, and where it begins in the view."""

    pointer: str
    view: str
    shape: tuple[str, ...]
    dtype: DType
    origin: tuple[str, ...] = ()


@dataclass
class TileWriter:
    """Lines of text, names of values, and the tiles and slices they stand for."""

    function: d.FuncOp
    arch: str
    lines: list[str] = field(default_factory=list[str])
    values: dict[SSAValue, str | TileName | Window] = field(default_factory=dict[SSAValue, "str | TileName | Window"])
    indent: int = 2
    count: int = 0

    # text ---------------------------------------------------------------------------------------------------------------------

    def line(self, text: str) -> None:
        self.lines.append("  " * self.indent + text)

    def fresh(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def define(self, text: str) -> str:
        name = self.fresh()
        self.line(f"{name} = {text}")
        return name

    def index(self, value: int) -> str:
        return self.define(f"arith.constant {value} : index")

    def refuse(self, op: Operation, what: str) -> UnsupportedFeatureError:
        span = op.span if isinstance(op, d.TileOp) else None
        return UnsupportedFeatureError(f"{what} has no PTO form", span=span, help="keep this kernel on the platform cpu")

    # parameters ---------------------------------------------------------------------------------------------------------------

    def _parameters(self) -> str:
        """Pointers and scalars in order, then the dynamic extents by name."""
        symbols: dict[str, str] = {}
        arguments: list[str] = []
        names = self.function.static("params")
        assert isinstance(names, tuple)
        buffers: list[tuple[SSAValue, str, BufferType]] = []
        for name, argument in zip(names, self.function.body.block.args):
            type = d.type_of(argument)
            if isinstance(type, BufferType):
                arguments.append(f"%{name}: !pto.ptr<{element_name(type.dtype)}>")
                buffers.append((argument, f"%{name}", type))
                symbols.update({dim: f"%{dim}" for dim in type.shape if isinstance(dim, str)})
            else:
                assert isinstance(type, ScalarType)
                arguments.append(f"%{name}: {element_name(type.dtype)}")
                self.values[argument] = f"%{name}"
        one = self.index(1)
        for argument, pointer, type in buffers:
            self.values[argument] = self._view(pointer, type, symbols, one)
        return ", ".join([*arguments, *(f"{symbol}: index" for symbol in symbols.values())])

    def _view(self, pointer: str, type: BufferType, symbols: dict[str, str], one: str) -> Window:
        shape = tuple(self.index(dim) if isinstance(dim, int) else symbols[dim] for dim in type.shape)
        if not 1 <= len(shape) <= 2:
            raise UnsupportedFeatureError(f"{self.function.symbol}: tensors of rank {len(shape)} have no PTO form yet", span=self.function.span)
        shape = (one, *shape) if len(shape) == 1 else shape
        element = element_name(type.dtype)
        extents, layout = f"shape = [{', '.join(shape)}], strides = [{shape[1]}, {one}]", "{layout = #pto.layout<nd>}"
        view = self.define(f"pto.make_tensor_view {pointer}, {extents} {layout} : !pto.tensor_view<?x?x{element}>")
        return Window(pointer, view, shape, type.dtype)

    def _turned(self, window: Window, op: Operation) -> Window:
        """The transpose of a whole parameter: another view of the same memory."""
        if window.origin:
            raise self.refuse(op, "the transpose of a part of a tensor")
        rows, cols = window.shape
        extents, layout = f"shape = [{cols}, {rows}], strides = [{self.index(1)}, {cols}]", "{layout = #pto.layout<dn>}"
        view = self.define(f"pto.make_tensor_view {window.pointer}, {extents} {layout} : !pto.tensor_view<?x?x{element_name(window.dtype)}>")
        return Window(window.pointer, view, (cols, rows), window.dtype)

    # tiles ----------------------------------------------------------------------------------------------------------------------

    def tile(self, type: TileType, op: Operation, loc: str = "vec") -> TileName:
        """A new tile for a value."""
        shape = [dim for dim in type.shape if isinstance(dim, int)]
        if len(shape) != len(type.shape) or not 1 <= len(shape) <= 2:
            raise self.refuse(op, f"a tile of shape {list(type.shape)}")
        if any(valid != size for valid, size in zip(type.valid, type.shape)):
            raise self.refuse(op, "a tile that is valid in part")
        if math.prod(shape) * type.dtype.get_byte() > CAPACITY["a5" if self.arch == "a5" else "a3"][loc]:
            raise self.refuse(op, f"a value of shape {list(type.shape)}, larger than the {loc} memory,")
        rows, cols = (1, *shape) if len(shape) == 1 else shape
        element = ELEMENTS[element_name(type.dtype)]
        period = max(1, 32 // element.bytes)
        if loc == "vec":
            column = cols == 1 and rows > 1
            padded = (rounded_up(rows, period), 1) if column else (rows, rounded_up(cols, period))
            spec = TileSpec(loc, element, *padded, (rows, cols), "col_major" if column else "row_major")
        else:
            spec = cube_spec(loc, element.name, rows, cols, self.arch)
        return self.alloc(spec)

    def alloc(self, spec: TileSpec) -> TileName:
        made = TileName(self.fresh(), spec)
        self.line(f"{made.name} = pto.alloc_tile : {made.type}")
        return made

    def dest(self, name: str, ins: Sequence[TileName | tuple[str, str]], out: TileName, inner: str = "") -> None:
        """One op in destination style."""
        operands = [(item.name, item.type) if isinstance(item, TileName) else item for item in ins]
        names, types = ", ".join(item[0] for item in operands), ", ".join(item[1] for item in operands)
        self.line(f"pto.{name} ins({names}{inner} : {types}) outs({out.name} : {out.type})")

    def vec(self, value: SSAValue, op: Operation) -> TileName:
        """A tile operand of a vector op: results of products are moved out of the accumulator."""
        found = self.values.get(value)
        if isinstance(found, Window):
            return self._whole(value, found, op)
        if not isinstance(found, TileName):
            raise self.refuse(op, f"an operand of {op_name(op)}")
        if found.spec.loc == "vec":
            return found
        type = d.type_of(value)
        assert isinstance(type, TileType)
        moved = self.alloc(TileSpec("vec", found.spec.element, *found.spec.shape, found.spec.valid))
        self.dest("tmov", [found], moved)
        return moved

    def _whole(self, value: SSAValue, window: Window, op: Operation) -> TileName:
        """A tensor as an operand: all of it, where it fits into a tile."""
        shape = d.shaped_type(value).shape
        type = TileType(shape, window.dtype, shape)
        target = self.tile(type, op)
        zero = self.index(0)
        sizes = [dim for dim in shape if isinstance(dim, int)]
        self.dest("tload", [self._part(window, [zero] * len(sizes), sizes)], target)
        return target

    def scalar(self, value: SSAValue, op: Operation) -> str:
        found = self.values.get(value)
        if not isinstance(found, str):
            raise self.refuse(op, f"an operand of {op_name(op)}")
        return found

    def _part(self, window: Window, offsets: list[str], shape: Sequence[int]) -> tuple[str, str]:
        """A slice of a parameter."""
        offsets = [self.index(0), *offsets] if len(offsets) == 1 else offsets
        offsets = [self.define(f"arith.addi {a}, {b} : index") for a, b in zip(window.origin, offsets)] if window.origin else offsets
        rows, cols = (1, *shape) if len(shape) == 1 else shape
        sizes = [self.index(rows), self.index(cols)]
        element = element_name(window.dtype)
        view, type = f"!pto.tensor_view<?x?x{element}>", f"!pto.partition_tensor_view<{rows}x{cols}x{element}>"
        name = self.define(f"pto.partition_view {window.view}, offsets = [{', '.join(offsets)}], sizes = [{', '.join(sizes)}] : {view} -> {type}")
        return name, type


def rounded_up(size: int, period: int) -> int:
    return -(-size // period) * period


def op_name(op: Operation) -> str:
    return f"`{op.op}`" if isinstance(op, d.ApplyOp) else f"`{op.name}`"


def cube_spec(loc: str, element: str, rows: int, cols: int, arch: str) -> TileSpec:
    layouts = {"mat": ("col_major", "row_major"), "left": ("col_major" if arch == "a5" else "row_major", "row_major"), "right": ("row_major", "col_major")}
    blayout, slayout = layouts.get(loc, ("col_major", "row_major"))
    box = 32 if ELEMENTS[element].bytes == 1 else 16
    return TileSpec(loc, ELEMENTS[element], rounded_up(rows, box), rounded_up(cols, box), (rows, cols), blayout, slayout, 1024 if loc == "acc" else 512)
