"""Rows about the order of things on a core and between cores: barriers, events, caches, pipes.

Statements of one core run in order here, so what orders them is an ordered no-op: checked, kept in the program for targets that
need it, and without effect. What crosses between cores has one: FIFOs hand tiles from one kernel of a run to another, and a syncall
is met by every block before any goes on (tile_ir/cross_core.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from tilejit.dtypes import DTYPES, INDEX, INT32, DType
from tilejit.errors import ArgumentError, DTypeError, InternalError, ShapeError
from tilejit.ops.dtype_rules import require
from tilejit.ops.movement import STORABLE
from tilejit.ops.rules import Custom, Nothing
from tilejit.ops.shape_rules import extents, new_shape
from tilejit.ops.spec import Call, InferRule, OpSpec, Scalar, ScalarArg, Scalars, Spelling, Static, Value, declare, spell
from tilejit.types.annotations import AUTO
from tilejit.types.enums import PipeType
from tilejit.types.values import BufferType, ScalarType, ShapedType, TileType, ValueType

Check = Callable[[Call], None]
SYSTEM = ("system",)
CORE_TYPES = ("mix", "aic", "aiv", "cube", "vector")
EVENTS = 14
"""Cube and vector cores share events 0 to 13."""


def effect(*spellings: Spelling, check: Check | None = None, levels: Sequence[str] = SYSTEM, crosses: bool = False) -> Callable[[Callable[..., object]], OpSpec]:
    """Declare a statement without result: the front end checks it and keeps it as `tile.effect`. `crosses`: another core sees it."""

    def infer(call: Call) -> tuple[ValueType, ...]:
        if check is not None:
            check(call)
        return ()

    def declared(stub: Callable[..., object]) -> OpSpec:
        return declare(
            stub,
            family="effect",
            infer=infer,
            reference=_nothing,
            cpu=Custom() if crosses else Nothing(),
            dtypes=frozenset(DTYPES.values()),
            spellings=spellings,
            levels=levels,
        )

    return declared


def _nothing(**_: object) -> tuple[object, ...]:
    return ()


# checks ---------------------------------------------------------------------------------------------------------------


def _integer(call: Call, name: str, least: int = 0, most: int | None = None, optional: bool = False) -> None:
    number = call.arg(name)
    if number is None and optional:
        return
    if not isinstance(number, int) or isinstance(number, bool) or number < least or (most is not None and number > most):
        wanted = f"a constant of at least {least}" if most is None else f"a constant from {least} to {most}"
        raise ArgumentError(f"{call.row.name} takes {wanted} as `{name}`, got {number!r}", help=f"for example {name}={least}")


def _pipe(call: Call, name: str) -> None:
    if not isinstance(call.arg(name), PipeType):
        raise ArgumentError(f"{call.row.name} takes a pl.PipeType as `{name}`, got {call.arg(name)!r}", help=f"one of {', '.join(str(pipe) for pipe in PipeType)}")


def _core_type(call: Call) -> None:
    core = call.arg("core_type")
    if core is not None and core not in CORE_TYPES:
        raise ArgumentError(f"{call.row.name} has no core_type {core!r}", help=f"one of {', '.join(CORE_TYPES)}")


def _tensor(call: Call, name: str) -> BufferType | None:
    arg = call.arg(name)
    if arg is None or isinstance(arg, BufferType):
        return arg
    raise ArgumentError(f"{call.row.name} takes a tensor in global memory as `{name}`, got {arg}", help="pl.create_tensor makes one")


# barriers and events --------------------------------------------------------------------------------------------------


@effect(*spell("bar_all", system="()"))
def bar_all() -> object:
    """All pipes of the core wait for each other."""


@effect(*spell("bar_m", system="()"))
def bar_m() -> object:
    """The matrix pipe waits for what it was given."""


@effect(*spell("bar_v", system="()"))
def bar_v() -> object:
    """The vector pipe waits for what it was given."""


@effect(*spell("fence", system="()"))
def fence() -> object:
    """Writes to global memory before it are visible after it."""


def _check_event(call: Call) -> None:
    _integer(call, "event_id")
    for name in ("set_pipe", "wait_pipe"):
        _pipe(call, name)


_EVENT = "(*, set_pipe, wait_pipe, event_id)"


@effect(*spell("sync_src", system=_EVENT), check=_check_event)
def sync_src(set_pipe: Static, wait_pipe: Static, event_id: Static) -> object:
    """Raise an event between two pipes of the core."""


@effect(*spell("sync_dst", system=_EVENT), check=_check_event)
def sync_dst(set_pipe: Static, wait_pipe: Static, event_id: Static) -> object:
    """Wait for an event between two pipes of the core."""


def _check_shared_event(call: Call) -> None:
    _integer(call, "event_id", 0, EVENTS - 1)
    _pipe(call, "pipe")
    _core_type(call)
    if "ffts_mode" in call.row.param_names:
        _integer(call, "ffts_mode", 0, 3, optional=True)


@effect(*spell("sync_set", system="(event_id, *, pipe, ffts_mode=None, core_type=None)"), check=_check_shared_event)
def sync_set(event_id: Static, pipe: Static, ffts_mode: Static = None, core_type: Static = None) -> object:
    """Raise an event between cube and vector cores."""


@effect(*spell("sync_wait", system="(event_id, *, pipe, core_type=None)"), check=_check_shared_event)
def sync_wait(event_id: Static, pipe: Static, core_type: Static = None) -> object:
    """Wait for an event between cube and vector cores."""


def _check_syncall(call: Call) -> None:
    _core_type(call)
    mode, workspace, cores = call.arg("mode"), _tensor(call, "gm_workspace"), call.arg("used_cores")
    if mode not in ("hard", "soft"):
        raise ArgumentError(f"syncall has no mode {mode!r}", help="'hard' or 'soft'")
    if mode == "soft" and (workspace is None or cores is None):
        raise ArgumentError("syncall in soft mode takes `gm_workspace` and `used_cores`", help="pl.system.syncall(mode='soft', gm_workspace=w, used_cores=n)")
    if mode == "hard" and (workspace is not None or cores is not None):
        raise ArgumentError("syncall in hard mode takes neither `gm_workspace` nor `used_cores`", help="pass mode='soft' with them")
    if isinstance(cores, ScalarArg) and not cores.dtype.is_integer:
        raise DTypeError(f"syncall takes an integer as `used_cores`, got {cores.dtype}", help="convert it first: pl.cast(…, pl.INDEX)")
    if workspace is not None:
        require(call, "gm_workspace", workspace.dtype, {INT32})


@effect(*spell("syncall", system="(*, core_type='mix', mode='hard', gm_workspace=None, used_cores=None)"), check=_check_syncall, crosses=True)
def syncall(core_type: Static = "mix", mode: Static = "hard", gm_workspace: Value = None, used_cores: Scalar = None) -> object:
    """Every block that takes part waits here for all others."""


# memory ---------------------------------------------------------------------------------------------------------------


def _check_cache(call: Call) -> None:
    tensor = _tensor(call, "tensor")
    for name in ("shapes", "offsets"):
        if call.arg(name) is None:
            continue
        if tensor is None:
            raise ArgumentError(f"cacheinvalid takes `{name}` only with a tensor", help="pl.system.cacheinvalid(x, [rows, columns], [0, 0])")
        if len(extents(call, name)) != tensor.rank:
            raise ShapeError(f"cacheinvalid takes one entry per dim in `{name}`: {tensor} has {tensor.rank}, got {len(extents(call, name))}")


@effect(*spell("cacheinvalid", system="(tensor=None, shapes=None, offsets=None)"), check=_check_cache)
def cacheinvalid(tensor: Value = None, shapes: Scalars = None, offsets: Scalars = None) -> object:
    """Forget what caches hold of a window of a tensor, or of all global memory."""


def _check_ffts(call: Call) -> None:
    _tensor(call, "workspace")


@effect(*spell("set_ffts", system="(workspace)"), check=_check_ffts)
def set_ffts(workspace: Value) -> object:
    """Declare the memory that cross-core events use."""


def _named(call: Call, name: str) -> str:
    text = call.arg(name)
    if not isinstance(text, str) or not text:
        raise ArgumentError(f"{call.row.name} takes a name as `{name}`, got {text!r}", help=f"{name}='fifo'")
    return text


def _infer_reserve(call: Call) -> tuple[ValueType, ...]:
    _named(call, "name")
    _integer(call, "size", 1)
    _integer(call, "base", AUTO)
    return (ScalarType(INT32),)


def _reserve(results: tuple[ScalarType, ...], name: str, size: int, base: int) -> Any:
    return np.int32(max(base, 0))


def address(*spellings: Spelling, infer: InferRule, reference: Callable[..., object]) -> Callable[[Callable[..., object]], OpSpec]:
    """Declare a row that gives an address in on-chip memory: a number that only Ascend looks at."""

    def declared(stub: Callable[..., object]) -> OpSpec:
        return declare(
            stub, family="address", infer=infer, reference=reference, cpu=Custom(), dtypes=(INT32,), spellings=spellings, levels=SYSTEM
        )

    return declared


@address(*spell("reserve_buffer", pl="=system", system="(*, name, size, base=AUTO)"), infer=_infer_reserve, reference=_reserve)
def reserve_buffer(name: Static, size: Static, base: Static = AUTO) -> object:
    """The address of a named piece of on-chip memory, as an INT32 scalar."""


def _infer_import(call: Call) -> tuple[ValueType, ...]:
    _named(call, "name")
    if call.arg("peer_func") is None:
        raise ArgumentError("import_peer_buffer needs the function that reserves the buffer as `peer_func`")
    return (ScalarType(INT32),)


def _import(results: tuple[ScalarType, ...], name: str, peer_func: object) -> Any:
    return np.int32(0)


@address(*spell("import_peer_buffer", pl="=system", system="(*, name, peer_func)"), infer=_infer_import, reference=_import)
def import_peer_buffer(name: Static, peer_func: Static) -> object:
    """The address of a buffer that another function reserves, as an INT32 scalar."""


# pipes ----------------------------------------------------------------------------------------------------------------

_PIPE = "(c2v_consumer_buf=0, v2c_consumer_buf=0, *, dir_mask, slot_size, slot_num=None, local_slot_num=None, id=None)"


def _check_pipe(call: Call) -> None:
    _integer(call, "dir_mask", 1, 3)
    _integer(call, "slot_size", 1)
    for name in ("slot_num", "local_slot_num"):
        _integer(call, name, 1, optional=True)
    _integer(call, "id", optional=True)
    for name in ("c2v_consumer_buf", "v2c_consumer_buf"):
        buffer = call.arg(name)
        if isinstance(buffer, ScalarArg) and buffer.dtype not in (INT32, INDEX):
            raise DTypeError(f"{call.row.name} takes an INT32 scalar as `{name}`, got {buffer.dtype}", help="pl.reserve_buffer gives one")


@effect(*spell("aic_initialize_pipe", pl="=system", system=_PIPE), check=_check_pipe)
def aic_initialize_pipe(
    c2v_consumer_buf: Scalar = 0, v2c_consumer_buf: Scalar = 0, dir_mask: Static = None, slot_size: Static = None,
    slot_num: Static = None, local_slot_num: Static = None, id: Static = None,
) -> object:  # fmt: skip
    """Open the FIFOs of a cube kernel; dir_mask 1 is cube to vector, 2 vector to cube, 3 both."""


@effect(*spell("aiv_initialize_pipe", pl="=system", system=_PIPE), check=_check_pipe)
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
    _integer(call, "split", 0, SPLITS, optional=call.row.name.startswith("tfree"))
    _integer(call, "id", optional=True)
    if "lane_stride" in call.row.param_names:
        _integer(call, "lane_stride", 1, optional=True)
    if "lane" in call.row.param_names:
        _integer(call, "lane", 0, LANES - 1)


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


@effect(*spell("tpush_to_aiv", pl="=system", system="(tile, *, split, lane_stride=None, id=None)"), check=_check_push, crosses=True)
def tpush_to_aiv(tile: Value, split: Static, lane_stride: Static = None, id: Static = None) -> object:
    """Send a tile from the cube side to the vector side."""


@effect(*spell("tpush_to_aic", pl="=system", system="(tile, *, split, id=None)"), check=_check_push, crosses=True)
def tpush_to_aic(tile: Value, split: Static, id: Static = None) -> object:
    """Send a tile from the vector side to the cube side."""


@effect(*spell("lane_push", system="(tile, *, split, lane, id=None)"), check=_check_push, crosses=True)
def lane_push(tile: Value, split: Static, lane: Static, id: Static = None) -> object:
    """`tpush_to_aic` of one lane of `pl.split_aiv`, in printed programs."""


_FREE = "(tile, *, split=None, id=None)"


@effect(*spell("tfree_to_aic", pl="=system", system=_FREE), check=_check_push)
def tfree_to_aic(tile: Value, split: Static = None, id: Static = None) -> object:
    """Give the slot of a tile from the cube side back; split and id are those of its tpop."""


@effect(*spell("tfree_to_aiv", pl="=system", system=_FREE), check=_check_push)
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


def pop(*spellings: Spelling) -> Callable[[Callable[..., object]], OpSpec]:
    """Declare a row that takes a tile out of a FIFO: no two calls give the same."""

    def declared(stub: Callable[..., object]) -> OpSpec:
        return declare(stub, family="fifo", infer=_infer_pop, reference=_taken, cpu=Custom(), dtypes=STORABLE, spellings=spellings, levels=SYSTEM)

    return declared


@pop(*spell("tpop_from_aic", pl="=system", system="(*, shape=None, dtype=None, split=0, lane_stride=None, id=None)"))
def tpop_from_aic(shape: Scalars = None, dtype: Static = None, split: Static = 0, lane_stride: Static = None, id: Static = None) -> object:
    """The next tile that the cube side sent."""


@pop(*spell("tpop_from_aiv", pl="=system", system="(*, shape=None, dtype=None, split=0, id=None)"))
def tpop_from_aiv(shape: Scalars = None, dtype: Static = None, split: Static = 0, id: Static = None) -> object:
    """The next tile that the vector side sent, both lanes joined."""


@pop(*spell("lane_pop", system="(*, shape, dtype, split, lane, id=None)"))
def lane_pop(shape: Scalars, dtype: Static, split: Static, lane: Static, id: Static = None) -> object:
    """`tpop_from_aic` of one lane of `pl.split_aiv`, in printed programs."""


# crossings ------------------------------------------------------------------------------------------------------------


def _infer_crossing(call: Call) -> tuple[ValueType, ...]:
    x = call.shaped("x")
    assert isinstance(x, TileType)
    return (x,)


def _crossing(results: tuple[TileType, ...], x: Any) -> Any:
    return x


def crossing(stub: Callable[..., object]) -> OpSpec:
    """Declare a row that hands a tile from one kind of core to the other; outside pl.split_aiv the tile stays whole."""
    spellings = spell(stub.__name__, pl="=tile", tile="(x)")
    return declare(stub, family="movement", infer=_infer_crossing, reference=_crossing, cpu=Custom(), dtypes=STORABLE, spellings=spellings)


@crossing
def aiv_shard(x: Value) -> object:
    """A tile of the cube core on the vector core: the half of the running lane inside a pl.split_aiv that divides."""


@crossing
def aic_gather(x: Value) -> object:
    """A tile of the vector core on the cube core."""
