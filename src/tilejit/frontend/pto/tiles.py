"""Raising of tiles: variables where nothing but their own ops sees them, typed windows of local memory everywhere else."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from xdsl.ir import SSAValue

from tilejit.dtypes import INDEX, INT8, INT64, UINT8, DType
from tilejit.frontend.pto.handles import Cell, Demoted, Memory, NotRaisable, Num, Region
from tilejit.frontend.pto.views import dtype_of_element
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import constant_of
from tilejit.tile_ir.pto.op import PtoOp
from tilejit.tile_ir.pto.specs import TileSpec
from tilejit.types.values import BufferType, ShapedType

if TYPE_CHECKING:
    from tilejit.frontend.pto.raiser import Raiser

Tile = Cell | Memory


def tile(self: Raiser, op: PtoOp, name: str) -> Tile:
    """The tile in a slot."""
    return as_tile(self.held(op.operand(name)), name)


def as_tile(found: object, name: str) -> Tile:
    if not isinstance(found, Cell | Memory):
        raise NotRaisable(f"`{name}` is no tile that can be followed")
    return found


# making ---------------------------------------------------------------------------------------------------------------------


def _alloc(self: Raiser, op: PtoOp) -> None:
    spec = op.result_tile
    address = op.operand("addr")
    valid = _extents(self, spec, op.operand("valid_row"), op.operand("valid_col"))
    made = fresh(self, op, spec, valid) if address is None else _placed(self, op, spec, valid, self.number(address))
    self.values[op.results[0]] = made


def _extents(self: Raiser, spec: TileSpec, row: SSAValue | None, col: SSAValue | None) -> Region:
    given = (self.number(row) if row is not None else None, self.number(col) if col is not None else None)
    rows, cols = (written if written is not None else extent if extent is not None else size for written, extent, size in zip(spec.valid, given, spec.shape))
    return self.within(rows, spec.rows, "rows"), self.within(cols, spec.cols, "columns")


def fresh(self: Raiser, key: object, spec: TileSpec, valid: Region) -> Tile:
    """A tile with storage of its own."""
    dtype = dtype_of_element(spec.element)
    if key not in self.plan.memory and None not in spec.valid and 0 not in spec.valid:
        cell = Cell(spec, dtype, key)
        self.contents[cell] = None
        return cell
    if key in self.plan.flat:
        flat = self.build.create(BufferType((spec.bytes,), INT8), [], None if self.in_loop else -1)
        return _window(self, flat, 0, spec, valid, key)
    return _typed(self, spec, valid, key, self.in_loop)


def _typed(self: Raiser, spec: TileSpec, valid: Region, key: object, in_loop: bool) -> Memory:
    """Memory that only one type looks into: rows and columns as they are, whatever the layout."""
    dtype = dtype_of_element(spec.element)
    plain = dtype.is_integer or dtype.name in ("FP32", "FP16", "BF16")
    init = None if in_loop or not plain else float("nan") if dtype.is_float else (1 << dtype.bits) - 1 if dtype.kind == "uint" else -1
    return Memory(spec, dtype, self.build.create(BufferType(spec.shape, dtype), [], init), "row", valid, self.valid_slot(spec, valid), key=key)


def _placed(self: Raiser, op: PtoOp, spec: TileSpec, valid: Region, address: Num) -> Tile:
    """The tile at an address: a variable, the one array there, or a window of the bytes that overlapping tiles share."""
    component = self.plan.components[op]
    found = self.core.placed.get(component)
    if component.one_type and component not in self.plan.memory and 0 not in spec.valid:
        if found is None:
            found = Cell(spec, dtype_of_element(spec.element), component)
            self.core.placed[component] = found
            self.contents[found] = None
        assert isinstance(found, Cell)
        return found
    if component.plain and component not in self.plan.flat:
        if found is None:
            with self.at_top():
                found = _typed(self, spec, (0, 0), component, False)
            self.core.placed[component] = found
        assert isinstance(found, Memory)
        return replace(found, spec=spec, valid=valid, slot=self.valid_slot(spec, valid))
    if found is None:
        with self.at_top(), self.named(f"{component.loc} memory"):
            found = self.build.create(BufferType((component.end - component.base,), INT8), [], -1)
        self.core.placed[component] = found
    assert isinstance(found, SSAValue)
    return _window(self, found, self.minus(address, component.base), spec, valid, component)


def _window(self: Raiser, flat: SSAValue, start: Num, spec: TileSpec, valid: Region, key: object) -> Memory:
    """A typed window of bytes, laid out as the type says."""
    dtype = dtype_of_element(spec.element)
    size = dtype.get_byte()
    layout, extents, strides = _strides(spec)
    first = self.exact_quotient(start, size)
    type = BufferType(extents, dtype)
    buffer = self.build.strided(flat, self.ssa(first), [self.ssa(n) for n in extents], [self.ssa(n) for n in strides], type)
    return Memory(spec, dtype, buffer, layout, valid, self.valid_slot(spec, valid), flat, start, key)


def _strides(spec: TileSpec) -> tuple[str, tuple[int, ...], tuple[int, ...]]:
    """How a type lays out its bytes: the kind of layout, extents and strides of the buffer that shows them."""
    rows, cols = spec.shape
    if spec.boxed and rows % spec.box[0] == 0 and cols % spec.box[1] == 0:
        ir, ic = spec.box
        inner = (ic, 1) if spec.slayout == "row_major" else (1, ir)
        outer = (ir * ic, rows * ic) if spec.blayout == "col_major" else (cols * ir, ir * ic)
        return "boxed", (rows // ir, ir, cols // ic, ic), (outer[0], inner[0], outer[1], inner[1])
    if spec.blayout == "col_major" and not spec.boxed and rows > 1 and cols > 1:
        return "col", (cols, rows), (rows, 1)
    return "row", (rows, cols), (cols, 1)


# aliases --------------------------------------------------------------------------------------------------------------------


def _set_valid(self: Raiser, op: PtoOp) -> None:
    found = as_tile(self.held(op.operand("source")), "source")
    assert isinstance(found, Memory) and found.slot is not None
    for axis, (name, size) in enumerate((("row", found.spec.rows), ("col", found.spec.cols))):
        extent = self.within(self.number(op.operand(name)), size, "rows" if axis == 0 else "columns")
        self.build.write(found.slot, [self.build.const(axis)], self.cast(self.ssa(extent), INT64))


def _tassign(self: Raiser, op: PtoOp) -> None:
    old = as_tile(self.held(op.operand("tile")), "tile")
    valid = region_of(self, old)
    self.values[op.results[0]] = _placed(self, op, op.result_tile, valid, self.number(op.operand("addr")))


def _subset(self: Raiser, op: PtoOp) -> None:
    parent = _memory(tile(self, op, "source"))
    row, col = (self.number(value) for value in op.groups["offsets"])
    spec = op.result_tile
    if parent.layout != "row":
        raise NotRaisable("windows of tiles in boxes or columns")
    type = BufferType(spec.shape, parent.dtype)
    buffer = self.window(parent.buffer, [row, col], list(spec.shape), type)
    rows, cols = (self.least(extent, size) for extent, size in zip(region_of(self, parent), spec.shape))
    flat, start = parent.flat, parent.start
    if flat is not None and (spec.cols == parent.spec.cols or spec.rows == 1):
        start = self.plus(start, self.times(self.plus(self.times(row, parent.spec.cols), col), parent.dtype.get_byte()))
    else:
        flat = None
    spec = replace(spec, valid=(rows if isinstance(rows, int) else None, cols if isinstance(cols, int) else None))
    self.values[op.results[0]] = Memory(spec, parent.dtype, buffer, "row", (rows, cols), self.valid_slot(spec, (rows, cols)), flat, start, parent.key)


def _treshape(self: Raiser, op: PtoOp) -> None:
    source, spec = tile(self, op, "source"), op.result_tile
    if not isinstance(source, Memory) or source.flat is None:
        if source.key is None:
            assert isinstance(source, Memory)
            self.values[op.results[0]] = _viewed(self, source, spec)
            return
        raise Demoted(source.key, flat=True)
    same = spec.shape == source.spec.shape
    old = region_of(self, source)
    rows, cols = (written if written is not None else extent if same else size for written, extent, size in zip(spec.valid, old, spec.shape))
    self.values[op.results[0]] = _window(self, source.flat, source.start, spec, (rows, cols), source.key)


def _viewed(self: Raiser, source: Memory, spec: TileSpec) -> Memory:
    """Another view of a tile of which only the handle is known: its rows must lie one after the other."""
    if source.layout != "row" or source.spec.boxed or _strides(source.spec)[0] != "row" or _strides(spec)[0] != "row":
        raise NotRaisable("a tile from elsewhere in another layout is reinterpreted")
    dtype = dtype_of_element(spec.element)
    same = spec.shape == source.spec.shape
    old = region_of(self, source)
    rows, cols = (written if written is not None else extent if same else size for written, extent, size in zip(spec.valid, old, spec.shape))
    buffer = self.build.view(source.buffer, [], BufferType(spec.shape, dtype))
    return Memory(spec, dtype, buffer, "row", (rows, cols), self.valid_slot(spec, (rows, cols)))


def _memory(found: Tile) -> Memory:
    """A tile that must have an address."""
    if isinstance(found, Cell):
        raise Demoted(found.key)
    return found


# access ---------------------------------------------------------------------------------------------------------------------


def region_of(self: Raiser, found: Tile) -> Region:
    """The valid rows and columns now."""
    if isinstance(found, Cell):
        return found.shape
    if found.slot is None:
        return found.valid
    rows, cols = (
        written if written is not None else self.cast(self.build.read(found.slot, [self.build.const(axis)]), INDEX)
        for axis, written in enumerate(found.spec.valid)
    )
    return rows, cols


def read(self: Raiser, found: Tile, region: Region, shape: tuple[int, int] | None = None) -> SSAValue:
    """The cells of a region at the origin: a tile of exactly that shape, or of `shape` with a valid region that the run knows."""
    if isinstance(found, Memory):
        return _read_memory(self, found, region, shape or found.spec.shape)
    rows, cols = region
    if not isinstance(rows, int) or not isinstance(cols, int) or rows > found.shape[0] or cols > found.shape[1]:
        raise Demoted(found.key)
    return self.cut(content(self, found), 0, 0, (rows, cols))


def needs_all_cells(found: Tile) -> None:
    """A variable holds the valid cells of its tile only."""
    if isinstance(found, Cell) and found.shape != found.spec.shape:
        raise Demoted(found.key)


def all_cells(self: Raiser, found: Tile) -> SSAValue:
    """All cells of a tile, not only the valid ones."""
    needs_all_cells(found)
    return read(self, found, found.spec.shape)


def content(self: Raiser, found: Cell) -> SSAValue:
    """What a variable holds now; before the first write, what fresh memory holds."""
    value = self.contents[found]
    if value is None:
        value = unwritten(self, found)
    return value


def unwritten(self: Raiser, found: Cell) -> SSAValue:
    dtype = found.dtype
    filler = self.build.const(float("nan"), dtype) if dtype.is_float else self.build.const((1 << dtype.bits) - 1 if dtype.kind == "uint" else -1, dtype)
    return filled(self, found.shape, dtype, filler)


def filled(self: Raiser, shape: tuple[int, int], dtype: DType, value: SSAValue) -> SSAValue:
    """A tile full of one number; floats of 8 bits, of which the table makes none, by their bits."""
    if dtype.is_float and dtype.bits < 16:
        number = constant_of(value)
        assert number is not None
        byte = int(np.array([number]).astype(dtype.numpy).view(np.uint8)[0])
        return same_bits(self, filled(self, shape, UINT8, self.build.const(byte, UINT8)), dtype)
    return self.apply("full", shape=[self.build.const(size) for size in shape], dtype=dtype, value=value)


def same_bits(self: Raiser, value: SSAValue, dtype: DType) -> SSAValue:
    """The bytes of a value as another type of the same size."""
    if d.shaped_type(value).dtype is dtype:
        return value
    if d.shaped_type(value).dtype.bits != dtype.bits:
        raise NotRaisable("elements of another size")
    return self.apply("reinterpret_view", data=value, dtype=dtype)


def _read_memory(self: Raiser, found: Memory, region: Region, shape: tuple[int, int]) -> SSAValue:
    if found.layout == "row":
        return self.load(found.buffer, region, shape)
    if found.layout == "col":
        return self.turned(self.load(found.buffer, (region[1], region[0]), (shape[1], shape[0])))
    whole = _read_boxes(self, found)
    rows, cols = region
    if isinstance(rows, int) and isinstance(cols, int):
        return self.cut(whole, 0, 0, (rows, cols))
    return self.apply("set_validshape", input=whole, valid_rows=self.ssa(rows), valid_cols=self.ssa(cols))


def _read_boxes(self: Raiser, found: Memory) -> SSAValue:
    extents = d.shaped_type(found.buffer).shape
    boxes = self.load_whole(found.buffer, tuple(n for n in extents if isinstance(n, int)))
    return self.reshaped(boxes, found.spec.shape)


def write(self: Raiser, found: Tile, value: SSAValue, row: Num = 0, col: Num = 0) -> None:
    """Overwrite a region with the valid cells of a value; other cells keep what they hold."""
    type = d.shaped_type(value)
    if type.dtype is not found.dtype:
        raise NotRaisable(f"a tile of {found.dtype} gets {type.dtype}")
    if isinstance(found, Memory):
        _write_memory(self, found, value, row, col)
    elif type.valid != type.shape:
        raise Demoted(found.key)
    elif type.shape == found.shape and row == 0 and col == 0:
        self.contents[found] = value
        self.written(found)
    elif all(isinstance(size, int) and size <= room for size, room in zip(type.shape, found.shape)):
        old = content(self, found)
        self.contents[found] = self.apply("assemble", target=old, source=value, offset=[self.ssa(row), self.ssa(col)])
        self.written(found)
    else:
        raise Demoted(found.key)


def _write_memory(self: Raiser, found: Memory, value: SSAValue, row: Num, col: Num) -> None:
    if found.layout == "row":
        self.store(value, found.buffer, False, (row, col))
    elif found.layout == "col":
        self.store(self.turned(value), found.buffer, False, (col, row))
    else:
        type = d.shaped_type(value)
        if type.shape != found.spec.shape or not _full(type):
            # A part of the boxes: change a copy in rows and columns, then lay that out again.
            copy = self.build.create(BufferType(found.spec.shape, found.dtype), [])
            self.store(_read_boxes(self, found), copy, False)
            self.store(value, copy, False, (row, col))
            value = self.load(copy, found.spec.shape, found.spec.shape)
        extents = d.shaped_type(found.buffer).shape
        self.store(self.reshaped(value, tuple(n for n in extents if isinstance(n, int))), found.buffer, False)


def _full(type: ShapedType) -> bool:
    return type.valid == type.shape


OPS = {"alloc_tile": _alloc, "set_validshape": _set_valid, "tassign": _tassign, "subset": _subset, "treshape": _treshape, "bitcast": _treshape}
