"""Raising of scalars: the `arith` ops of a PTO kernel as scalar rows of the op table, constants folded on the way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects.builtin import FloatAttr, IntegerAttr, IntegerType, Signedness
from xdsl.ir import Attribute, Operation, SSAValue

from tilejit.dtypes import BOOL, INDEX, INT64, DType
from tilejit.frontend.pto.handles import NotRaisable
from tilejit.ops import facts
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import constant_of
from tilejit.tile_ir.pto.elements import ELEMENTS
from tilejit.tile_ir.pto.rows import ARITH, ARITH_OF_FLAGS

if TYPE_CHECKING:
    from tilejit.frontend.pto.raiser import Raiser

_OF_BITS = ("BitAnd", "BitOr", "BitXor", "LShift", "RShift")
"""Operators on bits, of which an INDEX has 64."""
_UNSIGNED = {"divui": "divsi", "remui": "remsi", "ceildivui": "ceildivsi", "minui": "minsi", "maxui": "maxsi", "shrui": "shrsi"}
_SIGNED_CASTS = ("index_cast", "extsi", "trunci", "sitofp", "fptosi", "fptoui", "truncf", "extf")
EQ, NE, LT, LE, GT, GE = range(6)
_ORDERED = {1: EQ, 2: GT, 3: GE, 4: LT, 5: LE}
"""Comparisons of floats that are false for NaN."""
_INVERSE = {9: LE, 10: LT, 11: GE, 12: GT}
"""Comparisons that are true for NaN: the opposite does not hold."""


def dtype_of(type: Attribute) -> DType:
    """The data type of a scalar."""
    element = ELEMENTS.get(str(type))
    if element is None or element.dtype is None:
        raise NotRaisable(f"scalars of type {type}")
    return element.dtype


def arith(self: Raiser, op: Operation) -> SSAValue:
    """The result of an arith op."""
    name = op.name.removeprefix("arith.")
    result = dtype_of(op.results[0].type)
    if name == "constant":
        return _constant(self, op, result)
    args = [self.scalar(operand) for operand in op.operands]
    if name in _UNSIGNED:
        args = [_unsigned(self, value, operand.type) for value, operand in zip(args, op.operands)]
        return self.cast(_signed(self, _UNSIGNED[name], args), result)
    if name in ("cmpi", "cmpf"):
        return _compared(self, op, name, args)
    if name == "select":
        return self.apply("where", "scalar", condition=args[0], lhs=args[1], rhs=args[2])
    if name == "negf":
        return self.apply("neg", "scalar", input=args[0])
    if name in ("maxnumf", "minnumf"):
        both = self.apply("maximum" if name == "maxnumf" else "minimum", "scalar", lhs=args[0], rhs=args[1])
        first = self.apply("where", "scalar", condition=self.apply("isnan", "scalar", input=args[1]), lhs=args[0], rhs=both)
        return self.apply("where", "scalar", condition=self.apply("isnan", "scalar", input=args[0]), lhs=args[1], rhs=first)
    if name in _SIGNED_CASTS:
        if name in ("fptosi", "fptoui"):
            args = [_truncated(self, args[0])]
        negated = name in ("index_cast", "extsi") and _dtype(args[0]) is BOOL
        cast = self.cast(args[0], result)
        return self.apply("neg", "scalar", input=cast) if negated else cast
    if name in ("index_castui", "extui", "uitofp"):
        return self.cast(_unsigned(self, args[0], op.operands[0].type), result)
    return _signed(self, name, args)


def _constant(self: Raiser, op: Operation, result: DType) -> SSAValue:
    value = op.properties.get("value")
    if not isinstance(value, IntegerAttr | FloatAttr):
        raise NotRaisable("constants that are no numbers")
    number = value.value.data
    if result is BOOL:
        return self.build.const(bool(number), BOOL)
    if isinstance(number, int) and result.is_integer:
        # Hexadecimal and unsigned spellings: the number that the type holds.
        number &= (1 << result.bits) - 1
        number -= (1 << result.bits) if result.kind != "uint" and number >> (result.bits - 1) else 0
    return self.build.const(number, result)


def _signed(self: Raiser, name: str, args: list[SSAValue]) -> SSAValue:
    dtype = _dtype(args[0])
    if dtype is BOOL:
        if name in ARITH_OF_FLAGS:
            return self.apply(ARITH_OF_FLAGS[name], "scalar", lhs=args[0], rhs=args[1])
        if name != "xori":
            raise NotRaisable(f"arith.{name} of flags")
        return self.apply("cmp", "scalar", lhs=self.cast(args[0], INDEX), rhs=self.cast(args[1], INDEX), cmp_type=NE)
    folded = _folded(name, *args) if dtype is INDEX or dtype is INT64 else None
    if folded is not None:
        return self.build.const(folded, dtype)
    if name in ("divsi", "remsi", "ceildivsi"):
        return _division(self, name, args)
    if name not in ARITH:
        raise NotRaisable(f"arith.{name}")
    if name == "floordivsi" and not constant_of(args[1]):
        self.demand(_compare(self, [args[1], self.build.const(0, dtype)], NE), "a scalar is divided by zero", "arithmetic")
    if dtype is INDEX and facts(ARITH[name]).operator in _OF_BITS:
        return self.cast(self.apply(ARITH[name], "scalar", lhs=self.cast(args[0], INT64), rhs=self.cast(args[1], INT64)), INDEX)
    return self.apply(ARITH[name], "scalar", lhs=args[0], rhs=args[1])


def _folded(name: str, left: SSAValue, right: SSAValue) -> int | None:
    a, b = constant_of(left), constant_of(right)
    if not isinstance(a, int) or not isinstance(b, int):
        return None
    value = {"addi": a + b, "subi": a - b, "muli": a * b, "minsi": min(a, b), "maxsi": max(a, b)}.get(name)
    if value is None and a >= 0 and b > 0:
        value = {"divsi": a // b, "floordivsi": a // b, "remsi": a % b, "ceildivsi": -(-a // b)}.get(name)
    return value if value is not None and abs(value) < 1 << 62 else None


def _division(self: Raiser, name: str, args: list[SSAValue]) -> SSAValue:
    """The table divides towards minus infinity; these ops towards zero, or up."""
    left, right = args
    zero = self.build.const(0, _dtype(left))
    if not constant_of(right):
        self.demand(_compare(self, [right, zero], NE), "a scalar is divided by zero", "arithmetic")
    floor = self.apply("floordiv", "scalar", lhs=left, rhs=right)
    rest = self.apply("sub", "scalar", lhs=left, rhs=self.apply("mul", "scalar", lhs=floor, rhs=right))
    rounds_up = self.apply("cmp", "scalar", lhs=rest, rhs=zero, cmp_type=NE)
    if name != "ceildivsi":
        signs = [self.apply("cmp", "scalar", lhs=value, rhs=zero, cmp_type=LT) for value in args]
        flags = [self.apply("where", "scalar", condition=sign, lhs=self.build.const(1), rhs=self.build.const(0)) for sign in signs]
        differ = self.apply("cmp", "scalar", lhs=flags[0], rhs=flags[1], cmp_type=NE)
        rounds_up = self.apply("logical_and", "scalar", lhs=rounds_up, rhs=differ)
    above = self.apply("add", "scalar", lhs=floor, rhs=self.build.const(1, _dtype(left)))
    quotient = self.apply("where", "scalar", condition=rounds_up, lhs=above, rhs=floor)
    if name != "remsi":
        return quotient
    return self.apply("sub", "scalar", lhs=left, rhs=self.apply("mul", "scalar", lhs=quotient, rhs=right))


def _truncated(self: Raiser, value: SSAValue) -> SSAValue:
    negative = _compare(self, [value, self.build.const(0.0, _dtype(value))], LT)
    above, below = self.apply("ceil", "scalar", input=value), self.apply("floor", "scalar", input=value)
    return self.apply("where", "scalar", condition=negative, lhs=above, rhs=below)


def _unsigned(self: Raiser, value: SSAValue, type: Attribute) -> SSAValue:
    """A number without its sign, as an INDEX; one of 64 bits must not have any."""
    if isinstance(type, IntegerType) and type.width.data < 64 and type.signedness.data is not Signedness.UNSIGNED:
        if type.width.data == 1:
            return self.cast(value, INDEX)
        mask = self.build.const((1 << type.width.data) - 1, INT64)
        return self.cast(self.apply("and_", "scalar", lhs=self.cast(value, INT64), rhs=mask), INDEX)
    wide = self.cast(value, INDEX)
    number = constant_of(wide)
    if not isinstance(number, int) or number < 0:
        zero = self.build.const(0)
        self.build.check(self.apply("minimum", "scalar", lhs=wide, rhs=zero), zero, "an unsigned number that is too large for 63 bits")
    return wide


def _compared(self: Raiser, op: Operation, name: str, args: list[SSAValue]) -> SSAValue:
    predicate = op.properties.get("predicate")
    assert isinstance(predicate, IntegerAttr)
    number = int(predicate.value.data)
    if name == "cmpi":
        if number >= 6:
            args, number = [_unsigned(self, value, operand.type) for value, operand in zip(args, op.operands)], number - 4
        elif _dtype(args[0]) is BOOL:
            args = [self.cast(value, INDEX) for value in (args if number < 2 else reversed(args))]
        return _compare(self, args, number)
    if number in (0, 15):
        return self.build.const(number == 15, BOOL)
    if number in _ORDERED:
        return _compare(self, args, _ORDERED[number])
    if number == 13:
        return _compare(self, args, NE)
    if number in _INVERSE:
        return self.apply("logical_not", "scalar", input=_compare(self, args, _INVERSE[number]))
    if number in (6, 8):
        different = self.apply("logical_or", "scalar", lhs=_compare(self, args, LT), rhs=_compare(self, args, GT))
        return different if number == 6 else self.apply("logical_not", "scalar", input=different)
    strange = self.apply("logical_or", "scalar", lhs=self.apply("isnan", "scalar", input=args[0]), rhs=self.apply("isnan", "scalar", input=args[1]))
    return strange if number == 14 else self.apply("logical_not", "scalar", input=strange)


def _compare(self: Raiser, args: list[SSAValue], kind: int) -> SSAValue:
    return self.apply("cmp", "scalar", lhs=args[0], rhs=args[1], cmp_type=kind)


def _dtype(value: SSAValue) -> DType:
    return d.type_of(value).dtype
