"""Rules of cell-by-cell ops, expands, reductions and part ops on register tiles; each works on whatever block its operands are."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Block, SSAValue

from tilejit import ops
from tilejit.backends.cuda.program import memory
from tilejit.backends.cuda.program.body import Body, block_shape
from tilejit.backends.cuda.program.masks import as_bytes, as_flags, common_valid
from tilejit.backends.cuda.text import elementwise, numbers
from tilejit.backends.cuda.text.types import computed_in, padded, register
from tilejit.backends.cuda.text.values import Buffer, Scalar, Tile, Value, index
from tilejit.dtypes import BF16, BOOL, FP16, INT32, DType, integer_range, promote
from tilejit.ops.elementwise import compute_dtype
from tilejit.ops.expand import must_cover
from tilejit.ops.reduce import NOTHING_HELP, reduced_axis
from tilejit.runtime.call.failures import Failure
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.arguments import value_of
from tilejit.tile_ir.build import apply_args
from tilejit.types.values import broadcast


def operand(body: Body, value: SSAValue) -> Scalar | Tile:
    """An operand in registers; masks as the bytes that the program sees."""
    found = body[value]
    if isinstance(found, Buffer):
        found = body.tile(value)
    assert isinstance(found, Scalar | Tile)
    return as_bytes(body, found) if isinstance(found, Tile) else found


def result_dtype(op: d.ApplyOp, number: int = 0) -> DType:
    return d.shaped_type(op.results[number]).dtype


def cellwise(body: Body, op: d.ApplyOp) -> Sequence[Value]:
    """A row of the elementwise family."""
    row, args = ops.table()[op.op], apply_args(op)
    dtype = result_dtype(op)
    given: dict[str, Scalar | Tile] = {}
    for name in row.operands:
        value = args.get(name)
        if not isinstance(value, SSAValue):
            continue
        found = body[value]
        flags = name == "condition" and isinstance(found, Tile) and found.bits
        given[name] = found if flags and isinstance(found, Tile) else operand(body, value)
    tiles = [value for value in given.values() if isinstance(value, Tile)]
    shape = broadcast([tile.shape for tile in tiles])
    if op.op == "cast":
        (source,) = tiles
        text, _ = elementwise.cast(body.out, source.text, source.dtype, args)
        return [Tile(text, dtype, shape, body.valid_of(op, 0, lambda axis: source.valid[axis]), zeros=False)]
    dtypes = {name: value.dtype for name, value in given.items()}
    texts: list[str] = []
    common = dtype
    for name, value in given.items():
        target = compute_dtype(row, name, dtypes, dtype)
        if name == "condition":
            texts.append(condition(body, value, len(shape), shape[-1]))
            continue
        common = target
        texts.append(body.operand_text(value, target, len(shape)))
    if body.units and op in body.units.exponentials:
        text = f"tl.exp2({texts[0]})"
    else:
        text = elementwise.apply(body.out, row, computed_in(common), texts, args)
    if op.op == "cmp":
        text = elementwise.convert(body.out, text, BOOL, dtype) if dtype is not BOOL else text
    valid = common_valid(shape, tiles)
    text = elementwise.held(body.out, text, dtype)
    if any(tile.padded != tuple(padded(extent) for extent in shape) for tile in tiles) and len(tiles) == 1:
        text = f"tl.broadcast_to({text}, {block_shape(shape)})"
    return [Tile(text, dtype, shape, body.valid_of(op, 0, lambda axis: valid[axis]))]


def condition(body: Body, value: Scalar | Tile, rank: int, columns: int) -> str:
    if isinstance(value, Tile) and value.bits:
        return as_flags(body, value, columns)
    text = body.operand_text(value, value.dtype, rank)
    return text if value.dtype is BOOL else f"({text} != 0)"


# expands ----------------------------------------------------------------------------------------------------------------


def expand(body: Body, op: d.ApplyOp) -> Sequence[Value]:
    """A row or column vector spread over a tile."""
    from tilejit.backends.cuda.rules import FORMS

    row, args = ops.table()[op.op], apply_args(op)
    big, vector = operand(body, value_of(args["lhs"])), operand(body, value_of(args["rhs"]))
    assert isinstance(big, Tile) and isinstance(vector, Tile)
    dtype, combine = result_dtype(op), row.attrs["combine"]
    assert isinstance(combine, str)
    shape = broadcast([big.shape, vector.shape]) if combine != "copy" else big.shape
    along = vector.rank - (1 if row.attrs["axis"] == "row" else 2)
    both = big.valid
    if must_cover(op.op, d.shaped_type(op.results[0]).level):
        _check_cover(body, op, big, vector, along)
    else:
        both = common_valid(big.shape, [big, vector])
    right = body.operand_text(vector, dtype, big.rank)
    if vector.shape[along] != 1 and row.attrs["axis"] == "row":
        right = repeated(right, vector.padded, padded(big.shape[-1]))
    valid = body.valid_of(op, 0, lambda axis: both[axis])
    if combine == "copy":
        return [Tile(f"tl.broadcast_to({elementwise.held(body.out, right, dtype)}, {block_shape(shape)})", dtype, shape, valid)]
    left = body.operand_text(big, dtype, big.rank)
    compute = computed_in(promote(big.dtype, vector.dtype))
    form = FORMS[combine]
    if combine == "expdif" and only_rounded(body, op):
        form = elementwise.power_of_difference if body.units and op in body.units.exponentials else elementwise.fast_expdif
    text = form(body.out, compute, [left, right])
    if compute.is_integer and compute.bits < 32:
        text = f"{text}.to({register(compute)})"
    return [Tile(elementwise.held(body.out, text, dtype), dtype, shape, valid)]


def short_exponentials(body: Body, block: Block) -> list[d.ApplyOp]:
    """The exponentials of differences in a block that need not be exact to the last bit of FP32."""
    found = [op for op in block.walk() if isinstance(op, d.ApplyOp) and ops.table()[op.op].family == "expand"]
    return [op for op in found if ops.table()[op.op].attrs["combine"] == "expdif" and only_rounded(body, op)]


def only_rounded(body: Body, op: d.ApplyOp) -> bool:
    """Whether a result is only summed up, or rounded to 16 bits: then the shorter exponential is as good."""
    users = [use.operation for use in op.results[0].uses]
    return body.options.fast_math and any(_rounds(user) for user in users) and all(_rounds(user) or _sums(user) for user in users)


def _rounds(user: object) -> bool:
    return isinstance(user, d.ApplyOp) and user.op == "cast" and d.shaped_type(user.results[0]).dtype in (FP16, BF16)


def _sums(user: object) -> bool:
    return isinstance(user, d.ApplyOp) and ops.table()[user.op].family == "reduction" and ops.table()[user.op].attrs["combine"] == "sum"


def _check_cover(body: Body, op: d.ApplyOp, big: Tile, vector: Tile, along: int) -> None:
    lead = big.rank - vector.rank
    for axis, (needed, there) in enumerate(zip(big.valid[lead:], vector.valid, strict=True)):
        if axis == along or vector.shape[axis] == 1 or numbers.same(needed, there) or (there.bounds and needed.bounds and there.bounds[0] >= needed.bounds[1]):
            continue
        failure = Failure("shape", f"{op.op}: the vector is valid for {{0}} of {{1}} in dim {lead + axis}", op.span)
        body.failures.report(body.out, numbers.at_least(there, needed), failure, (there, needed))


def repeated(text: str, sizes: Sequence[int], columns: int) -> str:
    """A block of columns repeated along each row."""
    rows, own = sizes[0], sizes[-1]
    if own >= columns:
        return text
    return f"tl.reshape(tl.broadcast_to(tl.expand_dims({text}, 1), ({rows}, {columns // own}, {own})), ({rows}, {columns}))"


def expand_clone(body: Body, op: d.ApplyOp) -> Sequence[Value]:
    args = apply_args(op)
    source, target = operand(body, value_of(args["src"])), value_of(args["target"])
    assert isinstance(source, Tile)
    found = body[target]
    like = found.shape if isinstance(found, Tile) else tuple(int(extent.const or 0) for extent in found.shape) if isinstance(found, Buffer) else ()
    valid = found.valid if isinstance(found, Tile) else tuple(index(extent) for extent in like)
    both = common_valid(like, [source, Tile("", source.dtype, like, valid)])
    lead = len(like) - source.rank
    text = f"{source.text}[{', '.join(['None'] * lead + [':'] * source.rank)}]" if lead else source.text
    if source.shape != like:
        text = f"tl.broadcast_to({text}, {block_shape(like)})"
    return [Tile(text, source.dtype, like, body.valid_of(op, 0, lambda axis: both[axis]))]


def expands(body: Body, op: d.ApplyOp) -> Sequence[Value]:
    args = apply_args(op)
    found, value = body[value_of(args["target"])], body.scalar(value_of(args["scalar"]))
    like = found.shape if isinstance(found, Tile) else tuple(int(extent.const or 0) for extent in found.shape) if isinstance(found, Buffer) else ()
    valid = found.valid if isinstance(found, Tile) else tuple(index(extent) for extent in like)
    return [filled(body, like, result_dtype(op), value, valid)]


def filled(body: Body, shape: tuple[int, ...], dtype: DType, value: Scalar, valid: Sequence[Scalar]) -> Tile:
    text = elementwise.held(body.out, body.scalar_text(value, dtype), dtype) if dtype.is_float and dtype.bits < 16 else body.scalar_text(value, dtype)
    return Tile(f"tl.full({block_shape(shape)}, {text}, {register(dtype)})", dtype, shape, tuple(valid), zeros=False)


# reductions -------------------------------------------------------------------------------------------------------------

_COMBINE = {"prod": "product", "max": "max_nan", "min": "min_nan"}


def neutral(combine: str, dtype: DType) -> str:
    """The element that changes nothing, in the type it is computed in."""
    if combine in ("sum", "prod"):
        number = 0 if combine == "sum" else 1
        return f"{number}.0" if dtype.is_float else str(number)
    low = combine in ("max", "argmax")
    if dtype.is_float:
        return 'float("-inf")' if low else 'float("inf")'
    return elementwise.constant(integer_range(dtype)[0 if low else 1], dtype)


def reduction(body: Body, op: d.ApplyOp) -> Sequence[Value]:
    row, args = ops.table()[op.op], apply_args(op)
    source = operand(body, value_of(args["input"]))
    assert isinstance(source, Tile)
    direction, combine = row.attrs["axis"], row.attrs["combine"]
    assert isinstance(direction, str) and isinstance(combine, str)
    axis = reduced_axis(direction, d.shaped_type(op.args[0]).level, source.rank)
    return [reduce_tile(body, op, source, axis, combine, result_dtype(op))]


def reduce_tile(body: Body, op: d.ApplyOp, source: Tile, axis: int, combine: str, dtype: DType) -> Tile:
    """One axis of a tile folded to extent 1; only valid cells take part."""
    size = source.valid[axis]
    if combine not in ("sum", "prod") and (size.bounds is None or size.bounds[0] <= 0):
        failure = Failure("shape", f"{op.op} of nothing: dim {axis} has extent 0", op.span, NOTHING_HELP)
        others = " | ".join(
            [
                f"({size.text} > 0)",
                *(f"({other.text} == 0)" for i, other in enumerate(source.valid) if i != axis and (other.bounds is None or other.bounds[0] <= 0)),
            ]
        )
        body.failures.report(body.out, others, failure)
    text = elementwise.widen(body.out, source.text, source.dtype)
    compute = computed_in(source.dtype)
    steps = body.out.arange(padded(source.shape[axis]))
    whole = size.const == padded(source.shape[axis])
    inside = memory.spread(f"({steps} < {size.text})", axis, source.rank)
    if not whole and not (combine == "sum" and source.zeros):
        text = f"tl.where({inside}, {text}, {neutral(combine, compute)})"
        text = text if compute.is_float else f"{text}.to({register(compute)})"
    shape = (*source.shape[:axis], 1, *source.shape[axis + 1 :])
    valid = (*source.valid[:axis], index(1), *source.valid[axis + 1 :])
    if combine.startswith("arg"):
        places = memory.spread(steps if whole else f"tl.where({steps} < {size.text}, {steps}, 2147483647)", axis, source.rank)
        pair = f"({text}, tl.broadcast_to({places}, {block_shape(source.shape)}))"
        values, found = body.out.fresh("top"), body.out.fresh("place")
        body.out.line(f"{values}, {found} = tl.reduce({pair}, {axis}, {body.out.helper(combine + '_nan')}, keep_dims=True)")
        return Tile(found, INT32, shape, valid)
    return Tile(elementwise.held(body.out, fold(body, text, axis, combine, compute), dtype), dtype, shape, valid)


def fold(body: Body, text: str, axis: int, combine: str, compute: DType) -> str:
    if combine == "sum":
        wide = text if compute.is_float or compute.bits >= 32 else f"{text}.to(tl.int32)"
        out = f"tl.sum({wide}, {axis}, keep_dims=True)"
    elif combine in ("max", "min") and not compute.is_float:
        out = f"tl.{combine}({text}, {axis}, keep_dims=True)"
    else:
        out = f"tl.reduce({text}, {axis}, {body.out.helper(_COMBINE[combine])}, keep_dims=True)"
    return out if compute.is_float else f"{out}.to({register(compute)})"


# part ops ---------------------------------------------------------------------------------------------------------------


def part(body: Body, op: d.ApplyOp) -> Sequence[Value]:
    """Combined where both operands are valid, the first one elsewhere."""
    from tilejit.backends.cuda.rules import FORMS

    args, dtype = apply_args(op), result_dtype(op)
    left, right = operand(body, value_of(args["lhs"])), operand(body, value_of(args["rhs"]))
    assert isinstance(left, Tile) and isinstance(right, Tile)
    combine = ops.table()[op.op].attrs["combine"]
    texts = [body.operand_text(side, dtype, left.rank) for side in (left, right)]
    both = FORMS[combine](body.out, computed_in(dtype), texts)
    if dtype.is_integer and dtype.bits < 32:
        both = f"{both}.to({register(dtype)})"
    where = memory.mask(body.out, right.shape, right.valid)
    text = both if where is None else f"tl.where({where}, {both}, {texts[0]})"
    return [Tile(elementwise.held(body.out, text, dtype), dtype, left.shape, body.valid_of(op, 0, lambda axis: left.valid[axis]))]
