"""Rows about other ranks: windows, signals, transfers and collectives, spelled in `tilejit.language.distributed`.

Printed programs write that address too, as `comm=`. The front end builds transfers from views of a peer's copy, loads and stores, with a word to the engine
(`fetch`, `flush`) for copies on other machines; what is left for targets is to find the group of a window, to notify, to wait and to meet in collectives. Those rows have the address of the group's context (runtime/ranks/abi.py) as `comm`, which the front end fills in.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from tilejit.dtypes import BF16, FP16, FP32, INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64
from tilejit.errors import InternalError
from tilejit.ops.facts import Effect, Facts
from tilejit.ops.spec import Call, OpSpec, Scalar, Scalars, Scratch, Spelling, Static, Value, declare
from tilejit.ops.structural import structural
from tilejit.ops.sync import effect
from tilejit.types.enums import AtomicType, ReduceOp
from tilejit.types.values import ScalarType, ValueType

MEETS = Facts(effect=Effect.Ranks)
ADDABLE = frozenset({FP32, BF16, FP16, INT32, INT16, INT8})
"""What can be added to a peer's elements one by one."""
REDUCIBLE = frozenset({FP32, BF16, FP16, INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64})


def spelled(space: str, name: str, text: str, short: bool = False) -> tuple[Spelling, ...]:
    """`pld.<space>.<name>`, and `pld.<name>` where there is a short form."""
    return (Spelling(f"pld.{space}", name, text), *((Spelling("pld", name, text),) if short else ()))


# what only a host function says ---------------------------------------------------------------------------------------


@structural(*spelled("system", "world_size", "()", short=True), host=True)
def world_size() -> object:
    """The number of ranks of the call."""


@structural(*spelled("tensor", "alloc_window_buffer", "(size, *, dtype=None, name='')", short=True), host=True)
def alloc_window_buffer(size: Static, dtype: Static = None, name: Static = "") -> object:
    """A block of memory on every rank of its group: a number of bytes, or a shape with a dtype."""


@structural(*spelled("tensor", "window", "(buf, shape, *, dtype)", short=True), host=True)
def window(buf: Static, shape: Static, dtype: Static) -> object:
    """A typed view of a block from its first byte on."""


# queries --------------------------------------------------------------------------------------------------------------


@structural(*spelled("system", "get_comm_ctx", "(window)", short=True), mixed=True)
def get_comm_ctx(window: Value) -> object:
    """The group of a window."""


@structural(*spelled("system", "rank", "(ctx)", short=True))
def rank(ctx: Scalar) -> object:
    """The own number in a group."""


@structural(*spelled("system", "nranks", "(ctx)", short=True))
def nranks(ctx: Scalar) -> object:
    """How many ranks a group has."""


def _of_group(call: Call) -> tuple[ValueType, ...]:
    return (ScalarType(INT32),)


def _elsewhere(**_: object) -> NoReturn:
    raise InternalError("what a group is stands in the memory of the call: only targets read it")


def query(stub: Callable[..., object]) -> OpSpec:
    """Declare a row that reads one number of a group."""
    return declare(stub, family="rank", infer=_of_group, reference=_elsewhere, dtypes=(INT64,), spellings=(Spelling("pld.system", stub.__name__, "(comm)"),), levels=("scalar",))


@query
def comm_rank(comm: Scalar) -> object:
    """The own number in the group."""


@query
def comm_size(comm: Scalar) -> object:
    """How many ranks the group has."""


@structural(*spelled("system", "comm", "(window)"), mixed=True)
def comm(window: Value) -> object:
    """The group of a parameter as a number, in printed programs."""


# signals --------------------------------------------------------------------------------------------------------------

_SYSTEM = ("pld.system",)
_TENSOR = ("pld.tensor",)


@effect(*spelled("system", "notify", "(target, peer, offsets, value, *, op, comm=None)"), levels=_SYSTEM, facts=MEETS)
def notify(target: Value, peer: Scalar, offsets: Scalars, value: Scalar, op: Static, comm: Scalar = None) -> object:
    """Add to a cell of a peer's signal, or set it; everything before it is seen by whoever sees that."""


