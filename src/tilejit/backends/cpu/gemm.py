"""Matrix products as internal LLVM functions: blocked and packed for large ones, direct for small ones, streaming for vectors.

The function made by `gemm_function` is called as

    void @gemm_...(ptr a, i64 a_row, i64 a_col, ptr b, i64 b_row, i64 b_col, ptr c, i64 c_row, i64 m, i64 n, i64 k, i1 accumulate, ptr scratch)

and computes C[m, n] = A[m, k] @ B[k, n], or C += A @ B with `accumulate`. Strides count elements; those of A and B may be anything
(a transpose swaps them), the columns of C are adjacent. A and B have dtype `operand`, C has the accumulator type `accumulator_of(operand)`
(FP32 for floats, INT32 for integers up to 32 bits). `scratch` has `scratch_bytes(operand)` bytes, 64-byte aligned. Sizes may be 0.
"""

from __future__ import annotations

from tilejit.backends.cpu.emit import Emitter, Index, Module, Value
from tilejit.dtypes import FP32, INT32, INT64, DType


def accumulator_of(operand: DType) -> DType:
    """The type in which products of `operand` are summed and C is held."""
    if operand.is_float:
        return FP32
    return INT32 if operand.bits <= 32 else INT64


def scratch_bytes(operand: DType, m: int | None = None, n: int | None = None, k: int | None = None) -> int:
    """Bytes of packing memory one running gemm needs; less when the sizes are known and small (possibly 0)."""
    raise NotImplementedError


def gemm_function(module: Module, operand: DType, m: int | None = None, n: int | None = None, k: int | None = None) -> str:
    """Name (`@gemm_...`) of the function for `operand`, added to `module` when first used; sizes known now choose a leaner variant."""
    raise NotImplementedError


def call_gemm(
    e: Emitter,
    operand: DType,
    a: tuple[Value, Index, Index],
    b: tuple[Value, Index, Index],
    c: tuple[Value, Index],
    sizes: tuple[Index, Index, Index],
    accumulate: Value | bool,
    scratch: Value,
) -> None:
    """C[m, n] (+)= A[m, k] @ B[k, n]; `a` and `b` are (address, row stride, column stride), `c` is (address, row stride)."""
    raise NotImplementedError
