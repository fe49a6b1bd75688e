"""Rows of the core math: arithmetic, powers and logarithms, bits, activations."""

from __future__ import annotations

import numpy as np

from tilejit.dtypes import BF16, COMPLEX64, DTYPES, FP32, FP64, INT8, INT16, INT32, DType, dtype_elsewhere
from tilejit.errors import ArgumentError, DTypeError, KernelArithmeticError, ShapeError
from tilejit.ops import numbers
from tilejit.ops.dtype_rules import ARITHMETIC, FLOATS, INTEGERS, NUMBERS, PARTS_HELP, PLAIN, dtype_names, floating, keeps_shaped, operands, promoted, require
from tilejit.ops.elementwise import elementwise, scalar_operands
from tilejit.ops.facts import Facts, Fails
from tilejit.ops.numbers import in_double
from tilejit.ops.shape_rules import require_rank
from tilejit.ops.spec import Call, Operand, ScalarArg, Scratch, Spelling, Static, Value, spell
from tilejit.types.values import ShapedType, shape_text

LHS_RHS = "(lhs, rhs)"
TILE = ("tile",)
NOT_BF16 = FLOATS - {BF16}
PRECISE = "(input, high_precision=False)"


def unary(name: str) -> tuple[Spelling, ...]:
    return spell(name, pl="(input)", tensor="(input)", tile="(tile)")


def binary(name: str) -> tuple[Spelling, ...]:
    return spell(name, LHS_RHS)


def with_scalar(name: str, pl: str | None = None) -> tuple[Spelling, ...]:
    """The `adds` spelling: the second operand is a scalar."""
    return spell(name, pl=pl, tensor=LHS_RHS, tile=LHS_RHS, scalar_only=("rhs",))


def of_tiles(name: str, signature: str, scalar_only: tuple[str, ...] = ()) -> tuple[Spelling, ...]:
    return spell(name, pl="=tile", tile=signature, scalar_only=scalar_only)


# checks ---------------------------------------------------------------------------------------------------------------


def no_zero_divisor(call: Call) -> None:
    """An integer division by a zero that can be seen is an error while compiling."""
    divisor = call.arg("rhs")
    others = [arg.dtype for name, arg in operands(call).items() if name != "rhs"]
    if isinstance(divisor, ScalarArg) and divisor.const == 0 and not divisor.dtype.is_float and not any(dtype.is_float for dtype in others):
        raise KernelArithmeticError(f"{call.row.name}: integer division by zero", help="the divisor is the constant 0")


def division(call: Call) -> None:
    """high_precision is for two shaped floats only."""
    no_zero_divisor(call)
    pair = all(isinstance(arg, ShapedType) for arg in operands(call).values())
    if call.arg("high_precision") and not (pair and promoted(call).is_float):
        raise ArgumentError("div: high_precision is for two shaped float operands", help="leave it out")


def subtraction(call: Call) -> None:
    found = operands(call)
    if scalar_operands(call) and call.level != "scalar":
        for name, arg in found.items():
            if isinstance(arg, ShapedType):
                require(call, name, arg.dtype, {INT8, INT16, INT32, COMPLEX64} | FLOATS, help="subtract a tensor or tile instead, or cast first")


def precise(call: Call) -> None:
    if call.arg("high_precision"):
        for name, arg in operands(call).items():
            require(call, name, arg.dtype, NOT_BF16)


def same_as_tile(name: str, exact: bool = True):
    """A check that `name`, where it is given, is a tile like the first operand."""

    def check(call: Call) -> None:
        arg, first = call.arg(name), next(iter(operands(call).values()))
        if isinstance(arg, ShapedType) and isinstance(first, ShapedType) and (arg.shape != first.shape or (exact and arg.dtype is not first.dtype)):
            raise ShapeError(f"{call.row.name} takes a `{name}` of {shape_text(first.shape)} {first.dtype}, got {arg}", help="give it the shape and dtype of the operand")

    return check


def parametric(call: Call) -> None:
    require_rank(call, "input", call.shaped("input"), 2)
    same_as_tile("slope", exact=False)(call)


# arithmetic -----------------------------------------------------------------------------------------------------------


@elementwise(reference=np.add, dtypes=ARITHMETIC, spellings=binary("add") + with_scalar("adds"), facts=Facts(scales=True, commutes=True, operator="Add"))
def add(lhs: Operand, rhs: Operand) -> object:
    """lhs + rhs for every element."""


