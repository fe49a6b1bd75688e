"""Rows about the order of things on a core and between cores: barriers, events, caches, pipes.

Statements of one core run in order here, so what orders them is an ordered no-op: checked, kept in the program for targets that
need it, and without effect. What crosses between cores has one: FIFOs (fifo.py) hand tiles from one kernel of a run to another, and a
syncall is met by every block before any goes on (tile_ir/cross_core.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilejit.dtypes import DTYPES, INT32
from tilejit.errors import ArgumentError, DTypeError, ShapeError
from tilejit.ops.dtype_rules import require
from tilejit.ops.facts import Effect, Facts
from tilejit.ops.movement import STORABLE
from tilejit.ops.shape_rules import extents
from tilejit.ops.spec import Call, InferRule, OpSpec, Scalar, ScalarArg, Scalars, Spelling, Static, Stub, Value, declarator, declare, spell
from tilejit.types.annotations import AUTO
from tilejit.types.enums import PipeType
from tilejit.types.values import BufferType, ScalarType, TileType, ValueType

Check = Callable[[Call], None]
SYSTEM = ("system",)
CORE_TYPES = {"mix": "mix", "aic": "cube", "aiv": "vector", "cube": "cube", "vector": "vector", "aic_only": "cube", "aiv_only": "vector"}
"""Which barrier a syncall of a core type meets."""
MIXED_CORES = 3
"""A block of a mixed kernel has one cube and two vector cores; a mixed barrier counts them all."""
ORDER = Facts(effect=Effect.Order)
EVENTS = 14
"""Cube and vector cores share events 0 to 13."""


@declarator
def effect(stub: Stub, *spellings: Spelling, check: Check | None = None, levels: Sequence[str] = SYSTEM, facts: Facts = ORDER, family: str = "effect") -> OpSpec:
    """Declare a statement without result: the front end checks it and keeps it as `tile.effect`."""

    def infer(call: Call) -> tuple[ValueType, ...]:
        if check is not None:
            check(call)
        return ()

    return declare(
        stub,
        family=family,
        infer=infer,
        reference=_nothing,
        dtypes=frozenset(DTYPES.values()),
        spellings=spellings,
        levels=levels,
        facts=facts,
    )


def _nothing(**_: object) -> tuple[object, ...]:
    return ()


# checks ---------------------------------------------------------------------------------------------------------------


def whole_number(call: Call, name: str, least: int = 0, most: int | None = None, optional: bool = False) -> None:
    """An argument must be a constant within limits."""
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
    whole_number(call, "event_id")
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
    whole_number(call, "event_id", 0, EVENTS - 1)
    _pipe(call, "pipe")
    _core_type(call)
    if "ffts_mode" in call.row.param_names:
        whole_number(call, "ffts_mode", 0, 3, optional=True)


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
    if isinstance(cores, ScalarArg) and isinstance(cores.const, int) and CORE_TYPES.get(str(call.arg("core_type"))) == "mix" and cores.const % MIXED_CORES:
        message = f"a mixed syncall counts one cube and two vector cores per block, got used_cores={cores.const}"
        raise ArgumentError(message, help=f"used_cores={MIXED_CORES} * blocks, or core_type='aiv' for one core per block")
    if workspace is not None:
        require(call, "gm_workspace", workspace.dtype, {INT32})


@effect(*spell("syncall", system="(*, core_type='mix', mode='hard', gm_workspace=None, used_cores=None)"), check=_check_syncall, facts=Facts(effect=Effect.Cross, meets_lanes=True))
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
    whole_number(call, "size", 1)
    whole_number(call, "base", AUTO)
    return (ScalarType(INT32),)


def _reserve(results: tuple[ScalarType, ...], name: str, size: int, base: int) -> Any:
    return np.int32(max(base, 0))


@declarator
def address(stub: Stub, *spellings: Spelling, infer: InferRule, reference: Callable[..., object]) -> OpSpec:
    """Declare a row that gives an address in on-chip memory: a number that only Ascend looks at."""
    return declare(
        stub, family="address", infer=infer, reference=reference, dtypes=(INT32,), spellings=spellings, levels=SYSTEM
    )


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


# crossings ------------------------------------------------------------------------------------------------------------


def _infer_crossing(call: Call) -> tuple[ValueType, ...]:
    x = call.shaped("x")
    assert isinstance(x, TileType)
    return (x,)


def _crossing(results: tuple[TileType, ...], x: Any) -> Any:
    return x


@declarator
def crossing(stub: Stub, facts: Facts) -> OpSpec:
    """Declare a row that hands a tile from one kind of core to the other; outside pl.split_aiv the tile stays whole."""
    spellings = spell(stub.__name__, pl="=tile", tile="(x)")
    return declare(stub, family="movement", infer=_infer_crossing, reference=_crossing, dtypes=STORABLE, spellings=spellings, facts=facts)


@crossing(Facts(view_of="x", exact=True, varies_by_lane=True))
def aiv_shard(x: Value) -> object:
    """A tile of the cube core on the vector core: the half of the running lane inside a pl.split_aiv that divides."""


@crossing(Facts(view_of="x", exact=True, meets_lanes=True))
def aic_gather(x: Value) -> object:
    """A tile of the vector core on the cube core."""
