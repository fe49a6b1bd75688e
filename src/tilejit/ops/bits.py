"""Rows of bit operations and shifts."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

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


_bitwise = partial(elementwise, dtypes=BITS, result=keeps_shaped, check=integer_scalars)
_shift = partial(elementwise, dtypes=INTEGERS, result=keeps_shaped, check=scalar_shift)
_BITWISE = Facts(exact=True, commutes=True, bitwise=True)


@_bitwise(reference=np.bitwise_and, spellings=binary("and_") + with_scalar("ands", pl=LHS_RHS), facts=replace(_BITWISE, operator="BitAnd"))
def and_(lhs: Operand, rhs: Operand) -> object:
    """lhs & rhs, bit by bit; of masks: where both hold."""


@_bitwise(reference=np.bitwise_or, spellings=binary("or_") + with_scalar("ors", pl=LHS_RHS), facts=replace(_BITWISE, operator="BitOr"))
def or_(lhs: Operand, rhs: Operand) -> object:
    """lhs | rhs, bit by bit; of masks: where either holds."""


def _xor_spellings(name: str, scalar_only: tuple[str, ...] = ()) -> tuple[Spelling, ...]:
    return spell(name, pl="(lhs, rhs, tmp=None)", tensor=LHS_RHS, tile="(lhs, rhs, tmp=None)", scalar_only=scalar_only)


@_bitwise(reference=np.bitwise_xor, spellings=_xor_spellings("xor") + _xor_spellings("xors", ("rhs",)), facts=replace(_BITWISE, operator="BitXor"))
def xor(lhs: Operand, rhs: Operand, tmp: Scratch = None) -> object:
    """lhs ^ rhs, bit by bit; of masks: where one holds."""


@elementwise(reference=np.invert, dtypes=BITS, spellings=unary("not_"), facts=Facts(exact=True, bitwise=True, operator="Invert"))
def not_(input: Operand) -> object:
    """~x, bit by bit; of a mask: where it does not hold."""


@_shift(reference=numbers.shift_left, spellings=binary("shl") + with_scalar("shls", pl=LHS_RHS), facts=Facts(exact=True, operator="LShift"))
def shl(lhs: Operand, rhs: Operand) -> object:
    """lhs << rhs; a shift by the width or more gives 0."""


@_shift(reference=numbers.shift_right, spellings=binary("shr") + with_scalar("shrs", pl=LHS_RHS), facts=Facts(exact=True, operator="RShift"))
def shr(lhs: Operand, rhs: Operand) -> object:
    """lhs >> rhs, keeping the sign of signed integers; a shift by the width or more gives 0 or -1."""