@elementwise(reference=np.subtract, dtypes=ARITHMETIC, spellings=binary("sub") + with_scalar("subs"), result=keeps_shaped, check=subtraction, facts=Facts(scales=True, operator="Sub"))
def sub(lhs: Operand, rhs: Operand) -> object:
    """lhs - rhs for every element; a scalar never changes the dtype."""


@elementwise(reference=np.multiply, dtypes=ARITHMETIC, spellings=binary("mul") + with_scalar("muls"), facts=Facts(commutes=True, operator="Mult"))
def mul(lhs: Operand, rhs: Operand) -> object:
    """lhs * rhs for every element."""


_DIV = "(lhs, rhs, high_precision=False)"


@elementwise(
    reference=numbers.divide, dtypes=ARITHMETIC, spellings=spell("div", _DIV) + with_scalar("divs"), check=division, facts=Facts(cost=10, fails=Fails.Divisor, operator="Div")
)
def div(lhs: Operand, rhs: Operand, high_precision: Static = False) -> object:
    """lhs / rhs for every element; integers truncate toward zero, and a zero divisor counts as one."""


@elementwise(reference=numbers.floor_divide, dtypes=NUMBERS, spellings=(), check=no_zero_divisor, facts=Facts(cost=10, fails=Fails.Divisor, operator="FloorDiv"))
def floordiv(lhs: Operand, rhs: Operand) -> object:
    """The infix `lhs // rhs`, rounded down as in Python."""


@elementwise(reference=numbers.modulo, dtypes=NUMBERS, spellings=(), check=no_zero_divisor, facts=Facts(cost=10, fails=Fails.Divisor, operator="Mod"))
def mod(lhs: Operand, rhs: Operand) -> object:
    """The infix `lhs % rhs`: the remainder has the sign of the divisor, as in Python."""


@elementwise(reference=numbers.fmod, dtypes=NUMBERS, spellings=binary("fmod") + with_scalar("fmods", pl=LHS_RHS), check=no_zero_divisor, facts=Facts(cost=10, fails=Fails.Divisor))
def fmod(lhs: Operand, rhs: Operand) -> object:
    """The remainder of lhs / rhs with the sign of the dividend."""


@elementwise(
    reference=numbers.modulo,
    dtypes=NUMBERS,
    levels=TILE,
    spellings=of_tiles("rem", "(lhs, rhs, tmp)") + of_tiles("rems", "(lhs, rhs, tmp)", scalar_only=("rhs",)),
    check=no_zero_divisor,
    facts=Facts(cost=10, fails=Fails.Divisor),
)
def rem(lhs: Operand, rhs: Operand, tmp: Scratch = None) -> object:
    """The remainder of lhs / rhs with the sign of the divisor."""


def _add3(a: numbers.NDArray, b: numbers.NDArray, c: numbers.NDArray) -> numbers.NDArray:
    return a + b + c


def _sub3(a: numbers.NDArray, b: numbers.NDArray, c: numbers.NDArray) -> numbers.NDArray:
    return a - b - c


_THREE = "(lhs, rhs, rhs2)"


@elementwise(
    reference=_add3, dtypes=NUMBERS, levels=TILE, spellings=of_tiles("addc", _THREE) + of_tiles("addsc", _THREE, scalar_only=("rhs",)), facts=Facts(commutes=True)
)
def addc(lhs: Operand, rhs: Operand, rhs2: Operand) -> object:
    """lhs + rhs + rhs2 for every element, FP16 and BF16 rounded once."""


@elementwise(
    reference=_sub3, dtypes=NUMBERS, levels=TILE, spellings=of_tiles("subc", _THREE) + of_tiles("subsc", _THREE, scalar_only=("rhs",))
)
def subc(lhs: Operand, rhs: Operand, rhs2: Operand) -> object:
    """lhs - rhs - rhs2 for every element, FP16 and BF16 rounded once."""


@elementwise(reference=np.negative, dtypes=ARITHMETIC, spellings=unary("neg"), facts=Facts(exact=True, scales=True, operator="USub"))
def neg(input: Operand) -> object:
    """-x for every element; unsigned integers wrap."""


def _magnitude_dtype(call: Call) -> DType:
    return FP32 if promoted(call) is COMPLEX64 else promoted(call)


@elementwise(reference=np.abs, dtypes=ARITHMETIC, spellings=unary("abs"), result=_magnitude_dtype, compute="own", facts=Facts(exact=True))
def abs(input: Operand) -> object:
    """The magnitude of every element."""


_BOTH_SCALAR = ("lhs", "rhs")


