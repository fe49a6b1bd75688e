"""Rules of memory inside a program: buffers made there, windows of buffers, and other views."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xdsl.ir import Operation

from tilejit.backends import checks
from tilejit.backends.cuda.program import memory
from tilejit.backends.cuda.program.body import Body
from tilejit.backends.cuda.program.views import regrouped
from tilejit.backends.cuda.text import numbers
from tilejit.backends.cuda.text.values import Buffer, Dim, Scalar, Value, index
from tilejit.dtypes import INDEX, DType
from tilejit.tile_ir import dialect as d


def create(body: Body, op: d.CreateOp) -> Sequence[Value]:
    type = d.shaped_type(op.result)
    dynamic = iter([body.index(extent) for extent in op.extents])
    place = room(body, op, [index(extent) if isinstance(extent, int) else next(dynamic) for extent in type.shape], type.dtype)
    init = op.static("init")
    if isinstance(init, int | float):
        fill(body, place, Scalar(repr(init), type.dtype, None, init))
    return [place]


def room(body: Body, op: Operation, extents: Sequence[Scalar], dtype: DType) -> Buffer:
    """Memory of this program for a tensor; extents that only the run knows must be known to the host before it launches the kernel."""
    constant = [extent.const for extent in extents if isinstance(extent.const, int)]
    if len(constant) == len(extents):
        return memory.scratch_buffer(body.out, constant, dtype)
    found = memory.room_buffer(body.out, extents, dtype) if all(extent.bounds and extent.bounds[0] >= 0 for extent in extents) else None
    if found is None:
        raise body.unsupported(op, "a tensor of run-time extents made inside a block", "make it outside the region with pl.create_tensor")
    return found


def fill(body: Body, buffer: Buffer, value: Scalar) -> None:
    """Set every cell of a scratch buffer."""
    from tilejit.backends.cuda.text.types import padded

    cells = index(1)
    for extent in buffer.shape:
        cells = numbers.mul(cells, extent)
    width = min(padded(cells.const), 1024) if isinstance(cells.const, int) else 1024
    flat = replace(buffer, dims=memory.contiguous([cells]))
    body.order.barrier(body.out)
    start = body.out.fresh("at")
    with body.out.block(f"for {start} in range(0, {cells.text}, {width}):"):
        offset = Scalar(start, INDEX, cells.bounds and (0, cells.bounds[1]))
        rest = numbers.minimum(numbers.sub(cells, offset), index(width))
        text = f"tl.full(({width},), {body.text(value)}, {memory_type(buffer)})"
        where = memory.mask(body.out, (width,), (rest,))
        body.out.line(memory.store_line(body.out, memory.tile_pointers(body.out, flat, [offset], (width,)), text, where, buffer.dtype))
    body.order.barrier(body.out)


def memory_type(buffer: Buffer) -> str:
    from tilejit.backends.cuda.text.types import register

    return register(buffer.dtype)


def window(body: Body, op: d.WindowOp) -> Sequence[Value]:
    buffer = body.buffer(op.buffer)
    offsets, sizes = [body.index(item) for item in op.offsets], [body.index(item) for item in op.extents]
    drop = op.drop
    starts, sizes, good = box(body, op, buffer, offsets, sizes, bool(op.static("clamp")))
    offset = numbers.add(buffer.offset, numbers.total(numbers.mul(start, dim.stride) for start, dim in zip(starts, buffer.dims, strict=True)))
    dims = tuple(Dim(size, dim.stride) for axis, (size, dim) in enumerate(zip(sizes, buffer.dims, strict=True)) if axis not in drop)
    type = d.shaped_type(op.result)
    dims = tuple(Dim(index(extent), dim.stride) if isinstance(extent, int) else dim for extent, dim in zip(type.shape, dims, strict=True))
    return [replace(buffer, offset=body.named("start", offset), dims=dims, good=buffer.guarded(good))]


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
            size = body.named("size", numbers.minimum(inside, numbers.maximum(size, index(0))))
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
    strides = regrouped([(dim.extent, dim.stride) for dim in buffer.dims], shape, index(1), numbers.mul, numbers.same)
    return None if strides is None else replace(buffer, dims=tuple(map(Dim, shape, strides)))


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
    return [Buffer(pointer, body.named("start", offset), dims, type.dtype, buffer.root, buffer.scratch, buffer.guarded(good))]