@effect(*spelled("system", "wait", "(signal, offsets, expected, *, cmp, comm=None)"), levels=_SYSTEM, facts=MEETS)
def wait(signal: Value, offsets: Scalars, expected: Scalar, cmp: Static, comm: Scalar = None) -> object:
    """Block until a cell of the own signal has got there."""


@structural(*spelled("system", "defer_wait", "(signal, offsets, expected, *, cmp)"), mixed=True)
def defer_wait(signal: Value, offsets: Scalars, expected: Scalar, cmp: Static) -> object:
    """Let the task of this region end only when a cell of the own signal has got there."""


@effect(*spelled("system", "lock", "(peer, *, comm)"), levels=_SYSTEM, facts=MEETS)
def lock(peer: Scalar, comm: Scalar) -> object:
    """Keep others from adding to a peer's copy; in printed programs."""


@effect(*spelled("system", "unlock", "(peer, *, comm)"), levels=_SYSTEM, facts=MEETS)
def unlock(peer: Scalar, comm: Scalar) -> object:
    """Let others add to a peer's copy again; in printed programs."""


_BOX = "(view, offsets, shape, peer, *, comm)"


@effect(*spelled("system", "fetch", _BOX), levels=_SYSTEM, facts=Facts(writes="view"), family="rank")
def fetch(view: Value, offsets: Scalars, shape: Scalars, peer: Scalar, comm: Scalar) -> object:
    """Before a read of a box of a peer's copy: bring it here if the peer is on another machine; in printed programs."""


@effect(*spelled("system", "flush", _BOX), levels=_SYSTEM, facts=Facts(writes="view"), family="rank")
def flush(view: Value, offsets: Scalars, shape: Scalars, peer: Scalar, comm: Scalar) -> object:
    """After a write of a box of a peer's copy: send it there if the peer is on another machine; in printed programs."""


# transfers ------------------------------------------------------------------------------------------------------------


@structural(*spelled("tensor", "peer_view", "(window, peer, *, comm=None)"), mixed=True)
def peer_view(window: Value, peer: Scalar, comm: Scalar = None) -> object:
    """A peer's copy of a window, as a tensor: what transfers are made of in printed programs."""


@structural(*spelled("tile", "remote_load", "(target, peer, offsets, shape, valid_shape=None)", short=True), mixed=True)
def remote_load(target: Value, peer: Scalar, offsets: Scalars, shape: Scalars, valid_shape: Scalars = None) -> object:
    """A tile snapshot of a peer's copy, as pl.load gives one of the own."""


@structural(*spelled("tile", "remote_store", "(src_tile, target, peer, offsets, *, atomic=None_)"), *spelled("tensor", "remote_store", "(src, target, peer, offsets, *, atomic=None_)", short=True), mixed=True)
def remote_store(src_tile: Value, target: Value, peer: Scalar, offsets: Scalars, atomic: Static = AtomicType.None_) -> object:
    """Write the valid region of a value into a peer's copy."""


_REGIONS = "dst_offsets=None, src_offsets=None, shape=None"
_CHUNKS = "chunk_rows=0, chunk_cols=0, pipeline=False)"


@structural(*spelled("tensor", "put", f"(dst, peer, src, {_REGIONS}, *, atomic=None_, {_CHUNKS}"), mixed=True)
def put(
    dst: Value, peer: Scalar, src: Value, dst_offsets: Scalars = None, src_offsets: Scalars = None, shape: Scalars = None,
    atomic: Static = AtomicType.None_, chunk_rows: Static = 0, chunk_cols: Static = 0, pipeline: Static = False,
) -> object:  # fmt: skip
    """Copy a region of a tensor into a region of a peer's window."""


