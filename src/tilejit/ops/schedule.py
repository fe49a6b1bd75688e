"""Rows about where code runs and when: block indices, the machine, dependency hints, tasks, prefetches."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

import numpy as np

from tilejit.dtypes import INDEX, TASK_ID
from tilejit.errors import InternalError
from tilejit.ops.facts import Effect, Facts
from tilejit.ops.shape_rules import require_rank
from tilejit.ops.spec import Call, OpSpec, Spelling, Static, Stub, Value, declarator, declare, spell
from tilejit.ops.structural import structural
from tilejit.ops.sync import SYSTEM, effect
from tilejit.types.values import ScalarType, ValueType

_OF_BYTES = Facts(effect=Effect.Order, of_bytes=True)


def _infer(call: Call) -> tuple[ValueType, ...]:
    return (ScalarType(INDEX),)


def _reference(**_: object) -> NoReturn:
    raise InternalError("where code runs is known to the backend only")


@declarator
def place(stub: Stub, facts: Facts) -> OpSpec:
    """Declare a row that asks where the code runs: an INDEX that the backend knows."""
    spellings = spell(stub.__name__, pl="=tensor", tensor="()", tile="()")
    return declare(stub, family="place", infer=_infer, reference=_reference, dtypes=(), spellings=spellings, facts=facts)


@place(Facts(effect=Effect.Place))
def get_block_idx() -> object:
    """The index of the running block, 0 outside pl.spmd."""


@place(Facts(effect=Effect.Place))
def get_block_num() -> object:
    """The number of blocks that run this kernel, 1 outside pl.spmd."""


@place(Facts(effect=Effect.Place, varies_by_lane=True))
def get_subblock_idx() -> object:
    """The vector lane of pl.split_aiv, else 0."""


@structural(*spell("no_dep", pl="=tensor", tensor="(tensor)"), facts=Facts(view_of="tensor", of_bytes=True))
def no_dep(tensor: Value) -> object:
    """The same tensor, left out of automatic dependency tracking."""


@effect(*spell("dump_tag", pl="=tensor", tensor="(tensor)"), levels=("tensor",), facts=_OF_BYTES)
def dump_tag(tensor: Value) -> object:
    """Marks a tensor for a run-time dump."""


# the machine ----------------------------------------------------------------------------------------------------------

CLUSTERS = 8
"""Clusters of the machine that programs see, wherever they run: one cube and two vector cores each."""


def _count(count: int) -> Callable[..., object]:
    return lambda **_: np.int64(count)


@declarator
def machine(stub: Stub, count: int) -> OpSpec:
    """Declare a row that asks how many cores there are."""
    spellings = spell(stub.__name__, system="()")
    return declare(stub, family="machine", infer=_infer, reference=_count(count), dtypes=(INDEX,), spellings=spellings, levels=SYSTEM)


@machine(CLUSTERS)
def available_cluster_count() -> object:
    """The number of clusters, 8 outside Ascend."""


@machine(2 * CLUSTERS)
def available_aiv_count() -> object:
    """The number of vector cores, 16 outside Ascend."""


# tasks ----------------------------------------------------------------------------------------------------------------


def _infer_task(call: Call) -> tuple[ValueType, ...]:
    return (ScalarType(TASK_ID),)


def _no_task(**_: object) -> object:
    return np.int64(-1)


def _task_row(stub: Callable[..., object]) -> OpSpec:
    return declare(
        stub, family="machine", infer=_infer_task, reference=_no_task, dtypes=(TASK_ID,), spellings=spell("task_invalid", system="()"), levels=SYSTEM
    )


@_task_row
def task_invalid() -> object:
    """The TaskId of no producer."""


@effect(*spell("task_dummy", system="(*, deps)"))
def task_dummy(deps: Static) -> object:
    """A TaskId that is done when all of `deps` are: a barrier without work."""


# prefetch -------------------------------------------------------------------------------------------------------------


def _prefetch(name: str, signature: str) -> Spelling:
    return Spelling("prefetch", name, signature)


PREFETCH = ("prefetch",)


@effect(_prefetch("make_context", "()"), levels=PREFETCH)
def prefetch_make_context() -> object:
    """A context for prefetches into the second-level cache; nothing happens outside Ascend."""


@effect(_prefetch("session", "(ctx)"), levels=PREFETCH)
def prefetch_session(ctx: Static) -> object:
    """The session of a prefetch context."""


def _check_prefetch(call: Call) -> None:
    require_rank(call, "src", call.shaped("src"), 1)


@effect(_prefetch("async_prefetch", "(src, ctx)"), levels=PREFETCH, check=_check_prefetch, facts=_OF_BYTES)
def prefetch_async_prefetch(src: Value, ctx: Static) -> object:
    """Start to prefetch a tensor; evaluates to an event."""


@effect(_prefetch("wait", "(event, session_handle)"), levels=PREFETCH)
def prefetch_wait(event: Static, session_handle: Static) -> object:
    """Wait for a prefetch."""
