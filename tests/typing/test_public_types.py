"""What a type checker sees of the public surface; `make check` reads this file, and the run compares it with reality."""

from __future__ import annotations

from typing import assert_type

import numpy as np

import tilejit.language as pl
from tilejit import CompiledProgram, RunConfig, ir
from tilejit.dtypes import DType
from tilejit.jit.function import JITFunction


@pl.jit
def double(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x + x


@pl.program
class Double:
    @pl.function
    def main(self, x: pl.Tensor[[4, 8], pl.FP32], out: pl.Out[pl.Tensor[[4, 8], pl.FP32]]) -> pl.Tensor[[4, 8], pl.FP32]:
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.load(x, [0, 0], [4, 8])
            out = pl.store(pl.add(t, t), [0, 0], out)
        return out


def test_a_jit_function_and_what_it_gives() -> None:
    x = np.ones((4, 8), np.float32)
    assert_type(double, JITFunction)
    assert_type(double.compile(x, x.copy()), CompiledProgram)
    assert_type(double.specialized_source(x, x.copy()), str)
    assert isinstance(double, JITFunction)
    assert isinstance(double.compile(x, x.copy()), CompiledProgram)
    assert isinstance(double.specialized_source(x, x.copy()), str)


def test_a_program_and_what_it_gives() -> None:
    assert_type(Double, ir.Program)
    assert_type(ir.compile(Double, config=RunConfig(platform="reference")), CompiledProgram)
    assert_type(Double.as_python(), str)
    assert isinstance(Double, ir.Program)
    assert isinstance(ir.compile(Double, config=RunConfig(platform="reference")), CompiledProgram)
    assert isinstance(Double.as_python(), str)


def test_names_of_the_language() -> None:
    kind: DType = pl.FP32  # and, as the annotation of a parameter, a type: user_file.py
    assert isinstance(kind, DType)
