"""Tensor-level operators that are no nests: products, and movement by computed places; small ones run in one program."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from xdsl.ir import Operation, SSAValue

from tilejit import ops
from tilejit.backends.cuda.control_plane import host
from tilejit.backends.cuda.control_plane.frame import Frame, Making
from tilejit.backends.cuda.control_plane.host import Memory, Number
from tilejit.backends.cuda.indexed import pull
from tilejit.backends.cuda.indexed.gather import pattern_of
from tilejit.backends.cuda.nests.inside import is_large
from tilejit.backends.cuda.products import dot
from tilejit.backends.cuda.program.body import Body
from tilejit.backends.cuda.schedule import pays_to_align
from tilejit.backends.cuda.text import elementwise, numbers
from tilejit.backends.cuda.text.values import Buffer, Scalar, Tile, index
from tilejit.dtypes import FP32, FP64, INDEX, INT8, INT32
from tilejit.errors import UnsupportedFeatureError
from tilejit.passes.kernels import name_hint
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.arguments import value_of
from tilejit.tile_ir.build import apply_args
from tilejit.types.values import ShapedType

if TYPE_CHECKING:
    from tilejit.backends.cuda.products import gemm


def launch_operator(frame: Frame, op: d.ApplyOp, name: str, store: d.StoreOp | None = None) -> None:
    """Compute the results of an operator into memory of their own, or where a store wants them."""
    from tilejit.backends.cuda.rules import LINES, ROWS

    rule = ROWS.get(op.op)
    if rule is None or isinstance(rule, str):
        raise UnsupportedFeatureError(f"CUDA does not run `{op.op}` yet", span=op.span, help="run it on the CPU: platform='cpu'")
    if op.op in LINES:
        from tilejit.backends.cuda.indexed import lines

        lines.launch(frame, op, name, LINES[op.op], store)
        return
    if ops.table()[op.op].family == "matmul" and is_product(frame, op):
        launch_product(frame, op, name)
        return
    if moves(op):
        from tilejit.backends.cuda.nests.launches import room_for, shape_of, store_window

        room = room_for(frame, op.results[0]) if store is None else store_window(frame, store)
        shape = shape_of(frame, op.results[0])
        pull.launch(frame, op, name, room, shape if len(shape) > 1 else (host.number(1), *shape))
        frame.values[op.results[0]] = room
        return
    if any(is_large(value) for value in [*op.results, *(arg for arg in op.args if isinstance(d.type_of(arg), ShapedType))]):
        raise UnsupportedFeatureError(f"CUDA does not run `{op.op}` of a tensor this large yet", span=op.span, help="run it on the CPU: platform='cpu'")
    kernel = frame.kernel(name)
    made = rule(kernel.body, op)
    for result, value in zip(op.results, made, strict=True):
        assert isinstance(value, Tile | Buffer)
        type = d.shaped_type(result)
        room = frame.allocate([host.number(int(extent)) for extent in type.shape], type.dtype, name_hint(result) or "value")
        target = host.take_memory(kernel.out, room)
        assert isinstance(value, Tile)
        kernel.body.store_tile(value, target, [index(0)] * target.rank)
        frame.values[result] = room
    frame.finish(kernel, host.number(1))


def moves(op: d.ApplyOp) -> bool:
    """Whether an operator is run over blocks of its result."""
    from tilejit.backends.cuda.rules import PULLS

    return pull.can(op) and (any(is_large(result) for result in op.results) or PULLS[op.op].always)


def is_product(frame: Frame, op: d.ApplyOp) -> bool:
    """Whether a product has matrices on both sides."""
    left, right = (frame.memory(value_of(apply_args(op)[name])) for name in ("lhs", "rhs"))
    if len(left.axes) < 2 or len(right.axes) < 2:
        return False
    return "E8M0" not in left.dtype.name + right.dtype.name


def launch_product(frame: Frame, op: d.ApplyOp, name: str, group: Sequence[Operation] | None = None) -> None:
    """A product over blocks of its result, with the nest that follows it in the same kernel."""
    from tilejit.backends.cuda.nests.launches import shape_of
    from tilejit.backends.cuda.products import gemm

    args = apply_args(op)
    left, right = (frame.memory(value_of(args[key])) for key in ("lhs", "rhs"))
    if args.get("a_trans"):
        left = replace(left, axes=(*left.axes[:-2], left.axes[-1], left.axes[-2]))
    if args.get("b_trans"):
        right = replace(right, axes=(*right.axes[:-2], right.axes[-1], right.axes[-2]))
    if right.dtype.get_byte() == 1 and len(right.axes) == 2 and right.axes[1].stride.const == 1 and _is_tall(left):
        right = pull.turned(frame, right, f"{name}_turn")  # Tensor cores want single bytes with K running along the memory.
    sizes = (left.axes[-2].extent, left.axes[-1].extent, right.axes[-1].extent)
    zeros = _misaligned(left, right)
    left, right = (pull.aligned(frame, side, f"{name}_align") if copied else side for side, copied in zip((left, right), zeros, strict=True))
    shape = shape_of(frame, op.results[0])
    lead = shape[:-2]
    batches = host.product(lead)
    result = d.shaped_type(op.results[0]).dtype
    work = dot.work_dtype(left.dtype, right.dtype, result)
    widest = left.dtype if left.dtype.get_byte() >= right.dtype.get_byte() else right.dtype
    if widest is INT8 and left.dtype is not right.dtype:
        widest = INT32
    widest = FP64 if work is FP64 else FP32 if work is FP32 and widest.is_integer else widest

    def make(kernel: Making, batch: Scalar) -> gemm.Product:
        sides = [_batch_of(kernel, host.take_memory(kernel.out, side), lead, batch) for side in (left, right)]
        rows, inner, columns = (host.take_number(kernel.out, size, hint) for size, hint in zip(sizes, ("m", "k", "n"), strict=True))
        return gemm.Product(sides[0], sides[1], rows, columns, inner, work, result.is_integer, zeros)

    ends = _Ending(frame, op, group, shape)
    gemm.launch(frame, name, make, sizes, widest, ends.at, batches, right.dtype)
    ends.settle()


def _misaligned(left: Memory, right: Memory) -> tuple[bool, bool]:
    """For both operands, whether their rows in memory begin anywhere and a copy is worth its time."""
    sizes = [size.const if isinstance(size.const, int) else 0 for size in (left.axes[-2].extent, right.axes[-1].extent, left.axes[-1].extent)]
    found: list[bool] = []
    for side, uses in ((left, sizes[1]), (right, sizes[0])):
        strides = sorted(axis.stride.const if isinstance(axis.stride.const, int) else 0 for axis in side.axes)
        known = len(strides) == 2 and strides[0] == 1 and side.dtype.get_byte() <= 2
        found.append(known and pays_to_align(strides[1], side.dtype.get_byte(), uses, math.prod(sizes)))
    return found[0], found[1]


def _is_tall(left: Memory) -> bool:
    """Whether a product has so many rows that turning its right operand is paid back."""
    rows = left.axes[-2].extent.const
    return rows is None or rows >= 512


def _batch_of(kernel: Making, buffer: Buffer, lead: Sequence[Number], batch: Scalar) -> Buffer:
    """One matrix of a batch; extents of 1 broadcast."""
    offset, rest = buffer.offset, batch
    own = buffer.dims[:-2]
    missing = len(lead) - len(own)
    for axis in range(len(lead) - 1, -1, -1):
        count = host.take_number(kernel.out, lead[axis], f"batch{axis}")
        place = rest if axis == 0 else Scalar(f"({rest.text} % {count.text})", INDEX, (0, count.bounds[1]) if count.bounds else None)
        rest = rest if axis == 0 else Scalar(f"({rest.text} // {count.text})", INDEX, rest.bounds)
        if axis >= missing and own[axis - missing].extent.const != 1 and count.const != 1:
            offset = numbers.add(offset, numbers.mul(place, own[axis - missing].stride))
    return replace(buffer, offset=offset, dims=buffer.dims[-2:])


@dataclass
class _Ending:
    """What happens to the accumulator: it becomes the result, or goes through a nest."""

    frame: Frame
    op: d.ApplyOp
    group: Sequence[Operation] | None
    shape: tuple[Number, ...]

    def __post_init__(self) -> None:
        self.rooms: dict[SSAValue, Memory] = {}
        self.handed: dict[SSAValue, SSAValue] = {}
        if self.group is None:
            type = d.shaped_type(self.op.results[0])
            self.rooms[self.op.results[0]] = self.frame.allocate(self.shape, type.dtype, name_hint(self.op.results[0]) or "product")

    def at(self, kernel: Making, batch: Scalar) -> gemm.Epilogue:
        def end(body: Body, acc: Tile, row: Scalar, column: Scalar) -> None:
            acc = self._finished(kernel, acc, row, column, batch)
            if self.group is None:
                target = host.take_memory(kernel.out, self.rooms[self.op.results[0]])
                body.store_tile(acc, _batch_of(kernel, target, self.shape[:-2], batch), (row, column))
            else:
                self._nest(kernel, acc, row, column, batch)

        return end

    def _finished(self, kernel: Making, acc: Tile, row: Scalar, column: Scalar, batch: Scalar) -> Tile:
        """The accumulator as the value of the product: with acc and bias, in the result's dtype."""
        body = kernel.body
        args, dtype = apply_args(self.op), d.shaped_type(self.op.results[0]).dtype
        text = acc.text
        if isinstance(args.get("acc"), SSAValue):
            before = _batch_of(kernel, body.in_memory(value_of(args["acc"])), self.shape[:-2], batch)
            old = body.load_tile(before, (row, column), acc.shape, acc.valid, "old")
            condition = args.get("init_cond")
            added = f"({old.text} + {text})"
            text = added if not isinstance(condition, SSAValue) else f"tl.where({body.text(body.scalar(condition))}, {text}, {added})"
        if isinstance(args.get("bias"), SSAValue):
            bias = body.load_tile(body.in_memory(value_of(args["bias"])), (index(0), column), (1, acc.shape[1]), (index(1), acc.valid[1]), "bias")
            text = f"({text} + {bias.text})"
        if dtype is not acc.dtype:
            text = elementwise.held(body.out, elementwise.convert(body.out, f"({text})", acc.dtype, dtype), dtype)
        return Tile(body.out.let(name_hint(self.op.results[0]) or "product", text), dtype, acc.shape, acc.valid)

    def _nest(self, kernel: Making, acc: Tile, row: Scalar, column: Scalar, batch: Scalar) -> None:
        from tilejit.backends.cuda.nests.launches import aliases_of, as_buffer, leaving, room_for, store_window
        from tilejit.backends.cuda.nests.merge import inner_of
        from tilejit.backends.cuda.nests.nest import Nest
        from tilejit.backends.cuda.schedule import RowSchedule

        assert self.group is not None
        body = kernel.body
        members = inner_of(self.group)
        self.handed = aliases_of(self.group)
        shape = tuple(host.take_number(kernel.out, extent, f"size{i}") for i, extent in enumerate(self.shape))
        nest = Nest(body, members, shape, RowSchedule(acc.shape[0], acc.shape[1], True, 0), handed=self.handed)
        result = self.op.results[0]
        nest.inside.add(result)
        body.values[result] = acc
        for value in leaving(members, self.handed):
            self.rooms[value] = self.rooms.get(value) or room_for(self.frame, value)
            nest.outputs[value] = as_buffer(kernel, self.rooms[value], self.shape)
        for member in members:
            if isinstance(member, d.StoreOp):
                nest.targets[member] = as_buffer(kernel, store_window(self.frame, member), self.shape)
            for operand in member.operands if isinstance(member, d.ApplyOp) else [member.value]:
                if isinstance(found := self.frame.values.get(operand), Memory) and operand not in nest.inside:
                    nest.sources[operand] = as_buffer(kernel, found, self.shape)
        nest.first, nest.here = numbers.add(numbers.mul(batch, shape[-2]), row), acc.valid[0]
        saved, body.nest = body.nest, True
        nest._columns(column, acc.valid[1], members)
        body.nest = saved

    def settle(self) -> None:
        self.frame.values.update(self.rooms)
        for result, value in self.handed.items():
            if value in self.rooms:
                self.frame.values[result] = self.rooms[value]


