"""The common call without ceremony: NumPy arrays that need no copy, all parameters given. Everything else is left to Signature.bind."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from tilejit.runtime.abi import TensorSlots
from tilejit.runtime.arrays import contiguous_strides
from tilejit.runtime.signature import ParamInfo, Signature
from tilejit.types.values import static_shape


class _Tensor(NamedTuple):
    """What an argument must be."""

    dtype: np.dtype[np.generic]
    shape: tuple[int, ...] | None
    """None: some extents are decided by each call."""
    dims: tuple[int | str, ...]
    size: int
    """Bytes of an element, or of all of them where the shape is known."""
    written: bool
    slots: TensorSlots


class QuickBinder:
    """Turns arguments into the slots of the argument block, or gives up: then the full checks decide, and word the error."""

    def __init__(self, signature: Signature) -> None:
        self._rows: list[_Tensor] | None = []
        self._template: list[int] = []
        places: dict[int, TensorSlots] = {}
        for param in signature.code_params:
            if param.shape is None or param.dtype.numpy_name is None or signature.results:
                self._rows = None  # scalars and new tensors go the long way
                return
            places[id(param)] = slots = TensorSlots(len(self._template), len(param.shape))
            shape = static_shape(param.shape)
            self._template += [0] * (slots.end - slots.first) if shape is None else [0, *shape, *contiguous_strides(shape)]
        self._rows = [_row(param, places[id(param)]) for param in signature.params]

    def slots(self, args: Sequence[object]) -> list[int] | None:
        """The argument block of a call, or None."""
        rows = self._rows
        if rows is None or len(args) != len(rows):
            return None
        found = self._template.copy()
        ranges: list[tuple[int, int, bool]] = []
        symbols: dict[str, int] = {}
        for value, row in zip(args, rows, strict=True):
            if type(value) is not np.ndarray:
                return None
            flags = value.flags
            if value.dtype is not row.dtype or not (flags.carray if row.written else flags.c_contiguous and flags.aligned):
                return None
            size = row.size
            if value.shape != row.shape:
                if row.shape is not None or not _agree(value.shape, row.dims, symbols):
                    return None
                first = row.slots.first + 1
                found[first : row.slots.end] = (*value.shape, *contiguous_strides(value.shape))
                size *= prod(value.shape)
            low: int = value.__array_interface__["data"][0]
            found[row.slots.first] = low
            high = low + size
            for other_low, other_high, other_written in ranges:
                if (row.written or other_written) and low < other_high and other_low < high:
                    return None
            ranges.append((low, high, row.written))
        return found


def _row(param: ParamInfo, slots: TensorSlots) -> _Tensor:
    assert param.shape is not None
    shape = static_shape(param.shape)
    return _Tensor(param.dtype.numpy, shape, param.shape, param.dtype.get_byte() * prod(shape or ()), param.direction != "In", slots)


def _agree(shape: tuple[int, ...], dims: tuple[int | str, ...], symbols: dict[str, int]) -> bool:
    """Whether the extents are those of the parameter; notes what symbols stand for."""
    if len(shape) != len(dims):
        return False
    return all((symbols.setdefault(dim, extent) if isinstance(dim, str) else dim) == extent for extent, dim in zip(shape, dims, strict=True))
