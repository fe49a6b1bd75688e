"""Tiles that loops with products read, through tensor descriptors: the GPU's copy engine computes their addresses, not its threads."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from tilejit import ops
from tilejit.backends.cuda.products import specialise
from tilejit.backends.cuda.program import memory
from tilejit.backends.cuda.program.body import Body
from tilejit.backends.cuda.text import numbers
from tilejit.backends.cuda.text.types import register
from tilejit.backends.cuda.text.values import Buffer, Scalar, Tile, full, index
from tilejit.tile_ir import dialect as d

_ALIGNED = 16
"""Bytes that rows must be a multiple of, and have at least."""
_MOST = 256
"""Cells of a tile along one dim."""
_TYPES = ("tl.float16", "tl.bfloat16", "tl.float32")


def suits(op: d.LoadOp, buffer: Buffer, starts: Sequence[Scalar], shape: Sequence[int]) -> bool:
    """Whether a window that surely lies inside its buffer can be had from a descriptor, and is worth one.

    It pays where threads have other work beside a product, as between the two of attention; a lone product of 16 bits in a loop is faster with addresses."""
    return register(buffer.dtype) in _TYPES and describes(buffer, shape) and all(map(_narrow, starts)) and _feeds_products(op)


def describes(buffer: Buffer, shape: Sequence[int]) -> bool:
    """Whether a buffer can be described, in tiles of this shape."""
    if len(shape) != 2 or buffer.scratch or buffer.good is not None or buffer.offset.const != 0:
        return False
    *lead, rows, columns = buffer.dims
    size = buffer.dtype.get_byte()
    if columns.stride.const != 1 or not isinstance(rows.stride.const, int) or rows.stride.const * size % _ALIGNED:
        return False
    if any(extent & (extent - 1) or extent > _MOST for extent in shape) or shape[1] * size < _ALIGNED:
        return False
    nested = all(numbers.same(dim.stride, numbers.mul(after.stride, after.extent)) for dim, after in zip(lead, buffer.dims[1:], strict=False))
    return nested and all(map(_narrow, buffer.shape))


def _narrow(value: Scalar) -> bool:
    return value.narrow


def _feeds_products(op: d.LoadOp) -> bool:
    """Whether a loop has several products, and uses the tile for nothing else; or the tile is what all of them share."""
    if specialise.left_of(op):
        return True
    loop = op.parent_op()
    if not isinstance(loop, d.ForOp):
        return False
    products = [inner for inner in loop.body.block.ops if isinstance(inner, d.ApplyOp) and ops.table()[inner.op].family == "matmul"]
    return len(products) > 1 and _only_in(op.result, products)


def _only_in(value: SSAValue, products: Sequence[d.ApplyOp]) -> bool:
    """Whether all uses of a tile are products, perhaps transposed."""
    users = [use.operation for use in value.uses]
    return bool(users) and all(
        user in products or (isinstance(user, d.ApplyOp) and ops.table()[user.op].facts.swaps and _only_in(user.results[0], products)) for user in users
    )


def load(body: Body, op: d.LoadOp, buffer: Buffer, starts: Sequence[Scalar], shape: tuple[int, ...]) -> Tile:
    """The tile, by a descriptor where the compiled variant has them."""
    body.order.before_load(body.out, buffer.root)
    text = copied(body, buffer, starts, shape, in_loop=isinstance(op.parent_op(), d.ForOp))
    return Tile(body.out.let(op.hint, text), buffer.dtype, shape, full(shape), zeros=True)


def copied(body: Body, buffer: Buffer, starts: Sequence[Scalar], shape: Sequence[int], in_loop: bool) -> str:
    """The text of a tile that lies inside its buffer."""
    *lead, last = buffer.dims
    row, height = index(0), index(1)
    for dim, start in zip(lead, starts[:-1], strict=True):
        row, height = numbers.add(numbers.mul(row, dim.extent), start), numbers.mul(height, dim.extent)
    made = f"tl.make_tensor_descriptor({buffer.pointer}, [{height.text}, {last.extent.text}], [{lead[-1].stride.text}, 1], [{shape[0]}, {shape[1]}])"
    tiles = body.out.once(f"{buffer.pointer}_tiles", made)
    if in_loop:
        body.out.copied += shape[0] * shape[1] * buffer.dtype.get_byte()
    pointers = memory.tile_pointers(body.out, buffer, starts, shape)
    return f"{body.out.helper('copied')}({tiles}, {pointers}, {row.text}, {starts[-1].text})"
