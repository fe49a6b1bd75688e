"""What crosses between cores: pushes and pops of FIFOs, the halves that a split gives to each lane, and barriers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.ir import Operation

from tilejit import ops
from tilejit.ops.facts import Effect
from tilejit.ops.fifo import counterpart
from tilejit.ops.sync import CORE_TYPES
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import apply_args
from tilejit.types.enums import Level
from tilejit.types.values import TileType

_CORES = {Level.AIC: "aic", Level.AIV: "aiv"}


def core_of_kind(kind: object, attrs: Mapping[str, object]) -> str | None:
    """ "aic" or "aiv" for a kernel of one kind of core: by its kind, or by its level."""
    level = attrs.get("level")
    return str(kind) if kind in ("aic", "aiv") else _CORES.get(level) if kind == "incore" and isinstance(level, Level) else None


def core_of(function: d.FuncOp) -> str | None:
    """The kind of core that a function is for."""
    return core_of_kind(function.static("kind"), function.attrs)


TO_VECTOR, TO_CUBE = "c2v", "v2c"
ROWS = (1, 3)
"""Splits that divide the rows of a tile; the others divide its columns. 3 and 4 let the first half be the larger one."""
BACKLOG = 64
"""Tiles in a FIFO from which on the kernel that pushes lets others run first: FIFOs never block, but need not grow without need."""

Fifo = tuple[str, int]
"""Direction and id."""


@dataclass(frozen=True, slots=True, eq=False)
class Transfer:
    """A push or pop."""

    op: d.ApplyOp | d.EffectOp
    function: str
    fifo: Fifo
    pushes: bool
    split: int
    lane: int | None
    type: TileType

    @property
    def on_vector(self) -> bool:
        """Whether it stands on the vector side."""
        return (self.fifo[0] == TO_VECTOR) != self.pushes

    @property
    def axis(self) -> int:
        """The dim that the split divides."""
        return self.type.rank - (2 if self.split in ROWS else 1)

    @property
    def title(self) -> str:
        """What it is and where, in the user's names."""
        span, lane = self.op.span, "" if self.lane is None else f", lane {self.lane}"
        return f"{counterpart(ops.table()[self.op.op]).name} in `{span.function if span and span.function else self.function}`{lane}"


def transfer_of(op: Operation, function: str = "") -> Transfer | None:
    """What an op does to a FIFO."""
    part = ops.facts(op.op).fifo if isinstance(op, d.ApplyOp | d.EffectOp) else None
    if not isinstance(op, d.ApplyOp | d.EffectOp) or part is None or part.act not in ("push", "pop"):
        return None
    pushes = part.act == "push"
    direction = TO_VECTOR if (part.side == "cube") == pushes else TO_CUBE
    args = apply_args(op)
    type = d.type_of(op.args[0]) if pushes else d.type_of(op.results[0])
    number, split, lane = args.get("id"), args.get("split"), args.get("lane")
    assert isinstance(type, TileType) and isinstance(split, int)
    return Transfer(op, function, (direction, number if isinstance(number, int) else 0), pushes, split, lane if isinstance(lane, int) else None, type)


@dataclass(frozen=True, slots=True)
class Part:
    """Which cells of a whole tile one lane holds: those from `first` on along `axis`, at most `size`."""

    axis: int
    half: int
    extent: int

    def first(self, lane: int) -> int:
        return lane * self.half

    def size(self, lane: int) -> int:
        return min(self.half, self.extent - lane * self.half)


def part_of(whole: TileType, piece: TileType, split: int, lane: int | None) -> Part | None:
    """How `piece` is the half of `whole` that a split gives to a lane (None: to either); None when it is not."""
    if split == 0 or whole.rank != piece.rank or whole.dtype is not piece.dtype:
        return None
    axis = whole.rank - (2 if split in ROWS else 1)
    if axis < 0 or any(a != b for i, (a, b) in enumerate(zip(whole.shape, piece.shape, strict=True)) if i != axis):
        return None
    extent, size = whole.shape[axis], piece.shape[axis]
    assert isinstance(extent, int)
    half = -(-extent // 2)
    if extent % 2 and split in (1, 2):
        return None
    return Part(axis, half, extent) if size == half or (lane == 1 and size == extent - half) else None


def same_tile(a: TileType, b: TileType) -> bool:
    return a.dtype is b.dtype and a.shape == b.shape


def meets(a: Transfer, b: Transfer) -> bool:
    """Whether two transfers are the two ends of one FIFO."""
    return a.fifo == b.fifo and a.pushes != b.pushes


def is_half(whole: Transfer, piece: Transfer) -> bool:
    """Whether the vector side's transfer handles half of what the cube side's handles."""
    return not same_tile(whole.type, piece.type) and part_of(whole.type, piece.type, piece.split, piece.lane) is not None


# barriers ---------------------------------------------------------------------------------------------------------------

def sync_class(op: Operation) -> str | None:
    """The barrier that an op waits at."""
    if not isinstance(op, d.EffectOp) or op.op != "syncall":
        return None
    return CORE_TYPES[str(apply_args(op)["core_type"])]


def waits(op: Operation) -> bool:
    """Whether an op waits for what another rank does."""
    return isinstance(op, d.EffectOp) and op.op == "wait"


def crosses(op: Operation) -> bool:
    """Whether an op concerns another core."""
    return isinstance(op, d.ApplyOp | d.EffectOp) and ops.facts(op.op).effect is Effect.Cross
