"""What the generator knows about a value it wrote: type, valid region, range, and how far two correct backends may differ."""

from __future__ import annotations

from dataclasses import dataclass, replace

Dim = int | str
"""A constant, or the name of an extent that only the run knows (always at least 1)."""

EPSILON = {"FP64": 2.0**-52, "FP32": 2.0**-23, "FP16": 2.0**-10, "BF16": 2.0**-7}
SIGNED = ("INT8", "INT16", "INT32", "INT64")
UNSIGNED = ("UINT8", "UINT16", "UINT32", "UINT64")
INTEGERS = SIGNED + UNSIGNED
FLOATS = tuple(EPSILON)
BITS = {"FP64": 64, "FP32": 32, "FP16": 16, "BF16": 16, "INDEX": 64, "BOOL": 8} | {name: int(name.lstrip("UINT")) for name in INTEGERS}

NARROW = {"INT4": (-8, 7), "UINT4": (0, 15), "FP4": (-6, 6), "FP8E4M3FN": (-9, 9), "FP8E5M2": (-9, 9), "FP8E8M0": (0.25, 4.0)}
"""Types that are only moved, cast and multiplied with scales, and the range of their data."""

LARGEST = 12.0
"""Float values beyond this are scaled or clamped before they are used again."""


@dataclass(frozen=True)
class Val:
    """An expression of the program under construction."""

    text: str
    level: str
    """"tile", "tensor" (an operator's result), "buffer" (a tensor in memory) or "scalar"."""
    dtype: str
    lo: float
    hi: float
    err: float = 0.0
    """Absolute difference between two correct backends; 0 means bit for bit, so decisions may depend on it."""
    shape: tuple[Dim, ...] = ()
    valid: tuple[Dim, ...] = ()
    gaps: bool = False
    """A window of a buffer: its cells do not lie side by side."""
    product: bool = False
    """The last step was a float product: a sum with it may be contracted."""

    @property
    def is_float(self) -> bool:
        return self.dtype in EPSILON

    @property
    def exact(self) -> bool:
        return self.err == 0.0

    @property
    def full(self) -> bool:
        return self.valid == self.shape

    @property
    def magnitude(self) -> float:
        return max(abs(self.lo), abs(self.hi))

    def named(self, text: str) -> Val:
        return replace(self, text=text)


def integer_range(dtype: str) -> tuple[int, int]:
    bits = BITS[dtype]
    return (0, 2**bits - 1) if dtype.startswith("U") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def settled(value: Val) -> Val:
    """Integers wrap: a range that leaves the type becomes the whole type."""
    if value.is_float or value.dtype == "BOOL":
        return value
    low, high = integer_range("INT64" if value.dtype == "INDEX" else value.dtype)
    if value.lo < low or value.hi > high:
        return replace(value, lo=low, hi=high)
    return value


def rounding(dtype: str, magnitude: float, ulps: float = 1.0) -> float:
    """Size of `ulps` roundings of a value of that magnitude; integers do not round."""
    return EPSILON.get(dtype, 0.0) * magnitude * ulps


def too_vague(value: Val) -> bool:
    """Whether the permitted difference would hide a bug."""
    return value.is_float and value.err > 0.02 * max(1.0, value.magnitude) * (4 if BITS[value.dtype] == 16 else 1)


def with_float(value: Val) -> str:
    """The dtype that a value has after an operation with a Python float."""
    return promoted(value.dtype, "FP32") if value.is_float and value.level != "tile" else value.dtype


def promoted(first: str, second: str) -> str:
    """The language's promotion rule for two shaped operands."""
    if first == second:
        return first
    if (first in EPSILON) != (second in EPSILON):
        return first if first in EPSILON else second
    if BITS[first] != BITS[second]:
        return first if BITS[first] > BITS[second] else second
    if first in EPSILON:
        return first
    return first if first in SIGNED else second


def hull(first: Val, second: Val, fresh_extent: str) -> Val:
    """What is known of a name that holds either value."""
    valid = tuple(a if a == b else fresh_extent + str(axis) for axis, (a, b) in enumerate(zip(first.valid, second.valid, strict=True)))
    return replace(
        first, lo=min(first.lo, second.lo), hi=max(first.hi, second.hi), err=max(first.err, second.err), valid=valid, product=first.product or second.product
    )
