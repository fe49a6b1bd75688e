"""Numbers that a call gives, as the types that parameters declare hold them."""

from __future__ import annotations

from tilejit.dtypes import BOOL, INDEX, DType, integer_range
from tilejit.errors import ArgumentError, RangeError
from tilejit.jit.specialize.signature import JitParam


def as_declared(number: int | float | bool, param: JitParam) -> int | float | bool:
    """A scalar argument as the parameter declares it: floats for float types, as those hold them, integers for integer types."""
    dtype: DType | None = param.dtype
    if dtype is None:
        return number if isinstance(number, bool | float) else _in_range(number, INDEX, param)
    if dtype.is_float:
        try:
            return held(float(number), dtype)
        except OverflowError:
            raise _out_of_range(int(number), param, f"{dtype}") from None
    if isinstance(number, float):
        if not number.is_integer():
            what, help = ("a truth value", "pass True or False") if dtype is BOOL else ("an integer", f"round it, or declare `{param.name}` as a float type")
            raise ArgumentError(f"`{param.name}` is {what} ({dtype}), got {number!r}", help=help)
        number = int(number)
    whole = _in_range(int(number), dtype, param)
    return bool(whole) if dtype is BOOL else whole


def held(number: float, dtype: DType) -> float:
    """The number that a float type narrower than FP32 has in place of this one. FP32 reads literals as they are written, `0.1` as 0.1."""
    if dtype.bits >= 32:
        return number
    import numpy as np

    with np.errstate(over="ignore"):
        return float(np.asarray(number, dtype.numpy))


def _in_range(number: int, dtype: DType, param: JitParam) -> int:
    low, high = integer_range(dtype)
    if not low <= number <= high:
        raise _out_of_range(number, param, f"{dtype}: {low} to {high}")
    return number


def _out_of_range(number: int, param: JitParam, range: str) -> RangeError:
    from tilejit.ops.dtype_rules import int_text

    help = "pass True or False" if param.dtype is BOOL else f"pass a number in that range, or declare `{param.name}` with a wider dtype"
    return RangeError(f"`{param.name}` = {int_text(number)} is outside the range of {range}", help=help)
