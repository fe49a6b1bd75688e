"""The FIFOs between the cube side and the vector sub-cores, and the local arrays of event ids."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from xdsl.ir import Operation

from tilejit.backends.pto.interpret.memory import Tile, fresh
from tilejit.backends.pto.interpret.tiles import converted, extents
from tilejit.errors import OutOfBoundsError, ResourceError, ShapeError
from tilejit.tile_ir.pto.op import PtoOp
from tilejit.tile_ir.pto.pipes import core_of
from tilejit.tile_ir.pto.types import EventArrayType

if TYPE_CHECKING:
    from tilejit.backends.pto.interpret.machine import Frame, Value

NDArray = npt.NDArray[Any]
_MAX_WAITING = 65536


@dataclass(frozen=True)
class Parcel:
    """A copy of a tile on its way."""

    values: NDArray
    valid: tuple[int, int]


@dataclass
class Queues:
    """All FIFOs of one block; `moves` counts what went in or out, so that a standstill can be seen."""

    waiting: dict[tuple[object, ...], deque[Parcel]] = field(default_factory=lambda: defaultdict(deque))
    moves: int = 0

    def push(self, key: tuple[object, ...], parcel: Parcel) -> None:
        if len(self.waiting[key]) >= _MAX_WAITING:
            raise ResourceError(f"{_MAX_WAITING} tiles were sent and none was taken")
        self.waiting[key].append(parcel)
        self.moves += 1

    def pop(self, key: tuple[object, ...]) -> Parcel:
        self.moves += 1
        return self.waiting[key].popleft()


def _half(parcel: Parcel, split: int, sub: int) -> Parcel:
    """The rows (1) or columns (2) of a tile that belong to a sub-core."""
    axis = split - 1
    size = parcel.values.shape[axis] // 2
    part = [slice(None), slice(None)]
    part[axis] = slice(sub * size, (sub + 1) * size)
    valid = list(parcel.valid)
    valid[axis] = min(max(valid[axis] - sub * size, 0), size)
    return Parcel(parcel.values[tuple(part)], (valid[0], valid[1]))


def _joined(parts: list[Parcel], split: int) -> Parcel:
    axis = split - 1
    valid = list(parts[0].valid)
    valid[axis] = parts[0].valid[axis] + parts[1].valid[axis]
    return Parcel(np.concatenate([part.values for part in parts], axis), (valid[0], valid[1]))


def _parcel(found: Tile) -> Parcel:
    return Parcel(found.read().copy(), (found.valid[0], found.valid[1]))


def _send(frame: Frame, key: tuple[object, ...], parcel: Parcel, split: int, to_vector: bool) -> None:
    if to_vector and split:
        for sub in (0, 1):
            frame.launch.queues.push((*key, sub), _half(parcel, split, sub))
    else:
        frame.launch.queues.push((*key, 0 if to_vector or not split else frame.sub), parcel)


def _receive(frame: Frame, key: tuple[object, ...], split: int, to_vector: bool) -> Generator[None, None, Parcel]:
    queues = frame.launch.queues
    if to_vector or not split:
        own = (*key, frame.sub if to_vector and split else 0)
        while not queues.waiting[own]:
            yield
        return queues.pop(own)
    both = [(*key, sub) for sub in (0, 1)]
    while not all(queues.waiting[own] for own in both):
        yield
    return _joined([queues.pop(own) for own in both], split)


def _delivered(parcel: Parcel, target: Tile) -> None:
    if parcel.values.shape != target.shape:
        raise ShapeError(f"a tile of {parcel.values.shape[0]}x{parcel.values.shape[1]} arrives, one of {target.shape[0]}x{target.shape[1]} is expected")
    target.write(converted(parcel.values, target.dtype))
    target.bound = True


def _adopted(parcel: Parcel, target: Tile) -> None:
    """A declared tile is valid where its type says so, and where it does not, as far as what arrived."""
    target.valid[:] = [sent if written is None else written for sent, written in zip(parcel.valid, target.spec.valid)]


def _push(frame: Frame, op: PtoOp) -> list[Value]:
    to_vector = op.row.name == "tpush_to_aiv"
    _send(frame, (frame.group, to_vector), _parcel(frame.value(op.operand("tile"))), op.integer("split"), to_vector)
    return []


def _pop(frame: Frame, op: PtoOp) -> Generator[None, None, list[Value]]:
    to_vector = op.row.name == "tpop_from_aic"
    frame.at = op
    parcel = yield from _receive(frame, (frame.group, to_vector), op.integer("split"), to_vector)
    given = op.operand("row") is not None
    row, col = (int(frame.value(op.operand("row"))), int(frame.value(op.operand("col")))) if given else parcel.valid
    target = fresh(op.result_tile, extents(op.result_tile, row, col))
    _delivered(parcel, target)
    return [target]


# pipes as values ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pipe:
    """A FIFO that an op opened: functions of one group that open it with the same options share it."""

    group: str
    mask: int
    base: int

    def direction(self, op: PtoOp, pushing: bool) -> bool:
        """Whether a use of the pipe goes towards the vector side."""
        if self.mask != 3:
            return self.mask == 1
        return (core_of(op) == "vector") != pushing


def is_split(op: Operation) -> bool:
    """Whether an op sends or receives halves of a tile."""
    return isinstance(op, PtoOp) and op.row.family == "fifo" and op.integer("split") != 0


def _open_pipe(frame: Frame, op: PtoOp) -> list[Value]:
    return [Pipe(frame.group, op.integer("dir_mask"), op.integer("flag_base"))]


def _pipe_push(frame: Frame, op: PtoOp) -> list[Value]:
    pipe: Pipe = frame.value(op.operand("pipe"))
    to_vector = pipe.direction(op, True)
    _send(frame, (pipe, to_vector), _parcel(frame.value(op.operand("tile"))), op.integer("split"), to_vector)
    return []


def _pipe_pop(frame: Frame, op: PtoOp) -> Generator[None, None, list[Value]]:
    pipe: Pipe = frame.value(op.operand("pipe"))
    to_vector = pipe.direction(op, False)
    frame.at = op
    parcel = yield from _receive(frame, (pipe, to_vector), op.integer("split"), to_vector)
    target: Tile = frame.value(op.operand("tile"))
    _delivered(parcel, target)
    _adopted(parcel, target)
    return []


# event ids -------------------------------------------------------------------------------------------------------------------------


def _declare_array(frame: Frame, op: PtoOp) -> list[Value]:
    type = op.results[0].type
    return [[0] * (type.data if isinstance(type, EventArrayType) else 8)]


def _place(frame: Frame, op: PtoOp) -> tuple[list[int], int]:
    array, index = frame.value(op.operand("array")), int(frame.value(op.operand("index")))
    if not 0 <= index < len(array):
        raise OutOfBoundsError(f"the array has {len(array)} event ids, got index {index}")
    return array, index


def _array_get(frame: Frame, op: PtoOp) -> list[Value]:
    array, index = _place(frame, op)
    return [array[index]]


def _array_set(frame: Frame, op: PtoOp) -> list[Value]:
    array, index = _place(frame, op)
    array[index] = int(frame.value(op.operand("value")))
    return []


def _nothing(frame: Frame, op: PtoOp) -> list[Value]:
    return []


STEPS = {
    "push": _push,
    "free": _nothing,
    "initialize_pipe": _nothing,
    "reserve_buffer": lambda frame, op: [op.integer("base")],
    "import_reserved_buffer": lambda frame, op: [0],
    "open_pipe": _open_pipe,
    "pipe_push": _pipe_push,
    "declare_eventid_array": _declare_array,
    "eventid_array_get": _array_get,
    "eventid_array_set": _array_set,
}
WAITING: dict[str, Callable[[Any, PtoOp], Generator[None, None, list[Any]]]] = {"pop": _pop, "pipe_pop": _pipe_pop}
"""The ops that wait for another side."""
