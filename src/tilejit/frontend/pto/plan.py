"""Where the tiles of a PTO kernel live: a tile at an address shares its bytes with every tile of its memory that overlaps it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from xdsl.ir import Operation

from tilejit.tile_ir.pto.op import PtoOp
from tilejit.tile_ir.pto.rules import constant
from tilejit.tile_ir.pto.specs import CAPACITY, TileSpec


@dataclass(eq=False)
class Component:
    """Tiles of one memory that are connected by overlaps: bytes `base` to `end`."""

    loc: str
    base: int
    end: int
    specs: list[TileSpec] = field(default_factory=list[TileSpec])

    @property
    def plain(self) -> bool:
        """Whether every tile is the same array at the same place."""
        first = self.specs[0]
        same = all(_layout(spec) == _layout(first) for spec in self.specs)
        return same and self.end - self.base == first.bytes

    @property
    def one_type(self) -> bool:
        """Whether all tiles have the very same type, its valid region known now."""
        return self.plain and None not in self.specs[0].valid and all(spec == self.specs[0] for spec in self.specs)


def _layout(spec: TileSpec) -> tuple[object, ...]:
    return (spec.shape, spec.element, spec.blayout, spec.slayout, spec.fractal)


@dataclass
class StoragePlan:
    """Facts about a whole kernel that decide how its tiles are held."""

    components: dict[Operation, Component]
    changes_valid: bool
    memory: set[object] = field(default_factory=set[object])
    """Tiles that must be memory rather than variables."""
    flat: set[object] = field(default_factory=set[object])
    """Tiles whose bytes are seen as several types."""


def plan_storage(ops: Iterable[Operation], arch: str) -> StoragePlan:
    """The plan for all ops that a launch can reach."""
    placed: list[tuple[PtoOp, TileSpec, int | None]] = []
    changes_valid = False
    for op in ops:
        if not isinstance(op, PtoOp):
            continue
        changes_valid |= op.row.name == "set_validshape"
        if op.row.name in ("alloc_tile", "tassign") and op.operand("addr") is not None:
            placed.append((op, op.result_tile, constant(op.operand("addr"))))
    components: dict[Operation, Component] = {}
    for loc in {spec.loc for _, spec, _ in placed}:
        here = [item for item in placed if item[1].loc == loc]
        if any(address is None for _, _, address in here):
            whole = Component(loc, 0, CAPACITY[arch][loc], [spec for _, spec, _ in here])
            components.update((op, whole) for op, _, _ in here)
        else:
            components.update(_connected(loc, here))
    return StoragePlan(components, changes_valid)


def _connected(loc: str, placed: list[tuple[PtoOp, TileSpec, int | None]]) -> dict[Operation, Component]:
    """Tiles in the order of their addresses: each either reaches into the bytes before it or begins a component."""
    out: dict[Operation, Component] = {}
    current: Component | None = None
    for op, spec, address in sorted(placed, key=lambda item: item[2] or 0):
        assert address is not None
        if current is None or address >= current.end:
            current = Component(loc, address, address)
        current.end = max(current.end, address + spec.bytes)
        current.specs.append(spec)
        out[op] = current
    return out
