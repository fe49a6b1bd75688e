"""Scalars of PTO kernels: the `arith` ops on Python integers of fixed width and NumPy floats."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from xdsl.dialects.builtin import FloatAttr, IndexType, IntegerAttr, IntegerType, Signedness, VectorType
from xdsl.ir import Attribute, Operation

from tilejit.errors import InternalError, KernelArithmeticError
from tilejit.tile_ir.pto.elements import ELEMENTS


def wrapped(value: int, type: Attribute) -> int:
    """An integer as its type holds it: signed unless the type says otherwise; i1 is 0 or 1."""
    width = type.width.data if isinstance(type, IntegerType) else 64
    value &= (1 << width) - 1
    unsigned = width == 1 or (isinstance(type, IntegerType) and type.signedness.data is Signedness.UNSIGNED)
    return value if unsigned or value < 1 << (width - 1) else value - (1 << width)


def unsigned(value: int, type: Attribute) -> int:
    width = type.width.data if isinstance(type, IntegerType) else 64
    return value & ((1 << width) - 1)


def float_scalar(value: Any, type: Attribute) -> Any:
    """A number as a NumPy scalar of a float type."""
    element = ELEMENTS.get(str(type))
    if element is None or element.dtype is None:
        raise InternalError(f"no scalar of type {type}")
    with np.errstate(all="ignore"):
        return np.asarray(value, np.float64).astype(element.dtype.numpy)[()]


def is_integer(type: Attribute) -> bool:
    return isinstance(type, IntegerType | IndexType)


def convert(value: Any, type: Attribute) -> Any:
    """A number as a scalar of any type."""
    return wrapped(int(value), type) if is_integer(type) else float_scalar(value, type)


def is_number(op: Operation) -> bool:
    """Whether a constant is a single number of a type that runs."""
    type = op.results[0].type
    return isinstance(op.properties.get("value"), IntegerAttr | FloatAttr) and (is_integer(type) or str(type) in ("f16", "bf16", "f32"))


def constant(op: Operation) -> Any:
    value = op.properties.get("value", op.attributes.get("value"))
    type = op.results[0].type
    if isinstance(value, IntegerAttr):
        return wrapped(int(value.value.data), type)
    if isinstance(value, FloatAttr):
        return float_scalar(value.value.data, type)
    if isinstance(type, VectorType):
        return None  # Where a merge would note how far it came: nothing reads that.
    raise InternalError(f"a constant of {type} cannot run")


def _divide(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _nonzero(function: Callable[[int, int], int]) -> Callable[[int, int], int]:
    def checked(a: int, b: int) -> int:
        if b == 0:
            raise KernelArithmeticError("a scalar is divided by zero")
        return function(a, b)

    return checked


_SIGNED: dict[str, Callable[[int, int], int]] = {
    "addi": lambda a, b: a + b,
    "subi": lambda a, b: a - b,
    "muli": lambda a, b: a * b,
    "andi": lambda a, b: a & b,
    "ori": lambda a, b: a | b,
    "xori": lambda a, b: a ^ b,
    "minsi": min,
    "maxsi": max,
    "shli": lambda a, b: a << b if 0 <= b < 64 else 0,
    "shrsi": lambda a, b: a >> (b if 0 <= b < 64 else 63),
    "divsi": _nonzero(_divide),
    "remsi": _nonzero(lambda a, b: a - _divide(a, b) * b),
    "floordivsi": _nonzero(lambda a, b: a // b),
    "ceildivsi": _nonzero(lambda a, b: -(-a // b)),
}
_UNSIGNED: dict[str, Callable[[int, int], int]] = {
    "divui": _nonzero(lambda a, b: a // b),
    "remui": _nonzero(lambda a, b: a % b),
    "ceildivui": _nonzero(lambda a, b: -(-a // b)),
    "minui": min,
    "maxui": max,
    "shrui": lambda a, b: a >> b if b < 64 else 0,
}
_FLOATS: dict[str, Callable[[Any, Any], Any]] = {
    "addf": lambda a, b: a + b,
    "subf": lambda a, b: a - b,
    "mulf": lambda a, b: a * b,
    "divf": lambda a, b: a / b,
    "remf": np.fmod,
    "maximumf": np.maximum,
    "minimumf": np.minimum,
    "maxnumf": np.fmax,
    "minnumf": np.fmin,
}
_CASTS = ("index_cast", "index_castui", "extsi", "extui", "trunci", "sitofp", "uitofp", "fptosi", "fptoui", "truncf", "extf", "bitcast")
_OTHERS = ("constant", "negf", "select", "cmpi", "cmpf")

SUPPORTED = frozenset(f"arith.{name}" for name in (*_OTHERS, *_SIGNED, *_UNSIGNED, *_FLOATS, *_CASTS))
"""The arith ops that run."""


def evaluate(op: Operation, args: list[Any]) -> Any:
    """The result of an arith op."""
    name, result = op.name.removeprefix("arith."), op.results[0].type
    operand = op.operands[0].type if op.operands else result
    with np.errstate(all="ignore"):
        if name == "constant":
            return constant(op)
        if name in _SIGNED:
            return wrapped(_SIGNED[name](args[0], args[1]), result)
        if name in _UNSIGNED:
            return wrapped(_UNSIGNED[name](unsigned(args[0], operand), unsigned(args[1], operand)), result)
        if name in _FLOATS:
            return float_scalar(_FLOATS[name](args[0], args[1]), result)
        if name == "negf":
            return float_scalar(-args[0], result)
        if name == "select":
            return args[1] if args[0] else args[2]
        if name in ("cmpi", "cmpf"):
            return int(_compare(op, name, args, operand))
        return _cast(name, args[0], operand, result)


def _compare(op: Operation, name: str, args: list[Any], type: Attribute) -> bool:
    found = op.properties.get("predicate", op.attributes.get("predicate"))
    assert isinstance(found, IntegerAttr)
    number = int(found.value.data)
    a, b = args
    if name == "cmpi":
        if number >= 6:
            a, b, number = unsigned(a, type), unsigned(b, type), number - 4
        elif type == IntegerType(1) and number >= 2:
            a, b = -a, -b
        return bool((a == b, a != b, a < b, a <= b, a > b, a >= b)[number])
    unordered = bool(np.isnan(np.float64(a)) or np.isnan(np.float64(b)))
    if number in (0, 15):
        return number == 15
    if number in (7, 14):
        return unordered == (number == 14)
    ordered = number <= 6
    outcome = (a == b, a > b, a >= b, a < b, a <= b, a != b)[(number - 1) % 7 if ordered else number - 8]
    return (bool(outcome) and not unordered) if ordered else (bool(outcome) or unordered)


def _cast(name: str, value: Any, source: Attribute, result: Attribute) -> Any:
    if name in ("index_cast", "extsi"):
        signed = wrapped(value, source)
        return wrapped(-signed if source == IntegerType(1) else signed, result)
    if name in ("index_castui", "extui"):
        return wrapped(unsigned(value, source), result)
    if name == "trunci":
        return wrapped(value, result)
    if name == "sitofp":
        return float_scalar(value, result)
    if name == "uitofp":
        return float_scalar(unsigned(value, source), result)
    if name in ("fptosi", "fptoui"):
        return wrapped(int(np.trunc(np.float64(value))) if np.isfinite(np.float64(value)) else 0, result)
    if name in ("truncf", "extf"):
        return float_scalar(value, result)
    raw = np.asarray(value, np.dtype(f"i{_width(source) // 8}") if is_integer(source) else None)
    if is_integer(result):
        return wrapped(int(raw.view(f"i{_width(result) // 8}")), result)
    element = ELEMENTS[str(result)]
    assert element.dtype is not None
    return raw.view(element.dtype.numpy)[()]


def _width(type: Attribute) -> int:
    return type.width.data if isinstance(type, IntegerType) else 64
