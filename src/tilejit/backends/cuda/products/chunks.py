"""Products of tiles that registers do not hold: the operands lie in memory, and a loop over K reads a little of both at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace

from xdsl.ir import Operation, SSAValue

from tilejit import ops
from tilejit.backends.cuda.products import dot, gemm
from tilejit.backends.cuda.program import memory
from tilejit.backends.cuda.program.body import Body
from tilejit.backends.cuda.schedule import chunks_of
from tilejit.backends.cuda.text import numbers
from tilejit.backends.cuda.text.types import padded
from tilejit.backends.cuda.text.values import Buffer, Dim, Scalar, Tile, full, index
from tilejit.dtypes import FP32, INDEX
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.alias import between
from tilejit.tile_ir.build import apply_args

_REGISTERS = 256 << 10
"""Bytes in registers of a processor."""
_REGISTER = 4
"""Bytes of one, which narrower cells do not share while they are loaded, converted and handed over."""
_WRITTEN_OUT = 1 << 20
"""Multiplications of FP32, which no tensor core does: of so many, each an instruction of its own, compiling takes half a minute, of more of them minutes."""
_SIDES = ("lhs", "rhs")
_READ_ONLY = (d.ConstOp, d.AxisOp, d.ApplyOp, d.LoadOp, d.ReadOp, d.CreateOp, d.WindowOp, d.ViewOp, d.StridedOp, d.CheckOp)
"""Ops that change no memory that was there before."""


def suits(op: Operation) -> bool:
    """Whether the tiles of a product are too large to be multiplied at once."""
    if not isinstance(op, d.ApplyOp) or ops.table()[op.op].family != "matmul":
        return False
    args = apply_args(op)
    left, right = (d.shaped_type(value) for name in _SIDES if isinstance(value := args[name], SSAValue))
    if not all(isinstance(extent, int) for extent in (*left.shape, *right.shape)):
        return False
    tiles = [Tile("", type.dtype, shape, full(shape)) for type in (left, right) if (shape := tuple(int(extent) for extent in type.shape))]
    return too_large(dot.Operands(*dot.matrices(tiles, args), dot.work_dtype(left.dtype, right.dtype, d.shaped_type(op.results[0]).dtype)))


def too_large(both: dot.Operands) -> bool:
    """Whether registers do not hold an operand or the product, or tensor cores do not multiply them and there is too much to do at once."""
    left, right, work = both.left, both.right, both.work
    rows, inner, columns = left.padded[-2], left.padded[-1], right.padded[-1]
    batch = math.prod(map(padded, dot.batch_of(left, right)))
    tiles = (math.prod(left.padded), left.dtype), (math.prod(right.padded), right.dtype), (batch * rows * columns, work)
    held = max(cells * max(dtype.get_byte(), _REGISTER) for cells, dtype in tiles)
    return held > _REGISTERS or (dot.native_dtype(left.dtype, right.dtype, work) is FP32 and batch * rows * inner * columns >= _WRITTEN_OUT)


# operands ---------------------------------------------------------------------------------------------------------------


def stays_in_memory(body: Body, op: d.LoadOp | d.ApplyOp) -> bool:
    """Whether a tile is needed by such products only, turned perhaps, and nothing changes the memory that it comes from before they read it."""
    return body.strand is None and _is_read_late(op)


def _is_read_late(op: d.LoadOp | d.ApplyOp) -> bool:
    uses = [(use.operation, use.index) for use in op.results[0].uses]
    return bool(uses) and all(user.parent is op.parent and _takes(user, op.results[0]) and _only_reads(op, user) for user, _ in uses)


def _takes(user: Operation, value: SSAValue) -> bool:
    if not isinstance(user, d.ApplyOp):
        return False
    if user.op == "move" or ops.facts(user.op).swaps:
        return _is_read_late(user)
    return suits(user) and not any(given is value for name, given in apply_args(user).items() if name not in _SIDES)


def _only_reads(first: Operation, last: Operation) -> bool:
    return all(isinstance(op, _READ_ONLY) for op in between(first, last))


def window(body: Body, buffer: Buffer, starts: Sequence[Scalar], sizes: Sequence[Scalar], good: str | None) -> Buffer:
    """What a load would read, left where it is: its extents are those of the valid region."""
    offset = numbers.add(buffer.offset, numbers.total(numbers.mul(start, dim.stride) for start, dim in zip(starts, buffer.dims, strict=True)))
    kept = buffer.dims[buffer.rank - len(sizes) :]
    dims = tuple(Dim(size, dim.stride) for size, dim in zip(sizes, kept, strict=True))
    return replace(buffer, offset=body.named("start", offset), dims=dims, good=buffer.guarded(good))


def operand(body: Body, value: SSAValue) -> tuple[Tile, Buffer]:
    """An operand in memory, through scratch where it is in registers; and a tile without text that says what is known of it."""
    found = body[value]
    if not isinstance(found, Buffer):
        tile = body.tile(value)
        return replace(tile, text=""), body.spill(tile)
    type = d.shaped_type(value)
    valid = tuple(index(extent) if isinstance(extent, int) else size for extent, size in zip(type.valid, found.shape, strict=True))
    return Tile("", found.dtype, tuple(int(extent) for extent in type.shape), valid), found


def matrix(buffer: Buffer, row: bool, transposed: bool) -> Buffer:
    """A vector as a matrix of one row or column; a matrix turned, if it shall be."""
    one = Dim(index(1), index(0))
    if buffer.rank == 1:
        buffer = replace(buffer, dims=(one, *buffer.dims) if row else (*buffer.dims, one))
    return gemm.turned(buffer) if transposed else buffer


# the product ------------------------------------------------------------------------------------------------------------


def multiplied(body: Body, both: dot.Operands, sides: tuple[Buffer, Buffer], acc: str | None) -> str:
    """The text of the product of two operands in memory, plus `acc`."""
    left, right, work = both.left, both.right, both.work
    rows, columns, inner = left.valid[-2], right.valid[-1], numbers.minimum(left.valid[-1], right.valid[-2])
    chosen = chunks_of(left.padded[-2], right.padded[-1], dot.native_dtype(left.dtype, right.dtype, work))
    batch, batch_valid = dot.batch_of(left, right), dot.batch_valid(left, right)
    for side in sides:
        body.order.before_load(body.out, side.root)
    before = set(body.order.read)
    # what tiles hold is summed up in FP32, also numbers of 8 bits
    product = gemm.Product(*sides, rows, columns, inner, work, to_integers=True)
    if not batch and (chosen.rows, chosen.columns) == (left.padded[-2], right.padded[-1]):
        text = gemm.accumulate(body, product, chosen, index(0), index(0), False).text
    else:
        shape = (*batch, left.shape[-2], right.shape[-1])
        place = memory.scratch_buffer(body.out, shape, work)
        body.order.barrier(body.out)
        before = {side.root for side in sides}
        steps = [*((size, 1) for size in batch_valid), (rows, chosen.rows), (columns, chosen.columns)]
        with ExitStack() as loops:
            *at, row, column = (_loop(body, loops, size, step) for size, step in steps)
            of_batch = replace(product, left=_at(sides[0], at, left.shape), right=_at(sides[1], at, right.shape))
            tile = gemm.accumulate(body, of_batch, chosen, row, column, False)
            body.store_tile(tile, _at(place, at, shape), (row, column))
        text = body.load_tile(place, [index(0)] * len(shape), shape, (*batch_valid, rows, columns), "product").text
    body.order.read |= before
    return text if acc is None else f"({acc} + {text})"


def _loop(body: Body, loops: ExitStack, size: Scalar, step: int) -> Scalar:
    """A loop around what follows, unless it has one turn: where it stands."""
    if isinstance(size.const, int) and size.const <= step:
        return index(0)
    at = body.out.fresh("at")
    loops.enter_context(body.out.block(f"for {at} in range(0, {size.text}, {step}):"))
    return Scalar(at, INDEX, size.bounds and (0, max(size.bounds[1] - 1, 0)))


def _at(side: Buffer, batch: Sequence[Scalar], shape: Sequence[int]) -> Buffer:
    """The matrix of one batch; an extent of 1 broadcasts."""
    lead = side.dims[:-2]
    at = batch[len(batch) - len(lead) :]
    moved = (numbers.mul(place, dim.stride) for place, dim, extent in zip(at, lead, shape, strict=False) if extent != 1)
    return replace(side, offset=numbers.total([side.offset, *moved]), dims=side.dims[-2:])
