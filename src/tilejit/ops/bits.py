"""Rows of bit operations and shifts."""

from __future__ import annotations

import numpy as np

from tilejit.errors import ArgumentError, DTypeError
from tilejit.ops import numbers
from tilejit.ops.dtype_rules import BITS, INTEGERS, dtype_names, keeps_shaped
from tilejit.ops.elementwise import elementwise, scalar_operands
from tilejit.ops.facts import Facts
from tilejit.ops.math import LHS_RHS, binary, unary, with_scalar
from tilejit.ops.spec import Call, Operand, Scratch, Spelling, spell


def scalar_shift(call: Call) -> None:
    for name, arg in scalar_operands(call).items():
        if arg.dtype.is_float:
            raise DTypeError(f"{call.row.name} takes an integer as `{name}`, got {arg.dtype}", help=f"convert it first: pl.cast({name}, pl.INT32)")
        if name == "rhs" and isinstance(arg.const, int) and arg.const < 0:
            raise ArgumentError(f"{call.row.name} takes a shift of 0 or more, got {arg.const}", help="shift the other way instead")


def integer_scalars(call: Call) -> None:
    for name, arg in scalar_operands(call).items():
        if arg.dtype.is_float:
            raise DTypeError(f"{call.row.name} takes {dtype_names(call.row.dtypes)} as `{name}`, got {arg.dtype}", help="bit operations are for integers")


@elementwise(
    reference=np.bitwise_and,
    dtypes=BITS,
    spellings=binary("and_") + with_scalar("ands", pl=LHS_RHS),
    result=keeps_shaped,
    check=integer_scalars,
    facts=Facts(exact=True, commutes=True, bitwise=True, operator="BitAnd"),
)
def and_(lhs: Operand, rhs: Operand) -> object:
    """lhs & rhs, bit by bit; of masks: where both hold."""


@elementwise(
    reference=np.bitwise_or,
    dtypes=BITS,
    spellings=binary("or_") + with_scalar("ors", pl=LHS_RHS),
    result=keeps_shaped,
    check=integer_scalars,
    facts=Facts(exact=True, commutes=True, bitwise=True, operator="BitOr"),
)
def or_(lhs: Operand, rhs: Operand) -> object:
    """lhs | rhs, bit by bit; of masks: where either holds."""


def _xor_spellings(name: str, scalar_only: tuple[str, ...] = ()) -> tuple[Spelling, ...]:
    return spell(name, pl="(lhs, rhs, tmp=None)", tensor=LHS_RHS, tile="(lhs, rhs, tmp=None)", scalar_only=scalar_only)


@elementwise(
    reference=np.bitwise_xor,
    dtypes=BITS,
    spellings=_xor_spellings("xor") + _xor_spellings("xors", ("rhs",)),
    result=keeps_shaped,
    check=integer_scalars,
    facts=Facts(exact=True, commutes=True, bitwise=True, operator="BitXor"),
)
def xor(lhs: Operand, rhs: Operand, tmp: Scratch = None) -> object:
    """lhs ^ rhs, bit by bit; of masks: where one holds."""


@elementwise(reference=np.invert, dtypes=BITS, spellings=unary("not_"), facts=Facts(exact=True, bitwise=True, operator="Invert"))
def not_(input: Operand) -> object:
    """~x, bit by bit; of a mask: where it does not hold."""


@elementwise(
    reference=numbers.shift_left,
    dtypes=INTEGERS,
    spellings=binary("shl") + with_scalar("shls", pl=LHS_RHS),
    result=keeps_shaped,
    check=scalar_shift,
    facts=Facts(exact=True, operator="LShift"),
)
def shl(lhs: Operand, rhs: Operand) -> object:
    """lhs << rhs; a shift by the width or more gives 0."""


@elementwise(
    reference=numbers.shift_right,
    dtypes=INTEGERS,
    spellings=binary("shr") + with_scalar("shrs", pl=LHS_RHS),
    result=keeps_shaped,
    check=scalar_shift,
    facts=Facts(exact=True, operator="RShift"),
)
def shr(lhs: Operand, rhs: Operand) -> object:
    """lhs >> rhs, keeping the sign of signed integers; a shift by the width or more gives 0 or -1."""
