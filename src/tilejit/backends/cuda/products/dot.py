"""Products of register tiles: `tl.dot` where the tensor cores can, sums of products elsewhere."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from xdsl.ir import SSAValue

from tilejit.backends.cuda.program import memory
from tilejit.backends.cuda.program.body import Body
from tilejit.backends.cuda.program.masks import as_bytes
from tilejit.backends.cuda.program.rows import result_dtype
from tilejit.backends.cuda.text import elementwise, numbers
from tilejit.backends.cuda.text.library import PARTS
from tilejit.backends.cuda.text.types import DECODED, padded, register
from tilejit.backends.cuda.text.values import Buffer, Scalar, Tile, Value, index
from tilejit.dtypes import BF16, FP8E8M0, FP16, FP32, FP64, INT8, INT32, INT64, DType
from tilejit.runtime.call.failures import Failure
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.arguments import value_of
from tilejit.tile_ir.build import apply_args
from tilejit.types.values import ShapedType

LEAST_K = {INT8: 32}
"""The shortest inner extent that `tl.dot` takes, 16 unless said here."""


_LARGE = 96 << 10
"""Bytes of two operands that fit into the shared memory of every GPU; more of them are multiplied in as many parts as it takes."""


@dataclass(frozen=True)
class Operands:
    """Both sides of a product as [batch…, M, K] and [batch…, K, N]."""

    left: Tile
    right: Tile
    work: DType


def product(body: Body, op: d.ApplyOp) -> Sequence[Value]:
    """A row of the matmul family."""
    from tilejit.backends.cuda.products import chunks

    args, dtype = apply_args(op), result_dtype(op)
    sides, large = _sides(body, op)
    left, right = matrices(sides, args)
    type = d.shaped_type(op.results[0])
    _check_cover(body, op, left, right)
    both = Operands(left, right, work_dtype(left.dtype, right.dtype, dtype))
    both = both if large else prepared(body, both)
    outer = [*([left.valid[-2]] if sides[0].rank > 1 else []), *([right.valid[-1]] if sides[1].rank > 1 else [])]
    valid = [*batch_valid(left, right), *outer] or [index(1)]
    before: str | None = None
    if isinstance(args.get("acc"), SSAValue):
        acc = _tile(body, args["acc"])
        before, valid = _before(body, acc, args.get("init_cond")), list(acc.valid)
    text = chunks.multiplied(body, both, large, before) if large else multiplied(body, both, before)
    if isinstance(args.get("bias"), SSAValue):
        bias = _tile(body, args["bias"])
        text = f"({text} + {bias.text})"
    made = elementwise.convert(body.out, f"({text})", both.work, dtype) if dtype is not both.work else text
    shape = tuple(extent for extent in type.shape if isinstance(extent, int))
    full_shape = (*batch_of(left, right), left.shape[-2], right.shape[-1])
    if full_shape != shape:
        made = f"tl.reshape({made}, {_text(tuple(padded(extent) for extent in shape))})"
    return [Tile(elementwise.held(body.out, made, dtype), dtype, shape, body.valid_of(op, 0, lambda axis: valid[axis]))]


def _sides(body: Body, op: d.ApplyOp) -> tuple[list[Tile], tuple[Buffer, Buffer] | None]:
    """Both operands in registers; or, where they are too large for those, what is known of them, and where they lie as matrices."""
    from tilejit.backends.cuda.products import chunks

    args = apply_args(op)
    if not chunks.suits(op):
        return [_tile(body, args[name]) for name in ("lhs", "rhs")], None
    (left, near), (right, far) = (chunks.operand(body, value_of(args[name])) for name in ("lhs", "rhs"))
    return [left, right], (chunks.matrix(near, True, bool(args.get("a_trans"))), chunks.matrix(far, False, bool(args.get("b_trans"))))


def matrices(sides: Sequence[Tile], args: Mapping[str, object]) -> tuple[Tile, Tile]:
    """Both operands as matrices, turned as they shall be."""
    left, right = sides
    return _turned(_matrix(left, row=True), bool(args.get("a_trans"))), _turned(_matrix(right, row=False), bool(args.get("b_trans")))


def _before(body: Body, acc: Tile, condition: object) -> str | None:
    """What the product is added to; None: nothing."""
    flag = body.scalar(condition) if isinstance(condition, SSAValue) else None
    if flag is None:
        return acc.text
    if flag.const is not None:
        return None if flag.const else acc.text
    return body.out.let("acc", f"tl.where({body.text(flag)}, 0, {acc.text}).to({register(acc.dtype)})")


def batch_valid(left: Tile, right: Tile) -> list[Scalar]:
    """Batches that are valid in both operands; an extent of 1 broadcasts."""
    rank = max(left.rank, right.rank) - 2
    one, found = (1, index(1)), list[Scalar]()
    for axis in range(rank):
        (a, first), (b, second) = (one if (at := axis - rank + side.rank - 2) < 0 else (side.shape[at], side.valid[at]) for side in (left, right))
        found.append(second if a == 1 else first if b == 1 else numbers.minimum(first, second))
    return found


def _tile(body: Body, value: object) -> Tile:
    assert isinstance(value, SSAValue)
    return as_bytes(body, body.tile(value))


def _matrix(tile: Tile, row: bool) -> Tile:
    """A vector as a matrix of one row or column."""
    if tile.rank > 1:
        return tile
    if row:
        return Tile(f"{tile.text}[None, :]", tile.dtype, (1, *tile.shape), (index(1), *tile.valid), tile.zeros)
    return Tile(f"{tile.text}[:, None]", tile.dtype, (*tile.shape, 1), (*tile.valid, index(1)), tile.zeros)


def _turned(tile: Tile, transposed: bool) -> Tile:
    if not transposed:
        return tile
    axes = (*range(tile.rank - 2), tile.rank - 1, tile.rank - 2)
    text = f"tl.trans({tile.text})" if tile.rank == 2 else f"tl.permute({tile.text}, {axes})"
    return Tile(text, tile.dtype, tuple(tile.shape[axis] for axis in axes), tuple(tile.valid[axis] for axis in axes), tile.zeros)


def work_dtype(left: DType, right: DType, result: DType) -> DType:
    """What a product is computed in."""
    if left.is_float or right.is_float:
        return FP64 if FP64 in (left, right, result) else FP32
    return INT64 if max(left.bits, right.bits) == 64 else INT32


def _check_cover(body: Body, op: d.ApplyOp, left: Tile, right: Tile) -> None:
    needed, there = left.valid[-1], right.valid[-2]
    if numbers.same(needed, there) or (needed.bounds and there.bounds and there.bounds[0] >= needed.bounds[1]):
        return
    failure = Failure("shape", f"{op.op} contracts over {{0}} valid columns of `lhs`, of which `rhs` covers {{1}}", op.span)
    body.failures.report(body.out, numbers.at_least(there, needed), failure, (needed, there))


def prepared(body: Body, both: Operands) -> Operands:
    """Cells past the inner extent are 0 on both sides: what lies there may be NaN."""
    left, right = both.left, both.right
    inner = left.valid[-1]
    clean = left.zeros and right.zeros and numbers.same(inner, right.valid[-2])
    if inner.const != left.padded[-1] and not clean:
        steps = body.out.arange(left.padded[-1])
        near = memory.spread(f"({steps} < {inner.text})", left.rank - 1, left.rank)
        far = memory.spread(f"({steps} < {inner.text})", right.rank - 2, right.rank)
        left = replace(left, text=body.out.let("a", f"tl.where({near}, {left.text}, 0).to({register(left.dtype)})"))
        right = replace(right, text=body.out.let("b", f"tl.where({far}, {right.text}, 0).to({register(right.dtype)})"))
    return Operands(left, right, both.work)


def multiplied(body: Body, both: Operands, acc: str | None, precision: str = "ieee") -> str:
    """The text of the product, plus `acc`."""
    left, right, work = both.left, both.right, both.work
    batch = batch_of(left, right)
    native = native_dtype(left.dtype, right.dtype, work)
    if native is None:
        return _summed(body, left, right, work, acc)
    k = left.padded[-1]
    if k < LEAST_K.get(native, 16):
        return _summed(body, left, right, work, acc)
    if body.interpreted and native is BF16:
        native = FP32
    texts = [_as(body, side, native) for side in (left, right)]
    if batch:
        lead = math.prod(padded(extent) for extent in batch)
        texts = [_folded(text, side, batch, lead) for text, side in zip(texts, (left, right), strict=True)]
    options = f', input_precision="{precision}"' if native is FP32 else ", out_dtype=tl.int32" if native is INT8 else ""
    sizes = (*(padded(extent) for extent in batch), left.padded[-2], right.padded[-1])
    if not batch and (sizes[0] + sizes[1]) * k * native.get_byte() > _LARGE and k >= 8 * LEAST_K.get(native, 16):
        before = acc or f"tl.zeros({_text(sizes)}, {register(work)})"
        return f'{body.out.helper("dot_in_parts")}({texts[0]}, {texts[1]}, {before}, {PARTS}, "{precision}")'
    if acc is not None and not batch:
        return f"tl.dot({texts[0]}, {texts[1]}, {acc}{options})"
    text = f"tl.dot({texts[0]}, {texts[1]}{options})"
    if batch:
        text = f"tl.reshape({text}, {_text(sizes)})"
    return text if acc is None else f"({acc} + {text})"


def native_dtype(left: DType, right: DType, work: DType) -> DType | None:
    """What tensor cores multiply two operands in, without loss; None: they do not."""
    if work is FP64:
        return None
    if left is right and left in (FP16, BF16, FP32, INT8):
        return left
    if work is not FP32:
        return None
    if {left, right} <= {FP16, *DECODED} and FP8E8M0 not in (left, right):
        return FP16
    short = next((dtype for dtype in (left, right) if dtype in (FP16, BF16)), None)  # both hold every whole number of 8 bits
    return short if short and any(dtype.is_integer and dtype.bits <= 8 for dtype in (left, right)) else FP32


def _as(body: Body, tile: Tile, dtype: DType) -> str:
    if tile.dtype is dtype:
        return tile.text
    wide = elementwise.convert(body.out, tile.text, tile.dtype, FP64 if dtype is FP64 else FP32)
    return wide if dtype in (FP32, FP64) else f"({wide}).to({register(dtype)})"


def batch_of(left: Tile, right: Tile) -> tuple[int, ...]:
    rank = max(left.rank, right.rank) - 2
    sides = [(1,) * (rank - (tile.rank - 2)) + tile.shape[:-2] for tile in (left, right)]
    return tuple(max(pair) for pair in zip(*sides, strict=True))


def _folded(text: str, tile: Tile, batch: Sequence[int], lead: int) -> str:
    """An operand with all its batches in one leading dim."""
    missing = len(batch) - (tile.rank - 2)
    if missing:
        text = f"{text}[{', '.join(['None'] * missing + [':'] * tile.rank)}]"
    sizes = (*(padded(extent) for extent in batch), *tile.padded[-2:])
    return f"tl.reshape(tl.broadcast_to({text}, {_text(sizes)}), {_text((lead, *tile.padded[-2:]))})"


def _summed(body: Body, left: Tile, right: Tile, work: DType, acc: str | None) -> str:
    """Products summed up in registers: [..., M, K, 1] * [..., 1, K, N]."""
    texts = [elementwise.convert(body.out, side.text, side.dtype, work) for side in (left, right)]
    rank = max(left.rank, right.rank)
    for place, side in enumerate((left, right)):
        if side.rank < rank:
            texts[place] = f"({texts[place]})[{', '.join(['None'] * (rank - side.rank) + [':'] * side.rank)}]"
    cells = math.prod(padded(extent) for extent in batch_of(left, right)) * left.padded[-2] * left.padded[-1] * right.padded[-1]
    if cells <= 1 << 18:
        # Triton makes a product in TF32 of a bare sum of products: the zero keeps it from seeing one.
        zero = " + 0.0" if work is FP32 else ""
        text = f"tl.sum(tl.expand_dims({texts[0]}, {rank}) * tl.expand_dims({texts[1]}, {rank - 2}){zero}, {rank - 1})"
        text = text if work is FP32 else f"{text}.to({register(work)})"
        return text if acc is None else f"({acc} + {text})"
    return _by_column(body, texts, left, right, work, acc)


def _by_column(body: Body, texts: Sequence[str], left: Tile, right: Tile, work: DType, acc: str | None) -> str:
    """One outer product after the other, where all of them at once do not fit."""
    first, second = (body.out.let(name, text) for name, text in zip(("a", "b"), texts, strict=True))
    batch = tuple(padded(extent) for extent in batch_of(left, right))
    sizes = (*batch, left.padded[-2], right.padded[-1])
    rank = len(sizes)
    total, k = body.out.fresh("total"), body.out.fresh("k")
    body.out.line(f"{total} = tl.zeros({_text(sizes)}, {register(work)})" if acc is None else f"{total} = {acc}")
    steps = body.out.arange(left.padded[-1])
    with body.out.block(f"for {k} in range({left.padded[-1]}):"):
        hit = f"({steps} == {k})"
        column = f"tl.sum(tl.where({memory.spread(hit, rank - 1, rank)}, {first}, 0), {rank - 1}, keep_dims=True)"
        row = f"tl.sum(tl.where({memory.spread(hit, rank - 2, rank)}, {second}, 0), {rank - 2}, keep_dims=True)"
        body.out.line(f"{total} += ({column} * {row}).to({register(work)})")
    return total


def _text(sizes: Sequence[int]) -> str:
    return f"({', '.join(map(str, sizes))},)"


# block-scaled products --------------------------------------------------------------------------------------------------


def scaled(body: Body, op: d.ApplyOp) -> Sequence[Value]:
    """Products of narrow floats with one power of two per 32 of them: scaled in FP32 first."""
    from tilejit.backends.cuda.products import chunks

    args, type = apply_args(op), d.type_of(op.results[0])
    assert isinstance(type, ShapedType)
    sides: list[Tile] = []
    for name, axis in (("lhs", 1), ("rhs", 0)):
        data, scale = _tile(body, args[name]), _tile(body, args[f"{name}_scale"])
        wide = elementwise.widen(body.out, data.text, data.dtype)
        factor = elementwise.widen(body.out, scale.text, scale.dtype)
        sizes = (*scale.padded[: axis + 1], data.padded[axis] // scale.padded[axis], *scale.padded[axis + 1 :])
        spread = f"tl.broadcast_to(tl.expand_dims({factor}, {axis + 1}), {_text(sizes)})"
        text = body.out.let(name, f"{wide} * tl.reshape({spread}, {_text(data.padded)})")
        sides.append(Tile(text, FP32, data.shape, data.valid))
    both = Operands(sides[0], sides[1], FP32)
    acc = _tile(body, args["acc"]).text if isinstance(args.get("acc"), SSAValue) else None
    if chunks.too_large(both):
        text = chunks.multiplied(body, both, (body.spill(sides[0]), body.spill(sides[1])), acc)
    else:
        text = multiplied(body, prepared(body, both), acc)
    if isinstance(args.get("bias"), SSAValue):
        text = f"({text} + {_tile(body, args['bias']).text})"
    shape = tuple(extent for extent in type.shape if isinstance(extent, int))
    return [Tile(text, FP32, shape, tuple(index(extent) for extent in shape))]
