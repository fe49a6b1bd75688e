"""Small kernels from text: read, verified, printed and read back, run on the reference backend."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tilejit.backends.reference.interpreter import ReferenceExecutable
from tilejit.frontend.text import parse
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.equal import assert_structural_equal
from tilejit.tile_ir.program import Function, Program
from tilejit.tile_ir.verify import verify

Array = npt.NDArray[Any]

PARAMS = "x: pl.Tensor[[8, 16], pl.FP32], cfg: pl.Tensor[[4], pl.INT32], out: pl.Out[pl.Tensor[[8, 16], pl.FP32]]"


def source(body: str, params: str = PARAMS, kind: str = "InCore", before: str = "") -> str:
    """Text of a module with one kernel `k`; the body begins in line 1 + the lines of `before` + 2."""
    text = textwrap.indent(textwrap.dedent(body).strip("\n"), "    ")
    return f"{textwrap.dedent(before).strip()}\n@pl.function(type=pl.FunctionType.{kind})\ndef k({params}):\n{text}\n"


def kernel(body: str, params: str = PARAMS, kind: str = "InCore", before: str = "", names: Mapping[str, object] | None = None) -> Program:
    """The kernel, read and checked."""
    found = parse(source(body, params, kind, before), namespace=names)
    assert isinstance(found, Function)
    return checked(found.program)


def checked(program: Program) -> Program:
    """`program`, after making sure that it is well-formed and survives printing."""
    verify(program)
    again = parse(program.as_python())
    assert isinstance(again, Program)
    assert_structural_equal(again, program)
    return program


def run(program: Program, *arguments: Array | float, entry: str | None = None) -> tuple[object, ...]:
    """Call the entry on the reference backend; arrays are changed in place."""
    name = entry or next(iter(program.entries), list(program.functions)[-1])
    return ReferenceExecutable(program).run(name, list(arguments))


def data(*shape: int, dtype: npt.DTypeLike = np.float32, seed: int = 0) -> Array:
    """Random numbers without zeros."""
    rng = np.random.default_rng(seed + sum(shape))
    if np.issubdtype(np.dtype(dtype), np.integer):
        return rng.integers(1, 9, shape).astype(dtype)
    return (rng.standard_normal(shape) + 0.1).astype(dtype)


def result(body: str, *cfg: int, params: str = PARAMS, before: str = "", names: Mapping[str, object] | None = None) -> tuple[Array, Array]:
    """The input and output of a kernel with the usual parameters."""
    x, out = data(8, 16), np.full((8, 16), np.nan, np.float32)
    run(kernel(body, params, before=before, names=names), x, np.array([*cfg, 0, 0, 0, 0][:4], np.int32), out)
    return x, out


def ops(program: Program, kind: type[Any], function: str | None = None) -> list[Any]:
    """All ops of a class, in order."""
    functions = program.functions
    chosen = functions[function] if function else list(functions.values())[-1]
    return [op for op in chosen.walk() if isinstance(op, kind)]


def applied(program: Program, function: str | None = None) -> list[str]:
    """Names of the ops of the table that are applied, in order."""
    return [op.op for op in ops(program, d.ApplyOp, function)]
