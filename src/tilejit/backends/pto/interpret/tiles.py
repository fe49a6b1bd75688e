"""Pointers, views, tile handles, transfers and movement of the interpreter."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tilejit.backends.pto.interpret import scalars
from tilejit.backends.pto.interpret.memory import Pointer, Tile, View, fresh, numpy_dtype
from tilejit.errors import KernelAssertionError, OutOfBoundsError, ShapeError
from tilejit.tile_ir.pto.op import PtoOp
from tilejit.tile_ir.pto.specs import TileSpec

if TYPE_CHECKING:
    from tilejit.backends.pto.interpret.machine import Frame, Value

NDArray = npt.NDArray[Any]


def tile(frame: Frame, op: PtoOp, name: str) -> Tile:
    """The tile in a slot."""
    found = frame.value(op.operand(name))
    assert isinstance(found, Tile)
    if not found.bound:
        raise ShapeError(f"`{name}` was declared, but nothing was popped into it")
    return found


def integer(frame: Frame, op: PtoOp, name: str) -> int:
    return int(frame.value(op.operand(name)))


# pointers and views -----------------------------------------------------------------------------------------------------------


def _addptr(frame: Frame, op: PtoOp) -> list[Value]:
    return [frame.value(op.operand("ptr")).moved(integer(frame, op, "offset"))]


def _load_scalar(frame: Frame, op: PtoOp) -> list[Value]:
    pointer: Pointer = frame.value(op.operand("ptr")).moved(integer(frame, op, "offset"))
    found = pointer.memory.elements(numpy_dtype(pointer.element), pointer.offset, pointer.offset)[0]
    return [scalars.convert(found, op.results[0].type)]


def _store_scalar(frame: Frame, op: PtoOp) -> list[Value]:
    pointer: Pointer = frame.value(op.operand("ptr")).moved(integer(frame, op, "offset"))
    dtype = numpy_dtype(pointer.element)
    pointer.memory.elements(dtype, pointer.offset, pointer.offset, writing=True)[0] = number(frame.value(op.operand("value")), dtype)
    return []


def number(value: Any, dtype: np.dtype[Any]) -> Any:
    """A scalar as an element; integers wrap."""
    if dtype.kind in "iu" and isinstance(value, int):
        value &= (1 << (8 * dtype.itemsize)) - 1
        return np.array(value, f"u{dtype.itemsize}").view(dtype)[()]
    return np.asarray(value).astype(dtype)[()]


def _make_tensor_view(frame: Frame, op: PtoOp) -> list[Value]:
    groups = op.groups
    shape, strides = (tuple(int(frame.values[value]) for value in groups[name]) for name in ("shape", "strides"))
    if min(shape) < 0:
        raise ShapeError(f"the extents of a view are not negative, got {list(shape)}")
    declared = op.results[0].type.data.shape  # type: ignore[attr-defined]
    if any(dim is not None and dim != size for dim, size in zip(declared, shape)):
        raise ShapeError(f"the type of the view says {list(declared)}, its shape is {list(shape)}")
    made = View(frame.value(op.operand("ptr")), shape, strides, op.enum("layout") or None)
    made.check_inside()
    return [made]


def _partition_view(frame: Frame, op: PtoOp) -> list[Value]:
    groups = op.groups
    offsets, sizes = (tuple(int(frame.values[value]) for value in groups[name]) for name in ("offsets", "sizes"))
    declared = op.results[0].type.data.shape  # type: ignore[attr-defined]
    if len(declared) == len(sizes) and any(dim is not None and dim != size for dim, size in zip(declared, sizes)):
        raise ShapeError(f"the type of the slice says {list(declared)}, its sizes are {list(sizes)}")
    return [frame.value(op.operand("source")).window(offsets, sizes, frame.machine.inside)]


def _view_dim(frame: Frame, op: PtoOp) -> list[Value]:
    view: View = frame.value(op.operand("source"))
    axis = integer(frame, op, "dim")
    if not 0 <= axis < len(view.shape):
        raise OutOfBoundsError(f"the view has {len(view.shape)} dims, got dim {axis}")
    return [view.shape[axis]]


# handles ------------------------------------------------------------------------------------------------------------------------


def extents(spec: TileSpec, row: int | None, col: int | None) -> list[int]:
    """The valid extents of a new handle: those of the type, or the ones given where it says `?`."""
    out: list[int] = []
    for axis, (written, given, size) in enumerate(zip(spec.valid, (row, col), spec.shape)):
        found = written if written is not None else size if given is None else given
        if not 0 <= found <= size:
            raise ShapeError(f"the number of valid {('rows', 'columns')[axis]} lies between 0 and {size}, got {found}")
        out.append(found)
    return out


def _optional(frame: Frame, op: PtoOp, name: str) -> int | None:
    value = op.operand(name)
    return None if value is None else int(frame.values[value])


def _alloc_tile(frame: Frame, op: PtoOp) -> list[Value]:
    spec = op.result_tile
    valid = extents(spec, _optional(frame, op, "valid_row"), _optional(frame, op, "valid_col"))
    address = _optional(frame, op, "addr")
    return [fresh(spec, valid) if address is None else frame.core.at(spec, address, valid)]


def _declare_tile(frame: Frame, op: PtoOp) -> list[Value]:
    made = fresh(op.result_tile, extents(op.result_tile, None, None))
    made.bound = False
    return [made]


def _tassign(frame: Frame, op: PtoOp) -> list[Value]:
    old: Tile = frame.value(op.operand("tile"))
    return [frame.core.at(old.spec, integer(frame, op, "addr"), list(old.valid))]


def _set_validshape(frame: Frame, op: PtoOp) -> list[Value]:
    found: Tile = frame.value(op.operand("source"))
    found.valid[:] = extents(found.spec, integer(frame, op, "row"), integer(frame, op, "col"))
    return []


def _subset(frame: Frame, op: PtoOp) -> list[Value]:
    row, col = (int(frame.values[value]) for value in op.groups["offsets"])
    return [tile(frame, op, "source").subset(row, col, op.result_tile)]


def _treshape(frame: Frame, op: PtoOp) -> list[Value]:
    source, spec = tile(frame, op, "source"), op.result_tile
    same = spec.shape == source.spec.shape
    valid = extents(spec, source.valid[0] if same else None, source.valid[1] if same else None)
    return [source.reinterpreted(spec, valid)]


# transfers ------------------------------------------------------------------------------------------------------------------------


def pad_value(spec: TileSpec, dtype: np.dtype[Any]) -> Any:
    """What `pad` means for an element type."""
    if spec.pad < 2:
        return dtype.type(0)
    if spec.element.is_float:
        return np.asarray(np.inf if spec.pad == 2 else -np.inf).astype(dtype)[()]
    limits = np.iinfo(dtype)
    return dtype.type(limits.max if spec.pad == 2 else limits.min)


def _tload(frame: Frame, op: PtoOp) -> list[Value]:
    target, source = tile(frame, op, "dst"), frame.value(op.operand("src"))
    if op.enum("layout"):
        source = replace(source, layout=op.enum("layout"))
    values = source.read(*target.valid, target.dtype)
    target.write(np.full(target.shape, pad_value(target.spec, target.dtype)))
    target.write(values)
    return []


def scales(parameters: NDArray) -> NDArray:
    """Quantisation scales: floats as they are, or floats in the low half of 64-bit words."""
    if parameters.dtype.kind in "iu" and parameters.dtype.itemsize == 8:
        return np.ascontiguousarray(parameters).view(np.float32)[..., ::2]
    return parameters.astype(np.float32)


def scaled(frame: Frame, op: PtoOp, values: NDArray) -> NDArray:
    """What leaves the accumulator: relu, then one scale for all or for each column."""
    if op.enum("reluPreMode") == "normal_relu":
        values = np.maximum(values, values.dtype.type(0))
    if op.tile("fp") is not None:
        values = values.astype(np.float32) * scales(tile(frame, op, "fp").read(1, values.shape[1]))
    if (quant := op.operand("quant")) is not None:
        scale = np.array(int(frame.values[quant]) & 0xFFFFFFFF, np.uint32).view(np.float32)
        values = values.astype(np.float32) * scale
    return values


def converted(values: NDArray, dtype: np.dtype[Any]) -> NDArray:
    """Values on the way between tiles: floats round to nearest even, to integers they round and stop at the ends."""
    if values.dtype == dtype:
        return values
    if dtype.kind in "iu" and values.dtype.kind not in "iu":
        limits = np.iinfo(dtype)
        return np.clip(np.rint(values.astype(np.float64)), limits.min, limits.max).astype(dtype)
    return values.astype(np.float32).astype(dtype) if values.dtype.kind in "iu" else values.astype(dtype)


def _tstore(frame: Frame, op: PtoOp) -> list[Value]:
    source, target = tile(frame, op, "src"), frame.value(op.operand("dst"))
    values = np.ascontiguousarray(source.box)
    if source.spec.loc == "acc":
        values = converted(scaled(frame, op, values), numpy_dtype(target.base.element))
    target.write(values, add=op.enum("atomicType") == "atomic_add")
    return []


def _memory_index(view: View, index: NDArray, mode: str) -> tuple[NDArray, NDArray]:
    """Element offsets of flat indices, and which of them count."""
    count, inside = view.count, (index >= 0) & (index < view.count)
    if mode == "clamp":
        index = np.clip(index, 0, count - 1)
    elif mode == "wrap":
        index = index % count
    elif mode in ("zero", "skip"):
        return view.flat(np.where(inside, index, 0)) + view.base.offset, inside
    elif not inside.all():
        raise OutOfBoundsError(f"index {int(index[~inside][0])} is outside of the {count} elements of the memory")
    return view.flat(index) + view.base.offset, np.ones(index.shape, bool)


def _memory_view(frame: Frame, op: PtoOp) -> View:
    found = frame.value(op.operand("mem"))
    if isinstance(found, View):
        return found
    size = found.memory.size
    count = (1 << 40) if size is None else size // numpy_dtype(found.element).itemsize - found.offset
    return View(found, (count,), (1,))


def _mgather(frame: Frame, op: PtoOp) -> list[Value]:
    target, view = tile(frame, op, "dst"), _memory_view(frame, op)
    index = tile(frame, op, "idx").read(*target.valid).astype(np.int64)
    if index.size == 0:
        return []
    where, counts = _memory_index(view, index, op.enum("gatherOob", "undefined"))
    low, high = int(where.min()), int(where.max())
    cells = view.base.memory.elements(target.dtype, low, high)
    target.write(np.where(counts, cells[where - low], target.dtype.type(0)))
    return []


def _mscatter(frame: Frame, op: PtoOp) -> list[Value]:
    source, view = tile(frame, op, "src"), _memory_view(frame, op)
    values = source.box
    index = tile(frame, op, "idx").read(*values.shape).astype(np.int64)
    if index.size == 0:
        return []
    where, counts = _memory_index(view, index, op.enum("scatterOob", "undefined"))
    low, high = int(where.min()), int(where.max())
    cells = view.base.memory.elements(source.dtype, low, high, writing=True)
    combine = {"none": None, "add": np.add, "max": np.maximum, "min": np.minimum}[op.enum("scatterAtomicOp", "none")]
    for at, value in zip(where[counts] - low, values[counts]):
        cells[at] = value if combine is None else combine(cells[at], value)
    return []


# movement ---------------------------------------------------------------------------------------------------------------------------


def _tmov(frame: Frame, op: PtoOp) -> list[Value]:
    source, target = tile(frame, op, "src"), tile(frame, op, "dst")
    values = source.box
    if source.spec.loc == "acc":
        values = scaled(frame, op, values)
    elif source.dtype != target.dtype and source.dtype.itemsize == target.dtype.itemsize:
        values = np.ascontiguousarray(values).view(target.dtype)
    target.write(converted(values, target.dtype).copy())
    return []


def _textract(frame: Frame, op: PtoOp) -> list[Value]:
    source, target = tile(frame, op, "src"), tile(frame, op, "dst")
    row, col = integer(frame, op, "row"), integer(frame, op, "col")
    rows, cols = target.valid
    if row < 0 or col < 0 or row + rows > source.shape[0] or col + cols > source.shape[1]:
        raise OutOfBoundsError(f"{rows}x{cols} cells at ({row}, {col}) are taken from a tile of {source.shape[0]}x{source.shape[1]}")
    target.write(converted(scaled(frame, op, source.read()[row : row + rows, col : col + cols]), target.dtype).copy())
    return []


def _tinsert(frame: Frame, op: PtoOp) -> list[Value]:
    source, target = tile(frame, op, "src"), tile(frame, op, "dst")
    target.write(converted(scaled(frame, op, source.box), target.dtype).copy(), integer(frame, op, "row"), integer(frame, op, "col"))
    return []


def _ttrans(frame: Frame, op: PtoOp) -> list[Value]:
    tile(frame, op, "dst").write(tile(frame, op, "src").box.T.copy())
    return []


def _tconcat(frame: Frame, op: PtoOp) -> list[Value]:
    left, right = tile(frame, op, "a"), tile(frame, op, "b")
    rows = min(left.valid[0], right.valid[0])
    tile(frame, op, "d").write(np.concatenate((left.box[:rows], right.box[:rows]), 1))
    return []


def _tpack(frame: Frame, op: PtoOp) -> list[Value]:
    source, target = tile(frame, op, "src"), tile(frame, op, "dst")
    raw = np.ascontiguousarray(source.box).view(f"u{source.dtype.itemsize}").astype(f"u{target.dtype.itemsize}")
    target.write(raw.view(target.dtype))
    return []


def _tfillpad(frame: Frame, op: PtoOp) -> list[Value]:
    source, target = tile(frame, op, "src"), tile(frame, op, "dst")
    values = source.box.copy()
    target.write(np.full(target.shape, pad_value(target.spec, target.dtype)))
    target.write(values)
    return []


# debugging ------------------------------------------------------------------------------------------------------------------------


def _print(frame: Frame, op: PtoOp) -> list[Value]:
    value = op.operand("value")
    text = op.string("format")
    print(text if value is None else f"{text}{frame.values[value]}")
    return []


def _tprint(frame: Frame, op: PtoOp) -> list[Value]:
    found = frame.value(op.operand("src"))
    if isinstance(found, Tile):
        print(f"tile {found.valid[0]}x{found.valid[1]} of {found.shape[0]}x{found.shape[1]} {found.spec.element}\n{found.box}")
    else:
        rows, cols = (len(line) for line in found.lines())
        print(f"view {list(found.shape)}\n{found.read(rows, cols)}")
    return []


def _trap(frame: Frame, op: PtoOp) -> list[Value]:
    """The message stands behind the op, as a comment: `// error: TEXT`."""
    span = frame.machine.file.span(op)
    line = (span.source.line(span.line) if span is not None else None) or ""
    raise KernelAssertionError(line.partition("// error: ")[2].strip() or "the kernel reached pto.trap")


STEPS = {
    "addptr": _addptr, "load_scalar": _load_scalar, "store_scalar": _store_scalar, "make_tensor_view": _make_tensor_view,
    "partition_view": _partition_view, "get_tensor_view_dim": _view_dim, "alloc_tile": _alloc_tile, "declare_tile": _declare_tile,
    "tassign": _tassign, "set_validshape": _set_validshape, "subset": _subset, "treshape": _treshape, "tload": _tload, "tstore": _tstore,
    "tstore_fp": _tstore, "mgather": _mgather, "mscatter": _mscatter, "tmov": _tmov, "textract": _textract, "tinsert": _tinsert,
    "ttrans": _ttrans, "tconcat": _tconcat, "tpack": _tpack, "tfillpad": _tfillpad, "print": _print, "tprint": _tprint, "trap": _trap,
    "get_block_idx": lambda frame, op: [frame.launch.block],
    "get_block_num": lambda frame, op: [frame.launch.blocks],
    "get_subblock_idx": lambda frame, op: [frame.sub],
    "get_subblock_num": lambda frame, op: [frame.subs],
    "tget_scale_addr": lambda frame, op: [],
}  # fmt: skip