@structural(*spelled("tensor", "get", f"(dst, peer, src, {_REGIONS}, *, {_CHUNKS}"), mixed=True)
def get(
    dst: Value, peer: Scalar, src: Value, dst_offsets: Scalars = None, src_offsets: Scalars = None, shape: Scalars = None,
    chunk_rows: Static = 0, chunk_cols: Static = 0, pipeline: Static = False,
) -> object:  # fmt: skip
    """Copy a region of a peer's window into a region of a tensor."""


@structural(*spelled("tile", "put", f"(dst, peer, src, stage, stage2=None, {_REGIONS}, *, atomic=None_)"), mixed=True, list_for="stage2")
def staged_put(
    dst: Value, peer: Scalar, src: Value, stage: Value, stage2: Scratch = None, dst_offsets: Scalars = None, src_offsets: Scalars = None,
    shape: Scalars = None, atomic: Static = AtomicType.None_,
) -> object:  # fmt: skip
    """A put with the tiles that it is staged through on Ascend."""


@structural(*spelled("tile", "get", f"(dst, peer, src, stage, stage2=None, {_REGIONS})"), mixed=True, list_for="stage2")
def staged_get(
    dst: Value, peer: Scalar, src: Value, stage: Value, stage2: Scratch = None, dst_offsets: Scalars = None, src_offsets: Scalars = None, shape: Scalars = None,
) -> object:  # fmt: skip
    """A get with the tiles that it is staged through on Ascend."""


# collectives ----------------------------------------------------------------------------------------------------------


@effect(*spelled("tensor", "barrier", "(signal, *, comm=None)"), levels=_TENSOR, facts=MEETS)
def barrier(signal: Value, comm: Scalar = None) -> object:
    """Nobody goes on before everybody is here."""


@effect(*spelled("tensor", "allreduce", "(target, signal=None, *, op=Sum, mode='mesh', core_num=1, comm=None)"), levels=_TENSOR, facts=MEETS)
def allreduce(target: Value, signal: Value = None, op: Static = ReduceOp.Sum, mode: Static = "mesh", core_num: Static = 1, comm: Scalar = None) -> object:
    """Each element becomes the sum, maximum, minimum or product over the ranks."""


@effect(*spelled("tensor", "broadcast", "(target, signal, *, root, comm=None)"), levels=_TENSOR, facts=MEETS)
def broadcast(target: Value, signal: Value, root: Static, comm: Scalar = None) -> object:
    """Everybody gets what `root` has."""


@effect(*spelled("tensor", "allgather", "(local_data, target, signal, *, comm=None)"), levels=_TENSOR, facts=MEETS)
def allgather(local_data: Value, target: Value, signal: Value, comm: Scalar = None) -> object:
    """Row q of the target becomes what rank q gave."""


@effect(*spelled("tensor", "reduce_scatter", "(target, signal, *, op=Sum, comm=None)"), levels=_TENSOR, facts=MEETS)
def reduce_scatter(target: Value, signal: Value, op: Static = ReduceOp.Sum, comm: Scalar = None) -> object:
    """The own row becomes the reduction of everybody's row of that number."""


@effect(*spelled("tensor", "all_to_all", "(input, target, signal, *, comm=None)"), levels=_TENSOR, facts=MEETS)
def all_to_all(input: Value, target: Value, signal: Value, comm: Scalar = None) -> object:
    """Row q of the target becomes the row for this rank that rank q has."""


@effect(*spelled("tensor", "all_to_all_v", "(input, target, signal, send_counts, recv_counts, *, comm=None)"), levels=_TENSOR, facts=MEETS)
def all_to_all_v(input: Value, target: Value, signal: Value, send_counts: Value, recv_counts: Value, comm: Scalar = None) -> object:
    """As all_to_all with blocks of rows, of which only so many are sent as the counts say."""


COLLECTIVES = ("barrier", "allreduce", "broadcast", "allgather", "reduce_scatter", "all_to_all", "all_to_all_v")
"""Rows in which all ranks of a group take part; their number is their code in the argument block."""
