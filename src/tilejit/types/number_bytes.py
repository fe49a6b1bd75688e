"""Numbers of NumPy as the bytes that tell them apart, and back."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np


@cache
def _counted() -> int:
    """How many bytes of a `longdouble` count: x87's take ten of twelve or sixteen, and the rest holds whatever was there."""
    return 10 if np.finfo(np.longdouble).nmant == 63 else np.dtype(np.longdouble).itemsize


def number_bytes(value: np.generic[Any]) -> bytes:
    """The same for two numbers of one type if they are the same."""
    data = value.tobytes()
    if value.dtype.char not in "gG":
        return data
    size = np.dtype(np.longdouble).itemsize
    return b"".join(data[at : at + _counted()] for at in range(0, len(data), size))


def number_of_bytes(data: bytes, dtype: np.dtype[Any]) -> np.generic[Any]:
    """The number of these bytes."""
    if dtype.char in "gG":
        size = np.dtype(np.longdouble).itemsize
        data = b"".join(data[at : at + _counted()].ljust(size, b"\0") for at in range(0, len(data), _counted()))
    return np.frombuffer(data, dtype)[0]
