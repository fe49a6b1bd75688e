# Written by scripts/write_stubs.py from the op table; run `make stubs` instead of editing it.
# Inside a kernel values have no Python type that a checker could follow, so results are Any; names, signatures and docs are exact.

from typing import Any

from tilejit.language import Tensor as _Tensor
from tilejit.types.annotations import CommCtx as CommCtx
from tilejit.types.enums import AtomicType as AtomicType, NotifyOp as NotifyOp, ReduceOp as ReduceOp, WaitCmp as WaitCmp

class DistributedTensor(_Tensor):
    """A window: a tensor of which every rank of a group has a copy that the others can reach."""

class _system:
    @staticmethod
    def comm(window: Any) -> Any:
        """The group of a parameter as a number, in printed programs."""

    @staticmethod
    def comm_rank(comm: Any) -> Any:
        """The own number in the group.

        takes: scalars of INT64
        """

    @staticmethod
    def comm_size(comm: Any) -> Any:
        """How many ranks the group has.

        takes: scalars of INT64
        """

    @staticmethod
    def defer_wait(signal: Any, offsets: Any, expected: Any, *, cmp: Any) -> Any:
        """Let the task of this region end only when a cell of the own signal has got there."""

    @staticmethod
    def fetch(view: Any, offsets: Any, shape: Any, peer: Any, *, comm: Any) -> Any:
        """Before a read of a box of a peer's copy: bring it here if the peer is on another machine; in printed programs."""

    @staticmethod
    def flush(view: Any, offsets: Any, shape: Any, peer: Any, *, comm: Any) -> Any:
        """After a write of a box of a peer's copy: send it there if the peer is on another machine; in printed programs."""

    @staticmethod
    def get_comm_ctx(window: Any) -> Any:
        """The group of a window."""

    @staticmethod
    def lock(peer: Any, *, comm: Any) -> Any:
        """Keep others from adding to a peer's copy; in printed programs."""

    @staticmethod
    def notify(target: Any, peer: Any, offsets: Any, value: Any, *, op: Any, comm: Any = ...) -> Any:
        """Add to a cell of a peer's signal, or set it; everything before it is seen by whoever sees that."""

    @staticmethod
    def nranks(ctx: Any) -> Any:
        """How many ranks a group has."""

    @staticmethod
    def rank(ctx: Any) -> Any:
        """The own number in a group."""

    @staticmethod
    def unlock(peer: Any, *, comm: Any) -> Any:
        """Let others add to a peer's copy again; in printed programs."""

    @staticmethod
    def wait(signal: Any, offsets: Any, expected: Any, *, cmp: Any, comm: Any = ...) -> Any:
        """Block until a cell of the own signal has got there."""

    @staticmethod
    def world_size() -> Any:
        """The number of ranks of the call."""

system: type[_system]

class _tensor:
    @staticmethod
    def all_to_all(input: Any, target: Any, signal: Any, *, comm: Any = ...) -> Any:
        """Row q of the target becomes the row for this rank that rank q has."""

    @staticmethod
    def all_to_all_v(input: Any, target: Any, signal: Any, send_counts: Any, recv_counts: Any, *, comm: Any = ...) -> Any:
        """As all_to_all with blocks of rows, of which only so many are sent as the counts say."""

    @staticmethod
    def allgather(local_data: Any, target: Any, signal: Any, *, comm: Any = ...) -> Any:
        """Row q of the target becomes what rank q gave."""

    @staticmethod
    def alloc_window_buffer(size: Any, *, dtype: Any = ..., name: Any = ...) -> Any:
        """A block of memory on every rank of its group: a number of bytes, or a shape with a dtype."""

    @staticmethod
    def allreduce(target: Any, signal: Any = ..., *, op: Any = ..., mode: Any = ..., core_num: Any = ..., comm: Any = ...) -> Any:
        """Each element becomes the sum, maximum, minimum or product over the ranks."""

    @staticmethod
    def barrier(signal: Any, *, comm: Any = ...) -> Any:
        """Nobody goes on before everybody is here."""

    @staticmethod
    def broadcast(target: Any, signal: Any, *, root: Any, comm: Any = ...) -> Any:
        """Everybody gets what `root` has."""

    @staticmethod
    def get(dst: Any, peer: Any, src: Any, dst_offsets: Any = ..., src_offsets: Any = ..., shape: Any = ..., *, chunk_rows: Any = ..., chunk_cols: Any = ..., pipeline: Any = ...) -> Any:
        """Copy a region of a peer's window into a region of a tensor."""

    @staticmethod
    def peer_view(window: Any, peer: Any, *, comm: Any = ...) -> Any:
        """A peer's copy of a window, as a tensor: what transfers are made of in printed programs."""

    @staticmethod
    def put(dst: Any, peer: Any, src: Any, dst_offsets: Any = ..., src_offsets: Any = ..., shape: Any = ..., *, atomic: Any = ..., chunk_rows: Any = ..., chunk_cols: Any = ..., pipeline: Any = ...) -> Any:
        """Copy a region of a tensor into a region of a peer's window."""

    @staticmethod
    def reduce_scatter(target: Any, signal: Any, *, op: Any = ..., comm: Any = ...) -> Any:
        """The own row becomes the reduction of everybody's row of that number."""

    @staticmethod
    def remote_store(src: Any, target: Any, peer: Any, offsets: Any, *, atomic: Any = ...) -> Any:
        """Write the valid region of a value into a peer's copy."""

    @staticmethod
    def window(buf: Any, shape: Any, *, dtype: Any) -> Any:
        """A typed view of a block from its first byte on."""

tensor: type[_tensor]

class _tile:
    @staticmethod
    def get(dst: Any, peer: Any, src: Any, stage: Any, stage2: Any = ..., dst_offsets: Any = ..., src_offsets: Any = ..., shape: Any = ...) -> Any:
        """A get with the tiles that it is staged through on Ascend."""

    @staticmethod
    def put(dst: Any, peer: Any, src: Any, stage: Any, stage2: Any = ..., dst_offsets: Any = ..., src_offsets: Any = ..., shape: Any = ..., *, atomic: Any = ...) -> Any:
        """A put with the tiles that it is staged through on Ascend."""

    @staticmethod
    def remote_load(target: Any, peer: Any, offsets: Any, shape: Any, valid_shape: Any = ...) -> Any:
        """A tile snapshot of a peer's copy, as pl.load gives one of the own."""

    @staticmethod
    def remote_store(src_tile: Any, target: Any, peer: Any, offsets: Any, *, atomic: Any = ...) -> Any:
        """Write the valid region of a value into a peer's copy."""

tile: type[_tile]

def alloc_window_buffer(size: Any, *, dtype: Any = ..., name: Any = ...) -> Any:
    """A block of memory on every rank of its group: a number of bytes, or a shape with a dtype."""

def get_comm_ctx(window: Any) -> Any:
    """The group of a window."""

def nranks(ctx: Any) -> Any:
    """How many ranks a group has."""

def rank(ctx: Any) -> Any:
    """The own number in a group."""

def remote_load(target: Any, peer: Any, offsets: Any, shape: Any, valid_shape: Any = ...) -> Any:
    """A tile snapshot of a peer's copy, as pl.load gives one of the own."""

def remote_store(src: Any, target: Any, peer: Any, offsets: Any, *, atomic: Any = ...) -> Any:
    """Write the valid region of a value into a peer's copy."""

def window(buf: Any, shape: Any, *, dtype: Any) -> Any:
    """A typed view of a block from its first byte on."""

def world_size() -> Any:
    """The number of ranks of the call."""
