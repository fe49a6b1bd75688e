"""Ops that ask about the machine: their answers are constants of the table."""

from __future__ import annotations

from typing import Any

from tilejit import ops
from tilejit.backends.cpu.function import FunctionWriter
from tilejit.backends.cpu.lanes.registers import register_element
from tilejit.backends.cpu.llvm.text import Value
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import apply_args
from tilejit.types.values import ScalarType


def write_constant(f: FunctionWriter, op: d.ApplyOp) -> None:
    type = d.type_of(op.results[0])
    assert isinstance(type, ScalarType)
    number: Any = ops.table()[op.op].reference(results=(type,), **apply_args(op))
    f.values[op.results[0]] = Value(str(int(number)), register_element(type.dtype))
