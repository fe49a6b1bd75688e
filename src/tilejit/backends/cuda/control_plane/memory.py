"""Scalars, allocation and views of the control plane: each op as numbers and steps of the host program."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import SSAValue

from tilejit import ops
from tilejit.backends import checks
from tilejit.backends.cuda import plan
from tilejit.backends.cuda.control_plane import host, ranks
from tilejit.backends.cuda.control_plane.frame import Frame
from tilejit.backends.cuda.control_plane.host import Axis, Cells, HostValue, Memory, Number, Tasks
from tilejit.backends.cuda.program import places
from tilejit.backends.cuda.program.ranks import Query
from tilejit.backends.cuda.program.views import regrouped
from tilejit.dtypes import BOOL, INDEX, TASK_ID
from tilejit.errors import UnsupportedFeatureError
from tilejit.passes.kernels import name_hint
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import apply_args
from tilejit.types.values import ArrayType, ScalarType


def const(frame: Frame, op: d.ConstOp) -> None:
    value = op.value
    frame.values[op.result] = Number(value, d.type_of(op.result).dtype, (value, value) if isinstance(value, int) and not isinstance(value, bool) else None)


def apply(frame: Frame, op: d.ApplyOp) -> None:
    from tilejit.backends.cuda.rules import ROWS

    result = op.results[0]
    type = d.type_of(result)
    rule = ROWS.get(op.op)
    if isinstance(rule, places.Place):
        frame.values[result] = rule.inside(frame)
        return
    if isinstance(rule, Query):
        frame.values[result] = ranks.query(frame, op, rule.slot)
        return
    if rule is places.machine:
        answer = places.answer(op)
        frame.values[result] = Number(int(answer.const or 0), answer.dtype)
        return
    if isinstance(type, ArrayType) and type.dtype is TASK_ID:
        frame.values[result] = Tasks()
        return
    if op.op == "array_get_element" and isinstance(type, ScalarType) and type.dtype is TASK_ID:
        frame.values[result] = Number(-1, TASK_ID)
        return
    if rule in _ARRAYS:
        frame.values[result] = _ARRAYS[rule](frame, op)
        return
    if not isinstance(type, ScalarType):
        raise UnsupportedFeatureError(f"CUDA does not run `{op.op}` on the control plane yet", span=op.span)
    args = apply_args(op)
    names = ops.table()[op.op].operands
    given = [frame.number(value) for name in names if isinstance(value := args.get(name), SSAValue)]
    made = host.apply_row(op.op, given, type.dtype, {k: v for k, v in args.items() if not isinstance(v, SSAValue)})
    frame.values[result] = frame.named(made, name_hint(result) or "n") if type.dtype is not INDEX or isinstance(made.expr, plan.Apply) else made


def _created(frame: Frame, op: d.ApplyOp) -> HostValue:
    type = d.type_of(op.results[0])
    assert isinstance(type, ArrayType)
    return _cells(frame, op, (type.extent,), type)


def _element(frame: Frame, op: d.ApplyOp) -> HostValue:
    array, at = _position(frame, op)
    return frame.named(Number(plan.Apply(op.op, (array.expr, at.expr)), array.dtype), op.hint or "n")


def _updated(frame: Frame, op: d.ApplyOp) -> HostValue:
    array, at = _position(frame, op)
    type, value = d.type_of(op.results[0]), apply_args(op)["value"]
    assert isinstance(type, ArrayType) and isinstance(value, SSAValue)
    return _cells(frame, op, (array.expr, at.expr, frame.number(value).expr), type)


_ARRAYS: dict[object, Callable[[Frame, d.ApplyOp], HostValue]] = {places.array_create: _created, places.array_get: _element, places.array_update: _updated}
"""By the rule of the op inside a kernel."""


def _cells(frame: Frame, op: d.ApplyOp, arguments: tuple[plan.Expr, ...], type: ArrayType) -> Cells:
    name = frame.fresh(op.hint or "array")
    frame.steps.append(plan.Compute(name, plan.Apply(op.op, arguments)))
    return Cells(plan.Var(name), type.dtype, type.extent)


def _position(frame: Frame, op: d.ApplyOp) -> tuple[Cells, Number]:
    """The array that an op is about, and a number that is one of its places."""
    args = apply_args(op)
    assert isinstance(args["array"], SSAValue) and isinstance(args["index"], SSAValue)
    array, at = frame.values[args["array"]], frame.named(frame.number(args["index"]), "at")
    assert isinstance(array, Cells)
    if not (at.bounds and at.bounds[0] >= 0 and at.bounds[1] < array.extent):
        row = frame.state.failures.row(places.index_failure(op, array.extent))
        for limit, compared in ((0, 5), (array.extent, 2)):
            frame.check(host.apply_row("cmp", [at, Number(limit, at.dtype)], BOOL, {"cmp_type": compared}), row, [at])
    return array, at


def dim(frame: Frame, op: d.DimOp) -> None:
    frame.values[op.result] = frame.memory(op.source).shape[op.axis]


def create(frame: Frame, op: d.CreateOp) -> None:
    type = d.shaped_type(op.result)
    dynamic = iter([frame.number(extent) for extent in op.extents])
    extents = [host.number(extent) if isinstance(extent, int) else next(dynamic) for extent in type.shape]
    for axis, extent in enumerate(extents):
        if extent.bounds is None or extent.bounds[0] < 0:
            frame.check(
                host.apply_row("cmp", [extent, host.number(0)], BOOL, {"cmp_type": 5}), frame.state.failures.row(checks.create_failure(op, axis)), [extent]
            )
    made = frame.allocate(extents, type.dtype, name_hint(op.result) or "buffer")
    frame.values[op.result] = made
    init = op.static("init")
    if isinstance(init, int | float):
        from tilejit.backends.cuda.nests.launches import fill

        fill(frame, made, init, op)


def window(frame: Frame, op: d.WindowOp) -> None:
    source = frame.memory(op.buffer)
    offsets, sizes = [frame.number(item) for item in op.offsets], [frame.number(item) for item in op.extents]
    drop, clamp = op.drop, bool(op.static("clamp"))
    kept: list[Number] = []
    for axis, (offset, size, extent) in enumerate(zip(offsets, sizes, source.shape, strict=True)):
        if clamp:
            size = host.minimum(host.maximum(host.sub(extent, offset), host.number(0)), host.maximum(size, host.number(0)))
        _check_box(frame, op, axis, offset, size, extent, clamp)
        kept.append(frame.named(size, "size"))
    offset = host.total([host.mul(start, axis.stride) for start, axis in zip(offsets, source.axes, strict=True)])
    type = d.shaped_type(op.result)
    axes = [Axis(size, axis.stride) for number, (size, axis) in enumerate(zip(kept, source.axes, strict=True)) if number not in drop]
    axes = [Axis(host.number(extent), axis.stride) if isinstance(extent, int) else axis for extent, axis in zip(type.shape, axes, strict=True)]
    made = host.at(source, offset, tuple(axes))
    address = frame.named(Number(made.address, INDEX), f"{source.name}_part")
    frame.values[op.result] = Memory(address.expr, made.axes, made.dtype, made.root, source.name)


def _check_box(frame: Frame, op: d.WindowOp, axis: int, offset: Number, size: Number, extent: Number, clamp: bool) -> None:
    end = host.add(offset, size)
    row = frame.state.failures.row(checks.box_failure(op, axis)) if frame.state.options.check_bounds else -1
    if row < 0:
        return
    if offset.bounds is None or offset.bounds[0] < 0:
        frame.check(host.apply_row("cmp", [offset, host.number(0)], BOOL, {"cmp_type": 5}), row, [offset, size, extent])
    if not clamp and (size.bounds is None or size.bounds[0] < 0):
        frame.check(host.apply_row("cmp", [size, host.number(0)], BOOL, {"cmp_type": 5}), row, [offset, size, extent])
    certain = end.bounds and extent.bounds and end.bounds[1] <= extent.bounds[0]
    if not clamp and not certain and not host.same(end, extent):
        frame.check(host.apply_row("cmp", [end, extent], BOOL, {"cmp_type": 3}), row, [offset, size, extent])


def view(frame: Frame, op: d.ViewOp) -> None:
    source, type = frame.memory(op.buffer), d.shaped_type(op.result)
    dynamic = iter([frame.number(extent) for extent in op.extents])
    extents = [host.number(extent) if isinstance(extent, int) else next(dynamic) for extent in type.shape]
    if not host.is_contiguous(source):
        strides = None
        if type.dtype.get_byte() == source.dtype.get_byte():
            strides = regrouped([(axis.extent, axis.stride) for axis in source.axes], extents, host.number(1), host.mul, host.same)
        if strides is None:
            raise UnsupportedFeatureError("CUDA has no view of a tensor with gaps", span=op.span, help="copy the slice into a tensor of its own first")
        axes = tuple(map(Axis, extents, strides))
    else:
        axes = host.contiguous(extents)
        old = host.mul(host.product(source.shape), host.number(source.dtype.get_byte()))
        new = host.mul(host.product(extents), host.number(type.dtype.get_byte()))
        if not host.same(old, new) and (old.const is None or new.const is None):
            row = frame.state.failures.row(checks.view_failure(op))
            frame.check(host.apply_row("cmp", [old, new], BOOL, {"cmp_type": 0}), row, [host.product(source.shape), host.product(extents)])
    frame.values[op.result] = Memory(source.address, axes, type.dtype, source.root, source.name)


def strided(frame: Frame, op: d.StridedOp) -> None:
    source, type = frame.memory(op.buffer), d.shaped_type(op.result)
    start, extents, strides = frame.number(op.start), [frame.number(item) for item in op.extents], [frame.number(item) for item in op.strides]
    axes = tuple(Axis(extent, stride) for extent, stride in zip(extents, strides, strict=True))
    zero = host.number(0)
    reach = [host.mul(host.sub(axis.extent, host.number(1)), axis.stride) for axis in axes]
    cells = host.floordiv(host.mul(host.product(source.shape), host.number(source.dtype.get_byte())), host.number(type.dtype.get_byte()))
    low, high = (host.add(start, host.total([pick(item, zero) for item in reach])) for pick in (host.minimum, host.maximum))
    row = frame.state.failures.row(checks.reach_failure(op))
    if not (low.bounds and low.bounds[0] >= 0):
        frame.check(host.apply_row("cmp", [low, zero], BOOL, {"cmp_type": 5}), row, [low, high, cells])
    if not (high.bounds and cells.bounds and high.bounds[1] < cells.bounds[0]):
        frame.check(host.apply_row("cmp", [high, cells], BOOL, {"cmp_type": 2}), row, [low, high, cells])
    frame.values[op.result] = host.at(Memory(source.address, (), type.dtype, source.root, source.name), start, axes)


def read(frame: Frame, op: d.ReadOp) -> None:
    source = frame.memory(op.source)
    indices = [frame.number(item) for item in op.indices]
    for axis, (at, extent) in enumerate(zip(indices, source.shape, strict=True)):
        if not (at.bounds and extent.bounds and at.bounds[0] >= 0 and at.bounds[1] < extent.bounds[0]):
            row = frame.state.failures.row(checks.element_failure(op, axis))
            frame.check(host.apply_row("cmp", [at, host.number(0)], BOOL, {"cmp_type": 5}), row, [at, extent])
            frame.check(host.apply_row("cmp", [at, extent], BOOL, {"cmp_type": 2}), row, [at, extent])
    cell = host.at(source, host.total([host.mul(at, axis.stride) for at, axis in zip(indices, source.axes, strict=True)]), ())
    name = frame.fresh(name_hint(op.result) or "cell")
    frame.steps.append(plan.Read(name, cell.address, source.dtype.name))
    frame.values[op.result] = host.variable(name, source.dtype)


def check_op(frame: Frame, op: d.CheckOp) -> None:
    left, right = frame.number(op.left), frame.number(op.right)
    if not host.same(left, right):
        frame.check(host.apply_row("cmp", [left, right], BOOL, {"cmp_type": 0}), frame.state.failures.row(checks.extent_failure(op)), [left, right])
