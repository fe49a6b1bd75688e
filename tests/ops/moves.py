"""What every op that moves cells does, said a second time with torch and plain loops; results match bit for bit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from tests.ops.formulas import COMPARE, Array, Formula

STEPS = {1: (0, 2), 2: (1, 2), 3: (0, 4), 4: (1, 4), 5: (2, 4), 6: (3, 4), 7: (0, 1)}
"""First column and step of each mask pattern."""


def _picked(data: Array, pattern: int) -> Array:
    start, step = STEPS[int(pattern)]
    return np.stack([data[..., column] for column in range(start, data.shape[-1], step)], axis=-1)


def _spread(base: Array, compact: Array, pattern: int) -> Array:
    start, step = STEPS[int(pattern)]
    out = base.copy()
    for number in range(compact.shape[-1]):
        out[..., start + number * step] = compact[..., number]
    return out


def _matches(data: Array, kvalue: Any, cmp_mode: str, out_cols: int, offset: int = 0) -> tuple[Array, Array]:
    names = ("eq", "ne", "lt", "le", "gt", "ge")
    found = [[c + offset for c, cell in enumerate(row) if COMPARE[names.index(cmp_mode)](float(cell), float(kvalue))][:out_cols] for row in data]
    index = np.full((len(found), out_cols), None, object)
    for row, places in enumerate(found):
        index[row, : len(places)] = places
    return index, np.array([[len(places) for places in found]], object)


def gather(use: Any, input: Array, **args: Any) -> Any:
    if args.get("mask_pattern") is not None:
        return _picked(input, args["mask_pattern"])
    if args.get("kvalue") is not None:
        return _matches(input, args["kvalue"], args["cmp_mode"], args["out_cols"], args.get("offset", 0))
    dim, index = args["dim"], args["index"]
    places = torch.arange(input.size).reshape(input.shape)
    cut = tuple(slice(None) if axis == dim % input.ndim else slice(0, n) for axis, n in enumerate(index.shape))
    return input.reshape(-1)[torch.gather(places[cut], dim, torch.tensor(index.astype(np.int64))).numpy()]


def scatter(use: Any, input: Array, dim: int | None = None, index: Array = None, src: Array = None, mask_pattern: Any = None, dst: Array = None) -> Array:
    if mask_pattern is not None:
        return _spread(dst, input, mask_pattern)
    out = input.copy()
    for place in np.ndindex(index.shape):
        out[(*place[:-1], int(index[place]))] = src[place]
    return out


def scatter_flat(use: Any, dst: Array, src: Array, indexes: Array) -> Array:
    cells = list(dst.reshape(-1))
    for place, cell in zip(indexes.reshape(-1).tolist(), src.reshape(-1), strict=True):
        cells[place] = cell
    return np.array(cells, dst.dtype).reshape(dst.shape)


def gatherb(use: Any, src: Array, offset: Array) -> Array:
    stored, count = src.tobytes(), 32 // src.dtype.itemsize
    out = np.empty((offset.shape[0], offset.shape[1] * count), src.dtype)
    for row, column in np.ndindex(offset.shape):
        start = int(offset[row, column])
        out[row, column * count : (column + 1) * count] = np.frombuffer(stored[start : start + 32], src.dtype)
    return out


def mgather(use: Any, mem: Array, idx: Array, coalesce: str = "row", gather_oob: str = "undefined", valid_shape: Any = None) -> Array:
    rows = mem.reshape(-1, mem.shape[-1]) if coalesce == "row" else mem.reshape(-1)
    picked = []
    for index in (int(i) % 2**32 for i in idx.reshape(-1)):
        inside = {"clamp": min(index, len(rows) - 1), "wrap": index % len(rows)}.get(gather_oob, index)
        picked.append(rows[inside] if inside < len(rows) else np.zeros_like(rows[0]))
    out = np.array(picked, mem.dtype)
    if coalesce == "elem":
        return out.reshape(idx.shape)
    return out if valid_shape is None else out[: valid_shape[0], : valid_shape[1]]


def paged_gather(
    use: Any, src: Array, indices: Array, block_table: Array, block_size: int, size: int, max_indices: int, col_off: int = 0, is_trans: bool = False
) -> Array:
    pages = block_table.reshape(-1).tolist()
    rows = [src[pages[i // block_size] * block_size + i % block_size, col_off : col_off + size] for i in indices.reshape(-1).tolist()]
    out = np.stack(rows)
    return out.T if is_trans else out


def gather_row(
    use: Any, dst: Array, src: Array, dst_offset: list[int], src_offset: list[int], shapes: list[int], transpose: bool = False, valid_shape: Any = None
) -> Array:
    extents = shapes if valid_shape is None else valid_shape
    window = src[tuple(slice(start, start + n) for start, n in zip(src_offset, extents, strict=True))]
    window = window.reshape(window.shape[-2:])
    window = window.T if transpose else window
    out = dst.copy()
    out[dst_offset[0] : dst_offset[0] + window.shape[0], dst_offset[1] : dst_offset[1] + window.shape[1]] = window
    return out


def scatter_update(use: Any, input: Array, dim: int, index: Array, src: Array) -> Array:
    rows = [row.copy() for row in input.reshape(-1, input.shape[-1])]
    for place, row in zip(index.reshape(-1).tolist(), src.reshape(-1, src.shape[-1]), strict=True):
        rows[place] = row
    return np.stack(rows).reshape(input.shape)


def _by_value(pair: tuple[Any, Any]) -> tuple[bool, float]:
    """Largest first, NaN last."""
    value = float(pair[0])
    return (math.isnan(value), -value)


def sort32(use: Any, src: Array, idx: Array) -> Array:
    """Python's stable sort of each block; indices keep their bits in float storage."""
    words = np.float32 if src.dtype == np.float32 else None
    if words is None:
        return NotImplemented
    out = np.empty((*src.shape[:-1], 2 * src.shape[-1]), np.float32)
    for place in np.ndindex(src.shape[:-1]):
        for start in range(0, src.shape[-1], 32):
            pairs = sorted(zip(src[place][start : start + 32], idx[place][start : start + 32], strict=True), key=_by_value)
            for number, (value, index) in enumerate(pairs):
                at = 2 * (start + number)
                out[place][at] = value
                out[place][at + 1 : at + 2] = np.array([index], np.uint32).view(np.float32)
    return out


