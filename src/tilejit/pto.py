"""PTO kernels from text: `@pto.jit(source=…)`, and the types of their parameters."""

from __future__ import annotations

from tilejit.jit.pto.source import CompiledKernel, SourceKernel, jit
from tilejit.jit.pto.types import CONST_EXPR, MARKERS, SCALARS, ptr, tensor_spec

const_expr = CONST_EXPR
Tile = MARKERS["Tile"]
TensorView = MARKERS["TensorView"]
PartitionTensorView = MARKERS["PartitionTensorView"]
VReg = MARKERS["VReg"]
mask = MARKERS["mask"]
i1, i8, i16, i32, i64 = (SCALARS[name] for name in ("i1", "i8", "i16", "i32", "i64"))
si8, si16, si32, si64 = (SCALARS[name] for name in ("si8", "si16", "si32", "si64"))
ui8, ui16, ui32, ui64 = (SCALARS[name] for name in ("ui8", "ui16", "ui32", "ui64"))
f16, bf16, f32, index = (SCALARS[name] for name in ("f16", "bf16", "f32", "index"))
f8E4M3FN, f8E4M3, f8E5M2 = (SCALARS[name] for name in ("f8E4M3FN", "f8E4M3", "f8E5M2"))

__all__ = [
    "CompiledKernel", "PartitionTensorView", "SourceKernel", "TensorView", "Tile", "VReg", "bf16", "const_expr", "f8E4M3", "f8E4M3FN", "f8E5M2",
    "f16", "f32", "i1", "i8", "i16", "i32", "i64", "index", "jit", "mask", "ptr", "si8", "si16", "si32", "si64", "tensor_spec", "ui8", "ui16", "ui32",
    "ui64",
]  # fmt: skip
