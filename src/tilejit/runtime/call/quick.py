"""The common call without ceremony: arrays that need no copy, all parameters given. Everything else is left to Signature.bind."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from tilejit.dtypes import BOOL, DType, integer_range
from tilejit.runtime.arrays import contiguous_strides, data_address
from tilejit.runtime.call.native import scalar_bits
from tilejit.runtime.call.signature import ParamInfo, Signature
from tilejit.types.values import static_shape


class _Tensor(NamedTuple):
    """What an argument must be."""

    dtype: np.dtype[np.generic]
    torch_dtype: str | None
    shape: tuple[int, ...] | None
    """None: some extents are decided by each call."""
    dims: tuple[int | str, ...]
    size: int
    """Bytes of an element, or of all of them where the shape is known."""
    written: bool
    first: int
    """Its slots in the argument block (abi.py)."""
    end: int


class _Scalar(NamedTuple):
    """A run-time scalar: a Python number of the dtype's own kind."""

    dtype: DType
    kind: type
    low: int
    high: int
    slot: int


class QuickBinder:
    """Turns arguments into the slots of the argument block, or gives up: then the full checks decide, and word the error."""

    def __init__(self, signature: Signature) -> None:
        self._rows: list[_Tensor | _Scalar] | None = []
        self._template: list[int] = []
        rows: dict[int, _Tensor | _Scalar] = {}
        for param in signature.code_params:
            if param.dtype.numpy_name is None or signature.results:
                self._rows = None  # new tensors go the long way
                return
            first = len(self._template)
            if param.shape is None:
                rows[id(param)] = _scalar(param, first)
                self._template.append(0)
                continue
            shape = static_shape(param.shape)
            size = param.dtype.get_byte() * (1 if shape is None else prod(shape))
            end = first + 1 + 2 * len(param.shape)
            rows[id(param)] = _Tensor(param.dtype.numpy, param.dtype.torch_name, shape, param.shape, size, param.direction != "In", first, end)
            self._template += [0] * (end - first) if shape is None else [0, *shape, *contiguous_strides(shape)]
        self._rows = [rows[id(param)] for param in signature.params]

    def slots(self, args: Sequence[object], noted: object = True) -> list[int] | None:
        """The argument block of a call that is about to run, or None; `noted`: whether the caller knows that results carry no gradient."""
        rows = self._rows
        if rows is None or len(args) != len(rows):
            return None
        found = self._template.copy()
        ranges: list[tuple[int, int, bool]] = []
        symbols: dict[str, int] = {}
        tensors: list[object] = []
        for value, row in zip(args, rows, strict=True):
            if type(row) is _Scalar:
                if type(value) is not row.kind or (row.kind is int and not row.low <= value <= row.high):  # type: ignore[operator]
                    return None
                found[row.slot] = scalar_bits(value, row.dtype)  # type: ignore[arg-type]
                continue
            assert type(row) is _Tensor
            if type(value) is np.ndarray:
                flags = value.flags
                if value.dtype is not row.dtype or not (flags.carray if row.written else flags.c_contiguous and flags.aligned):
                    return None
                shape, low = value.shape, data_address(value)
            else:
                plain = _torch_facts(value, row, noted)
                if plain is None:
                    return None
                if row.written:
                    tensors.append(value)
                shape, low = plain
            size = row.size
            if shape != row.shape:
                if row.shape is not None or not _agree(shape, row.dims, symbols):
                    return None
                found[row.first + 1 : row.end] = (*shape, *contiguous_strides(shape))
                size *= prod(shape)
            found[row.first] = low
            high = low + size
            for other_low, other_high, other_written in ranges:
                if (row.written or other_written) and low < other_high and other_low < high:
                    return None
            ranges.append((low, high, row.written))
        if tensors:
            from tilejit.runtime.torch import note_write

            for tensor in tensors:
                note_write(tensor)
        return found


def _torch_facts(value: object, row: _Tensor, noted: object) -> tuple[tuple[int, ...], int] | None:
    if "torch" not in sys.modules:
        return None
    from tilejit.runtime import torch

    return torch.plain_facts(value, row.torch_dtype, row.written, noted)


def _scalar(param: ParamInfo, slot: int) -> _Scalar:
    kind = float if param.dtype.is_float else bool if param.dtype is BOOL else int
    low, high = (0, 0) if param.dtype.is_float else integer_range(param.dtype)
    return _Scalar(param.dtype, kind, low, high, slot)


def _agree(shape: tuple[int, ...], dims: tuple[int | str, ...], symbols: dict[str, int]) -> bool:
    """Whether the extents are those of the parameter; notes what symbols stand for."""
    if len(shape) != len(dims):
        return False
    return all((symbols.setdefault(dim, extent) if isinstance(dim, str) else dim) == extent for extent, dim in zip(shape, dims, strict=True))
