"""Masks: kept as flags, one per column, as long as they stay in registers; packed into bytes where something looks at those."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xdsl.ir import SSAValue

from tilejit.backends.cuda.text import elementwise, numbers
from tilejit.backends.cuda.text.types import register
from tilejit.backends.cuda.text.values import Buffer, Scalar, Tile, Value, index
from tilejit.dtypes import BOOL, UINT8, promote
from tilejit.ops.compare import mask_columns
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.arguments import value_of
from tilejit.tile_ir.build import apply_args
from tilejit.types.values import broadcast

if TYPE_CHECKING:
    from tilejit.backends.cuda.program.body import Body


def shape_text(sizes: Sequence[int]) -> str:
    return f"({', '.join(map(str, sizes))},)"


def as_bytes(body: Body, tile: Tile) -> Tile:
    """A mask as the bytes that the program sees: eight columns each, least significant bit first."""
    if not tile.bits:
        return tile
    lead, columns = tile.padded[:-1], tile.padded[-1]
    held = mask_columns(tile.shape[-1])
    wide, per = max(columns // 8, 1), min(columns, 8)
    weights = f"(1 << {body.out.arange(per)})"
    spread = f"{weights}[{', '.join(['None'] * (len(lead) + 1))}, :]"
    flags = f"({tile.text})"
    if tile.valid[-1].const != columns:  # Bits past the last column of a byte are 0.
        flags = f"({flags} & ({body.out.arange(columns)} < {tile.valid[-1].text})[{', '.join(['None'] * len(lead))}, :])"
    packed = f"tl.sum(tl.reshape({flags}.to(tl.int32), {shape_text((*lead, wide, per))}) * {spread}, {len(lead) + 1})"
    room = 1 << (held - 1).bit_length()
    if room != wide:  # The rest of the row means nothing.
        packed = f"tl.reshape(tl.broadcast_to(tl.expand_dims({packed}, {len(lead)}), {shape_text((*lead, room // wide, wide))}), {shape_text((*lead, room))})"
    valid = (*tile.valid[:-1], numbers.floordiv(numbers.add(tile.valid[-1], index(7)), 8))
    return Tile(body.out.let("mask", f"{packed}.to(tl.uint8)"), UINT8, (*tile.shape[:-1], held), valid)


def as_flags(body: Body, tile: Tile, columns: int) -> str:
    """The flags that a mask, held in bytes or wider integers, has for that many columns."""
    if tile.bits:
        return tile.text
    lead, held, width = tile.padded[:-1], tile.padded[-1], tile.dtype.get_byte() * 8
    wanted = 1 << (columns - 1).bit_length()
    shifts = f"{body.out.arange(width)}[{', '.join(['None'] * (len(lead) + 1))}, :]"
    spread = f"(tl.expand_dims({tile.text}.to(tl.int64), {len(lead) + 1}) >> {shifts}) & 1"
    flat = f"tl.reshape({spread}, {shape_text((*lead, held * width))})"
    if held * width > wanted:
        pieces = held * width // wanted
        first = f"({body.out.arange(pieces)} == 0)[{', '.join(['None'] * len(lead) + [':', 'None'])}]"
        flat = f"tl.sum(tl.where({first}, tl.reshape({flat}, {shape_text((*lead, pieces, wanted))}), 0), {len(lead)})"
    return f"({flat} != 0)"


def cmp_mask(body: Body, op: d.ApplyOp) -> Sequence[Value]:
    args = apply_args(op)
    sides = [body[value] for name in ("lhs", "rhs") if isinstance(value := args[name], SSAValue)]
    sides = [body.tile(value) if isinstance(side, Buffer) else side for side, value in zip(sides, op.args, strict=False)]
    tiles = [side for side in sides if isinstance(side, Tile)]
    dtype = tiles[0].dtype
    for tile in tiles[1:]:
        dtype = promote(dtype, tile.dtype)
    rank = max(tile.rank for tile in tiles)
    texts = [body.operand_text(side, dtype, rank) for side in sides]
    kind = op.statics.get("cmp_type", 0)
    shape = broadcast([tile.shape for tile in tiles])
    text = f"({texts[0]} {elementwise.COMPARISONS[kind]} {texts[1]})"
    return [Tile(text, BOOL, shape, common_valid(shape, tiles), bits=True)]


def common_valid(shape: Sequence[int], tiles: Sequence[Tile]) -> tuple[Scalar, ...]:
    """The intersection of valid regions after broadcasting to `shape`."""
    out = [index(extent) for extent in shape]
    for tile in tiles:
        lead = len(shape) - tile.rank
        for own, (extent, size) in enumerate(zip(tile.shape, tile.valid, strict=True)):
            if not (extent == 1 and shape[own + lead] != 1):
                out[own + lead] = numbers.minimum(out[own + lead], size)
            elif size.const is None:
                out[own + lead] = numbers.mul(out[own + lead], size)
            elif size.const == 0:
                out[own + lead] = index(0)
    return tuple(out)


def select(body: Body, op: d.ApplyOp) -> Sequence[Value]:
    """sel and sels."""
    args = apply_args(op)
    mask = body.tile(value_of(args["mask"]))
    first = body.tile(value_of(args["lhs"] if "lhs" in args else args["src"]))
    other = body[value_of(args["rhs"] if "rhs" in args else args["scalar"])] if ("rhs" in args or "scalar" in args) else Scalar("0", first.dtype, None, 0)
    if isinstance(other, Buffer):
        other = body.tile(value_of(args["rhs"]))
    assert isinstance(other, Scalar | Tile)
    flags = as_flags(body, mask, first.shape[-1])
    second = other.text if isinstance(other, Tile) else body.converted(other, first.dtype)
    text = f"tl.where({flags}, {first.text}, {second})"
    if isinstance(other, Scalar):
        text = f"{text}.to({register(first.dtype)})"
    tiles = [tile for tile in (first, other) if isinstance(tile, Tile)]
    valid = list(common_valid(first.shape, tiles))
    for axis in range(first.rank - 1):
        if mask.shape[axis] != 1 or first.shape[axis] == 1:
            valid[axis] = numbers.minimum(valid[axis], mask.valid[axis])
    bits = mask.valid[-1] if mask.bits else numbers.mul(mask.valid[-1], index(mask.dtype.get_byte() * 8))
    if mask.bits:
        bits = numbers.mul(numbers.floordiv(numbers.add(bits, index(7)), 8), index(8))
    valid[-1] = numbers.minimum(valid[-1], bits)
    return [Tile(text, first.dtype, first.shape, body.valid_of(op, 0, lambda axis: valid[axis]))]
