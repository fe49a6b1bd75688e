"""Tensor-level operators that are no nests: products, and movement by computed places; small ones run in one program."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from tilejit.backends.cuda import host, numbers
from tilejit.backends.cuda.host import Memory, Number
from tilejit.backends.cuda.lower import Frame
from tilejit.backends.cuda.nest import is_large
from tilejit.backends.cuda.values import Buffer, Scalar, Tile, index
from tilejit.dtypes import INDEX
from tilejit.errors import UnsupportedFeatureError
from tilejit.passes.kernels import name_hint
from tilejit.tile_ir import dialect as d
from tilejit.types.values import ShapedType


def launch_operator(frame: Frame, op: d.ApplyOp, name: str) -> None:
    """Compute the results of an operator into memory of their own."""
    from tilejit.backends.cuda.rules import ROWS

    rule = ROWS.get(op.op)
    if rule is None or isinstance(rule, str):
        raise UnsupportedFeatureError(f"CUDA does not run `{op.op}` yet", span=op.span, help="run it on the CPU: platform='cpu'")
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


def dynamic_extent(frame: Frame, op: d.ApplyOp, value: SSAValue, axis: int) -> Number:
    raise UnsupportedFeatureError(f"CUDA does not know the extent of dim {axis} of `{op.op}` yet", span=op.span)


def launch_fill(frame: Frame, memory: Memory, value: float, op: Operation) -> None:
    """Set every cell."""
    kernel = frame.kernel(f"fill_{memory.name}")
    width = 1024
    cells = host.product(memory.shape)
    flat = host.take_memory(kernel.out, Memory(memory.address, host.contiguous([cells]), memory.dtype, memory.root, memory.name))
    programs = host.ceildiv(cells, host.number(width))
    most = programs.bounds[1] if programs.bounds else (1 << 31) - 1
    block = Scalar(kernel.out.once("program", "tl.program_id(0)"), INDEX, (0, max(0, most - 1)))
    first = numbers.mul(block, index(width))
    from tilejit.backends.cuda.rows import filled

    rest = numbers.minimum(numbers.sub(flat.shape[0], first), index(width))
    tile = filled(kernel.body, (width,), memory.dtype, Scalar(repr(value), memory.dtype, None, value), (rest,))
    kernel.body.store_tile(tile, flat, [first])
    frame.finish(kernel, programs, 4)
