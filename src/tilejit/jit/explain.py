"""Why a call compiles: the fields of its key against those of the nearest kernel that is there already."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import cast


@dataclass(frozen=True, slots=True)
class Difference:
    """One field that is not what it was."""

    field: str
    old: str
    new: str

    def __str__(self) -> str:
        return f"{self.field} {self.old} → {self.new}"


@dataclass(frozen=True, slots=True)
class Explanation:
    """Whether a call would hit, and if not, what is different from the nearest entry."""

    hit: str | None
    """"memory" or "disk"; None: it would compile."""
    differences: tuple[Difference, ...] = ()
    nearest: str | None = None
    """Key of the nearest entry; None when the kernel was never compiled."""
    note: str | None = None

    def __bool__(self) -> bool:
        return self.hit is not None

    def __str__(self) -> str:
        lines = [f"hit: {'on' if self.hit == 'disk' else 'in'} {self.hit}"] if self.hit else ["miss: " + self.reason]
        if not self.hit and self.nearest is not None:
            lines.append(f"nearest entry: {self.nearest[:12]}")
        if self.note:
            lines.append(self.note)
        return "\n".join(lines)

    @property
    def reason(self) -> str:
        """Why it compiles, in one line."""
        if self.nearest is None:
            return "first specialisation of this kernel"
        return "; ".join(str(difference) for difference in self.differences) or "the nearest entry could not be used"


def flat_fields(fields: Mapping[str, object]) -> dict[str, str]:
    """Fields of a key as one level of text: "`x`: dtype", "global `cfg.BLOCK`", …"""
    out: dict[str, str] = {}
    for name, value in fields.items():
        if name == "arguments":
            for argument, facts in cast("Mapping[str, object]", value).items():
                out.update(_argument_fields(argument, facts))
        elif name == "reads":
            out.update({path: str(text) for path, text in cast("Mapping[str, object]", value).items()})
        elif isinstance(value, Mapping):
            out.update({f"{name} `{key}`": str(item) for key, item in cast("Mapping[str, object]", value).items()})
        else:
            out[name] = str(value)
    return out


def _argument_fields(argument: str, facts: object) -> dict[str, str]:
    if isinstance(facts, Mapping):
        return {f"`{argument}`: {key}": str(item) for key, item in cast("Mapping[str, object]", facts).items()}
    return {f"`{argument}`": str(facts)}


def differences(old: Mapping[str, object], new: Mapping[str, object]) -> tuple[Difference, ...]:
    """What tells two keys apart. A changed definition is named only when no captured value explains it."""
    before, after = flat_fields(old), flat_fields(new)
    rows = [Difference(name, before.get(name, "—"), after.get(name, "—")) for name in dict.fromkeys([*after, *before]) if before.get(name) != after.get(name)]
    captured = any(row.field.startswith(("global ", "closure ", "attribute ")) for row in rows)
    out: list[Difference] = []
    for row in rows:
        if row.field == "definition":
            if not captured:
                out.append(Difference("text of the kernel or of a helper", row.old[:8], row.new[:8]))
        else:
            out.append(row)
    return tuple(out)


def nearest(fields: Mapping[str, object], entries: Iterable[tuple[str, Mapping[str, object]]]) -> tuple[str, tuple[Difference, ...]] | None:
    """The entry of the same kernel with the fewest differences."""
    best: tuple[str, tuple[Difference, ...]] | None = None
    for key, other in entries:
        if other.get("kernel") != fields.get("kernel"):
            continue
        found = differences(other, fields)
        if best is None or len(found) < len(best[1]):
            best = (key, found)
    return best