@elementwise(
    reference=np.maximum,
    dtypes=NUMBERS,
    spellings=binary("maximum") + of_tiles("maximums", LHS_RHS, ("rhs",)) + of_tiles("max", LHS_RHS, _BOTH_SCALAR),
    facts=Facts(exact=True, scales=True, commutes=True),
)
def maximum(lhs: Operand, rhs: Operand) -> object:
    """The larger of lhs and rhs for every element; NaN wins."""


@elementwise(
    reference=np.minimum,
    dtypes=NUMBERS,
    spellings=binary("minimum") + of_tiles("minimums", LHS_RHS, ("rhs",)) + of_tiles("min", LHS_RHS, _BOTH_SCALAR),
    facts=Facts(exact=True, scales=True, commutes=True),
)
def minimum(lhs: Operand, rhs: Operand) -> object:
    """The smaller of lhs and rhs for every element; NaN wins."""


# powers, exponentials, angles -----------------------------------------------------------------------------------------


@elementwise(reference=in_double(np.exp), dtypes=ARITHMETIC, spellings=unary("exp"), result=floating, facts=Facts(cost=10))
def exp(input: Operand) -> object:
    """e**x for every element."""


def _precise_spellings(name: str) -> tuple[Spelling, ...]:
    return spell(name, pl=PRECISE, tensor=PRECISE, tile="(tile, high_precision=False)")


@elementwise(reference=in_double(np.log), dtypes=INTEGERS | NOT_BF16, spellings=_precise_spellings("log"), result=floating, check=precise, facts=Facts(cost=10))
def log(input: Operand, high_precision: Static = False) -> object:
    """The natural logarithm of every element."""


@elementwise(reference=np.sqrt, dtypes=NUMBERS, spellings=unary("sqrt"), result=floating, facts=Facts(cost=10))
def sqrt(input: Operand) -> object:
    """The square root of every element."""


@elementwise(
    reference=in_double(numbers.rsqrt),
    dtypes=NUMBERS,
    spellings=spell("rsqrt", pl=PRECISE, tensor=PRECISE, tile="(tile, tmp=None)"),
    result=floating,
    check=same_as_tile("tmp"),
    facts=Facts(cost=10),
)
def rsqrt(input: Operand, high_precision: Static = False, tmp: Scratch = None) -> object:
    """1 / sqrt(x) for every element."""


@elementwise(reference=np.reciprocal, dtypes=NUMBERS, spellings=_precise_spellings("recip"), result=floating, check=precise, facts=Facts(cost=10))
def recip(input: Operand, high_precision: Static = False) -> object:
    """1 / x for every element."""


@elementwise(reference=in_double(np.sin), dtypes=INTEGERS | {FP32, FP64}, spellings=unary("sin"), result=floating, facts=Facts(cost=10))
def sin(input: Operand) -> object:
    """The sine of every element, in radians; FP32 and FP64 only (integer tensors become FP32)."""


@elementwise(reference=in_double(np.cos), dtypes=INTEGERS | {FP32, FP64}, spellings=unary("cos"), result=floating, facts=Facts(cost=10))
def cos(input: Operand) -> object:
    """The cosine of every element, in radians; FP32 and FP64 only (integer tensors become FP32)."""


@elementwise(reference=in_double(np.tanh), dtypes=NUMBERS, spellings=unary("tanh"), result=floating, facts=Facts(cost=10))
def tanh(input: Operand) -> object:
    """The hyperbolic tangent of every element."""


@elementwise(reference=in_double(numbers.erf), dtypes=NUMBERS, spellings=unary("erf"), result=floating, facts=Facts(cost=10))
def erf(input: Operand) -> object:
    """The error function of every element."""


@elementwise(reference=in_double(numbers.sigmoid), dtypes=NUMBERS, spellings=unary("sigmoid"), result=floating, facts=Facts(cost=10))
def sigmoid(input: Operand) -> object:
    """1 / (1 + e**-x) for every element."""


@elementwise(reference=numbers.power, dtypes=NUMBERS, spellings=binary("pow"), facts=Facts(cost=10, operator="Pow"))
def pow(lhs: Operand, rhs: Operand) -> object:
    """lhs ** rhs for every element; an integer to a negative power is the truncated fraction."""


@elementwise(reference=numbers.whole_number(np.floor), dtypes=NUMBERS, spellings=unary("floor"), facts=Facts(exact=True))
def floor(input: Operand) -> object:
    """The largest whole number not above x, in x's dtype."""


