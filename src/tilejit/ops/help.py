"""What `help(pl.row_max)` says: the same text stands in the stub that editors read."""

from __future__ import annotations

from tilejit.dtypes import COMPLEX64, FP32, INT32, DType
from tilejit.ops.dtype_rules import FLOATS, INTEGERS, NUMBERS, PLAIN, dtype_names
from tilejit.ops.spec import OpSpec, ParamKind, Spelling

_SETS = ((PLAIN, "numbers and BOOL"), (NUMBERS, "integers and floats"), (INTEGERS, "integers"), (FLOATS, "floats"))
_SHAPES = {
    "elementwise": "operands broadcast as in NumPy; the result has their common shape",
    "row": "[…, M, N] gives […, M, 1]",
    "col": "[…, M, N] gives […, 1, N]",
    "scan": "the result has the shape of the input",
    "matmul": "[M, K] and [K, N] give [M, N]",
    "over": "the axes that are reduced go, or have extent 1 with keepdims=True; all of them at once give a scalar",
}


_WRITTEN = {
    "squeeze": "pl.squeeze(x[0:1], axis=0)",
    "zeros": "pl.zeros([2, 3], pl.FP32)",
    "ones": "pl.ones([2, 3], pl.FP32)",
    "full_like": "pl.full_like(x, 7.0)",
    "broadcast_to": "pl.broadcast_to(x[0:1], [3, 8])",
    "expand_dims": "pl.expand_dims(x, 1)",
    "einsum": 'pl.einsum("ik,jk->ij", x, x)',
    "bincount": "pl.bincount(pl.cast(x, pl.INT32), 6)",
    "histogram": "pl.histogram(x, 5, 1.0, 5.0)",
    "topk": "pl.topk(x, 3)[0]",
    "rand": "pl.rand(7, [2, 3])",
    "randn": "pl.randn(7, [2, 3])",
}
"""Calls that show operators whose arguments cannot be told from the table; `x` is FP32."""


def _dtypes(row: OpSpec) -> str:
    return next((text for dtypes, text in _SETS if row.dtypes == dtypes), None) or dtype_names(row.dtypes)


def _shapes(row: OpSpec) -> str | None:
    if row.family == "reduction":
        return _SHAPES[str(row.attrs["axis"])]
    return _SHAPES.get("over" if row.name.endswith("_over") else row.family)


def example(spelling: Spelling, row: OpSpec) -> str | None:
    """A call on a tensor `x` that can stand in a kernel, for ops that take nothing else, or as it is written above."""
    if spelling.namespace == "pl" and spelling.name == row.name and row.name in _WRITTEN:
        return _WRITTEN[row.name]
    if spelling.namespace != "pl" or "tensor" not in row.levels or row.family not in ("elementwise", "reduction", "scan", "composed") or spelling.scalar_only:
        return None
    required = [param for param in row.params if param.required]
    if not 1 <= len(required) <= 2 or row.params[0].kind not in (ParamKind.Value, ParamKind.Operand) or required[0] is not row.params[0]:
        return None
    if any(param.kind not in (ParamKind.Value, ParamKind.Operand) for param in required):
        return None
    arguments = ["x"] * len(required) + (["axis=1"] if any(param.name == "axis" for param in row.params) else [])
    return f"pl.{spelling.name}({', '.join(arguments)})"


def example_dtype(row: OpSpec) -> DType:
    """The data type of `x` in the example."""
    return FP32 if row.name in _WRITTEN else next(dtype for dtype in (FP32, INT32, COMPLEX64) if dtype in row.dtypes)


def help_text(spelling: Spelling, row: OpSpec) -> str:
    """The meaning of an op, what it takes and gives, and an example."""
    lines = [row.doc]
    levels = [f"{level}s" for level in ("tensor", "tile", "scalar") if level in row.levels]
    facts: list[str] = []
    if levels and row.dtypes and row.family not in ("structural", "effect"):
        facts.append(f"takes: {' and '.join(levels) if len(levels) < 3 else 'tensors, tiles and scalars'} of {_dtypes(row)}")
    if (shapes := _shapes(row)) is not None:
        facts.append(f"shapes: {shapes}")
    if (call := example(spelling, row)) is not None:
        facts.append(f"example: out[:] = {call}  # x: {example_dtype(row)} [4, 8]")
    return "\n\n".join(["\n".join(lines), "\n".join(facts)]) if facts else row.doc
