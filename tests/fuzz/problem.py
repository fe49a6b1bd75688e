"""What can go wrong with a random program."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """What went wrong with a program, and at which stage: "reference", "cpu", "print", "lower", "data"."""

    stage: str
    kind: str
    """A difference, or the class of the exception."""
    message: str
    size: float = 0.0
    """How far a difference goes beyond what is permitted."""

    def same_as(self, other: Problem | None) -> bool:
        """Whether a smaller program still shows this; a large difference is not one in the last place."""
        return other is not None and (self.stage, self.kind, self.gist) == (other.stage, other.kind, other.gist) and other.size >= min(self.size, 100) / 10

    @property
    def gist(self) -> str:
        """The message without the names and numbers that shrinking changes."""
        return "" if self.kind == "difference" else re.sub(r"`[^`]*`|[a-z]*\d+", "#", self.message.partition("\n")[0])
