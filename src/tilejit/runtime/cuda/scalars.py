"""Scalar ops on the host, with the meaning that the op table gives them."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

from tilejit.dtypes import DTYPES, DType


def scalar_op(name: str, dtype: str, operands: Sequence[str], statics: Sequence[tuple[str, object]]) -> Callable[..., int | float | bool]:
    """The row `name` of the op table as a function of Python numbers."""
    import numpy as np

    from tilejit import ops
    from tilejit.ops.evaluate import evaluate
    from tilejit.types.values import ScalarType

    row, result = ops.table()[name], ScalarType(DTYPES[dtype])
    types = [DTYPES[operand].numpy for operand in operands]
    fixed = {key: DTYPES.get(value, value) if isinstance(value, str) else value for key, value in statics}

    def run(*values: int | float | bool) -> int | float | bool:
        given = {operand: np.asarray(value, type)[()] for operand, value, type in zip(row.operands, values, types, strict=True)}
        found = evaluate(row, {**fixed, **given}, (result,))[0]
        return found.item() if not DTYPES[dtype].is_float else float(found)

    return run


def single(value: float) -> float:
    """A number as float32 holds it."""
    try:
        return _SINGLE.unpack(_SINGLE.pack(value))[0]
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


_SINGLE = struct.Struct("<f")


def rounded(value: int | float | bool, dtype: DType) -> int | float | bool:
    """A scalar argument as its declared dtype holds it."""
    if not dtype.is_float:
        return value
    import numpy as np

    with np.errstate(over="ignore"):
        return float(np.asarray(value, dtype.numpy))


def number_from(content: bytes, dtype: str) -> int | float | bool:
    """The number that the first bytes of a buffer are."""
    row = DTYPES[dtype]
    if row.is_float:
        import numpy as np

        return float(np.frombuffer(content, row.numpy, 1)[0])
    size = row.get_byte()
    found = int.from_bytes(content[:size], "little", signed=row.kind == "int")
    return bool(found) if row.kind == "bool" else found
