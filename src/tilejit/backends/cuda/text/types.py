"""How each data type lives in Triton: its register type, its pointer, and the type it is computed in."""

from __future__ import annotations

from tilejit.dtypes import (
    BF16,
    BOOL,
    COMPLEX64,
    FP4,
    FP8E4M3FN,
    FP8E5M2,
    FP8E8M0,
    FP16,
    FP32,
    FP64,
    INDEX,
    INT4,
    INT8,
    INT16,
    INT32,
    INT64,
    TASK_ID,
    UINT4,
    UINT8,
    UINT16,
    UINT32,
    UINT64,
    DType,
    integer_range,
)

_NAMES: dict[DType, tuple[str, str]] = {
    BOOL: ("int1", "i8"),
    INT8: ("int8", "i8"),
    INT16: ("int16", "i16"),
    INT32: ("int32", "i32"),
    INT64: ("int64", "i64"),
    INDEX: ("int64", "i64"),
    TASK_ID: ("int64", "i64"),
    COMPLEX64: ("int64", "i64"),
    UINT8: ("uint8", "u8"),
    UINT16: ("uint16", "u16"),
    UINT32: ("uint32", "u32"),
    UINT64: ("uint64", "u64"),
    FP16: ("float16", "fp16"),
    BF16: ("bfloat16", "bf16"),
    FP32: ("float32", "fp32"),
    FP64: ("float64", "fp64"),
    INT4: ("int8", "i8"),
    UINT4: ("uint8", "u8"),
    FP4: ("uint8", "u8"),
    FP8E4M3FN: ("uint8", "u8"),
    FP8E5M2: ("uint8", "u8"),
    FP8E8M0: ("uint8", "u8"),
}
"""Name in `triton.language` and in signatures. Floats of 8 bits and fewer are carried as their bits: every architecture can do that."""

DECODED = {FP4: "fp4", FP8E4M3FN: "e4m3", FP8E5M2: "e5m2", FP8E8M0: "e8m0"}
"""Floats held as bits, and the name under which helpers convert them."""


def register(dtype: DType) -> str:
    """The type of a value in registers."""
    return f"tl.{_NAMES[dtype][0]}"


def signature(dtype: DType) -> str:
    """The element type of a pointer, or the type of a scalar parameter."""
    return _NAMES[dtype][1]


def memory(dtype: DType) -> str:
    """The element type in memory: flags are bytes there."""
    return "tl.int8" if dtype is BOOL else register(dtype)


def computed_in(dtype: DType) -> DType:
    """Narrow floats are computed in FP32."""
    return FP32 if dtype.is_float and dtype is not FP64 else dtype


def fits32(bounds: tuple[int, int] | None) -> bool:
    """Whether every number within bounds is an int32."""
    low, high = integer_range(INT32)
    return bounds is not None and low <= bounds[0] and bounds[1] <= high


def padded(extent: int) -> int:
    """The power of two that holds an extent."""
    return 1 << max(0, (extent - 1).bit_length())
