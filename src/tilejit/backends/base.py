"""What every backend is told: the options of a compile."""

from __future__ import annotations

from dataclasses import dataclass


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
