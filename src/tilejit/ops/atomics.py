"""Rows that change one element of a tensor in a single step, whoever else changes it meanwhile, and evaluate to what it was before."""

from __future__ import annotations

from tilejit.dtypes import DType
from tilejit.ops.dtype_rules import BITS, INTEGERS, NUMBERS, PLAIN
from tilejit.ops.facts import Facts
from tilejit.ops.spec import OpSpec, Scalar, Scalars, Stub, Value, declarator, spell
from tilejit.ops.structural import structural


@declarator
def _atomic(stub: Stub, dtypes: frozenset[DType], combine: str | None = None, signature: str = "(tensor, indices, value)") -> OpSpec:
    """Declare such a row; `combine` names the row that makes the new element of the old one and the value."""
    spellings = spell(stub.__name__, pl="=tensor", tensor=signature)
    return structural(*spellings, facts=Facts(writes="tensor"), dtypes=dtypes, flat_index=True, atomic=True, combine=combine)(stub)


@_atomic(NUMBERS, "add")
def atomic_add(tensor: Value, indices: Scalars, value: Scalar) -> object:
    """Add to one element of a tensor that other blocks may change meanwhile; evaluates to the element before."""


@_atomic(NUMBERS, "maximum")
def atomic_max(tensor: Value, indices: Scalars, value: Scalar) -> object:
    """Make one element the larger of itself and the value; evaluates to the element before. NaN wins."""


@_atomic(NUMBERS, "minimum")
def atomic_min(tensor: Value, indices: Scalars, value: Scalar) -> object:
    """Make one element the smaller of itself and the value; evaluates to the element before. NaN wins."""


@_atomic(BITS, "and_")
def atomic_and(tensor: Value, indices: Scalars, value: Scalar) -> object:
    """Keep those bits of one element that the value has too; evaluates to the element before."""


@_atomic(BITS, "or_")
def atomic_or(tensor: Value, indices: Scalars, value: Scalar) -> object:
    """Set the bits of the value in one element; evaluates to the element before."""


@_atomic(BITS, "xor")
def atomic_xor(tensor: Value, indices: Scalars, value: Scalar) -> object:
    """Turn the bits of the value over in one element; evaluates to the element before."""


@_atomic(PLAIN)
def atomic_exchange(tensor: Value, indices: Scalars, value: Scalar) -> object:
    """Put the value in the place of one element; evaluates to the element before."""


@_atomic(INTEGERS, signature="(tensor, indices, expected, value)")
def atomic_cas(tensor: Value, indices: Scalars, expected: Scalar, value: Scalar) -> object:
    """Put the value in the place of one element if that is `expected`; evaluates to the element before."""
