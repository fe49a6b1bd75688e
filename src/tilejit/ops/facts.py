"""What is known about an op besides its types and its meaning: the facts that passes, emitters and schedules ask for.

A fact stands on the row, or its family gives it to all its rows; nobody else keeps collections of op names (tests/test_house_ops.py looks for them).
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Effect(enum.Enum):
    """What happens besides the result."""

    Nothing = "nothing: the op may stand anywhere"
    Place = "nothing, but the result depends on where the code runs"
    Order = "work of one core is ordered; where statements run in order there is nothing to do"
    Cross = "another core sees it, and may run meanwhile"
    Ranks = "other ranks see it, and write meanwhile: no access to memory moves across it"


class Fails(enum.Enum):
    """What may make an op fail at run time; the failure is part of a program's meaning."""

    Never = "nothing"
    Divisor = "a scalar divisor of zero"
    Scalars = "an index or extent among its scalars, unless that is known while compiling"
    Extents = "a shape or a valid region among its scalars, unless that is known to fit"
    Region = "the extents or valid regions of its operands, unless they are known while compiling"
    Indices = "an index in an array"


class Valid(enum.Enum):
    """Where the result means something."""

    Own = "by a rule of its own"
    Common = "where all operands do"
    Spread = "where all operands do, a spread one in all its copies; some rows want that to cover the other operand"
    Folded = "where its operand does, the folded axis being 1"


@dataclass(frozen=True, slots=True)
class Fifo:
    """The part an op has in a FIFO between the cube core and the vector cores beside it."""

    side: str
    """"cube" or "vector": which core does it."""
    act: str
    """"open", "push", "pop" or "free"."""
    lane: bool = False
    """The form that one lane of `pl.split_aiv` has in printed programs."""


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts of one row."""

    effect: Effect = Effect.Nothing
    fails: Fails = Fails.Never
    valid: Valid = Valid.Own
    view_of: str | None = None
    """The parameter whose memory the result may share."""
    writes: str | None = None
    """The parameter that changes when it is a tensor in memory."""
    rebinds: bool = False
    """On a named tile, the first parameter is changed under its name."""
    swaps: bool = False
    """The result is the first operand with two axes exchanged."""
    of_bytes: bool = False
    """A tensor is taken as it lies in memory: its elements are not read."""
    packed: str | None = None
    """The parameter that is a mask, one bit per column."""
    cost: int = 1
    """Work per element: 1 for an instruction or two, 10 for a division or a polynomial."""
    exact: bool = False
    """Results are never rounded: they are elements of the operands, or whole numbers."""
    scales: bool = False
    """Where all operands are so many times as large, the result is. (Sums of many elements are not counted: they would be rounded otherwise.)"""
    counts: bool = False
    """Elements are added up in their own dtype: flags are counted as INT32, so a comparison of narrow integers is taken as flags."""
    commutes: bool = False
    """The first two operands may change places."""
    bitwise: bool = False
    """Elements are patterns of bits: masks are as good as numbers."""
    operator: str | None = None
    """The class of Python's `ast` that spells it between operands."""
    attribute: bool = False
    """Arrays have it as an attribute too: `x.real`, without a call."""
    of_pairs: bool = False
    """It makes or takes apart complex numbers, which most targets have as pairs of values (passes/pairs.py): they never see the op."""
    fifo: Fifo | None = None
    meets_lanes: bool = False
    """A lane of `pl.split_aiv` meets the other one, or the cube side."""
    varies_by_lane: bool = False
    """Each lane of `pl.split_aiv` gets something else."""


PLAIN = Facts()
