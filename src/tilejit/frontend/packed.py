"""Scales in packed layouts: tensors in global memory that keep a matrix in boxes of 32 bytes are read as the matrix they stand for.

    MX_A_ZZ   [R, C] lies in memory as [R/16, C/2, 16, 2]: row of boxes, box, row in it, column in it.
    MX_B_NN   [R, C] lies in memory as [C/16, R/2, 16, 2]: the transposed matrix in that order.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from tilejit.errors import ShapeError, UnsupportedFeatureError
from tilejit.frontend.context import Context
from tilejit.frontend.values import static_integer
from tilejit.ops import table
from tilejit.tile_ir import dialect as d
from tilejit.types.enums import TensorLayout
from tilejit.types.values import BufferType, shape_text

_LONG, _SHORT = 16, 2
PACKED = {TensorLayout.MX_A_ZZ.value: False, TensorLayout.MX_B_NN.value: True}
"""The packed layouts, and whether they pack the transposed matrix."""


def is_packed(value: object) -> bool:
    """Whether a value is a tensor in a packed layout."""
    type = d.type_of(value) if isinstance(value, SSAValue) else None
    return isinstance(type, BufferType) and type.layout in PACKED


def refuse_write(value: SSAValue) -> None:
    """Nothing is written into a packed tensor."""
    if is_packed(value):
        raise UnsupportedFeatureError(f"{d.type_of(value)} is packed and can only be read", help="write a plain tensor, and pack it where it is made")


def unpacked(ctx: Context, buffer: object) -> object:
    """The matrix of a packed tensor, as a value; everything else is itself."""
    if not is_packed(buffer):
        return buffer
    assert isinstance(buffer, SSAValue)
    type = d.buffer_type(buffer)
    if type.rank != 2:
        raise UnsupportedFeatureError(f"a tensor in the layout {type.layout} has two dims, got {shape_text(type.shape)}", help="reshape is for plain tensors")
    turned = PACKED[type.layout]
    boxes = (_SHORT, _LONG) if turned else (_LONG, _SHORT)
    sizes: list[object] = []
    for axis, (extent, box) in enumerate(zip(type.shape, boxes, strict=True)):
        if isinstance(extent, int) and extent % box:
            message = f"a tensor in the layout {type.layout} has whole boxes of {boxes[0]} × {boxes[1]}, got {shape_text(type.shape)}"
            raise ShapeError(message, help=f"pad dim {axis} to a multiple of {box}")
        sizes.append(extent // box if isinstance(extent, int) else ctx.scalar_op("floordiv", ctx.builder.dim(buffer, axis), box))
    outer = sizes[::-1] if turned else sizes
    view = _view(ctx, buffer, [*outer, _LONG, _SHORT], type)
    rows = _apply(ctx, "transpose", input=view, axis1=1, axis2=2)
    shape = [ctx.builder.dim(buffer, axis) for axis in ((1, 0) if turned else (0, 1))]
    matrix = _apply(ctx, "reshape", input=rows, shape=shape)
    return _apply(ctx, "transpose", input=matrix, axis1=0, axis2=1) if turned else matrix


def _view(ctx: Context, buffer: SSAValue, extents: Sequence[object], type: BufferType) -> SSAValue:
    known = [static_integer(extent) for extent in extents]
    shape = tuple("?" if extent is None else extent for extent in known)
    dynamic = [ctx.index(extent) for extent, number in zip(extents, known, strict=True) if number is None]
    return ctx.builder.view(buffer, dynamic, BufferType(shape, type.dtype))


def _apply(ctx: Context, name: str, **args: object) -> SSAValue:
    return ctx.builder.apply(table()[name], "tensor", args)[0]  # type: ignore[arg-type]
