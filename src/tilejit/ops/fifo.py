"""Rows about FIFOs between cube and vector cores: pipes, pushes, pops (their meaning: tile_ir/cross_core.py and the backends)."""

from __future__ import annotations

from typing import NoReturn

from tilejit.dtypes import INDEX, INT32, DType
from tilejit.errors import ArgumentError, DTypeError, InternalError, ShapeError
from tilejit.ops.facts import Effect, Facts, Fifo
from tilejit.ops.movement import STORABLE
from tilejit.ops.shape_rules import new_shape
from tilejit.ops.spec import TABLE, Call, OpSpec, Scalar, ScalarArg, Scalars, Spelling, Static, Stub, Value, declarator, declare, spell
from tilejit.ops.sync import SYSTEM, effect, whole_number
from tilejit.types.values import ShapedType, TileType, ValueType


def _part(side: str, act: str, lane: bool = False) -> Facts:
    """The facts of an op of a FIFO; a lane of `pl.split_aiv` meets the cube side at those of the vector core."""
    fifo = Fifo(side, act, lane)
    if act == "open":
        return Facts(effect=Effect.Order, fifo=fifo)
    by_lane = side == "vector" and not lane
    return Facts(effect=Effect.Order if act == "free" else Effect.Cross, fifo=fifo, meets_lanes=by_lane, varies_by_lane=by_lane and act == "pop", exact=act == "pop")


def counterpart(row: OpSpec, side: str | None = None, act: str | None = None, lane: bool = False) -> OpSpec:
    """The row with the part that another one has in a FIFO, but for what is named; `lane`: the form of one lane instead of the one that users write."""
    part = row.facts.fifo
    assert part is not None, row
    wanted = Fifo(side or part.side, act or part.act, lane)
    return next(other for other in TABLE.values() if other.facts.fifo == wanted)


_PIPE = "(c2v_consumer_buf=0, v2c_consumer_buf=0, *, dir_mask, slot_size, slot_num=None, local_slot_num=None, id=None)"


def _check_pipe(call: Call) -> None:
    whole_number(call, "dir_mask", 1, 3)
    whole_number(call, "slot_size", 1)
    for name in ("slot_num", "local_slot_num"):
        whole_number(call, name, 1, optional=True)
    whole_number(call, "id", optional=True)
    for name in ("c2v_consumer_buf", "v2c_consumer_buf"):
        buffer = call.arg(name)
        if isinstance(buffer, ScalarArg) and buffer.dtype not in (INT32, INDEX):
            raise DTypeError(f"{call.row.name} takes an INT32 scalar as `{name}`, got {buffer.dtype}", help="pl.reserve_buffer gives one")


@effect(*spell("aic_initialize_pipe", pl="=system", system=_PIPE), check=_check_pipe, facts=_part("cube", "open"))
def aic_initialize_pipe(
    c2v_consumer_buf: Scalar = 0, v2c_consumer_buf: Scalar = 0, dir_mask: Static = None, slot_size: Static = None,
    slot_num: Static = None, local_slot_num: Static = None, id: Static = None,
) -> object:  # fmt: skip
    """Open the FIFOs of a cube kernel; dir_mask 1 is cube to vector, 2 vector to cube, 3 both."""


@effect(*spell("aiv_initialize_pipe", pl="=system", system=_PIPE), check=_check_pipe, facts=_part("vector", "open"))
def aiv_initialize_pipe(
    c2v_consumer_buf: Scalar = 0, v2c_consumer_buf: Scalar = 0, dir_mask: Static = None, slot_size: Static = None,
    slot_num: Static = None, local_slot_num: Static = None, id: Static = None,
) -> object:  # fmt: skip
    """Open the FIFOs of a vector kernel; dir_mask 1 is cube to vector, 2 vector to cube, 3 both."""


SPLITS = 4
"""0 none, 1 up and down, 2 left and right, 3 and 4 the same for odd extents."""
LANES = 2
"""Vector cores beside each cube core."""


def _check_transfer(call: Call) -> None:
    whole_number(call, "split", 0, SPLITS, optional=call.row.name.startswith("tfree"))
    whole_number(call, "id", optional=True)
    if "lane_stride" in call.row.param_names:
        whole_number(call, "lane_stride", 1, optional=True)
    if "lane" in call.row.param_names:
        whole_number(call, "lane", 0, LANES - 1)


def _check_halves(call: Call, tile: ShapedType) -> None:
    """The cube side has the whole tile: it must have two halves."""
    split = call.arg("split")
    if not isinstance(split, int) or split not in (1, 2):
        return
    axis = tile.rank - (2 if split == 1 else 1)
    extent = tile.shape[axis] if axis >= 0 else 1
    if isinstance(extent, int) and extent % 2:
        halved = "rows" if split == 1 else "columns"
        raise ShapeError(f"{call.row.name} with split={split} halves {halved}, which must be even, got {tile}", help=f"split={split + 2} takes odd extents")


