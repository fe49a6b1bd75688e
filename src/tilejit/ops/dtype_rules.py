"""Which element types ops take and give: the sets, and the rules of promotion."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from tilejit.dtypes import (
    BF16,
    BOOL,
    COMPLEX64,
    FP16,
    FP32,
    FP64,
    INDEX,
    INT8,
    INT16,
    INT32,
    INT64,
    UINT8,
    UINT16,
    UINT32,
    UINT64,
    DType,
    integer_range,
    promote,
)
from tilejit.errors import DTypeError, RangeError
from tilejit.ops.spec import Call, ScalarArg
from tilejit.types.values import BufferType, ShapedType, TileType

INTEGERS = frozenset({INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, INDEX})
FLOATS = frozenset({FP16, BF16, FP32, FP64})
NUMBERS = INTEGERS | FLOATS
ARITHMETIC = NUMBERS | {COMPLEX64}
BITS = INTEGERS | {BOOL}
PLAIN = NUMBERS | {BOOL}
"""What has arithmetic or at least a value of its own on every target; the rest is storage only."""

PARTS_HELP = "take it apart first: pl.real(…), pl.imag(…), pl.abs(…)"

DTypeRule = Callable[[Call], DType]


def dtype_names(dtypes: Iterable[DType]) -> str:
    """`FP16, FP32`, in the order of the dtype table."""
    from tilejit.dtypes import DTYPES

    wanted = set(dtypes)
    return ", ".join(name for name, dtype in DTYPES.items() if dtype in wanted)


def require(call: Call, name: str, dtype: DType, accepted: Collection[DType], help: str | None = None) -> None:
    """Refuse a dtype that the op does not take, naming op, operand, expected and got."""
    if dtype in accepted:
        return
    accepted = frozenset(accepted)
    if dtype is COMPLEX64:
        help = PARTS_HELP
    if help is None:
        target = FP32 if FP32 in accepted else INT32 if INT32 in accepted else next(iter(sorted(accepted, key=lambda d: d.name)))
        help = f"convert it first: pl.cast({name}, pl.{target})"
    raise DTypeError(f"{call.row.title} takes {dtype_names(accepted)} as `{name}`, got {dtype}", help=help)


def operands(call: Call) -> dict[str, ShapedType | ScalarArg]:
    """The shaped and scalar operands that take part in the result, by parameter name."""
    out: dict[str, ShapedType | ScalarArg] = {}
    for name in call.row.operands:
        arg = call.arg(name)
        if isinstance(arg, (BufferType, TileType, ScalarArg)):
            out[name] = arg
    return out


def is_literal(arg: ScalarArg) -> bool:
    """Whether a scalar is an int literal: it has no type of its own and takes its partner's."""
    return arg.dtype is INDEX and isinstance(arg.const, int)


def check_scalar(call: Call, name: str, arg: ScalarArg, partner: DType) -> None:
    """A scalar next to a tensor or tile: no run-time INDEX, no flag, and a literal must fit."""
    if arg.dtype is INDEX and arg.const is None:
        raise DTypeError(
            f"{call.row.title} cannot combine {partner} data with `{name}`, an INDEX scalar known only at run time",
            help=f"convert it first: pl.cast({name}, pl.{partner})",
        )
    if arg.dtype is BOOL and partner is not BOOL:
        raise DTypeError(f"{call.row.title} takes a number as `{name}`, got a BOOL scalar", help=f"convert it first: pl.cast({name}, pl.{partner})")
    if is_literal(arg) and partner.is_integer and not (fits if call.row.dtypes <= BITS else _has)(arg.const, partner):
        raise DTypeError(f"{call.row.title}: {arg.const} does not fit {partner}", help="choose a wider dtype; pl.cast converts data")


def _has(value: object, dtype: DType) -> bool:
    """Whether an int is a number of an integer dtype. (Operators on bits take its bits instead.)"""
    low, high = integer_range(dtype)
    return isinstance(value, int) and low <= value <= high


def fits(value: object, dtype: DType) -> bool:
    """Whether the bits of an int can be held by an integer dtype of that width, read as signed or unsigned."""
    assert isinstance(value, int)
    low, high = integer_range(dtype)
    return min(low, -(1 << (dtype.bits - 1))) <= value <= max(high, (1 << dtype.bits) - 1) if dtype is not INDEX else low <= value <= high


