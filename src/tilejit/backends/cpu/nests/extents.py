"""The extents of the space that a recipe runs over, from those of its operands."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import SSAValue

from tilejit.backends.cpu.function import FunctionWriter
from tilejit.backends.cpu.llvm.text import Index
from tilejit.backends.cpu.nests.recipes import Recipe
from tilejit.tile_ir import dialect as d
from tilejit.types.values import ShapedType

Lookup = Callable[[SSAValue, bool], tuple[tuple[Index, ...], tuple[Index, ...]]]
"""(operand, whether it is read as a mask) → run-time shape and valid extents, a mask's in columns."""


def space_extents(f: FunctionWriter, item: Recipe, lookup: Lookup) -> tuple[list[Index], list[Index]]:
    """Run-time shape and valid extents of the space of a recipe, from its operands."""
    e = f.e
    rank = len(item.space)
    shape: list[Index | None] = [dim if isinstance(dim, int) else None for dim in item.space]
    masks = {item.inputs[i] for i in item.masks}
    for value in {*item.inputs, *item.valid_from} - masks:
        type = d.type_of(value)
        if not isinstance(type, ShapedType):
            continue
        extents, _ = lookup(value, False)
        for own, extent in enumerate(extents):
            axis = own + rank - len(extents)
            if shape[axis] is None and type.shape[own] != 1:
                shape[axis] = extent
    known: list[Index] = []
    for extent in shape:
        assert extent is not None, item.op
        known.append(extent)
    valid = list(known)
    for value in item.valid_from:
        extents, bounds = lookup(value, value in masks)
        for own, (extent, bound) in enumerate(zip(extents, bounds, strict=True)):
            axis = own + rank - len(extents)
            if bound == extent:
                continue
            if extent == 1 and known[axis] != 1:
                # A stretched cell that is missing leaves nothing.
                bound = e.mul(bound, known[axis])
            valid[axis] = e.min(valid[axis], bound)
    return known, valid