@elementwise(reference=numbers.whole_number(np.ceil), dtypes=NUMBERS, spellings=unary("ceil"), facts=Facts(exact=True))
def ceil(input: Operand) -> object:
    """The smallest whole number not below x, in x's dtype."""


@elementwise(reference=numbers.whole_number(np.rint), dtypes=NUMBERS, spellings=unary("round"), facts=Facts(exact=True))
def round(input: Operand) -> object:
    """The nearest whole number, halves to even, in x's dtype."""


# activations ----------------------------------------------------------------------------------------------------------


def _relu(x: numbers.NDArray) -> numbers.NDArray:
    return np.maximum(x, x.dtype.type(0))


def _leaky(x: numbers.NDArray, slope: numbers.NDArray) -> numbers.NDArray:
    return np.where(x > 0, x, slope * x)


@elementwise(reference=_relu, dtypes=NUMBERS, spellings=unary("relu"), facts=Facts(exact=True))
def relu(input: Operand) -> object:
    """max(x, 0) for every element."""


_LRELU = "(input, slope)"


@elementwise(
    reference=_leaky, dtypes=FLOATS, levels=("tensor", "tile"), spellings=spell("lrelu", pl=_LRELU, tensor=_LRELU, tile="(tile, slope)", scalar_only=("slope",)), result=keeps_shaped
)
def lrelu(input: Value, slope: Operand) -> object:
    """x where it is positive, else slope * x; the slope is a scalar."""


@elementwise(reference=_leaky, dtypes=NOT_BF16, levels=TILE, spellings=of_tiles("prelu", "(tile, slope, tmp)"), broadcast=(), check=parametric)
def prelu(input: Value, slope: Value, tmp: Scratch = None) -> object:
    """x where it is positive, else slope * x; the slope is a tile of the same shape."""


# conversion -----------------------------------------------------------------------------------------------------------


def cast_mode(mode: object) -> str | None:
    """A rounding mode by name or number, or None when there is no such mode."""
    if isinstance(mode, int) and not isinstance(mode, bool) and 0 <= mode < len(numbers.CAST_MODES):
        return numbers.CAST_MODES[mode]
    return mode if isinstance(mode, str) and mode in numbers.CAST_MODES else None


CASTABLE = PLAIN | frozenset(dtype for dtype in DTYPES.values() if dtype.numpy_name is not None)


def _cast_target(call: Call) -> DType:
    target, mode = call.arg("target_type"), call.arg("mode")
    if not isinstance(target, DType):
        raise ArgumentError(f"cast takes a data type as `target_type`, got {target!r}", help=f"write pl.cast(x, {dtype_elsewhere(target) or FP32!r})")
    if target not in CASTABLE:
        raise DTypeError(f"cast cannot convert to {target}", help=f"there are values of {dtype_names(CASTABLE)}")
    if cast_mode(mode) is None:
        raise ArgumentError(f"cast has no mode {mode!r}", help=f"modes are {', '.join(f'{name} ({i})' for i, name in enumerate(numbers.CAST_MODES))}")
    given = next(iter(operands(call).values())).dtype
    if given is COMPLEX64 and target is not COMPLEX64:
        raise DTypeError(f"cast would lose the imaginary parts of {given} as {target}", help=PARTS_HELP)
    if call.level == "scalar" and cast_mode(mode) != "round":
        help = "cast the tensor it is read from, or round it first: pl.cast(pl.floor(x), pl.INT32)"
        raise ArgumentError("cast of a scalar takes only the default mode", help=help)
    return target


def _cast(x: numbers.NDArray, target_type: DType, mode: object) -> numbers.NDArray:
    name = cast_mode(mode)
    assert name is not None
    return numbers.cast(x, target_type, name)


_CAST = "(input, target_type, mode='round')"


@elementwise(
    reference=_cast,
    dtypes=CASTABLE,
    spellings=spell("cast", pl=_CAST, tensor=_CAST, tile="(tile, target_type, mode='round')"),
    result=_cast_target,
    compute="own",
    takes=("target_type", "mode"),
)
def cast(input: Operand, target_type: Static, mode: Static = "round") -> object:
    """x as another dtype. Modes (name or number): none and rint round halves to even, round halves away from zero, floor, ceil,
    trunc toward zero, odd to the odd neighbour; they apply from float to integer and to narrower floats. Float to integer saturates
    and maps NaN to 0; integers wrap; integers to float round to nearest even; integers and FP64 go to FP16 and narrower through FP32."""