def as_index(value: int) -> int:
    """An int without a dtype of its own, which INDEX must be able to hold."""
    low, high = integer_range(INDEX)
    if not low <= value <= high:
        help = "next to floats write a float; pl.const(…, pl.UINT64) makes a wider constant"
        raise RangeError(f"{int_text(value)} is outside the range of INDEX, the type of bare integers: {low} to {high}", help=help)
    return value


def as_float(value: int | float | bool, dtype: DType) -> float:
    """A number as a constant of a float type."""
    try:
        return float(value)
    except OverflowError:
        raise RangeError(f"{int_text(int(value))} is outside the range of {dtype}", help='write float("inf") if infinity is meant') from None


def int_text(value: int) -> str:
    """An int for a message: Python itself refuses to write the longest ones."""
    return str(value) if value.bit_length() <= 128 else f"about {'-' if value < 0 else ''}2**{value.bit_length() - 1}"


def promoted(call: Call, widens: bool = True) -> DType:
    """§3.1: shaped operands promote; a tile keeps its dtype next to a scalar, a tensor promotes if a scalar `widens` it; literals take their partner's."""
    found = operands(call)
    shaped = [arg.dtype for arg in found.values() if isinstance(arg, ShapedType)]
    if not shaped:
        return scalar_promoted(call, [arg for arg in found.values() if isinstance(arg, ScalarArg)])
    result = shaped[0]
    for dtype in shaped[1:]:
        result = promote(result, dtype)
    for name, arg in found.items():
        if isinstance(arg, ScalarArg):
            check_scalar(call, name, arg, result)
            if not widens:
                continue
            if call.level == "tensor" and not is_literal(arg):
                result = promote(result, arg.dtype)
            elif arg.dtype is COMPLEX64 and result is not COMPLEX64:
                raise DTypeError(f"{call.row.title} cannot combine {result} tiles with a complex scalar", help=f"convert the tile first: pl.cast(…, pl.{COMPLEX64})")
    refuse_double_pairs(call, result, shaped)
    return result


def refuse_double_pairs(call: Call, result: DType, shaped: Iterable[DType]) -> None:
    if result is COMPLEX64 and FP64 in shaped:
        raise DTypeError(f"{call.row.title} cannot combine {COMPLEX64} and {FP64}: there are no complex numbers of that precision", help="convert it first: pl.cast(…, pl.FP32)")


def keeps_shaped(call: Call) -> DType:
    """As `promoted`, but a scalar never changes the dtype of a tensor either."""
    return promoted(call, widens=False)


def scalar_promoted(call: Call, args: Iterable[ScalarArg]) -> DType:
    """Scalars among themselves: literals take a partner's dtype if they fit it, the rest promotes."""
    args = list(args)
    typed = [arg.dtype for arg in args if not is_literal(arg)]
    if not typed:
        return INDEX
    result = typed[0]
    for dtype in typed[1:]:
        if (dtype is BOOL) != (result is BOOL):
            raise DTypeError(f"{call.row.title} cannot combine {result} and {dtype} scalars", help=f"convert the flag first: pl.cast(…, pl.{INT32})")
        result = promote(result, dtype)
    for arg in args:
        if not is_literal(arg):
            continue
        if result is BOOL:
            raise DTypeError(f"{call.row.title} cannot combine a BOOL scalar with the number {arg.const}", help="use True or False, or cast the flag")
        low, high = integer_range(result) if result.is_integer else (arg.const, arg.const)
        assert isinstance(arg.const, int) and isinstance(low, int) and isinstance(high, int)
        if not low <= arg.const <= high:
            result = INDEX
    return result


def floating(call: Call) -> DType:
    """exp and its kin: a float dtype stays, an integer tensor or scalar gives FP32, an integer tile is refused."""
    dtype = promoted(call)
    if dtype.is_float or dtype is COMPLEX64:
        return dtype
    if call.level == "tile":
        raise DTypeError(f"{call.row.title} of a tile takes {dtype_names(call.row.dtypes & FLOATS)}, got {dtype}", help="convert it first: pl.cast(…, pl.FP32)")
    return FP32
