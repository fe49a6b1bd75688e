"""The elementwise family: every result cell depends on one cell of each operand.

A row gives its reference on arrays of one shape; the family gives the type rule (promotion, broadcasting, valid regions) and runs
it. Before the reference, operands are converted (ops/numbers.py: float to integer truncates) to the result's dtype, unless
`compute` says otherwise:

    "result"    all operands become the result's dtype
    "operands"  they become the promoted dtype of the operands (comparisons of scalars)
    "own"       they stay as they are (cast, isnan)

Operands named in `keep` always stay as they are (the condition of where). FP16, BF16 and FP8 are computed in FP32 and rounded after
each op.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tilejit.dtypes import BOOL, COMPLEX64, FP32, FP64, DType, dtype_of_numpy, promote
from tilejit.ops.dtype_rules import DTypeRule, is_literal, operands, promoted, require
from tilejit.ops.facts import PLAIN, Facts, Valid
from tilejit.ops.shape_rules import broadcast_shapes, common_valid, result_type, same_shapes
from tilejit.ops.spec import Call, OpSpec, ScalarArg, Spelling, Stub, declarator, declare
from tilejit.types.values import ScalarType, ShapedType, ValueType

Check = Callable[[Call], None]
EVERYWHERE = ("scalar", "tensor", "tile")


@declarator
def elementwise(
    stub: Stub,
    *,
    reference: Callable[..., Any],
    dtypes: Iterable[DType],
    spellings: Sequence[Spelling],
    scalar_dtypes: Iterable[DType] | None = None,
    result: DTypeRule = promoted,
    levels: Iterable[str] = EVERYWHERE,
    broadcast: Iterable[str] = ("tensor", "tile"),
    compute: str = "result",
    keep: tuple[str, ...] = (),
    takes: tuple[str, ...] = (),
    check: Check | None = None,
    facts: Facts = PLAIN,
    derived: Callable[..., object] | None = None,
) -> OpSpec:
    """Declare an elementwise row.

    `scalar_dtypes`: what it takes at scalar level, where that differs; `broadcast`: levels at which shapes may differ;
    `takes`: statics handed to the reference.
    """
    accepted = frozenset(dtypes)
    scalars = accepted if scalar_dtypes is None else frozenset(scalar_dtypes)
    stretching = frozenset(broadcast)

    def infer(call: Call) -> tuple[ValueType, ...]:
        found = operands(call)
        for name, arg in found.items():
            # Numbers become what stands beside them; complex ones cannot where the row has no complex numbers.
            if name not in keep and (isinstance(arg, ShapedType) or arg.dtype is COMPLEX64 or (call.level == "scalar" and not is_literal(arg))):
                require(call, name, arg.dtype, scalars if call.level == "scalar" else accepted)
        if check is not None:
            check(call)
        dtype = result(call)
        shaped = [name for name, arg in found.items() if isinstance(arg, ShapedType)]
        if not shaped:
            return (ScalarType(dtype),)
        shape = broadcast_shapes(call, shaped) if call.level in stretching else same_shapes(call, shaped)
        return (result_type(call, shape, dtype, common_valid(call, shaped, shape)),)
    return declare(
        stub,
        family="elementwise",
        infer=infer,
        reference=reference,
        dtypes=accepted,
        spellings=spellings,
        levels=levels,
        attrs={"compute": compute, "keep": keep, "takes": takes},
        facts=replace(facts, valid=Valid.Common),
        derived=derived,
    )


def compute_dtype(row: OpSpec, operand: str, dtypes: Mapping[str, DType], result: DType) -> DType:
    """The dtype to which an operand of an elementwise row is converted; `dtypes` has those of all its operands."""
    keep = row.attrs["keep"]
    if operand in keep or row.attrs["compute"] == "own":
        return dtypes[operand]
    if row.attrs["compute"] == "result" or result is not BOOL:
        return result
    common = None
    for name, dtype in dtypes.items():
        if name not in keep:
            common = dtype if common is None else promote(common, dtype)
    assert common is not None
    return common


def scalar_operands(call: Call) -> dict[str, ScalarArg]:
    return {name: arg for name, arg in operands(call).items() if isinstance(arg, ScalarArg)}


def value_dtype(value: Any) -> DType:
    """The dtype of a NumPy array or scalar."""
    dtype = dtype_of_numpy(np.asarray(value).dtype)
    assert dtype is not None, value
    return dtype


def in_register(array: Any, dtype: DType) -> Any:
    """Narrow floats are computed in FP32."""
    return array.astype(np.float32) if dtype.is_float and dtype not in (FP32, FP64) else array
