"""Gather, scatter, sort, generators, single elements and quantisation of the interpreter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tilejit.backends.pto.interpret import scalars
from tilejit.backends.pto.interpret.memory import Tile
from tilejit.backends.pto.interpret.tiles import integer, number, tile
from tilejit.errors import OutOfBoundsError, ShapeError
from tilejit.ops.gather import PATTERNS
from tilejit.ops.generate import philox
from tilejit.ops.sort import descending, merging
from tilejit.tile_ir.pto.meaning import comparison, mask_pattern
from tilejit.tile_ir.pto.op import PtoOp
from tilejit.tile_ir.pto.spec import QUANT_BLOCK

if TYPE_CHECKING:
    from tilejit.backends.pto.interpret.machine import Frame, Value

NDArray = npt.NDArray[Any]


def _inside(index: NDArray, count: int, what: str) -> NDArray:
    wrong = (index < 0) | (index >= count)
    if wrong.any():
        raise OutOfBoundsError(f"index {int(index[wrong][0])} is outside of the {count} {what}")
    return index


def _tgather(frame: Frame, op: PtoOp) -> list[Value]:
    source, target = tile(frame, op, "src"), tile(frame, op, "d")
    if "maskPattern" in op.attributes:
        first, step = PATTERNS[mask_pattern(op.enum("maskPattern"))]
        _fill_in_order(target, source.box[:, first::step].reshape(-1))
    elif op.operand("cnt") is not None:
        _gather_matches(frame, op, source, target)
    else:
        index = tile(frame, op, "idx").read(*target.valid).astype(np.int64)
        target.write(source.read().reshape(-1)[_inside(index, source.shape[0] * source.shape[1], "elements of the tile")])
    return []


def _fill_in_order(target: Tile, values: NDArray) -> None:
    """Values into the valid cells, row after row."""
    rows, cols = target.valid
    if values.size > rows * cols:
        raise ShapeError(f"{values.size} elements are selected, the destination holds {rows * cols}")
    flat = target.read(rows, cols).reshape(-1).copy()
    flat[: values.size] = values
    target.write(flat.reshape(rows, cols))


def _gather_matches(frame: Frame, op: PtoOp, source: Tile, target: Tile) -> None:
    """The columns of every row that compare with its value, and how many there are."""
    values, counts = source.box, tile(frame, op, "cnt")
    other = frame.value(op.operand("idx"))
    against = other.read(values.shape[0], 1) if isinstance(other, Tile) else number(other, source.dtype)
    matches = comparison(op.enum("cmpMode", "eq"))(values, against)
    out = target.read(*target.valid).copy()
    for row, found in enumerate(matches[: out.shape[0]]):
        columns = np.flatnonzero(found)[: out.shape[1]] + op.integer("offset")
        out[row, : columns.size] = columns.astype(target.dtype)
    target.write(out)
    counts.write(matches.sum(1, keepdims=True)[: counts.valid[0]].astype(counts.dtype))


def _tgatherb(frame: Frame, op: PtoOp) -> list[Value]:
    source, target = tile(frame, op, "src"), tile(frame, op, "d")
    per_block = 32 // target.dtype.itemsize
    rows, cols = target.valid
    offsets = tile(frame, op, "idx").read(rows, -(-cols // per_block)).astype(np.int64)
    raw = np.ascontiguousarray(source.read()).view(np.uint8).reshape(-1)
    starts = _inside(offsets, raw.size - 31, "byte offsets of whole blocks")
    blocks = raw[starts[..., None] + np.arange(32)].reshape(rows, -1).view(target.dtype)
    target.write(blocks[:, :cols])
    return []


def _tscatter(frame: Frame, op: PtoOp) -> list[Value]:
    source, target = tile(frame, op, "src"), tile(frame, op, "d")
    values = source.box
    index = _inside(tile(frame, op, "idx").read(*values.shape).astype(np.int64), target.shape[0] * target.shape[1], "elements of the tile")
    flat = target.read().reshape(-1).copy()
    flat[index.reshape(-1)] = values.reshape(-1)
    target.write(flat.reshape(target.shape))
    return []


# sort: records of a value and a 32-bit index, 8 bytes each -----------------------------------------------------------------


def _record_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    fields = [("value", dtype), ("index", np.uint32)] if dtype.itemsize == 4 else [("value", dtype), ("pad", np.uint16), ("index", np.uint32)]
    return np.dtype(fields)


def _tsort32(frame: Frame, op: PtoOp) -> list[Value]:
    source, target = tile(frame, op, "src"), tile(frame, op, "d")
    rows, cols = source.valid
    values, index = source.read(rows, cols), tile(frame, op, "idx").read(rows, cols).view(np.uint32)
    records = np.zeros((rows, cols), _record_type(source.dtype))
    for start in range(0, cols, 32):
        part = slice(start, start + 32)
        order = descending(values[:, part])
        records["value"][:, part] = np.take_along_axis(values[:, part], order, 1)
        records["index"][:, part] = np.take_along_axis(index[:, part], order, 1)
    target.write(records.view(target.dtype).reshape(rows, -1)[:, : target.shape[1]])
    return []


def _merged(lists: list[NDArray], until_one_ends: bool = False) -> NDArray:
    """Lists of records merged by their heads."""
    joined = np.concatenate(lists)
    origin = np.concatenate([np.full(len(part), number) for number, part in enumerate(lists)])
    order = merging([part["value"] for part in lists])
    if until_one_ends and all(len(part) for part in lists):
        seen = np.zeros(len(lists), int)
        for position, item in enumerate(order):
            seen[origin[item]] += 1
            if seen[origin[item]] == len(lists[origin[item]]):
                return joined[order[: position + 1]]
    return joined[order]


def _tmrgsort(frame: Frame, op: PtoOp) -> list[Value]:
    target = tile(frame, op, "d")
    record = _record_type(target.dtype)
    sources: list[Tile] = [frame.values[value] for value in op.groups["srcs"]]
    if op.operand("blockLen") is None:
        lists = [np.ascontiguousarray(source.box[0]).view(record) for source in sources[:-1]]
        merged = _merged(lists, op.flag("exhausted"))
    else:
        words = np.ascontiguousarray(sources[0].box[0])
        length = integer(frame, op, "blockLen") * target.dtype.itemsize // record.itemsize
        if length <= 0:
            raise ShapeError(f"the block length must be positive, got {integer(frame, op, 'blockLen')}")
        records = words.view(record)
        parts = [records[start : start + length] for start in range(0, len(records), length)]
        merged = np.concatenate([_merged(parts[start : start + 4]) for start in range(0, len(parts), 4)])
    target.write(merged.view(target.dtype)[None, : target.shape[1]])
    return []


# generators ----------------------------------------------------------------------------------------------------------------------


def _tci(frame: Frame, op: PtoOp) -> list[Value]:
    target = tile(frame, op, "d")
    step = -1 if op.flag("descending") else 1
    target.write((integer(frame, op, "s") + step * np.arange(target.valid[1], dtype=np.int64)).astype(target.dtype)[None])
    return []


def _ttri(frame: Frame, op: PtoOp) -> list[Value]:
    target = tile(frame, op, "d")
    rows, cols = (np.arange(n) for n in target.valid)
    limit = rows[:, None] + integer(frame, op, "s")
    target.write((cols[None] >= limit if op.integer("upperOrLower") else cols[None] <= limit).astype(target.dtype))
    return []


def _trandom(frame: Frame, op: PtoOp) -> list[Value]:
    """Word i is word i % 4 of the counter advanced by i // 4."""
    target = tile(frame, op, "d")
    words = {name: integer(frame, op, name) & 0xFFFFFFFF for name in ("k0", "k1", "c0", "c1", "c2", "c3")}
    start = sum(words[f"c{i}"] << (32 * i) for i in range(4))
    rows, cols = target.valid
    counters = [np.array([((start + i) >> (32 * word)) & 0xFFFFFFFF for i in range(-(-rows * cols // 4))], np.uint64) for word in range(4)]
    drawn = np.stack(philox(counters, (words["k0"], words["k1"]), op.integer("rounds", 10)), axis=-1).reshape(-1).astype(np.uint32)
    target.write(drawn[: rows * cols].reshape(rows, cols).view(target.dtype))
    return []


def _thistogram(frame: Frame, op: PtoOp) -> list[Value]:
    """Of the high bytes; or of the low bytes of the elements whose high bytes equal the row's index."""
    source, target = tile(frame, op, "src"), tile(frame, op, "d")
    values = np.ascontiguousarray(source.box).view(f"u{source.dtype.itemsize}").astype(np.int64)
    shift = 8 * (source.dtype.itemsize - 1)
    out = np.zeros((values.shape[0], 256), np.int64)
    chosen = tile(frame, op, "idx")
    for row, line in enumerate(values):
        if op.flag("isMSB"):
            bins = line >> shift
        else:
            wanted = int(chosen.read(row + 1, 1)[row, 0]) & 0xFF
            bins = line[(line >> shift) == wanted] & 0xFF
        out[row] = np.cumsum(np.bincount(bins, minlength=256)[:256])
    target.write(out[: target.valid[0], : target.valid[1]].astype(target.dtype))
    return []


# single elements and quantisation -----------------------------------------------------------------------------------------------


def _cell(found: Tile, offset: int) -> tuple[int, int]:
    if not 0 <= offset < found.shape[0] * found.shape[1]:
        raise OutOfBoundsError(f"element {offset} is outside of a tile of {found.shape[0]}x{found.shape[1]}")
    return divmod(offset, found.shape[1])


def _tsetval(frame: Frame, op: PtoOp) -> list[Value]:
    target = tile(frame, op, "d")
    target.write(np.array([[number(frame.value(op.operand("value")), target.dtype)]]), *_cell(target, integer(frame, op, "offset")))
    return []


def _tgetval(frame: Frame, op: PtoOp) -> list[Value]:
    source = tile(frame, op, "src")
    return [scalars.convert(source.read()[_cell(source, integer(frame, op, "offset"))], op.results[0].type)]


def _row_parameters(source: Tile, rows: int) -> NDArray:
    """One parameter per row: column 0."""
    return source.read(rows, 1).astype(np.float32)


def _block_parameters(source: Tile, rows: int, cols: int) -> NDArray:
    """Eight parameters per row, in the order of the storage: element (r, c) has number 8 * r + c % 8."""
    stored = source.read()
    flat = stored.reshape(-1, order="F" if source.spec.blayout == "col_major" else "C")
    number = QUANT_BLOCK * np.arange(rows)[:, None] + np.arange(cols)[None] % QUANT_BLOCK
    return flat[_inside(number, flat.size, "parameters of the tile")].astype(np.float32)


def _tquant(frame: Frame, op: PtoOp) -> list[Value]:
    target = tile(frame, op, "d")
    rows, cols = target.valid
    values = tile(frame, op, "src").read(rows, cols) * _block_parameters(tile(frame, op, "fp"), rows, cols)
    if op.operand("offset") is not None:
        values = values + _block_parameters(tile(frame, op, "offset"), rows, cols)
    limits = np.iinfo(target.dtype)
    target.write(np.clip(np.rint(np.nan_to_num(values)), limits.min, limits.max).astype(target.dtype))
    return []


def _tdequant(frame: Frame, op: PtoOp) -> list[Value]:
    target = tile(frame, op, "d")
    rows, cols = target.valid
    scale, offset = (_row_parameters(tile(frame, op, name), rows) for name in ("scale", "offset"))
    target.write((tile(frame, op, "src").read(rows, cols).astype(np.float32) - offset) * scale)
    return []


STEPS = {
    "tgather": _tgather, "tgatherb": _tgatherb, "tscatter": _tscatter, "tsort32": _tsort32, "tmrgsort": _tmrgsort, "tci": _tci, "ttri": _ttri,
    "trandom": _trandom, "thistogram": _thistogram, "tsetval": _tsetval, "tgetval": _tgetval, "tquant": _tquant, "tdequant": _tdequant,
}  # fmt: skip
