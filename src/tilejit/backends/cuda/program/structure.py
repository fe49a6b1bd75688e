"""Rules of the structural ops inside a program: constants, loads and stores, calls and checks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xdsl.ir import SSAValue

from tilejit import ops
from tilejit.backends import checks
from tilejit.backends.cuda.products import chunks, descriptors
from tilejit.backends.cuda.program import memory
from tilejit.backends.cuda.program.body import Body
from tilejit.backends.cuda.program.buffers import box
from tilejit.backends.cuda.text import numbers
from tilejit.backends.cuda.text.values import Buffer, Scalar, Tile, Value, index
from tilejit.dtypes import BF16, BOOL, FP16, FP32, FP64, INDEX
from tilejit.errors import UnsupportedFeatureError
from tilejit.tile_ir import dialect as d
from tilejit.types.values import ScalarType

# numbers ----------------------------------------------------------------------------------------------------------------


def const(body: Body, op: d.ConstOp) -> Sequence[Value]:
    dtype, value = d.type_of(op.result).dtype, op.value
    if dtype is INDEX:
        return [index(int(value))]
    return [Scalar(repr(value), dtype, (value, value) if isinstance(value, int) and not isinstance(value, bool) else None, value)]


def extent(body: Body, op: d.AxisOp) -> Sequence[Value]:
    """Of a shape, or of a valid region."""
    source, axis = body[op.source], op.axis
    if isinstance(source, Buffer):
        return [source.shape[axis]]
    assert isinstance(source, Tile)
    return [index(source.shape[axis]) if isinstance(op, d.DimOp) else source.valid[axis]]


# loads and stores -------------------------------------------------------------------------------------------------------


def load(body: Body, op: d.LoadOp) -> Sequence[Value]:
    buffer, type = body.buffer(op.buffer), d.shaped_type(op.result)
    shape = tuple(extent for extent in type.shape if isinstance(extent, int))
    wanted = [numbers.clamp(body.index(size), index(0), index(extent)) for size, extent in zip(op.valid, shape, strict=True)]
    starts, sizes, good = box(
        body, op, buffer, [body.index(item) for item in op.offsets], [body.named("size", size) for size in wanted], bool(op.static("clamp"))
    )
    if good is None and tuple(size.const for size in sizes) == shape and descriptors.suits(op, buffer, starts, shape):
        return [descriptors.load(body, op, buffer, starts, shape)]
    valid = tuple(index(extent) if isinstance(extent, int) else size for extent, size in zip(type.valid, sizes, strict=True))
    if all(map(numbers.same, valid, sizes)) and chunks.stays_in_memory(body, op):
        return [chunks.window(body, buffer, starts, sizes, good)]
    return [replace(body.load_tile(buffer, starts, shape, sizes, op.hint, good), valid=valid)]


def store(body: Body, op: d.StoreOp) -> Sequence[Value]:
    buffer = body.buffer(op.buffer)
    value = body[op.value]
    offsets = [body.index(item) for item in op.offsets]
    if isinstance(value, Buffer):
        from tilejit.backends.cuda.nests.inside import copy_in_program

        return copy_in_program(body, op, value, buffer, offsets)
    assert isinstance(value, Tile)
    valid = value.valid
    if value.bits:
        from tilejit.backends.cuda.program.masks import as_bytes

        value = as_bytes(body, value)
        valid = value.valid
    sizes = [index(1)] * (buffer.rank - value.rank) + list(valid)
    starts, _, good = box(body, op, buffer, offsets, sizes, clamp=False)
    body.store_tile(value, buffer, starts, good, bool(op.static("atomic")))
    return []


def read(body: Body, op: d.ReadOp) -> Sequence[Value]:
    source, indices = body[op.source], [body.index(item) for item in op.indices]
    shape = source.shape if isinstance(source, Buffer) else tuple(index(extent) for extent in source.shape) if isinstance(source, Tile) else ()
    good = _cell(body, op, indices, shape)
    if isinstance(source, Buffer):
        body.order.before_load(body.out, source.root)
        pointer = memory.offsets_text(body.out, source, indices, [None] * source.rank, 0)
        text = memory.load_text(body.out, pointer, source.guarded(good), source.dtype)
    else:
        assert isinstance(source, Tile)
        text = pick(body, source, indices)
    dtype = source.dtype
    return [Scalar(body.out.let(op.hint or "cell", text), dtype, _fitting(dtype))]


def _fitting(dtype: object) -> None:
    return None


def _cell(body: Body, op: d.ReadOp | d.ElementWrite, indices: Sequence[Scalar], shape: Sequence[Scalar]) -> str | None:
    for axis, (item, extent) in enumerate(zip(indices, shape, strict=True)):
        inside = item.bounds is not None and item.bounds[0] >= 0 and extent.bounds is not None and item.bounds[1] < extent.bounds[0]
        if not inside:
            conditions = [f"({at.text} >= 0) & ({at.text} < {n.text})" for at, n in zip(indices, shape, strict=True)]
            return body.check(conditions, checks.element_failure(op, axis), (item, extent))
    return None


def pick(body: Body, tile: Tile, indices: Sequence[Scalar]) -> str:
    """One cell of a register tile: a sum of bit patterns, so that -0 and NaN come through."""
    from tilejit.backends.cuda.program.masks import as_bytes
    from tilejit.backends.cuda.text.types import register

    tile = as_bytes(body, tile)
    parts = [
        memory.spread(f"({body.out.arange(size)} == {at.text})", axis, tile.rank)
        for axis, (size, at) in enumerate(zip(tile.padded, indices, strict=True))
        if size > 1
    ]
    bits, dtype = tile.text, tile.dtype
    if dtype in (FP32, FP64):
        bits = f"{bits}.to(tl.int{dtype.bits}, bitcast=True)"
    elif dtype in (FP16, BF16):
        bits = f"{bits}.to(tl.int16, bitcast=True).to(tl.int32)"
    elif dtype.get_byte() < 4 or dtype is BOOL:
        bits = f"{bits}.to(tl.int32)"
    chosen = f"tl.where({' & '.join(parts)}, {bits}, 0)" if parts else bits
    for _ in range(tile.rank):
        chosen = f"tl.sum({chosen}, 0)"
    if dtype in (FP32, FP64):
        return f"{chosen}.to({register(dtype)}, bitcast=True)"
    if dtype in (FP16, BF16):
        return f"{chosen}.to(tl.int16).to({register(dtype)}, bitcast=True)"
    return f"({chosen} != 0)" if dtype is BOOL else f"{chosen}.to({register(dtype)})"


def write(body: Body, op: d.WriteOp) -> Sequence[Value]:
    buffer, indices = body.buffer(op.buffer), [body.index(item) for item in op.indices]
    good = _cell(body, op, indices, buffer.shape)
    body.order.before_store(body.out, buffer.root)
    pointer = memory.offsets_text(body.out, buffer, indices, [None] * buffer.rank, 0)
    body.out.line(memory.store_line(body.out, pointer, body.converted(body.scalar(op.value), buffer.dtype), buffer.guarded(good), buffer.dtype))
    return []


def atomic(body: Body, op: d.AtomicOp) -> Sequence[Value]:
    from tilejit.backends.cuda.rules import ATOMICS

    buffer, indices, combine = body.buffer(op.buffer), [body.index(item) for item in op.indices], ops.table()[str(op.static("atomic"))].attrs["combine"]
    floats = combine in ("add", None) and op.expected is None
    if buffer.dtype.bits < 32 or (buffer.dtype.is_float and not floats):
        raise UnsupportedFeatureError(f"CUDA has no {op.static('atomic')} of {buffer.dtype}", span=op.span, help="use INT32" + ", or FP32" * floats)
    good = buffer.guarded(_cell(body, op, indices, buffer.shape))
    body.order.before_store(body.out, buffer.root)
    pointer = memory.offsets_text(body.out, buffer, indices, [None] * buffer.rank, 0)
    value = body.converted(body.scalar(op.value), buffer.dtype)
    if op.expected is None:
        text = f"tl.atomic_{ATOMICS[combine]}({pointer}, {value}{'' if good is None else f', mask={good}'})"
    else:
        wanted = body.converted(body.scalar(op.expected), buffer.dtype)
        # It has no mask: where the index is bad, an element is exchanged for itself.
        if good is not None:
            pointer, value = f"tl.where({good}, {pointer}, {buffer.pointer})", f"tl.where({good}, {value}, {wanted})"
        text = f"tl.atomic_cas({pointer}, {wanted}, {value})"
    return [Scalar(body.out.let(op.hint or "old", text), buffer.dtype, None)]


# calls and checks ---------------------------------------------------------------------------------------------------------


def call(body: Body, op: d.CallOp) -> Sequence[Value]:
    """A function of the program, written where it is called."""
    function = body.functions[op.callee.data]
    return inline(body, function, [body[arg] for arg in op.args])


def inline(body: Body, function: d.FuncOp, arguments: Sequence[Value]) -> list[Value]:
    block = function.body.block
    saved = {key: body.values.get(key) for key in _inside(function)}
    for param, argument in zip(block.args, arguments, strict=True):
        body.values[param] = argument
    returned = body.run(block)
    terminator = d.end_of(block, d.ReturnOp)
    params = set(block.args)
    results = [value for value, operand in zip(returned, terminator.values, strict=True) if operand not in params]
    for key, value in saved.items():
        if value is None:
            body.values.pop(key, None)
        else:
            body.values[key] = value
    return results


def _inside(function: d.FuncOp) -> list[SSAValue]:
    found: list[SSAValue] = list(function.body.block.args)
    for op in function.walk():
        found += op.results
        for region in op.regions:
            for block in region.blocks:
                found += block.args
    return found


def check(body: Body, op: d.CheckOp) -> Sequence[Value]:
    left, right = body.index(op.left), body.index(op.right)
    if not numbers.same(left, right):
        good = body.out.let("same", f"{left.text} == {right.text}")
        body.failures.report(body.out, good, checks.extent_failure(op), (left, right))
    return []


def group(body: Body, op: d.GroupOp) -> Sequence[Value]:
    """Members one after the other; a group over large tensors runs in chunks."""
    from tilejit.backends.cuda.nests.inside import group_in_program, needs_chunks

    if needs_chunks(body, op):
        return group_in_program(body, op)
    return body.run(op.body.block)


def apply(body: Body, op: d.ApplyOp) -> Sequence[Value]:
    from tilejit.backends.cuda.nests.inside import apply_in_program, needs_chunks
    from tilejit.backends.cuda.rules import ROWS

    if all(isinstance(d.type_of(value), ScalarType) for value in [*op.operands, *op.results]) and ops.table()[op.op].family == "elementwise":
        return [body.scalar_op(op)]
    rule = ROWS.get(op.op)
    if rule is None or isinstance(rule, str):
        raise body.unsupported(op, f"`{ops.table()[op.op].title}`" + (f" ({rule})" if rule else ""))
    if needs_chunks(body, op):
        return apply_in_program(body, op)
    return rule(body, op)


def effect(body: Body, op: d.EffectOp) -> Sequence[Value]:
    from tilejit.backends.cuda.rules import EFFECTS

    rule = EFFECTS.get(op.op)
    if rule is None:
        raise body.unsupported(op, f"`{op.op}`")
    return rule(body, op)
