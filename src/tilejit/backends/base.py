"""What every backend has in common: its description, the options of a compile, and how a program that runs in this process is called."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy.typing as npt

from tilejit.tile_ir.program import Program

Built = TypeVar("Built", covariant=True)

Pass = Callable[[Program], None]
"""Rewrites a program in place."""


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """What a backend may assume and must do."""

    num_threads: int | None = None
    """Threads a call may use; None: decided per call."""
    check_bounds: bool = True
    """Check every window and index that is not provably inside."""
    fast_math: bool = True
    """Permit reassociation, contraction and the fast polynomials; never assumptions about NaN, infinity or signed zero."""
    strided: frozenset[tuple[str, str]] = frozenset()
    """(entry, parameter) of the tensors that may have any strides; all others are contiguous."""


class Executable(Protocol):
    """A built program that runs in this process."""

    def run(self, entry: str, arguments: Sequence[npt.NDArray[Any] | int | float | bool]) -> tuple[object, ...]:
        """Run `entry` on arrays and scalars in parameter order; arrays are written in place. Returns what the function returns."""
        ...


@dataclass(frozen=True, slots=True)
class Target(Generic[Built]):
    """A way to run programs: the passes that prepare one, and what is made of it (an Executable, or an artifact)."""

    name: str
    passes: tuple[Pass, ...]
    build: Callable[[Program, CompileOptions], Built]