def dynamic_extent(frame: Frame, op: d.ApplyOp, value: SSAValue, axis: int) -> Number:
    """An extent of a result that only the run knows, from what it is computed from."""
    from tilejit.backends.cuda.nests.launches import shape_of

    args = apply_args(op)
    if ops.table()[op.op].family == "matmul":
        return _product_extent(frame, op, axis)
    if isinstance(args.get("shape"), list):
        drop = op.statics.get("drop_dims") or ()
        sizes = args["shape"]
        assert isinstance(sizes, list)
        kept = [size for place, size in enumerate(sizes) if place not in {int(str(item)) % len(sizes) for item in drop}]
        return frame.number(value_of(kept[axis]))
    if ops.table()[op.op].facts.swaps:
        rank = d.shaped_type(value).rank
        first, second = (int(str(args.get(name, default))) % rank for name, default in (("axis1", -1), ("axis2", -2)))
        own = {first: second, second: first}.get(axis, axis)
        return shape_of(frame, op.args[0])[own]
    if op.op == "concat" and axis == 1:
        return host.add(shape_of(frame, op.args[0])[1], shape_of(frame, op.args[1])[1])
    if args.get("mask_pattern") is not None and axis == d.shaped_type(value).rank - 1:
        return host.floordiv(shape_of(frame, op.args[0])[axis], host.number(pattern_of(op)[1]))
    if op.op == "gather" and isinstance(args.get("index"), SSAValue):
        return shape_of(frame, value_of(args["index"]))[axis]
    return shape_of(frame, op.args[0])[axis]


