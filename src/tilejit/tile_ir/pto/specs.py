"""What the types of the dialect say, free of any IR library: tiles, pointers, views."""

from __future__ import annotations

from dataclasses import dataclass

from tilejit.tile_ir.pto.elements import Element

Dim = int | None
"""An extent: a number, or None where the text says `?`."""

LOCATIONS = ("vec", "mat", "left", "right", "acc", "bias", "scaling")
BLAYOUTS = ("row_major", "col_major")
SLAYOUTS = ("none_box", "row_major", "col_major")
FRACTALS = (16, 32, 512, 1024)
PADS = ("null", "zero", "max", "min")
COMPACTS = ("null", "normal", "row_plus_one")
SPACES = ("gm", "vec", "mat", "left", "right", "acc", "bias", "scaling", "zero", "ub")
MAX_RANK = 5
MAX_EXTENT = 1 << 40
_KB = 1024
CAPACITY: dict[str, dict[str, int]] = {
    "a3": {"vec": 192 * _KB, "mat": 512 * _KB, "left": 64 * _KB, "right": 64 * _KB, "acc": 128 * _KB, "bias": 64 * _KB, "scaling": 64 * _KB},
    "a5": {"vec": 256 * _KB, "mat": 512 * _KB, "left": 64 * _KB, "right": 64 * _KB, "acc": 256 * _KB, "bias": 64 * _KB, "scaling": 64 * _KB},
}
"""Bytes of each local memory of one core."""


@dataclass(frozen=True, slots=True)
class TileSpec:
    """Everything a tile_buf type says."""

    loc: str
    element: Element
    rows: int
    cols: int
    valid: tuple[Dim, Dim]
    blayout: str = "row_major"
    slayout: str = "none_box"
    fractal: int = 512
    pad: int = 0
    compact: int = 0

    @property
    def boxed(self) -> bool:
        return self.slayout != "none_box"

    @property
    def shape(self) -> tuple[int, int]:
        return (self.rows, self.cols)

    @property
    def bytes(self) -> int:
        return self.rows * self.cols * self.element.bytes

    @property
    def box(self) -> tuple[int, int]:
        """Rows and columns of the inner box of a boxed layout."""
        if self.fractal == 1024:
            return (16, 16)
        if self.fractal == 32:
            return (16, 2) if self.slayout == "row_major" else (2, 16)
        wide = 32 // self.element.bytes
        return (16, wide) if self.slayout == "row_major" else (wide, 16)

    def text(self, long: bool = False) -> str:
        """The body between the angle brackets: canonical compact form, or the long form."""
        shown = ["?" if dim is None else str(dim) for dim in self.valid]
        if long:
            keys: list[tuple[str, object]] = [
                ("loc", self.loc), ("dtype", self.element.text), ("rows", self.rows), ("cols", self.cols), ("v_row", shown[0]), ("v_col", shown[1]),
                ("blayout", self.blayout), ("slayout", self.slayout), ("fractal", self.fractal), ("pad", self.pad),
            ]  # fmt: skip
            keys += [("compact", self.compact)] if self.compact else []
            return ", ".join(f"{key}={value}" for key, value in keys)
        out = [self.loc, f"{self.rows}x{self.cols}x{self.element.text}"]
        if self.valid != self.shape:
            out.append(f"valid={shown[0]}x{shown[1]}")
        defaults: dict[str, object] = {"blayout": "row_major", "slayout": "none_box", "fractal": 512, "pad": 0, "compact": 0}
        out += [f"{key}={getattr(self, key)}" for key, default in defaults.items() if getattr(self, key) != default]
        return ", ".join(out)


@dataclass(frozen=True, slots=True)
class PtrSpec:
    """A pointer: what it points to, and in which memory."""

    element: Element
    space: str = "gm"


@dataclass(frozen=True, slots=True)
class ViewSpec:
    """Extents and element type of a tensor view or a slice of one."""

    shape: tuple[Dim, ...]
    element: Element

    def __str__(self) -> str:
        return "".join(f"{'?' if dim is None else dim}x" for dim in self.shape) + self.element.text