def _merged(runs: Sequence[Array]) -> list[Any]:
    """Pairs from the heads of the runs, the largest first, of equals that of the earliest run."""
    rest, out = [list(zip(run[0::2], run[1::2], strict=True)) for run in runs], list[Any]()
    while any(rest):
        out += min((run for run in rest if run), key=lambda run: _by_value(run[0])).pop(0)
    return out


def mrgsort(use: Any, src0: Array, block_len: int | None = None, **rest: Array) -> Array:
    lists = [src0, *(rest[name] for name in ("src1", "src2", "src3") if rest.get(name) is not None)]
    out = np.concatenate(lists, axis=-1)
    for place in np.ndindex(out.shape[:-1]):
        if block_len is None:
            out[place] = _merged([part[place] for part in lists])
            continue
        row, run = src0[place], int(block_len)
        for start in range(0, len(row), 4 * run):
            out[place][start : start + 4 * run] = _merged([row[first : first + run] for first in range(start, min(start + 4 * run, len(row)), run)])
    return out


def cut(use: Any, input: Array, shape: Sequence[int], offset: Sequence[int], valid_shape: Any = None) -> Array:
    extents = shape if valid_shape is None else valid_shape
    return input[tuple(slice(start, start + n) for start, n in zip(offset, extents, strict=True))]


def assemble(use: Any, target: Array, source: Array, offset: Sequence[int]) -> Array:
    out = target.copy()
    for place in np.ndindex(source.shape):
        out[tuple(a + b for a, b in zip(place, offset, strict=True))] = source[place]
    return out


def write(use: Any, dst: Array, offset: Sequence[int], value: Any) -> Array:
    out = dst.copy()
    out[tuple(offset)] = value
    return out


def reinterpreted(use: Any, data: Array, dtype: Any) -> Array:
    if dtype.bits < 8:
        return NotImplemented
    return np.stack([np.frombuffer(row.tobytes(), dtype.numpy) for row in data])


def expanded(use: Any, input: Array, shape: Sequence[int], pad_value: Any) -> Array:
    pad = _pad(input.dtype, pad_value.name)
    if pad is NotImplemented:
        return NotImplemented
    out = np.full(tuple(shape), pad, input.dtype)
    out[: input.shape[0], : input.shape[1]] = input
    return out


def _pad(dtype: Any, name: str) -> Any:
    if name == "zero":
        return 0
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return info.max if name == "max" else info.min
    return {"max": math.inf, "min": -math.inf}[name] if dtype.name in ("float16", "float32", "bfloat16") else NotImplemented


def _bits(mask: Array) -> Array:
    """One flag per column, least significant bit first."""
    return np.unpackbits(np.ascontiguousarray(mask).view(np.uint8), axis=-1, bitorder="little").astype(bool)


