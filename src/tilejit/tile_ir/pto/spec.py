"""What a row of the op table says: text format, operands, attributes, rules, meaning, and how it runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from tilejit.lazy import lazy

if TYPE_CHECKING:
    from tilejit.tile_ir.pto.op import PtoOp

NDArray = npt.NDArray[Any]

A2A3, A5 = "a3", "a5"
"""The two families of machines whose rules differ."""


QUANT_BLOCK = 8
"""Parameters that tquant reads for each row: a block of 32 bytes."""


MX_BLOCK = 32
"""Elements along the inner dim of a scaled product that share a scale."""


def dense_masks(arch: str) -> bool:
    """Whether the bits of a mask follow each other without a gap; otherwise those of row r begin at row r of the mask tile."""
    return arch == A5


@dataclass(frozen=True, slots=True)
class Slot:
    """One operand: its name in messages, what it may be, whether it may be left out or repeated.

    Kinds: `tile`, `view` (a slice), `tensor` (a tensor view), `ptr`, `scalar` (a number), `index`, `i64`, `i32`, `pipe`, `any`.
    """

    name: str
    kind: str = "tile"
    optional: bool = False
    variadic: bool = False

    @property
    def scratch(self) -> bool:
        return self.name == "tmp"


Rule = Callable[["PtoOp", str], str | None]
"""A rule of the verifier: what an op breaks on an architecture, or None."""


# how a row runs ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Map:
    """Every cell of the destination's valid region from the same cells of the operands; scalars as they are."""

    function: Callable[..., NDArray]
    accumulates: bool = False
    """The old destination is the first operand."""


@dataclass(frozen=True, slots=True)
class Along:
    """Like Map, but the last operand is one column (`axis` 1: one value per row) or one row (`axis` 0)."""

    function: Callable[..., NDArray]
    axis: int
    either: bool = False
    """The first operand may be the line instead, and the last one whole."""


@dataclass(frozen=True, slots=True)
class Fold:
    """A reduction of the valid region along `axis`; the result is one column or one row of the destination."""

    function: Callable[..., NDArray]
    axis: int


@dataclass(frozen=True, slots=True)
class Part:
    """A partial op: the function where both sources are valid, the valid one where one is, zero elsewhere."""

    function: Callable[..., NDArray]


@dataclass(frozen=True, slots=True)
class Matmul:
    """A matrix product with its further operands by name: `acc` is added to, `bias` is a row, `mx`: operands have scales."""

    mx: bool = False


@dataclass(frozen=True, slots=True)
class Custom:
    """A function of the executor named after the op."""

    name: str = ""


@dataclass(frozen=True, slots=True)
class Nothing:
    """Orders hardware units: without effect where everything runs in program order."""


@dataclass(frozen=True, slots=True)
class Refused:
    """Cannot run here; the reason is told before anything runs."""

    reason: str


Run = Map | Along | Fold | Part | Matmul | Custom | Nothing | Refused

# the row ------------------------------------------------------------------------------------------------------------------

_SLOT = re.compile(r"%?(\w+)(?::(\w+))?([?*]?)$")


def slot(text: str) -> Slot:
    """`tmp?` or `offsets:index*` as a Slot."""
    match = _SLOT.match(text)
    assert match is not None, text
    return Slot(match.group(1), match.group(2) or "tile", match.group(3) == "?", match.group(3) == "*")


@dataclass(frozen=True)
class Row:
    """One op of the dialect."""

    name: str
    """Without the `pto.` prefix."""
    family: str
    format: str
    meaning: str
    run: Run
    rules: tuple[Rule, ...] = ()
    attributes: Mapping[str, str] = field(default_factory=dict[str, str])
    """Known attributes: `bool`, `int`, `str`, `symbol`, `ints`, or the name of an enumeration; `!` behind it: required."""
    result: str | None = None
    """`type`: written in the text; `like X`: as operand X; `infer`: by the op's own rule; else the type itself (`i64`)."""
    order: tuple[str, ...] = ()
    """Declared order of the operands where it differs from the order in the text (generic form)."""
    paired: bool = False
    """Each operand of `ins` is printed with its own type."""
    arch: str | None = None
    """The only architecture that has the op."""
    core: str | None = None
    """`cube` or `vector` where only functions of that kind may use it."""

    @lazy
    def slots(self) -> tuple[Slot, ...]:
        """All operands in declared order."""
        if self.format.startswith("ins("):
            lists = re.findall(r"(?:ins|outs)\(([^)]*)\)", self.format)
            names = [part.strip() for text in lists for part in text.split("{")[0].split(",") if part.strip()]
            found = [slot(name) for name in names]
        else:
            found = []
            grouped = 0
            for word in self.format.split():
                if word == "<<":
                    grouped += 1
                elif word == ">>":
                    grouped -= 1
                elif "%" in word:
                    made = slot(word[word.index("%") :])
                    found.append(Slot(made.name, made.kind if ":" in word else "any", made.optional or grouped > 0, made.variadic))
        if self.order:
            found.sort(key=lambda item: self.order.index(item.name))
        return tuple(found)

    @lazy
    def segmented(self) -> bool:
        """Whether the text alone does not say which operand is which."""
        return any(item.optional or item.variadic for item in self.slots)

    @lazy
    def destination_style(self) -> tuple[tuple[Slot, ...], tuple[str, ...], tuple[Slot, ...]] | None:
        """`ins` operands, names of the attributes inside `ins`, `outs` operands."""
        match = re.fullmatch(r"ins\(([^){]*)(?:\{([^}]*)\})?\)(?: outs\(([^)]*)\))?", self.format)
        if match is None:
            return None

        def listed(text: str | None) -> tuple[str, ...]:
            return tuple(part.strip() for part in (text or "").split(",") if part.strip())

        return tuple(map(slot, listed(match.group(1)))), listed(match.group(2)), tuple(map(slot, listed(match.group(3))))
