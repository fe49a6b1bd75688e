"""Every data type of the language once: its width, kind and spellings on each side."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from tilejit.frozen import of_the_language
from tilejit.optional import MayBeNone

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Kind = Literal["bool", "int", "uint", "float", "complex", "task"]


@of_the_language
@dataclass(frozen=True, eq=False, slots=True)
class DType(MayBeNone):
    """An element type. Instances are singletons: compare with `is` or `==`."""

    name: str
    bits: int
    kind: Kind
    numpy_name: str | None
    """Name in NumPy, or in ml_dtypes when NumPy lacks it; None: no array of it exists."""
    torch_name: str | None
    llvm: str
    """Type in memory; sub-byte types are held one element per byte unless packed by the caller."""
    pto: str | None

    def __repr__(self) -> str:
        return f"pl.{self.name}"

    def __str__(self) -> str:
        return self.name

    def __reduce__(self) -> str | tuple[object, ...]:
        return (dtype_named, (self.name,))

    def get_bit(self) -> int:
        """Width of one element in bits."""
        return self.bits

    def get_byte(self) -> int:
        """Width of one element in whole bytes (sub-byte types: 1)."""
        return max(1, self.bits // 8)

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        """Signed or unsigned integer, INDEX included; BOOL is not."""
        return self.kind in ("int", "uint")

    @property
    def is_signed(self) -> bool:
        return self.kind in ("int", "float")

    @property
    def numpy(self) -> np.dtype[np.generic]:
        """The NumPy dtype of arrays of this type."""
        return _numpy_dtype(self.name)


def _row(name: str, bits: int, kind: Kind, numpy: str | None, torch: str | None, llvm: str, pto: str | None) -> DType:
    return DType(name, bits, kind, numpy, torch, llvm, pto)


#        name         bits kind     numpy              torch               llvm      pto
_ROWS = (
    _row("BOOL", 1, "bool", "bool", "bool", "i8", "i1"),
    _row("INT4", 4, "int", "int4", None, "i8", "i4"),
    _row("INT8", 8, "int", "int8", "int8", "i8", "i8"),
    _row("INT16", 16, "int", "int16", "int16", "i16", "i16"),
    _row("INT32", 32, "int", "int32", "int32", "i32", "i32"),
    _row("INT64", 64, "int", "int64", "int64", "i64", "i64"),
    _row("UINT4", 4, "uint", "uint4", None, "i8", "ui4"),
    _row("UINT8", 8, "uint", "uint8", "uint8", "i8", "ui8"),
    _row("UINT16", 16, "uint", "uint16", "uint16", "i16", "ui16"),
    _row("UINT32", 32, "uint", "uint32", "uint32", "i32", "ui32"),
    _row("UINT64", 64, "uint", "uint64", "uint64", "i64", "ui64"),
    _row("FP4", 4, "float", "float4_e2m1fn", "float4_e2m1fn_x2", "i8", "f4E2M1x2"),
    _row("FP8E4M3FN", 8, "float", "float8_e4m3fn", "float8_e4m3fn", "i8", "f8E4M3FN"),
    _row("FP8E5M2", 8, "float", "float8_e5m2", "float8_e5m2", "i8", "f8E5M2"),
    _row("FP8E8M0", 8, "float", "float8_e8m0fnu", "float8_e8m0fnu", "i8", "f8E8M0"),
    _row("FP16", 16, "float", "float16", "float16", "half", "f16"),
    _row("BF16", 16, "float", "bfloat16", "bfloat16", "i16", "bf16"),
    _row("FP32", 32, "float", "float32", "float32", "float", "f32"),
    _row("FP64", 64, "float", "float64", "float64", "double", None),
    _row("HF4", 4, "float", None, None, "i8", None),
    _row("HF8", 8, "float", None, None, "i8", "hif8"),
    _row("INDEX", 64, "int", "int64", "int64", "i64", "index"),
    _row("TASK_ID", 64, "task", None, None, "i64", None),
    _row("COMPLEX64", 64, "complex", "complex64", "complex64", "i64", None),
)

DTYPES: dict[str, DType] = {row.name: row for row in _ROWS}
"""All data types by name, in the order of the table."""

BOOL, INT4, INT8, INT16, INT32, INT64 = _ROWS[:6]
UINT4, UINT8, UINT16, UINT32, UINT64 = _ROWS[6:11]
FP4, FP8E4M3FN, FP8E5M2, FP8E8M0, FP16, BF16, FP32, FP64, HF4, HF8 = _ROWS[11:21]
INDEX, TASK_ID, COMPLEX64 = _ROWS[21:]

LONGS = {INDEX, INT64}
"""Two names of one width: a scalar of one is taken where a program says the other."""


def dtype_named(name: str) -> DType:
    """The data type called `name` (`"FP32"`)."""
    return DTYPES[name]


@cache
def _numpy_dtype(name: str) -> np.dtype[np.generic]:
    import numpy as np

    spelled = DTYPES[name].numpy_name
    if spelled is None:
        raise TypeError(f"{name} has no NumPy counterpart")
    if hasattr(np, spelled) or spelled == "bool":
        return np.dtype(spelled)
    import ml_dtypes

    return np.dtype(getattr(ml_dtypes, spelled))


@cache
def dtype_of_numpy(dtype: npt.DTypeLike) -> DType | None:
    """The language's type of a NumPy dtype, or None when there is no counterpart (complex128, object, …)."""
    import numpy as np

    return _of_numpy(np.dtype(dtype))


@cache
def _of_numpy(wanted: np.dtype[Any]) -> DType | None:
    name = wanted.name
    for row in _ROWS:
        # INDEX and INT64 share int64; the table order makes INT64 the answer.
        if row.numpy_name == name:
            return row if wanted.isnative else None
    return None


def dtype_of_torch_name(name: str) -> DType | None:
    """The language's type of a torch dtype given by its bare name (`"bfloat16"`)."""
    return next((row for row in _ROWS if row.torch_name == name), None)


def dtype_elsewhere(given: object) -> DType | None:
    """The language's type of what other libraries call a data type: `"float16"`, `np.float16`, `torch.float16`."""
    text = given if isinstance(given, str) else given.__name__ if isinstance(given, type) else str(given)
    name = text.rpartition(".")[2]
    return _WORDS.get(name) or next((row for row in _ROWS if name and name in (row.numpy_name, row.torch_name, row.name.lower())), None)


_WORDS = {"half": FP16, "float": FP32, "double": FP64, "short": INT16, "int": INT32, "long": INT64}


def promote(first: DType, second: DType) -> DType:
    """The type of an operation on two shaped operands: complex beats float, float beats int, then width, then signed, then the first."""
    if first is second:
        return first
    if COMPLEX64 in (first, second):
        return COMPLEX64
    if first.is_float != second.is_float:
        return first if first.is_float else second
    if first.bits != second.bits:
        return first if first.bits > second.bits else second
    if first.is_float:
        return first
    if INDEX in (first, second):
        return INDEX
    return first if first.is_signed else second


def integer_range(dtype: DType) -> tuple[int, int]:
    """Smallest and largest value of an integer or BOOL type."""
    if dtype.kind == "int":
        return -(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1
    return 0, (1 << dtype.bits) - 1
