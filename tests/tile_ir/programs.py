"""Small programs built by hand, shared by the tests of the IR, the passes and the reference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Block, SSAValue

from tilejit import ops
from tilejit.dtypes import BOOL, FP16, FP32, INDEX, INT32, DType
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import Builder, function
from tilejit.tile_ir.program import Program
from tilejit.types.values import ANY, BufferType, ScalarType, TileType, ValueType

NDArray = npt.NDArray[Any]
INDEX_TYPE = ScalarType(INDEX)


def tensor(*shape: int | str, dtype: DType = FP32) -> BufferType:
    return BufferType(shape, dtype)


def tile(*shape: int, valid: tuple[int | str, ...] | None = None, dtype: DType = FP32) -> TileType:
    return TileType(shape, dtype, valid or shape)


def program(*functions: d.FuncOp, name: str = "Example") -> Program:
    module = ModuleOp(list(functions))
    module.attributes["name"] = StringAttr(name)
    return Program(module)


class Code(Builder):
    """A builder with short names for what tests need."""

    def op(self, name: str, level: str, *operands: SSAValue | list[SSAValue], **statics: object) -> SSAValue:
        row = ops.table()[name]
        args = dict(zip(row.param_names, operands, strict=False))
        return self.apply(row, level, {**args, **statics})[0]

    def s(self, name: str, *operands: SSAValue, **statics: object) -> SSAValue:
        return self.op(name, "scalar", *operands, **statics)

    def zeros(self, count: int) -> list[SSAValue]:
        return [self.const(0) for _ in range(count)]

    def load_all(self, buffer: SSAValue, type: TileType) -> SSAValue:
        return self.load(buffer, self.zeros(type.rank), [self.const(int(dim)) for dim in type.valid], type)


def block(*types: ValueType) -> tuple[Block, Code]:
    body = Block(arg_types=d.ir_types(types))
    return body, Code(body)


@dataclass(frozen=True)
class Case:
    """A program, arguments for its entry `main`, and what they must be afterwards."""

    name: str
    build: Callable[[], Program]
    arguments: Callable[[], list[Any]]
    expected: Callable[[Sequence[Any]], list[Any]]


def random(*shape: int, dtype: Any = np.float32, seed: int = 0) -> NDArray:
    return (np.random.default_rng(seed).standard_normal(shape) * 3).astype(dtype)


# ragged tiles in a region -----------------------------------------------------------------------------------------------


def ragged() -> Program:
    """Doubles any number of rows in tiles of 16; the last one is narrower."""
    f, (x, out) = function("main", "orchestration", [("x", tensor("M", 24), "In"), ("out", tensor("M", 24), "Out")])
    b = Code(f.body.block)
    region, r = block()
    rows = r.dim(x, 0)
    count = r.s("floordiv", r.s("add", rows, r.const(15)), r.const(16))
    body, c = block(INDEX_TYPE)
    row = c.s("mul", body.args[0], c.const(16))
    left = c.s("minimum", c.s("sub", rows, row), c.const(16))
    t = c.load(x, [row, c.const(0)], [left, c.const(24)], tile(16, 24, valid=(ANY, 24)))
    c.store(c.op("add", "tile", t, t), out, [row, c.const(0)])
    c.yield_([])
    r.for_(r.const(0), count, r.const(1), [], body, [])
    r.yield_([])
    b.region(region, [])
    b.return_([out])
    return program(f)


# carried tiles, branches ------------------------------------------------------------------------------------------------


def carried() -> Program:
    """Adds tiles in a loop, every other one negated, with a counter that nothing reads."""
    f, (x, out, n) = function("main", "orchestration", [("x", tensor(40, 8), "In"), ("out", tensor(8, 8), "Out"), ("n", INDEX_TYPE, "In")])
    b = Code(f.body.block)
    region, r = block()
    acc = r.load_all(x, tile(8, 8))
    body, c = block(INDEX_TYPE, tile(8, 8), INDEX_TYPE, FLOAT)
    index, sum_, counter, same = body.args
    t = c.load(x, [c.s("mul", index, c.const(8)), c.const(0)], [c.const(8), c.const(8)], tile(8, 8))
    odd = c.s("cmp", c.s("mod", index, c.const(2)), c.const(1), cmp_type=0)
    then, a = block()
    a.yield_([a.op("neg", "tile", t)])
    orelse, e = block()
    e.yield_([t])
    chosen = c.if_(odd, then, orelse, [tile(8, 8)]).results[0]
    c.yield_([c.op("add", "tile", sum_, chosen), c.s("add", counter, c.const(1)), same])
    loop = r.for_(r.const(1), n, r.const(1), [acc, r.const(0), r.const(2.0)], body, [tile(8, 8), INDEX_TYPE, FLOAT])
    r.store(r.op("mul", "tile", loop.results[0], loop.results[2]), out, r.zeros(2))
    r.yield_([])
    b.region(region, [])
    b.return_([out])
    return program(f)


FLOAT = ScalarType(FP32)


def carried_expected(arguments: Sequence[Any]) -> list[Any]:
    x, _, n = arguments
    tiles = x.reshape(5, 8, 8)
    total = tiles[0].copy()
    for i in range(1, n):
        total = total + (-tiles[i] if i % 2 else tiles[i])
    return [x, total * np.float32(2), n]


# operators on the control plane -------------------------------------------------------------------------------------------


def control_plane() -> Program:
    """Tensor operators outside any region: a run, a loop that carries a tensor value, another run, a scalar read in between."""
    f, (x, out, n) = function("main", "orchestration", [("x", tensor("M", 12), "In"), ("out", tensor("M", 12), "Out"), ("n", INDEX_TYPE, "In")])
    b = Code(f.body.block)
    b.hint = "double"
    y = b.op("add", "tensor", x, x)
    b.hint = None
    value = d.type_of(y)
    body, c = block(INDEX_TYPE, value)
    c.yield_([c.op("add", "tensor", c.op("mul", "tensor", body.args[1], c.const(0.5)), y)])
    loop = b.for_(b.const(0), n, b.const(1), [y], body, [value])
    first = b.read(loop.results[0], b.zeros(2))
    b.store(b.op("mul", "tensor", loop.results[0], first), out, b.zeros(2))
    b.return_([out])
    return program(f)


def control_plane_expected(arguments: Sequence[Any]) -> list[Any]:
    x, _, n = arguments
    y = x + x
    value = y
    for _ in range(n):
        value = value * np.float32(0.5) + y
    return [x, value * value[0, 0], n]


# blocks, calls, atomics ---------------------------------------------------------------------------------------------------


def blocks() -> Program:
    """A kernel launched by spmd adds its block's rows into one output, atomically."""
    kernel, (x, out, scale) = function("kernel", "incore", [("x", tensor(12, 5), "In"), ("out", tensor(3, 5), "InOut"), ("scale", FLOAT, "In")])
    k = Code(kernel.body.block)
    row = k.s("mul", k.apply(ops.table()["get_block_idx"], "tile", {})[0], k.const(3))
    t = k.load(x, [row, k.const(0)], [k.const(3), k.const(5)], tile(3, 5))
    k.store(k.op("mul", "tile", t, scale), out, k.zeros(2), atomic=True)
    k.return_([out])
    f, (x, out) = function("main", "orchestration", [("x", tensor(12, 5), "In"), ("out", tensor(3, 5), "InOut")])
    b = Code(f.body.block)
    region, r = block(INDEX_TYPE)
    r.call("kernel", [x, out, r.const(0.5)], [])
    r.yield_([])
    b.region(region, [], blocks=b.const(4), kind="spmd")
    inner, s = block(INDEX_TYPE)
    row = s.s("mul", inner.args[0], s.const(2))
    t = s.load(x, [row, s.const(0)], [s.const(1), s.const(5)], tile(1, 5))
    s.store(t, out, [inner.args[0], s.const(0)], atomic=True)
    s.yield_([])
    b.region(inner, [], blocks=b.const(3), kind="spmd", name_hint="tail")
    b.return_([out])
    return program(kernel, f)