def cmp_mask(use: Any, lhs: Array, rhs: Any, cmp_type: int = 0) -> Array:
    """Bytes of flags, rows padded to 32 bytes; only those that hold columns count."""
    number = int if lhs.dtype.kind in "iu" else float
    others = np.broadcast_to(np.asarray(rhs), lhs.shape)
    flags = np.array([[COMPARE[cmp_type](number(a), number(b)) for a, b in zip(*rows, strict=True)] for rows in zip(lhs, others, strict=True)])
    return np.packbits(flags, axis=-1, bitorder="little")


def sel(use: Any, mask: Array, lhs: Array, rhs: Array) -> Array:
    return np.where(_bits(mask)[:, : lhs.shape[1]], lhs, rhs)


def sels(use: Any, mask: Array, src: Array, scalar: Any) -> Array:
    return np.where(_bits(mask)[:, : src.shape[1]], src, np.asarray(scalar).astype(src.dtype))


def _same(use: Any, **args: Any) -> Array:
    return next(value for value in args.values() if isinstance(value, np.ndarray))


def _ordered(input: Array, descending: bool) -> tuple[Array, Array]:
    """Python's own sort, by (is NaN, number)."""
    values, places = np.empty_like(input), np.empty(input.shape, np.int32)
    for row in np.ndindex(input.shape[:-1]):
        cells = [float(cell) if input.dtype.kind not in "iu" else int(cell) for cell in input[row]]
        keys = [(1, 0.0) if cell != cell else (0, cell) for cell in cells]
        order = sorted(range(len(cells)), key=keys.__getitem__)
        if descending:
            order = sorted(range(len(cells)), key=lambda place: [-part for part in keys[place]])
        values[row], places[row] = input[row][order], order
    return values, places


def _tallied(input: Array, length: int, weights: Array | None) -> Array:
    out: list[Any] = [0] * length if weights is None or weights.dtype.kind == "i" else [np.float32(0)] * length
    for place in np.ndindex(input.shape):
        out[int(input[place])] += 1 if weights is None else weights[place] if weights.dtype.kind != "i" else int(weights[place])
    return np.array(out, np.int64).astype(np.int32) if weights is None or weights.dtype.kind == "i" else np.array(out, np.float32)


MOVES: dict[str, Formula] = {
    "transpose": lambda use, input, axis1, axis2: _swapped(input, axis1, axis2),
    "transpose_view": lambda use, input: _swapped(input, -1, -2),
    "concat": lambda use, src0, src1: np.array([[*a, *b] for a, b in zip(src0, src1, strict=True)], src0.dtype),
    "sort_rows": lambda use, input, descending=False: _ordered(input, descending),
    "topk_rows": lambda use, input, k, largest=True: tuple(part[..., :k] for part in _ordered(input, largest)),
    "bincount": lambda use, input, length, weights=None: _tallied(input, length, weights),
    "every": lambda use, input, steps: np.array(input[tuple(slice(None, None, step) for step in steps)]),
    "move": _same,
    "aiv_shard": _same,
    "aic_gather": _same,
    "reshape": lambda use, input, shape: np.frombuffer(input.tobytes(), input.dtype).reshape(tuple(shape)),
    "set_validshape": lambda use, input, valid_rows, valid_cols: input[: int(valid_rows), : int(valid_cols)],
    "reinterpret_view": reinterpreted,
    "fillpad": _same,
    "fillpad_expand": expanded,
    "slice": cut,
    "extract": lambda use, src, index_row, index_col, shape, target_memory: cut(use, src, shape, [int(index_row), int(index_col)]),
    "assemble": assemble,
    "write": write,
    "gather": gather,
    "gather_flat": lambda use, src, indices: np.array([src.reshape(-1)[i] for i in indices.reshape(-1)], src.dtype).reshape(indices.shape),
    "gather_mask": lambda use, src, mask_pattern: _picked(src, mask_pattern),
    "gather_compare": lambda use, src, kvalue, cmp_mode, out_cols, offset=0: _matches(src, kvalue, cmp_mode, out_cols, offset),
    "gatherb": gatherb,
    "scatter": scatter,
    "scatter_flat": scatter_flat,
    "scatter_mask": lambda use, dst, src, mask_pattern: _spread(dst, src, mask_pattern),
    "sort32": sort32,
    "mrgsort": mrgsort,
    "mgather": mgather,
    "paged_gather": paged_gather,
    "gather_row": gather_row,
    "scatter_update": scatter_update,
    "cmp_mask": cmp_mask,
    "sel": sel,
    "sels": sels,
}


def _swapped(data: Array, a: int, b: int) -> Array:
    axes = list(range(data.ndim))
    axes[a], axes[b] = axes[b], axes[a]
    out = np.empty([data.shape[axis] for axis in axes], data.dtype)
    for place in np.ndindex(data.shape):
        out[tuple(place[axis] for axis in axes)] = data[place]
    return out
