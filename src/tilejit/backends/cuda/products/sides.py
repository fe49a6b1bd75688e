"""Windows of loaded and stored tiles as sums of loop variables: what the search for products compares."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import SSAValue

from tilejit.passes.affine import Affine, add, affine, demand
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import constant_of


@dataclass(frozen=True)
class Side:
    """An operand: a buffer, the axis along rows or columns of the result, the axis along K, and where it starts."""

    buffer: SSAValue
    starts: tuple[Affine, ...]
    outer: int
    shape: tuple[int, ...]
    clamped: bool


def window(op: d.LoadOp, outer: int) -> Side:
    shape = tuple(extent for extent in d.shaped_type(op.result).shape if isinstance(extent, int))
    clamped = bool(op.static("clamp"))
    demand(len(shape) == 2 and all(constant_of(size) == extent for size, extent in zip(op.valid, shape, strict=True)))
    root, starts = _root(op.buffer, [affine(offset) for offset in op.offsets])
    return Side(root, starts, outer, shape, clamped)


def store_window(op: d.StoreOp) -> Side:
    shape = tuple(extent for extent in d.shaped_type(op.value).shape if isinstance(extent, int))
    demand(len(shape) == 2 and len(op.offsets) == 2)
    root, starts = _root(op.buffer, [affine(offset) for offset in op.offsets])
    return Side(root, starts, 0, shape, False)


def _root(buffer: SSAValue, starts: list[Affine]) -> tuple[SSAValue, tuple[Affine, ...]]:
    while isinstance(buffer.owner, d.WindowOp):
        owner = buffer.owner
        demand(not owner.drop and not owner.static("clamp"))
        starts = [add(start, affine(offset)) for start, offset in zip(starts, owner.offsets, strict=True)]
        buffer = owner.buffer
    demand(not isinstance(buffer.owner, d.ViewOp | d.StridedOp))
    return buffer, tuple(starts)
