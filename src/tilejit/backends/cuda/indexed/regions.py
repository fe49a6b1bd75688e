"""Rules of valid regions: how much of a tile means something, and what fills the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tilejit.backends.cuda.indexed.move import padding
from tilejit.backends.cuda.program import memory
from tilejit.backends.cuda.program.body import Body
from tilejit.backends.cuda.program.masks import as_bytes
from tilejit.backends.cuda.text import numbers
from tilejit.backends.cuda.text.values import Scalar, Tile, Value, index
from tilejit.runtime.call.failures import Failure
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.arguments import value_of
from tilejit.tile_ir.build import apply_args


def set_validshape(body: Body, op: d.ApplyOp) -> Sequence[Value]:
    source = as_bytes(body, body.tile(op.args[0]))
    return [replace(source, valid=valid_sizes(body, op, [index(extent) for extent in source.shape]), zeros=False)]


def valid_sizes(body: Body, op: d.ApplyOp, extents: Sequence[Scalar]) -> tuple[Scalar, ...]:
    """The sizes that an op gives to the valid region of something of these extents."""
    args, names = apply_args(op), ("valid_rows", "valid_cols")
    wanted = [body.index(value_of(args[name])) for name in names]
    for name, size, extent in zip(names, wanted, extents, strict=True):
        if not numbers.within(size, 0, extent):
            failure = Failure("bounds", f"set_validshape: {name} is {{0}}, the extent is {{1}}", op.span, "a valid region is 0 to the extent")
            body.failures.report(body.out, f"({size.text} >= 0) & ({size.text} <= {extent.text})", failure, (size, extent))
    return tuple(numbers.clamp(size, index(0), extent) for size, extent in zip(wanted, extents, strict=True))


def fillpad(body: Body, op: d.ApplyOp) -> Sequence[Value]:
    source = as_bytes(body, body.tile(op.args[0]))
    cell = padding(apply_args(op).get("pad_value"), source.dtype)
    where = memory.mask(body.out, source.shape, source.valid) if any(v.const != e for v, e in zip(source.valid, source.shape, strict=True)) else None
    text = source.text if where is None else f"tl.where({where}, {source.text}, {body.text(cell)})"
    return [Tile(text, source.dtype, source.shape, tuple(index(extent) for extent in source.shape), zeros=cell.const == 0 and where is not None)]
