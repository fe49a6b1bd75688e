"""Arithmetic of the interpreter: elementwise families, reductions, conversion, comparison, matrix products."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tilejit.backends.pto.interpret.memory import Tile
from tilejit.backends.pto.interpret.tiles import number, tile
from tilejit.dtypes import INT64
from tilejit.errors import ShapeError
from tilejit.ops import numbers
from tilejit.ops.reduce import NOTHING_HELP
from tilejit.tile_ir.pto.meaning import comparison
from tilejit.tile_ir.pto.op import PtoOp
from tilejit.tile_ir.pto.rules import line_operand
from tilejit.tile_ir.pto.spec import MX_BLOCK, Along, Fold, Map, Matmul, Part, dense_masks

if TYPE_CHECKING:
    from tilejit.backends.pto.interpret.machine import Frame, Value

NDArray = npt.NDArray[Any]


def _destination(frame: Frame, op: PtoOp) -> Tile:
    return tile(frame, op, "d")


def _operands(frame: Frame, op: PtoOp, rows: int, cols: int, dtype: np.dtype[Any]) -> list[Any]:
    """The operands in the order of the text, without scratch: cells of a region, or scalars."""
    assert op.row.destination_style is not None
    out: list[Any] = []
    groups = op.groups
    for slot in op.row.destination_style[0]:
        for value in groups[slot.name]:
            if slot.scratch:
                continue
            found = frame.values[value]
            out.append(found.read(rows, cols) if isinstance(found, Tile) else number(found, np.dtype(np.float32) if op.row.name == "tlrelu" else dtype))
    return out


def map_cells(frame: Frame, op: PtoOp, run: Map) -> None:
    target = _destination(frame, op)
    rows, cols = target.valid
    arguments = _operands(frame, op, rows, cols, target.dtype)
    if run.accumulates:
        arguments.insert(0, target.read(rows, cols))
    target.write(np.broadcast_to(np.asarray(run.function(*map(np.asarray, arguments))), (rows, cols)).astype(target.dtype))


def _line(source: Tile, rows: int, cols: int, axis: int) -> NDArray:
    """One value per row or per column of a region."""
    if axis == 0:
        return source.read(1, cols)
    period = 32 // source.dtype.itemsize
    if source.shape[1] == period and source.spec.blayout == "row_major" and source.valid[1] != 1:
        return source.read(rows, period)[:, np.arange(cols) % period]
    return source.read(rows, 1)


def map_along(frame: Frame, op: PtoOp, run: Along) -> None:
    target = _destination(frame, op)
    rows, cols = target.valid
    lined = line_operand(op)
    sides = [_line(tile(frame, op, name), rows, cols, run.axis) if name == lined else tile(frame, op, name).read(rows, cols) for name in ("a", "b")]
    target.write(np.asarray(run.function(*sides)).astype(target.dtype))


def fold(frame: Frame, op: PtoOp, run: Fold) -> None:
    source, target = tile(frame, op, "a"), _destination(frame, op)
    values = source.box
    if values.shape[run.axis] == 0:
        target.write(_of_nothing(op.row.name, values.shape, run.axis, target.dtype))
    elif values.size:
        result = np.asarray(run.function(values, run.axis)).astype(target.dtype)
        target.write(np.expand_dims(result, run.axis))


def _of_nothing(name: str, shape: tuple[int, ...], axis: int, dtype: np.dtype[Any]) -> NDArray:
    """A sum of nothing is 0, a product 1; there is no largest of nothing, unless nobody asks for one."""
    wanted = tuple(1 if place == axis else extent for place, extent in enumerate(shape))
    if name.endswith(("max", "min")) and 0 not in wanted:
        raise ShapeError(f"{'row' if axis else 'col'}_{name[4:]} of nothing: dim {axis} has extent 0", help=NOTHING_HELP)
    return np.full(wanted, 1 if name.endswith("prod") else 0, dtype)


def partial(frame: Frame, op: PtoOp, run: Part) -> None:
    a, b, target = tile(frame, op, "a"), tile(frame, op, "b"), _destination(frame, op)
    rows, cols = target.valid
    out = np.zeros((rows, cols), target.dtype)
    for source in (a, b):
        r, c = min(rows, source.valid[0]), min(cols, source.valid[1])
        out[:r, :c] = source.read(r, c)
    r, c = min(rows, a.valid[0]), min(cols, a.valid[1])
    out[:r, :c] = a.read(r, c)
    r, c = (min(x, y) for x, y in zip(a.valid, b.valid))
    out[:r, :c] = np.asarray(run.function(a.read(r, c), b.read(r, c))).astype(target.dtype)
    target.write(out)


# matrix products -------------------------------------------------------------------------------------------------------------


def _scaled(values: NDArray, scale: NDArray, axis: int) -> NDArray:
    """MX: one scale for each block of elements along the inner dim."""
    repeated = np.repeat(scale.astype(np.float32), MX_BLOCK, axis)
    return values.astype(np.float32) * repeated[: values.shape[0], : values.shape[1]]


def matmul(frame: Frame, op: PtoOp, run: Matmul) -> None:
    left, right, target = tile(frame, op, "a"), tile(frame, op, "b"), _destination(frame, op)
    rows, inner, cols = left.valid[0], min(left.valid[1], right.valid[0]), right.valid[1]
    a, b = left.read(rows, inner), right.read(inner, cols)
    if run.mx:
        blocks = -(-inner // MX_BLOCK)
        a = _scaled(a, tile(frame, op, "as").read(rows, blocks), 1)
        b = _scaled(b, tile(frame, op, "bs").read(blocks, cols), 0)
    work = np.int32 if target.dtype.kind == "i" else np.float32
    product = a.astype(work) @ b.astype(work)
    if op.operand("c") is not None:
        product = tile(frame, op, "c").read(rows, cols) + product
    if op.operand("bias") is not None:
        product = product + tile(frame, op, "bias").read(1, cols)
    target.write(product.astype(target.dtype))


# conversion ---------------------------------------------------------------------------------------------------------------------


def _ties_to_odd(x: NDArray) -> NDArray:
    low = np.floor(x)
    tie = x - low == 0.5
    return np.where(tie, np.where(low % 2 != 0, low, low + 1), np.rint(x))


_ROUND = {mode.upper(): rounded for mode, rounded in numbers.ROUNDERS.items()} | {"NONE": np.trunc, "CAST_RINT": np.rint, "ODD": _ties_to_odd}
"""Where PTO means another thing than the language by a mode, it stands last."""


def _to_integer(values: NDArray, dtype: np.dtype[Any], mode: str, saturate: bool) -> NDArray:
    rounded = _ROUND[mode](values.astype(np.float64))
    rounded = np.where(np.isnan(rounded), 0.0, rounded)
    limits = np.iinfo(dtype)
    if dtype == np.int32:
        # The upper limit is no float: what is too large wraps to the smallest number, also when saturating.
        return np.where(np.abs(rounded) >= 2.0**31, float(limits.min), rounded).astype(np.int64).astype(np.int32)
    if saturate:
        high = rounded >= float(limits.max)
        return np.where(high, limits.max, np.where(high, 0.0, np.maximum(rounded, float(limits.min))).astype(dtype))
    # The low bits of the nearest 64-bit number.
    return numbers.convert(rounded, INT64).astype(dtype)


def tcvt(frame: Frame, op: PtoOp) -> list[Value]:
    source, target = tile(frame, op, "a"), tile(frame, op, "d")
    values, dtype = source.read(*target.valid), target.dtype
    mode, saturation = op.enum("rmode", "CAST_RINT"), op.enum("sat_mode")
    if source.spec.element.is_float and not target.spec.element.is_float:
        out = _to_integer(values, dtype, mode, saturation != "OFF")
    elif target.spec.element.is_float:
        out = _to_float(values, dtype, saturation == "ON")
    elif saturation != "OFF":
        limits = np.iinfo(dtype)
        wide = values.astype(object) if values.dtype == np.uint64 else values.astype(np.int64)
        out = np.clip(wide, limits.min, min(limits.max, (1 << 63) - 1)).astype(dtype)
    else:
        out = values.astype(dtype)
    target.write(out)
    return []


def _to_float(values: NDArray, dtype: np.dtype[Any], saturate: bool) -> NDArray:
    wide = values.astype(np.float32)
    if saturate and dtype.itemsize < 4:
        import ml_dtypes

        limit = float(ml_dtypes.finfo(dtype).max)
        wide = np.where(np.isfinite(wide), np.clip(wide, -limit, limit), wide)
    return wide.astype(dtype)


# comparison and selection ---------------------------------------------------------------------------------------------------------

def tcmp(frame: Frame, op: PtoOp) -> list[Value]:
    source, mask = tile(frame, op, "a"), tile(frame, op, "m")
    values = source.box
    other = tile(frame, op, "b").read(*values.shape) if op.operand("b") is not None else number(frame.value(op.operand("s")), source.dtype)
    chosen = comparison(op.enum("cmpMode", "eq"))(values, other)
    bits = np.zeros(_mask_bits(frame, mask, *values.shape), bool)
    if dense_masks(frame.machine.file.arch):
        bits.reshape(-1)[: chosen.size] = chosen.reshape(-1)
    else:
        bits[: chosen.shape[0], : chosen.shape[1]] = chosen
    mask.write(np.packbits(bits, axis=-1, bitorder="little").view(mask.dtype).reshape(mask.shape))
    return []


def _mask_bits(frame: Frame, mask: Tile, rows: int, cols: int) -> tuple[int, int]:
    """Rows of the mask and bits of each of them; a region of the data must find room in them."""
    held, width = mask.shape[0], 8 * mask.shape[1] * mask.dtype.itemsize
    fits = rows * cols <= held * width if dense_masks(frame.machine.file.arch) else rows <= held and cols <= width
    if not fits:
        raise ShapeError(f"the mask has {held} rows of {width} bits, the data is {rows}x{cols}")
    return held, width


def _mask_of(frame: Frame, op: PtoOp, rows: int, cols: int) -> NDArray:
    """The bits that belong to a region of the data."""
    mask = tile(frame, op, "m")
    shape = _mask_bits(frame, mask, rows, cols)
    bits = np.unpackbits(np.ascontiguousarray(mask.read()).view(np.uint8), bitorder="little").astype(bool)
    return bits[: rows * cols].reshape(rows, cols) if dense_masks(frame.machine.file.arch) else bits.reshape(shape)[:rows, :cols]


def tsel(frame: Frame, op: PtoOp) -> list[Value]:
    target = tile(frame, op, "d")
    rows, cols = target.valid
    other = tile(frame, op, "b").read(rows, cols) if op.operand("b") is not None else number(frame.value(op.operand("s")), target.dtype)
    target.write(np.where(_mask_of(frame, op, rows, cols), tile(frame, op, "a").read(rows, cols), other))
    return []


# expands --------------------------------------------------------------------------------------------------------------------------


def expand(frame: Frame, op: PtoOp) -> list[Value]:
    target = tile(frame, op, "d")
    rows, cols = target.valid
    line = tile(frame, op, "a").read(*((rows, 1) if op.row.name == "trowexpand" else (1, cols)))
    target.write(np.broadcast_to(line, (rows, cols)).copy())
    return []


STEPS = {"tcvt": tcvt, "tcmp": tcmp, "tsel": tsel, "trowexpand": expand, "tcolexpand": expand}
