"""Copies of the arrays that a kernel writes, for runs that must not be seen: same framework and device."""

from __future__ import annotations

import sys
from typing import Any, cast

import numpy as np

from tilejit.errors import ArgumentError
from tilejit.runtime.arrays import HOST, DeviceTensor, view_of


def copy_of(value: object) -> object:
    """A copy that a kernel can write in the place of `value`."""
    if isinstance(value, np.ndarray):
        return cast("np.ndarray", value).copy()
    if "torch" in sys.modules:
        from tilejit.runtime import torch

        found = torch.copy_of(value)
        if found is not None:
            return found
    view = view_of(value)
    if isinstance(value, DeviceTensor) and value.device == HOST and view is not None:
        return view.numpy().copy()
    if not hasattr(value, "copy") or isinstance(value, DeviceTensor):
        help = "pass a NumPy array or a torch tensor, or leave outputs out"
        raise ArgumentError(f"a {type(value).__name__} that the kernel writes cannot be copied", help=help)
    return cast("Any", value).copy()


def restore(copy: object, value: object) -> None:
    """Make a copy what its original is."""
    if isinstance(copy, np.ndarray):
        copy[...] = in_numpy(value)
    elif hasattr(copy, "copy_"):
        cast("Any", copy).copy_(value)
    else:
        cast("Any", copy)[...] = value


def spoil(copy: object) -> None:
    """Fill a copy with a number that no kernel is likely to compute."""
    cast("Any", copy)[...] = 85


def in_numpy(value: object) -> np.ndarray:
    """The cells as a NumPy array in the memory of this process."""
    if isinstance(value, np.ndarray):
        return cast("np.ndarray", value)
    if "torch" in sys.modules:
        from tilejit.runtime import torch

        found = torch.cells_of(value)
        if found is not None:
            return found
    if hasattr(value, "__cuda_array_interface__") and hasattr(value, "get"):
        return cast("Any", value).get()
    view = view_of(value)
    if view is not None and view.device != HOST:
        from tilejit.runtime.cuda.copies import copied

        return copied(view)
    return view.numpy() if view is not None else np.asarray(value)
