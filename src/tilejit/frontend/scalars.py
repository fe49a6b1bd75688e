"""Scalars while a function is read: constants, indices, conditions and dynamic extents as SSA values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.ir import SSAValue

from tilejit.dtypes import BOOL, COMPLEX64, INDEX, DType, integer_range
from tilejit.errors import DTypeError, ParserTypeError
from tilejit.frontend.values import (
    TaskHandle,
    TypedConstant,
    describe_value,
    is_number,
    is_scalar,
    number_dtype,
    plain_number,
    shaped,
    with_wide_literals,
)
from tilejit.ops import table
from tilejit.ops.dtype_rules import as_float, int_text
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import Builder
from tilejit.types.annotations import DynExpr, DynVar
from tilejit.types.values import ScalarType

if TYPE_CHECKING:
    from tilejit.frontend.context import Parameter, ProgramScope

COMPARED = "compare it: `x != 0`"
"""How a number becomes a flag."""


class Scalars:
    """Makes SSA values of what expressions evaluate to."""

    program: ProgramScope
    builder: Builder
    parameters: dict[str, Parameter]
    local_symbols: dict[DynVar, object]
    """Extents of the symbols in an inline function's annotations."""

    def scalar(self, value: object, dtype: DType | None = None) -> SSAValue:
        """A scalar as an SSA value; compile-time numbers become constants (of `dtype` when given)."""
        if isinstance(value, SSAValue):
            type = d.type_of(value)
            if not isinstance(type, ScalarType):
                raise ParserTypeError(f"expected a scalar, got {type}")
            return value if dtype is None or type.dtype is dtype else self.cast_scalar(value, dtype)
        if isinstance(value, DynVar):
            return self.symbol_value(value)
        if isinstance(value, TaskHandle):
            # Source order satisfies every dependency: which task an id names is never asked.
            return self.builder.apply(table()["task_invalid"], "system", {})[0]
        if not is_number(value):
            raise ParserTypeError(f"expected a scalar, got {describe_value(value)}")
        own = value.dtype if isinstance(value, TypedConstant) else None
        number = plain_number(value)
        if dtype is COMPLEX64:
            return self.scalar_op("complex", float(number), 0.0)
        if dtype is not None:
            number = constant_as(number, dtype)
        return self.builder.const(number, dtype or own)

    def cast_scalar(self, value: SSAValue, dtype: DType) -> SSAValue:
        return self.builder.apply(table()["cast"], "scalar", {"input": value, "target_type": dtype})[0]

    def scalar_op(self, name: str, *args: object) -> SSAValue:
        """A scalar op of the table by name."""
        row = table()[name]
        operands = {param.name: self.scalar(arg) for param, arg in zip(row.params, with_wide_literals(args), strict=False)}
        return self.builder.apply(row, "scalar", operands)[0]

    def index(self, value: object, what: str = "an index") -> SSAValue:
        """An integer scalar as INDEX: what offsets, extents and loop bounds are."""
        if is_number(value):
            number = plain_number(value)
            if isinstance(number, bool) or not isinstance(number, int):
                raise DTypeError(f"{what} must be an integer, got {number!r}", help="// divides integers")
            return self.builder.const(number)
        if isinstance(value, DynVar):
            return self.symbol_value(value)
        if not isinstance(value, SSAValue) or not is_scalar(value):
            raise ParserTypeError(f"{what} must be an integer scalar, got {describe_value(value)}", help="pl.read takes one element, x.shape[k] an extent")
        type = d.type_of(value)
        if type.dtype is INDEX:
            return value
        if not type.dtype.is_integer:
            raise DTypeError(f"{what} must be an integer, got a {type.dtype} scalar", help="pl.cast(…, pl.INDEX) makes it one; // divides integers")
        return self.cast_scalar(value, INDEX)

    def condition(self, value: object, what: str) -> SSAValue | bool:
        """A BOOL scalar, or a bool when it is known while compiling."""
        if isinstance(value, SSAValue):
            type = d.type_of(value)
            if isinstance(type, ScalarType) and type.dtype is BOOL:
                return value
            of_many = "masks combine with & | ~, and pl.any or pl.all makes one flag of them; x[i, j] reads one element"
            help = COMPARED if isinstance(type, ScalarType) else of_many
            raise ParserTypeError(f"{what} must be a BOOL scalar, got {type}", help=help)
        if is_number(value) and number_dtype(value) is not BOOL:
            raise ParserTypeError(f"{what} must be a BOOL, got the number {describe_value(value)}", help=COMPARED)
        return bool(value)

    def symbol_value(self, symbol: DynVar) -> SSAValue:
        """A dynamic symbol as a run-time value: the extent of the first parameter that carries it."""
        if symbol in self.local_symbols:
            value = self.local_symbols[symbol]
            return value if isinstance(value, SSAValue) else self.scalar(value)
        computed = self.computed_extent(symbol) if isinstance(symbol, DynExpr) else None
        return self.extent_value(self.program.symbol(symbol)) if computed is None else computed

    def computed_extent(self, extent: DynExpr) -> SSAValue | None:
        """An extent that is made of others, where parameters carry all of those."""
        sides: list[object] = []
        for side in (extent.left, extent.right):
            value = self.computed_extent(side) if isinstance(side, DynExpr) else side
            if value is None or (isinstance(value, DynVar) and not self._is_carried(value)):
                return None
            sides.append(self.symbol_value(value) if isinstance(value, DynVar) else value)
        return self.scalar_op(extent.op, *sides)

    def _is_carried(self, symbol: DynVar) -> bool:
        name = self.program.symbol(symbol)
        return symbol in self.local_symbols or any(name in type.shape for item in self.parameters.values() if (type := shaped(item.value)) is not None)

    def extent_value(self, name: str) -> SSAValue:
        """A dynamic extent by its name in the types."""
        for parameter in self.parameters.values():
            type = shaped(parameter.value)
            if type is not None and name in type.shape:
                return self.builder.dim(parameter.value, type.shape.index(name))
        raise ParserTypeError(f"no tensor parameter has the dynamic extent `{name}`", help="use it in the annotation of a parameter of this function")


def constant_as(number: int | float | bool, dtype: DType) -> int | float | bool:
    """`number` as a constant of `dtype`; a number that the type cannot hold is an error."""
    if dtype.is_float:
        return as_float(number, dtype)
    if dtype is BOOL:
        if isinstance(number, bool):
            return number
        raise DTypeError(f"expected a BOOL, got {number!r}")
    if isinstance(number, float):
        raise DTypeError(f"expected an integer ({dtype}), got {number!r}", help="pl.cast converts explicitly")
    low, high = integer_range(dtype)
    if not low <= int(number) <= high:
        raise DTypeError(f"{int_text(int(number))} does not fit into {dtype} ({low} … {high})")
    return int(number)
