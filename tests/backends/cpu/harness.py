"""Hand-built programs run on the reference, on the CPU op by op, and on the CPU fused: all three must agree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Block, SSAValue

from tilejit import ops
from tilejit.backends.base import CompileOptions
from tilejit.backends.cpu import executable
from tilejit.backends.reference.interpreter import ReferenceExecutable
from tilejit.dtypes import FP32, INDEX, DType
from tilejit.passes.fuse import fuse
from tilejit.runtime.arrays import view_of
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import Builder, function
from tilejit.tile_ir.program import Program
from tilejit.tile_ir.verify import verify
from tilejit.types.values import BufferType, ScalarType, TileType, ValueType

NDArray = npt.NDArray[Any]


class Kernel(Builder):
    """A builder with short names for what tests write often."""

    def op(self, name: str, *args: object, level: str = "tile", **kwargs: object) -> SSAValue:
        row = ops.table()[name]
        given = dict(zip([param.name for param in row.params], args, strict=False)) | kwargs
        (result,) = self.apply(row, level, given)
        return result

    def ints(self, *values: int | SSAValue) -> list[SSAValue]:
        return [self.index(value) for value in values]

    def tile(
        self, buffer: SSAValue, offsets: Sequence[int | SSAValue], shape: Sequence[int], valid: Sequence[int | SSAValue] | None = None, clamp: bool = False
    ) -> SSAValue:
        """A load; `valid` may be run-time scalars."""
        asked = list(valid) if valid is not None else list(shape)
        known = tuple(v if isinstance(v, int) and not clamp else "?" for v in asked)
        type = TileType(tuple(shape), d.shaped_type(buffer).dtype, known)
        return self.load(buffer, self.ints(*offsets), self.ints(*asked), type, clamp)

    def put(self, value: SSAValue, buffer: SSAValue, *offsets: int | SSAValue, atomic: bool = False) -> None:
        rank = d.shaped_type(buffer).rank
        self.store(value, buffer, self.ints(*(offsets or (0,) * rank)), atomic)

    def loop(
        self,
        lower: int | SSAValue,
        upper: int | SSAValue,
        step: int | SSAValue,
        inits: Sequence[SSAValue],
        body: Callable[..., Sequence[SSAValue]],
        types: Sequence[ValueType] | None = None,
    ) -> list[SSAValue]:
        """A counted loop; `body(iv, *carried)` returns what is yielded."""
        results = list(types) if types is not None else [d.type_of(init) for init in inits]
        block = Block(arg_types=d.ir_types([ScalarType(INDEX), *results]))
        with self.at(block):
            self.yield_(body(*block.args))
        return list(self.for_(self.index(lower), self.index(upper), self.index(step), inits, block, results).results)

    def branch(
        self, condition: SSAValue, then: Callable[[], Sequence[SSAValue]], orelse: Callable[[], Sequence[SSAValue]], types: Sequence[ValueType]
    ) -> list[SSAValue]:
        """An if with results of the given types."""
        blocks: list[Block] = []
        for arm in (then, orelse):
            block = Block()
            with self.at(block):
                self.yield_(arm())
            blocks.append(block)
        return list(self.if_(condition, blocks[0], blocks[1], types).results)


def buffer(*shape: int | str, dtype: DType = FP32) -> BufferType:
    return BufferType(tuple(shape), dtype)


def program(params: Sequence[ValueType], body: Callable[..., None], outputs: int = 1, name: str = "kernel") -> Program:
    """A program of one kernel; the last `outputs` parameters are written."""
    directions = ["In"] * (len(params) - outputs) + ["Out"] * outputs
    op, args = function(name, "incore", [(f"p{i}", type, direction) for i, (type, direction) in enumerate(zip(params, directions, strict=True))])
    k = Kernel(op.body.block)
    body(k, *args)
    k.return_([])
    return Program(ModuleOp([op], {"name": StringAttr("test")}))


def fused(source: Program) -> Program:
    copy = Program(source.module.clone())
    fuse(copy)
    verify(copy)
    return copy


def check(source: Program, arguments: Sequence[NDArray | int | float], outputs: int = 1, rtol: float = 2e-6, atol: float = 0.0) -> list[NDArray]:
    """Run on all backends with copies of the arguments; the outputs must agree. Returns those of the reference."""
    entry = next(iter(source.entries))
    expected = _run(lambda args: ReferenceExecutable(source).run(entry, args), arguments)
    for version in (source, fused(source)):
        got = _run(lambda args, version=version: run_native(version, entry, args), arguments)
        for want, have in zip(expected[-outputs:], got[-outputs:], strict=True):
            compare(have, want, rtol, atol)
    return [item for item in expected[-outputs:] if isinstance(item, np.ndarray)]


def run_native(source: Program, entry: str, arguments: Sequence[NDArray | int | float], options: CompileOptions | None = None) -> None:
    """Run as machine code; arrays are written in place."""
    bound = [argument if isinstance(argument, int | float) else view_of(argument) for argument in arguments]
    executable.build(source, options or CompileOptions()).entries[entry].run([argument for argument in bound if argument is not None])


def _run(run: Callable[[Sequence[Any]], object], arguments: Sequence[NDArray | int | float]) -> list[Any]:
    copies = [argument.copy() if isinstance(argument, np.ndarray) else argument for argument in arguments]
    run(copies)
    return copies


def compare(have: NDArray, want: NDArray, rtol: float, atol: float) -> None:
    if want.dtype.kind in "biu":
        np.testing.assert_array_equal(have, want)
    else:
        np.testing.assert_allclose(have.astype(np.float32), want.astype(np.float32), rtol=rtol, atol=atol, equal_nan=True)


def random(rng: np.random.Generator, dims: Sequence[int | str], dtype: DType = FP32) -> NDArray:
    """Data that is never all alike: floats around zero, integers over a small range that includes negatives."""
    shape = [dim for dim in dims if isinstance(dim, int)]
    if dtype.is_float:
        return (rng.standard_normal(shape) * 2).astype(dtype.numpy)
    if dtype.kind == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    low = -50 if dtype.is_signed else 0
    return rng.integers(low, 100, shape).astype(dtype.numpy)

