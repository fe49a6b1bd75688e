"""How large a tensor, tile or on-core array may be: small enough that sizes and strides in bytes never leave 64 bits."""

from __future__ import annotations

import math

from tilejit.errors import ResourceError
from tilejit.types.values import ArrayType, ScalarType, ValueType

MAX_BYTES = 1 << 48
"""More than any machine can address. Zero extents count as one, as they do in NumPy: strides must fit as well."""

TOO_LARGE = f"the extents of a tensor need more than {MAX_BYTES} bytes"
HELP = "use smaller tiles or tensors"


def bytes_of(extents: tuple[int, ...], itemsize: int) -> int:
    """What an array of these extents takes, with zero extents as one."""
    return math.prod(max(extent, 1) for extent in extents) * itemsize


def check_size(type: ValueType) -> None:
    """Refuse a type that no machine has memory for, as far as its extents are known."""
    if isinstance(type, ScalarType):
        return
    shape = (type.extent,) if isinstance(type, ArrayType) else type.shape
    size = bytes_of(tuple(extent for extent in shape if isinstance(extent, int)), type.dtype.get_byte())
    if size > MAX_BYTES:
        raise ResourceError(f"{type} needs {size} bytes, more than the {MAX_BYTES} that any machine can address", help=HELP)
