"""Programs whose kernels run side by side: read from text, printed and read back, lowered, and run on both backends."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tilejit import ir
from tilejit.frontend.text import parse
from tilejit.passes.pipeline import LOWER, run_pipeline
from tilejit.tile_ir.equal import assert_structural_equal
from tilejit.tile_ir.program import Function, Program
from tilejit.tile_ir.verify import verify

Array = npt.NDArray[Any]


def read(text: str) -> Program:
    """The program of a text, which must survive printing."""
    found = parse(textwrap.dedent(text))
    program = found.program if isinstance(found, Function) else found
    assert isinstance(program, Program)
    verify(program)
    assert_structural_equal(_again(program), program)
    return program


def _again(program: Program) -> Program:
    found = parse(program.as_python())
    again = found.program if isinstance(found, Function) else found
    assert isinstance(again, Program)
    return again


def lowered(program: Program) -> Program:
    """The program after outlining, which must survive printing too."""
    out = run_pipeline(program, LOWER)
    verify(out)
    again = _again(out)
    assert_structural_equal(again, out)
    return again


def run(text: str | Program, *arguments: Array | float, platforms: Sequence[str] = ("reference", "cpu")) -> list[Array]:
    """The arrays after a call on each platform, which must agree; the last platform's."""
    program = read(text) if isinstance(text, str) else text
    results: list[list[Array]] = []
    for platform in platforms:
        compiled = ir.compile(program, platform=platform)
        own = [item.copy() if isinstance(item, np.ndarray) else item for item in arguments]
        compiled(*own)
        results.append([item for item in own if isinstance(item, np.ndarray)])
    for first, second in zip(results[0], results[-1], strict=True):
        wide = np.complex128 if first.dtype.kind == "c" else np.float64
        np.testing.assert_allclose(first.astype(wide), second.astype(wide), rtol=2e-5, atol=2e-5)
    return results[-1]


def pair(aic: str, aiv: str, order: str = "self.aic(a, b, n)\nself.aiv(out, n)", shape: str = "16, 16", dtype: str = "FP32", kind: str = "Group") -> str:
    """A cube and a vector kernel in a group: `a`, `b` on the cube side, `out` on the vector side, a number `n` on both."""
    tensor = f"pl.Tensor[[{shape}], pl.{dtype}]"
    params = f"a: {tensor}, b: {tensor}, out: pl.InOut[{tensor}], n: pl.Scalar[pl.INDEX]"

    def body(text: str) -> str:
        return textwrap.indent(textwrap.dedent(text).strip(), "        ")

    return f"""
@pl.program
class P:
    @pl.function(type=pl.FunctionType.AIC)
    def aic(self, a: {tensor}, b: pl.InOut[{tensor}], n: pl.Scalar[pl.INDEX]):
{body(aic)}

    @pl.function(type=pl.FunctionType.AIV)
    def aiv(self, out: pl.InOut[{tensor}], n: pl.Scalar[pl.INDEX]):
{body(aiv)}

    @pl.function(type=pl.FunctionType.{kind})
    def group(self, {params.replace("b: ", "b: pl.InOut[").replace(", out", "], out")}):
{body(order)}

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, {params.replace("b: ", "b: pl.InOut[").replace(", out", "], out")}):
        self.group(a, b, out, n)
"""


def numbers(*shape: int, seed: int = 0, dtype: npt.DTypeLike = np.float32) -> Array:
    """Random numbers; floats are small enough to be exponents."""
    rng = np.random.default_rng(seed + sum(shape))
    if np.issubdtype(np.dtype(dtype), np.integer):
        return rng.integers(1, 9, shape).astype(dtype)
    return (rng.standard_normal(shape) * 0.3).astype(dtype)
