"""Element types of PTO text: their spelling, their size, and the data type that holds them when a kernel runs."""

from __future__ import annotations

from dataclasses import dataclass

from tilejit.dtypes import DTYPES, FP8E4M3FN, INT8, INT16, INT32, INT64, DType


@dataclass(frozen=True, slots=True)
class Element:
    """One element type; `dtype` is None when no array of it can be made here."""

    name: str
    bits: int
    dtype: DType | None
    extended: bool = False
    """Written `!pto.name` (second generation) instead of `name`."""

    @property
    def bytes(self) -> int:
        return max(1, self.bits // 8)

    @property
    def text(self) -> str:
        return f"!pto.{self.name}" if self.extended else self.name

    @property
    def is_float(self) -> bool:
        return self.name[0] in "fbh"

    @property
    def is_integer(self) -> bool:
        return not self.is_float and self.name != "index"

    @property
    def plain(self) -> str:
        """The name without a sign: rules speak of `i8` where `ui8` counts too."""
        return self.name[1:] if self.name.startswith("ui") else self.name

    def __str__(self) -> str:
        return self.text


_EXTENDED = {"hif8": 8, "f8E8M0": 8, "f4E1M2x2": 8, "f4E2M1x2": 8, "bf16x2": 32}


def _elements() -> dict[str, Element]:
    rows = [Element(row.pto, row.bits, row) for row in DTYPES.values() if row.pto is not None and row.pto not in _EXTENDED]
    rows += [Element(f"si{row.bits}", row.bits, row) for row in (INT8, INT16, INT32, INT64)]
    rows += [Element("f8E4M3", 8, FP8E4M3FN), Element("f64", 64, None)]
    rows += [Element(name, bits, DTYPES["FP8E8M0"] if name == "f8E8M0" else None, True) for name, bits in _EXTENDED.items()]
    return {row.name: row for row in rows}


ELEMENTS: dict[str, Element] = _elements()
"""Every element type by its bare name."""


def element_named(text: str) -> Element | None:
    """The element type written `text` (`f32`, `!pto.hif8`), or None."""
    found = ELEMENTS.get(text.removeprefix("!pto."))
    return found if found is not None and found.text == text else None