def _product_extent(frame: Frame, op: d.ApplyOp, axis: int) -> Number:
    from tilejit.backends.cuda.nests.launches import shape_of

    args = apply_args(op)
    if isinstance(args.get("acc"), SSAValue):
        return shape_of(frame, value_of(args["acc"]))[axis]
    left, right = (shape_of(frame, value_of(args[name])) for name in ("lhs", "rhs"))
    rank = d.shaped_type(op.results[0]).rank
    if axis == rank - 1 and len(right) > 1:
        return right[-2 if args.get("b_trans") else -1]
    if axis == rank - (2 if len(right) > 1 else 1):
        return left[-1 if args.get("a_trans") else -2]
    for side in (left, right):
        own = axis - (rank - len(side))
        if 0 <= own < len(side) - 2 and side[own].const != 1:
            return side[own]
    return host.number(1)


def launch_fill(frame: Frame, memory: Memory, value: float, op: Operation) -> None:
    """Set every cell."""
    kernel = frame.kernel(f"fill_{memory.name}")
    width = 1024
    cells = host.product(memory.shape)
    flat = host.take_memory(kernel.out, Memory(memory.address, host.contiguous([cells]), memory.dtype, memory.root, memory.name))
    programs = host.ceildiv(cells, host.number(width))
    most = programs.bounds[1] if programs.bounds else (1 << 31) - 1
    block = Scalar(kernel.out.program(), INDEX, (0, max(0, most - 1)))
    first = numbers.mul(block, index(width))
    from tilejit.backends.cuda.program.rows import filled

    rest = numbers.minimum(numbers.sub(flat.shape[0], first), index(width))
    tile = filled(kernel.body, (width,), memory.dtype, Scalar(repr(value), memory.dtype, None, value), (rest,))
    kernel.body.store_tile(tile, flat, [first])
    frame.finish(kernel, programs, warps=4)
