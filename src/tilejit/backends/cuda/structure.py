"""Rules of the structural ops inside a program: constants, memory, views, calls."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from xdsl.ir import SSAValue

from tilejit import ops
from tilejit.backends import checks
from tilejit.backends.cuda import memory, numbers
from tilejit.backends.cuda.body import Body
from tilejit.backends.cuda.values import Buffer, Dim, Scalar, Tile, Value, index
from tilejit.dtypes import BF16, BOOL, FP16, FP32, INDEX
from tilejit.tile_ir import dialect as d
from tilejit.types.values import ScalarType, ShapedType

# numbers ----------------------------------------------------------------------------------------------------------------


def const(body: Body, op: d.ConstOp) -> Sequence[Value]:
    type, value = d.type_of(op.result), op.static("value")
    assert isinstance(type, ScalarType) and isinstance(value, bool | int | float)
    if type.dtype is INDEX:
        return [index(int(value))]
    return [Scalar(repr(value), type.dtype, (value, value) if isinstance(value, int) and not isinstance(value, bool) else None, value)]


def dim(body: Body, op: d.DimOp) -> Sequence[Value]:
    source, axis = body[op.source], op.static("axis")
    assert isinstance(axis, int)
    if isinstance(source, Buffer):
        return [source.shape[axis]]
    assert isinstance(source, Tile)
    return [index(source.shape[axis])]


def valid(body: Body, op: d.ValidOp) -> Sequence[Value]:
    source, axis = body[op.source], op.static("axis")
    assert isinstance(axis, int)
    if isinstance(source, Buffer):
        return [source.shape[axis]]
    assert isinstance(source, Tile)
    return [source.valid[axis]]


# views ------------------------------------------------------------------------------------------------------------------


def create(body: Body, op: d.CreateOp) -> Sequence[Value]:
    type = d.shaped_type(op.result)
    extents = [extent for extent in type.shape if isinstance(extent, int)]
    if len(extents) != len(type.shape):
        raise body.unsupported(op, "a tensor of run-time extents made inside a block", "make it outside the region with pl.create_tensor")
    place = memory.scratch_buffer(body.out, extents, type.dtype)
    init = op.static("init")
    if isinstance(init, int | float):
        fill(body, place, Scalar(repr(init), type.dtype, None, init))
    return [place]


def fill(body: Body, buffer: Buffer, value: Scalar) -> None:
    """Set every cell of a scratch buffer."""
    from tilejit.backends.cuda.types import padded

    cells = math.prod(int(extent.const or 0) for extent in buffer.shape)
    width = min(padded(cells), 1024)
    flat = replace(buffer, dims=memory.contiguous([index(cells)]))
    body.order.barrier(body.out)
    start = body.out.fresh("at")
    with body.out.block(f"for {start} in range(0, {cells}, {width}):"):
        offset = Scalar(start, INDEX, (0, cells))
        rest = numbers.minimum(numbers.sub(index(cells), offset), index(width))
        text = f"tl.full(({width},), {body.text(value)}, {memory_type(buffer)})"
        where = memory.mask(body.out, (width,), (rest,))
        body.out.line(memory.store_line(body.out, memory.tile_pointers(body.out, flat, [offset], (width,)), text, where, buffer.dtype))
    body.order.barrier(body.out)


def memory_type(buffer: Buffer) -> str:
    from tilejit.backends.cuda.types import register

    return register(buffer.dtype)


def window(body: Body, op: d.WindowOp) -> Sequence[Value]:
    buffer = body.buffer(op.buffer)
    offsets, sizes = [body.index(item) for item in op.offsets], [body.index(item) for item in op.extents]
    drop = op.static("drop", ())
    assert isinstance(drop, tuple)
    starts, sizes, good = box(body, op, buffer, offsets, sizes, bool(op.static("clamp")))
    offset = numbers.add(buffer.offset, numbers.total(numbers.mul(start, dim.stride) for start, dim in zip(starts, buffer.dims, strict=True)))
    dims = tuple(Dim(size, dim.stride) for axis, (size, dim) in enumerate(zip(sizes, buffer.dims, strict=True)) if axis not in drop)
    type = d.shaped_type(op.result)
    dims = tuple(Dim(index(extent), dim.stride) if isinstance(extent, int) else dim for extent, dim in zip(type.shape, dims, strict=True))
    return [replace(buffer, offset=named(body, "start", offset), dims=dims, good=buffer.guarded(good))]


def named(body: Body, hint: str, value: Scalar) -> Scalar:
    if value.const is not None or value.text.isidentifier():
        return value
    return replace(value, text=body.out.let(hint, value.text))


def box(
    body: Body, op: d.LoadOp | d.StoreOp | d.WindowOp, buffer: Buffer, offsets: Sequence[Scalar], sizes: Sequence[Scalar], clamp: bool
) -> tuple[list[Scalar], list[Scalar], str | None]:
    """The cells of a window, checked against the buffer: starts, sizes, and the flag that says it lies inside (None where that is certain)."""
    starts: list[Scalar] = []
    kept: list[Scalar] = []
    flags: list[str] = []
    first: tuple[int, Scalar, Scalar, Scalar] | None = None
    for axis, (offset, size, extent) in enumerate(zip(offsets, sizes, buffer.shape, strict=True)):
        conditions: list[str] = []
        if clamp:
            inside = numbers.maximum(numbers.sub(extent, offset), index(0))
            size = named(body, "size", numbers.minimum(inside, numbers.maximum(size, index(0))))
            if offset.bounds is None or offset.bounds[0] < 0:
                conditions.append(f"{offset.text} >= 0")
        else:
            end = numbers.add(offset, size)
            if offset.bounds is None or offset.bounds[0] < 0:
                conditions.append(f"{offset.text} >= 0")
            if size.bounds is None or size.bounds[0] < 0:
                conditions.append(f"{size.text} >= 0")
            if not _certain(end, extent, offset, size):
                conditions.append(f"{end.text} <= {extent.text}")
        if conditions and first is None:
            first = (axis, offset, size, extent)
        flags += conditions
        starts.append(offset)
        kept.append(size)
    if not flags or first is None or not body.options.check_bounds:
        return starts, kept, None
    empty = [f"{size.text} == 0" for size in kept if size.bounds is None or size.bounds[0] <= 0]
    condition = " & ".join(f"({flag})" for flag in flags)
    if empty and not clamp:
        condition = f"({condition}) | " + " | ".join(f"({flag})" for flag in empty)
    good = body.out.let("good", condition)
    body.failures.report(body.out, good, checks.box_failure(op, first[0]), first[1:])
    return starts, kept, good


def _certain(end: Scalar, extent: Scalar, offset: Scalar, size: Scalar) -> bool:
    if numbers.same(size, extent) and offset.const == 0:
        return True
    return end.bounds is not None and extent.bounds is not None and end.bounds[1] <= extent.bounds[0]


def view(body: Body, op: d.ViewOp) -> Sequence[Value]:
    buffer = body.buffer(op.buffer)
    type = d.shaped_type(op.result)
    dynamic = iter([body.index(item) for item in op.extents])
    shape = [index(extent) if isinstance(extent, int) else next(dynamic) for extent in type.shape]
    made = reshaped(buffer, shape)
    if made is None or (type.dtype.get_byte() != buffer.dtype.get_byte() and not is_contiguous(buffer)):
        raise body.unsupported(op, "a view of a tensor with gaps", "copy the slice into a tensor of its own first")
    if type.dtype is buffer.dtype:
        return [made]
    pointer = body.out.let("p", memory.as_pointer(buffer, type.dtype))
    return [Buffer(pointer, index(0), memory.contiguous(shape) if is_contiguous(buffer) else made.dims, type.dtype, buffer.root, buffer.scratch, buffer.good)]


def is_contiguous(buffer: Buffer) -> bool:
    expected = memory.contiguous(buffer.shape)
    return all(dim.extent.const == 1 or numbers.same(dim.stride, other.stride) for dim, other in zip(buffer.dims, expected, strict=True))


def reshaped(buffer: Buffer, shape: Sequence[Scalar]) -> Buffer | None:
    """The same cells in another shape, where strides can say it."""
    if is_contiguous(buffer):
        return replace(buffer, dims=memory.contiguous(shape))
    old = [dim for dim in buffer.dims if dim.extent.const != 1]
    extents = [extent.const for extent in shape]
    if any(not isinstance(dim.extent.const, int) for dim in old) or any(not isinstance(extent, int) for extent in extents):
        return None
    dims: list[Dim] = []
    rest = list(old)
    group: list[Dim] = []
    left, stride = 1, index(1)
    for extent in reversed(shape):
        size = extent.const
        assert isinstance(size, int)
        if size == 1:
            dims.append(Dim(extent, index(1)))
            continue
        if not group:
            if not rest:
                return None
            group = [rest.pop()]
            left, stride = int(group[0].extent.const or 0), group[0].stride
        while left % size and rest:
            outer = rest.pop()
            if not numbers.same(outer.stride, numbers.mul(group[-1].stride, group[-1].extent)):
                return None
            group.append(outer)
            left *= int(outer.extent.const or 0)
        if left % size:
            return None
        dims.append(Dim(extent, stride))
        stride = numbers.mul(stride, extent)
        left //= size
        if left == 1:
            group = []
    return None if rest or group else replace(buffer, dims=tuple(reversed(dims)))


def strided(body: Body, op: d.StridedOp) -> Sequence[Value]:
    buffer = body.buffer(op.buffer)
    type = d.shaped_type(op.result)
    start, extents, strides = body.index(op.start), [body.index(item) for item in op.extents], [body.index(item) for item in op.strides]
    cells = numbers.floordiv(numbers.mul(numbers.product(buffer.shape), index(buffer.dtype.get_byte())), type.dtype.get_byte())
    dims = tuple(Dim(extent, stride) for extent, stride in zip(extents, strides, strict=True))
    zero = index(0)
    reach = [numbers.mul(numbers.sub(extent, index(1)), stride) for extent, stride in zip(extents, strides, strict=True)]
    low = numbers.add(start, numbers.total(numbers.minimum(item, zero) for item in reach))
    high = numbers.add(start, numbers.total(numbers.maximum(item, zero) for item in reach))
    conditions = [f"{low.text} >= 0"] if low.bounds is None or low.bounds[0] < 0 else []
    if not (high.bounds and cells.bounds and high.bounds[1] < cells.bounds[0]):
        conditions.append(f"{high.text} < {cells.text}")
    good: str | None = None
    if conditions and body.options.check_bounds:
        empty = " | ".join(f"({extent.text} == 0)" for extent in extents)
        good = body.out.let("good", f"({' & '.join(f'({c})' for c in conditions)}) | {empty}")
        body.failures.report(body.out, good, checks.reach_failure(op), (low, high, cells))
    pointer = buffer.pointer if type.dtype is buffer.dtype else body.out.let("p", memory.as_pointer(buffer, type.dtype))
    offset = numbers.add(buffer.offset if type.dtype is buffer.dtype else zero, start)
    return [Buffer(pointer, named(body, "start", offset), dims, type.dtype, buffer.root, buffer.scratch, buffer.guarded(good))]


# loads and stores -------------------------------------------------------------------------------------------------------


def load(body: Body, op: d.LoadOp) -> Sequence[Value]:
    buffer, type = body.buffer(op.buffer), d.shaped_type(op.result)
    shape = tuple(extent for extent in type.shape if isinstance(extent, int))
    wanted = [numbers.clamp(body.index(size), index(0), index(extent)) for size, extent in zip(op.valid, shape, strict=True)]
    starts, sizes, good = box(
        body, op, buffer, [body.index(item) for item in op.offsets], [named(body, "size", size) for size in wanted], bool(op.static("clamp"))
    )
    tile = body.load_tile(buffer, starts, shape, sizes, op.hint, good)
    return [replace(tile, valid=tuple(index(extent) if isinstance(extent, int) else size for extent, size in zip(type.valid, sizes, strict=True)))]


def store(body: Body, op: d.StoreOp) -> Sequence[Value]:
    buffer = body.buffer(op.buffer)
    value = body[op.value]
    offsets = [body.index(item) for item in op.offsets]
    if isinstance(value, Buffer):
        from tilejit.backends.cuda.inside import copy_in_program

        return copy_in_program(body, op, value, buffer, offsets)
    assert isinstance(value, Tile)
    valid = value.valid
    if value.bits:
        from tilejit.backends.cuda.masks import as_bytes

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


def _cell(body: Body, op: d.ReadOp | d.WriteOp, indices: Sequence[Scalar], shape: Sequence[Scalar]) -> str | None:
    for axis, (item, extent) in enumerate(zip(indices, shape, strict=True)):
        inside = item.bounds is not None and item.bounds[0] >= 0 and extent.bounds is not None and item.bounds[1] < extent.bounds[0]
        if not inside:
            conditions = [f"({at.text} >= 0) & ({at.text} < {n.text})" for at, n in zip(indices, shape, strict=True)]
            return body.check(conditions, checks.element_failure(op, axis), (item, extent))
    return None


def pick(body: Body, tile: Tile, indices: Sequence[Scalar]) -> str:
    """One cell of a register tile: a sum of bit patterns, so that -0 and NaN come through."""
    from tilejit.backends.cuda.masks import as_bytes
    from tilejit.backends.cuda.types import register

    tile = as_bytes(body, tile)
    parts = [
        memory.spread(f"({body.out.arange(size)} == {at.text})", axis, tile.rank)
        for axis, (size, at) in enumerate(zip(tile.padded, indices, strict=True))
        if size > 1
    ]
    bits, dtype = tile.text, tile.dtype
    if dtype in (FP32,):
        bits = f"{bits}.to(tl.int32, bitcast=True)"
    elif dtype in (FP16, BF16):
        bits = f"{bits}.to(tl.int16, bitcast=True).to(tl.int32)"
    elif dtype.get_byte() < 4 or dtype is BOOL:
        bits = f"{bits}.to(tl.int32)"
    chosen = f"tl.where({' & '.join(parts)}, {bits}, 0)" if parts else bits
    for _ in range(tile.rank):
        chosen = f"tl.sum({chosen}, 0)"
    if dtype is FP32:
        return f"{chosen}.to(tl.float32, bitcast=True)"
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
    terminator = block.last_op
    assert isinstance(terminator, d.ReturnOp)
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
    from tilejit.backends.cuda.inside import group_in_program, needs_chunks

    if needs_chunks(body, op):
        return group_in_program(body, op)
    return body.run(op.body.block)


def apply(body: Body, op: d.ApplyOp) -> Sequence[Value]:
    from tilejit.backends.cuda.inside import apply_in_program, needs_chunks
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


def constant_shape(value: SSAValue) -> tuple[int, ...] | None:
    type = d.type_of(value)
    assert isinstance(type, ShapedType)
    shape = tuple(extent for extent in type.shape if isinstance(extent, int))
    return shape if len(shape) == len(type.shape) else None
