"""What the emitter knows of a value: scalars, register tiles, buffers in memory, small arrays."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tilejit.backends.cuda.text.types import fits32, padded
from tilejit.dtypes import BOOL, INDEX, DType

Bounds = tuple[int, int] | None
"""The least and the largest number an integer can be, where that is known."""


@dataclass(frozen=True, slots=True)
class Scalar:
    """A number: its text, and what is known about it. INDEX numbers that fit are held in 32 bits."""

    text: str
    dtype: DType
    bounds: Bounds = None
    const: int | float | bool | None = None
    form: str | None = None
    """How an INDEX was computed, where that is known: equal forms are equal numbers, whatever their names."""

    @property
    def key(self) -> str:
        """Its form, or the text that it is known by."""
        return self.form or self.text

    @property
    def narrow(self) -> bool:
        """Whether an INDEX is held in 32 bits."""
        return fits32(self.bounds)


@dataclass(frozen=True, slots=True)
class Tile:
    """Cells in registers: `shape` is what the program sees, `padded` the power of two in each dim that holds it."""

    text: str
    dtype: DType
    shape: tuple[int, ...]
    valid: tuple[Scalar, ...]
    zeros: bool = False
    """Whether every cell outside the valid region is known to be 0."""
    bits: bool = False
    """Whether it is a mask held as flags: one cell for each column that the mask speaks about, instead of its bytes."""

    @property
    def padded(self) -> tuple[int, ...]:
        return tuple(padded(extent) for extent in self.shape)

    @property
    def rank(self) -> int:
        return len(self.shape)

    def named(self, text: str) -> Tile:
        return replace(self, text=text)


@dataclass(frozen=True, slots=True)
class Dim:
    """One dimension of a buffer: extent and stride, both in elements."""

    extent: Scalar
    stride: Scalar


@dataclass(frozen=True, slots=True)
class Buffer:
    """A tensor in memory: a pointer, a number of elements to add to it, and dimensions."""

    pointer: str
    offset: Scalar
    dims: tuple[Dim, ...]
    dtype: DType
    root: object
    """What it shares memory with: equal for all views of one allocation or parameter."""
    scratch: bool = False
    good: str | None = None
    """The flag that says whether it lies inside what it is a window of, where that is not certain: if not, nothing is touched."""

    def guarded(self, flag: str | None) -> str | None:
        """Its flag together with another one."""
        return flag if self.good is None else self.good if flag is None else f"{self.good} & {flag}"

    @property
    def start(self) -> str:
        """The address of its first element."""
        return self.pointer if self.offset.const == 0 else f"{self.pointer} + {self.offset.text}"

    @property
    def shape(self) -> tuple[Scalar, ...]:
        return tuple(dim.extent for dim in self.dims)

    @property
    def rank(self) -> int:
        return len(self.dims)


@dataclass(frozen=True, slots=True)
class Array:
    """A small array of scalars, held as a tile of one dimension."""

    tile: Tile


Value = Scalar | Tile | Buffer | Array


def index(value: int) -> Scalar:
    """A constant INDEX."""
    return Scalar(str(value), INDEX, (value, value), value)


def flag(text: str) -> Scalar:
    return Scalar(text, BOOL)


def full(shape: tuple[int, ...]) -> tuple[Scalar, ...]:
    """The valid region of a tile that is valid everywhere."""
    return tuple(index(extent) for extent in shape)