def blocks_expected(arguments: Sequence[Any]) -> list[Any]:
    x, out = arguments
    total = out.copy()
    for i in range(4):
        total += x[3 * i : 3 * i + 3] * np.float32(0.5)
    for i in range(3):
        total[i] += x[2 * i]
    return [x, total]


# values that leave regions --------------------------------------------------------------------------------------------------


def crossing() -> Program:
    """A tile, a scalar and a constant leave one region and are used by the next."""
    f, (x, out) = function("main", "orchestration", [("x", tensor(6, 7), "In"), ("out", tensor(6, 7), "Out")])
    b = Code(f.body.block)
    first, r = block()
    t = r.load_all(x, tile(6, 7))
    corner = r.read(x, [r.const(5), r.const(6)])
    r.yield_([r.op("abs", "tile", t), corner, r.const(3.0)])
    made = b.region(first, [tile(6, 7), FLOAT, FLOAT], name_hint="first")
    second, s = block()
    scaled = s.op("mul", "tile", made.results[0], made.results[2])
    s.store(s.op("add", "tile", scaled, made.results[1]), out, s.zeros(2))
    s.yield_([])
    b.region(second, [], name_hint="second")
    b.return_([out])
    return program(f)


# while, windows, narrow floats ----------------------------------------------------------------------------------------------


