"""How tensors and tiles lie in memory, as annotations say it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from tilejit.types.enums import TensorLayout

if TYPE_CHECKING:
    from tilejit.types.annotations import DimSpec


def _keep_own(view: object, *fields: str) -> None:
    """Make tuples of lists: whoever gave them may change them, and views never change."""
    for field in fields:
        if isinstance(given := getattr(view, field), list):
            object.__setattr__(view, field, tuple(cast("list[object]", given)))


@dataclass(frozen=True, slots=True)
class TensorView:
    """Strides, layout and valid region of a tensor annotation (hardware-only but for `valid_shape`)."""

    stride: tuple[int, ...] | None = None
    layout: TensorLayout = TensorLayout.ND
    valid_shape: tuple[DimSpec, ...] | None = None
    pad: object = None

    def __post_init__(self) -> None:
        _keep_own(self, "stride", "valid_shape")


@dataclass(frozen=True, slots=True)
class TileView:
    """Valid region and placement details of a tile annotation."""

    valid_shape: tuple[object, ...] | None = None
    stride: tuple[int, ...] | None = None
    start_offset: int | None = None
    blayout: object = None
    slayout: object = None
    fractal: int | None = None
    pad: object = None
    compact: object = None

    def __post_init__(self) -> None:
        _keep_own(self, "valid_shape", "stride")


@dataclass(frozen=True, slots=True)
class MemRef:
    """A declared allocation that pins a buffer (hardware-only; numerically inert)."""

    name: str | None = None
    slots: int = 1
    slot: int = 0

    def __getitem__(self, slot: int) -> MemRef:
        return MemRef(self.name, self.slots, slot)
