"""`… | None` in annotations: what may be left out."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, repr=False)
class OptionalAnnotation:
    """`pl.Tensor[...] | None`, `pl.FP32 | None`: an argument that may be left out."""

    inner: object

    def __repr__(self) -> str:
        return f"{self.inner!r} | None"


class MayBeNone:
    """What can stand beside `| None` in an annotation."""

    __slots__ = ()

    def __or__(self, other: object) -> OptionalAnnotation:
        return OptionalAnnotation(self) if other is None else NotImplemented

    __ror__ = __or__
