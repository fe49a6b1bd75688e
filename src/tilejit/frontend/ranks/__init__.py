"""Windows, signals, transfers and collectives in kernels."""

from __future__ import annotations

import ast
from collections.abc import Callable

from tilejit.frontend.context import Context
from tilejit.frontend.ranks.collectives import collective
from tilejit.frontend.ranks.groups import Args, comm_name, get_comm_ctx, groups_of, on_host, query
from tilejit.frontend.ranks.signals import defer_wait, notify, wait
from tilejit.frontend.ranks.transfers import comm, copied, peer_view, remote_load, remote_store

RULES: dict[str, Callable[[Context, Args, ast.AST], object]] = {
    "world_size": on_host,
    "alloc_window_buffer": on_host,
    "window": on_host,
    "get_comm_ctx": get_comm_ctx,
    "rank": query("comm_rank", "pld.system.rank"),
    "nranks": query("comm_size", "pld.system.nranks"),
    "notify": notify,
    "wait": wait,
    "defer_wait": defer_wait,
    "comm": comm,
    "peer_view": peer_view,
    "remote_load": remote_load,
    "remote_store": remote_store,
    "put": copied("pld.tensor.put", to_peer=True),
    "get": copied("pld.tensor.get", to_peer=False),
    "staged_put": copied("pld.tile.put", to_peer=True),
    "staged_get": copied("pld.tile.get", to_peer=False),
    "barrier": collective("barrier", ()),
    "allreduce": collective("allreduce"),
    "broadcast": collective("broadcast"),
    "allgather": collective("allgather"),
    "reduce_scatter": collective("reduce_scatter"),
    "all_to_all": collective("all_to_all"),
    "all_to_all_v": collective("all_to_all_v", ("target", "recv_counts")),
}
__all__ = ["RULES", "comm_name", "groups_of"]