def _check_push(call: Call) -> None:
    _check_transfer(call)
    tile = call.arg("tile")
    if isinstance(tile, ShapedType) and tile.level != "tile":
        raise ArgumentError(f"{call.row.name} takes a tile, got {tile}", help="bring it into a tile with pl.load first")
    if call.row.name == "tpush_to_aiv" and isinstance(tile, ShapedType):
        _check_halves(call, tile)


@effect(*spell("tpush_to_aiv", pl="=system", system="(tile, *, split, lane_stride=None, id=None)"), check=_check_push, facts=_part("cube", "push"))
def tpush_to_aiv(tile: Value, split: Static, lane_stride: Static = None, id: Static = None) -> object:
    """Send a tile from the cube side to the vector side."""


@effect(*spell("tpush_to_aic", pl="=system", system="(tile, *, split, id=None)"), check=_check_push, facts=_part("vector", "push"))
def tpush_to_aic(tile: Value, split: Static, id: Static = None) -> object:
    """Send a tile from the vector side to the cube side."""


@effect(*spell("lane_push", system="(tile, *, split, lane, id=None)"), check=_check_push, facts=_part("vector", "push", lane=True))
def lane_push(tile: Value, split: Static, lane: Static, id: Static = None) -> object:
    """`tpush_to_aic` of one lane of `pl.split_aiv`, in printed programs."""


_FREE = "(tile, *, split=None, id=None)"


@effect(*spell("tfree_to_aic", pl="=system", system=_FREE), check=_check_push, facts=_part("vector", "free"))
def tfree_to_aic(tile: Value, split: Static = None, id: Static = None) -> object:
    """Give the slot of a tile from the cube side back; split and id are those of its tpop."""


@effect(*spell("tfree_to_aiv", pl="=system", system=_FREE), check=_check_push, facts=_part("cube", "free"))
def tfree_to_aiv(tile: Value, split: Static = None, id: Static = None) -> object:
    """Give the slot of a tile from the vector side back; split and id are those of its tpop."""


def _infer_pop(call: Call) -> tuple[ValueType, ...]:
    _check_transfer(call)
    shape, dtype = call.arg("shape"), call.arg("dtype")
    if shape is None or dtype is None:
        raise ArgumentError(f"{call.row.name} needs `shape` and `dtype`", help="or annotate the target: t: pl.Tile[[16, 16], pl.FP32] = …")
    if not isinstance(dtype, DType) or dtype not in STORABLE:
        raise DTypeError(f"{call.row.name} takes a data type as `dtype`, got {dtype}", help="for example dtype=pl.FP32")
    extent = new_shape(Call(call.row, "tile", call.args))
    if any(not isinstance(size, int) for size in extent):
        raise ShapeError(f"{call.row.name} takes constants as `shape`, got {list(extent)}", help="the slots of a FIFO have a fixed size")
    tile = TileType(extent, dtype, extent)
    if call.row.name == "tpop_from_aiv":
        _check_halves(call, tile)
    return (tile,)


def _taken(**_: object) -> NoReturn:
    raise InternalError("what arrives is known to the backend only")


@declarator
def pop(stub: Stub, *spellings: Spelling, side: str, lane: bool = False) -> OpSpec:
    """Declare a row that takes a tile out of a FIFO: no two calls give the same."""
    return declare(stub, family="fifo", infer=_infer_pop, reference=_taken, dtypes=STORABLE, spellings=spellings, levels=SYSTEM, facts=_part(side, "pop", lane))


@pop(*spell("tpop_from_aic", pl="=system", system="(*, shape=None, dtype=None, split=0, lane_stride=None, id=None)"), side="vector")
def tpop_from_aic(shape: Scalars = None, dtype: Static = None, split: Static = 0, lane_stride: Static = None, id: Static = None) -> object:
    """The next tile that the cube side sent."""


@pop(*spell("tpop_from_aiv", pl="=system", system="(*, shape=None, dtype=None, split=0, id=None)"), side="cube")
def tpop_from_aiv(shape: Scalars = None, dtype: Static = None, split: Static = 0, id: Static = None) -> object:
    """The next tile that the vector side sent, both lanes joined."""


@pop(*spell("lane_pop", system="(*, shape, dtype, split, lane, id=None)"), side="vector", lane=True)
def lane_pop(shape: Scalars, dtype: Static, split: Static, lane: Static, id: Static = None) -> object:
    """`tpop_from_aic` of one lane of `pl.split_aiv`, in printed programs."""
