"""What the arguments of a call must be for one specialisation, and the tensors that the call makes: made once, used by every way of calling."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilejit.dtypes import DType


@dataclass(frozen=True, slots=True)
class CallForm:
    """How something is called."""

    runtime: Mapping[str, bool]
    """For each parameter, in order, whether it is a scalar that stays a parameter of the compiled code."""
    positional: int
    """How many of them can be given by position."""
    named: bool = True
    """Whether they can be given by name."""
    inputs: tuple[str, ...] | None = None
    """The parameters that a call with so few arguments means, where these are not the first ones."""
    config: bool = True
    """Whether `config=` can be given."""
    flat: bool = False
    """Whether the code takes arrays of any rank, each as one row."""
    fixed: str | None = None
    """A parameter that no call gives: its value belongs to what is called."""


@dataclass(frozen=True, slots=True)
class TensorGuard:
    """What an argument must be for a specialisation: an array of one framework, dense, with these extents."""

    sample: object
    """An argument that fits; its framework and dtype object are what is compared."""
    extents: tuple[int | None, ...]
    symbols: tuple[int | None, ...]
    """Number of the dynamic symbol of each extent, where it has one."""
    item_size: int
    is_output: bool
    slot: int
    flat: bool = False
    """Arrays of any rank and of at least one element; the only extent is how many they have."""


@dataclass(frozen=True, slots=True)
class ScalarGuard:
    """A scalar that was specialised: this very value."""

    value: object


@dataclass(frozen=True, slots=True)
class RuntimeGuard:
    """A scalar that stays a parameter of the kernel."""

    dtype: DType
    slot: int


@dataclass(frozen=True, slots=True)
class FixedGuard:
    """A parameter that is not given: this number stands for it."""

    number: int
    slot: int


ArgumentGuard = TensorGuard | ScalarGuard | RuntimeGuard | FixedGuard


@dataclass(frozen=True, slots=True)
class NewTensor:
    """A tensor that the call allocates and returns; extents are numbers or symbols, by number."""

    dtype: DType
    shape: tuple[int | None, ...]
    symbols: tuple[int | None, ...]
    slot: int