def halving() -> Program:
    """Halves an FP16 window until a count from memory is used up; the window is one row of a tensor."""
    f, (x, count, out) = function("main", "opaque", [("x", tensor(4, 9, dtype=FP16), "In"), ("count", tensor(1, dtype=INT32), "In"), ("out", tensor(9), "Out")])
    b = Code(f.body.block)
    region, r = block()
    row = r.window(x, [r.const(2), r.const(0)], [r.const(1), r.const(9)], tensor(9, dtype=FP16), drop=(0,))
    steps = r.s("cast", r.read(count, [r.const(0)]), target_type=INDEX)
    value = TileType((9,), FP16, (9,), "DDR")
    start = r.op("mul", "tensor", row, r.const(1.0, FP16))
    assert d.type_of(start) == value
    before, c = block(INDEX_TYPE, value)
    c.condition(c.s("cmp", before.args[0], steps, cmp_type=2), before.args)
    body, w = block(INDEX_TYPE, value)
    w.yield_([w.s("add", body.args[0], w.const(1)), w.op("mul", "tensor", body.args[1], w.const(0.5, FP16))])
    loop = r.while_([r.const(0), start], before, body, [INDEX_TYPE, value])
    r.store(loop.results[1], out, r.zeros(1))
    r.yield_([])
    b.region(region, [])
    b.return_([out])
    return program(f)


CASES: tuple[Case, ...] = (
    Case("ragged", ragged, lambda: [random(37, 24), np.full((37, 24), np.nan, np.float32)], lambda a: [a[0], a[0] + a[0]]),
    Case("ragged whole", ragged, lambda: [random(32, 24), np.full((32, 24), np.nan, np.float32)], lambda a: [a[0], a[0] + a[0]]),
    Case("carried", carried, lambda: [random(40, 8), np.zeros((8, 8), np.float32), 5], carried_expected),
    Case("carried never", carried, lambda: [random(40, 8), np.zeros((8, 8), np.float32), 1], carried_expected),
    Case("control plane", control_plane, lambda: [random(7, 12), np.zeros((7, 12), np.float32), 3], control_plane_expected),
    Case("blocks", blocks, lambda: [random(12, 5), random(3, 5, seed=1)], blocks_expected),
    Case("crossing", crossing, lambda: [random(6, 7), np.zeros((6, 7), np.float32)], lambda a: [a[0], np.abs(a[0]) * np.float32(3) + a[0][5, 6]]),
    Case(
        "halving",
        halving,
        lambda: [random(4, 9, dtype=np.float16), np.array([3], np.int32), np.zeros(9, np.float32)],
        lambda a: [a[0], a[1], (a[0][2] * np.float16(0.125)).astype(np.float32)],
    ),
)

_ = BOOL
