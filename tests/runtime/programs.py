"""Small programs that the tests of compiled programs share, made for a dtype and static or dynamic extents."""

from __future__ import annotations

from functools import cache

import tilejit.language as pl
from tilejit import ir
from tilejit.dtypes import DType
from tilejit.tile_ir.program import Program

COLUMNS = 37
ROWS = 13


@cache
def binary(dtype: str, expression: str = "pl.add(a, b)", rows: int | str = ROWS) -> Program:
    """`out[:] = expression` of two tensors; `rows` is an extent, or the name of a dynamic one."""
    tensor = f"pl.Tensor[[{rows}, {COLUMNS}], pl.{dtype}]"
    symbol = f'{rows} = pl.dynamic("{rows}")\n' if isinstance(rows, str) else ""
    program = pl.parse(f"""
{symbol}
@pl.program
class Binary:
    @pl.function
    def main(self, a: {tensor}, b: {tensor}, out: pl.Out[{tensor}]) -> {tensor}:
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = {expression}
        return out
""")
    assert isinstance(program, Program)
    return program


@cache
def compiled(dtype: str, expression: str = "pl.add(a, b)", rows: int | str = ROWS) -> ir.CompiledProgram:
    """The program, compiled once for all tests."""
    return ir.compile(binary(dtype, expression, rows), platform="cpu")


def arithmetic(dtype: DType) -> str:
    """An expression over the dtype: a sum where the language adds, else a copy."""
    return "pl.add(a, b)" if (dtype.bits >= 8 and dtype.is_integer) or dtype.name in ("FP16", "BF16", "FP32") else "a"


@pl.program
class ScaleInPlace:
    @pl.function
    def main(self, x: pl.Tensor[[4, 8], pl.FP32], n: pl.Scalar[pl.INT8], state: pl.InOut[pl.Tensor[[4, 8], pl.FP32]], out: pl.Out[pl.Tensor[[4, 8], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            state[:] = pl.add(state, x)
            out[:] = pl.mul(state, pl.cast(n, pl.FP32))


@pl.program
class TwoEntries:
    @pl.function(type=pl.FunctionType.Orchestration)
    def double(self, x: pl.Tensor[[4, 8], pl.FP32], out: pl.Out[pl.Tensor[[4, 8], pl.FP32]]) -> pl.Tensor[[4, 8], pl.FP32]:
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.add(x, x)
        return out

    @pl.function(type=pl.FunctionType.Orchestration)
    def negate(self, x: pl.Tensor[[4, 8], pl.FP32], out: pl.Out[pl.Tensor[[4, 8], pl.FP32]]) -> pl.Tensor[[4, 8], pl.FP32]:
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.neg(x)
        return out
