"""Everything that must come out the same on every engine, by name: programs on fixed data, and what NumPy says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tilejit.language.distributed as pld
from tests.ranks import ahead, collectives, experts, order, resident, signals
from tilejit import ir
from tilejit.dtypes import FP32
from tilejit.runtime import DistributedConfig, RunConfig, Sharded
from tilejit.runtime.ranks import engines

Arrays = dict[str, np.ndarray]
Scenario = Callable[[int, RunConfig], tuple[Arrays, Arrays]]
"""Ranks and how to run → what came out, and what should."""


def _floats(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def _hello(world: int, config: RunConfig) -> tuple[Arrays, Arrays]:
    x = _floats(world, 8, 16)
    y = np.empty_like(x)
    signals.hello(x, y, config=config)
    return {"y": y}, {"y": x * (np.arange(world, dtype=np.float32) + 1)[:, None, None]}


def _shifts(world: int, config: RunConfig) -> tuple[Arrays, Arrays]:
    x = _floats(world, 8, 16)
    put, got = np.empty_like(x), np.empty_like(x)
    signals.shift(x, put, config=config)
    signals.shift_back(x, got, config=config)
    return {"put": put, "got": got}, {"put": np.roll(x, 1, axis=0), "got": np.roll(x, -1, axis=0)}


def _boxes(world: int, config: RunConfig) -> tuple[Arrays, Arrays]:
    x = np.random.default_rng(3).integers(-99, 99, (world, 6, 10)).astype(np.int32)
    y, wanted = np.empty((world, 9, 14), np.int32), np.zeros((world, 9, 14), np.int32)
    signals.put_boxes(x, y, 2, 3, config=config)
    wanted[:, 3:6, 3:10] = np.roll(x, 1, axis=0)[:, 2:5, 2:9]
    return {"y": y}, {"y": wanted}


def _rallies(world: int, config: RunConfig) -> tuple[Arrays, Arrays]:
    if world != 2:
        return {}, {}
    bad = np.full((2, 1, 1), -1, np.int32)
    signals.rallies(bad, 300, config=config)
    return {"bad": bad}, {"bad": np.zeros_like(bad)}


def _third(world: int, config: RunConfig) -> tuple[Arrays, Arrays]:
    if world != 3:
        return {}, {}
    x = _floats(3, 4, 8)
    y, ya, yb, me = np.empty_like(x), np.full((3, 64), 7, np.float32), np.full((3, 64), 7, np.float32), np.full((2, 3, 1), -1, np.int32)
    signals.through_a_third(x, y, config=config)
    z = _floats(3, 64)
    signals.two_groups(z, ya, yb, me, config=config)
    seven = np.full(64, 7, np.float32)
    wanted = {"y": x[[0, 0, 2]], "ya": np.stack([z[1], z[0], seven]), "yb": np.stack([seven, z[2], z[1]]), "me": np.array([[0, 1, -1], [-1, 0, 1]], np.int32)}
    return {"y": y, "ya": ya, "yb": yb, "me": me.reshape(2, 3)}, wanted


def _adders(world: int, config: RunConfig) -> tuple[Arrays, Arrays]:
    one = np.random.default_rng(1).integers(1, 4, (4, 40)).astype(np.float32)
    y, cells = np.empty((world, 4, 40), np.float32), np.full((world, 1, 2), -1, np.int32)
    signals.sums(one, y, config=config)
    signals.counters(cells, config=config)
    return {"y": y[0], "cells": cells[:, 0, 1]}, {"y": one * 8 * world, "cells": np.zeros(world, np.int32)}


def _collectives(world: int, config: RunConfig) -> tuple[Arrays, Arrays]:
    x = _floats(world, world, 33)
    out: Arrays = {}
    for name in ("allreduce", "broadcast", "allgather", "reduce_scatter", "all_to_all"):
        out[name] = np.zeros_like(x)
        collectives.in_kernel(name, FP32, pld.ReduceOp.Sum)(x, out[name], config=config)
    total = x[0]
    for part in x[1:]:
        total = total + part
    scattered = x.copy()
    for rank in range(world):
        row = x[0, rank]
        for part in x[1:, rank]:
            row = row + part
        scattered[rank, rank] = row
    wanted = {"allreduce": np.stack([total] * world), "broadcast": np.stack([x[0]] * world), "allgather": np.stack([x[:, 0]] * world)}
    return out, {**wanted, "reduce_scatter": scattered, "all_to_all": np.swapaxes(x, 0, 1).copy()}


def _counted(world: int, config: RunConfig) -> tuple[Arrays, Arrays]:
    rows = 4
    x = _floats(world, world * rows, 5)
    send = np.random.default_rng(world).integers(0, rows + 4, (world, world, 1)).astype(np.int32)
    y, got = np.zeros_like(x), np.full((world, world, 1), -1, np.int32)
    collectives.counted(FP32)(x, send, y, got, config=config)
    counts = np.minimum(np.swapaxes(send, 0, 1), rows)
    sent = np.arange(rows) < counts
    blocks = np.swapaxes(x.reshape(world, world, rows, 5), 0, 1)
    found = np.where(sent[..., None], y.reshape(world, world, rows, 5), 0)
    return {"y": found, "got": got}, {"y": np.where(sent[..., None], blocks, 0), "got": counts}


def _ahead(world: int, config: RunConfig) -> tuple[Arrays, Arrays]:
    deferred, scoped = np.zeros((world, 1, 1), np.int32), np.zeros((world, 1, 1), np.int32)
    ahead.run_deferred(deferred, 1, config=config)
    ahead.run_scoped(scoped, 1, config=config)
    return {"deferred": deferred, "scoped": scoped}, dict.fromkeys(("deferred", "scoped"), np.full((world, 1, 1), ahead.N, np.int32))


def _carried(world: int, config: RunConfig) -> tuple[Arrays, Arrays]:
    x = np.random.default_rng(world).integers(-99, 99, (world, 8, 16)).astype(np.float32)
    y = np.empty_like(x)
    signals.go_round(x, y, config=config)
    return {"y": y}, {"y": x.sum(0) - 0.5 * x}


def _blocks(world: int, config: RunConfig) -> tuple[Arrays, Arrays]:
    y = np.zeros((world, signals.BLOCKS, 1), np.int32)
    signals.all_crossed(y, 0, config=config)
    return {"y": y}, {"y": np.broadcast_to(np.arange(signals.BLOCKS, 0, -1, dtype=np.int32)[:, None], y.shape)}


def _experts(world: int, config: RunConfig) -> tuple[Arrays, Arrays]:
    x = _floats(world, experts.T, experts.D)
    dest = np.random.default_rng(world).integers(0, world, (world, experts.T, 1)).astype(np.int32)
    y = np.empty_like(x)
    experts.mixture(x, dest, y, config=config)
    return {"y": y}, {"y": x * (dest + 2).astype(np.float32)}


def _order(world: int, config: RunConfig) -> tuple[Arrays, Arrays]:
    x = _floats(2, world, 4, 8)
    out = {name: np.zeros_like(array) for name, array in order.expected(x).items()}
    compiled = ir.compile(order.Handed, platform=config.platform)
    compiled(x, *out.values(), config=config)
    return out, order.expected(x)


def _resident(world: int, config: RunConfig) -> tuple[Arrays, Arrays]:
    """Tensors that stay with their ranks; a process of several also has its own slice of one that is whole nowhere."""
    x, w, start = _floats(world, 2, 8), _floats(world, 8), _floats(world, 2, 8)
    compiled = resident.scaled.compile(x, w, start, config=config)
    assert isinstance(compiled, ir.DistributedCompiledProgram)
    found, one = np.empty_like(start), np.empty((2, 8), np.float32)
    with compiled.prepare(config) as ranks:
        weights, total = ranks.alloc_stacked_tensor(w), ranks.alloc_stacked_tensor(start)
        for _ in range(2):
            ranks(x, weights, total)
        ranks.copy_stacked_from(total, found)
        ranks.copy_to(weights[world - 1], np.zeros(8, np.float32))
        last = ranks.alloc_tensor([2, 8], FP32, init=start[world - 1], worker_id=world - 1)
        ranks(x, weights, total)
        ranks.copy_from(total[world - 1], one)
        own = np.empty_like(one)
        ranks.copy_from(last, own)
    with engines.Held(config.distributed_config if isinstance(config.distributed_config, DistributedConfig) else None) as engine:
        (mine, *others) = engine.here
    if not others:
        local = start[mine].copy()
        compiled(Sharded(x[mine]), Sharded(w[mine]), Sharded(local), config=config)
        np.testing.assert_array_equal(local, start[mine] + x[mine] * w[mine])
    twice = start + x * w[:, None] + x * w[:, None]
    return {"found": found, "one": one, "own": own}, {"found": twice, "one": twice[world - 1], "own": start[world - 1]}


def _kept(world: int, config: RunConfig) -> tuple[Arrays, Arrays]:
    """Windows that keep what they hold from call to call, and a counter that each rank takes down by itself."""
    seen, cells = np.full((2, 3, world, 1, 1), -1, np.int32), np.full((3, world, 1, 2), -1, np.int32)
    compiled, clearing = resident.counted.compile(seen[0, 0], config=config), signals.counters.compile(cells[0], config=config)
    assert isinstance(compiled, ir.DistributedCompiledProgram) and isinstance(clearing, ir.DistributedCompiledProgram)
    for reset in (0, 1):
        with compiled.prepare(config, persistent=True, reset_persistent_windows=bool(reset)) as ranks:
            stays, brought = ranks.alloc_tensor([4096], FP32, init=np.ones(4096, np.float32), worker_id=world - 1), np.empty(4096, np.float32)
            for turn in range(3):
                ranks(seen[reset, turn])
                ranks.copy_from(stays, brought)  # in between, which touches no window
    with clearing.prepare(config, persistent=True, reset_persistent_windows=False) as ranks:
        for turn in range(3):
            ranks(cells[turn])
    wanted = np.broadcast_to(np.array([[0, 5, 10], [0, 0, 0]], np.int32)[:, :, None, None, None], seen.shape)
    return {"seen": seen, "cells": cells[..., 1]}, {"seen": wanted, "cells": np.zeros((3, world, 1), np.int32)}


SCENARIOS: dict[str, Scenario] = {
    "hello": _hello,
    "shifts": _shifts,
    "boxes": _boxes,
    "rallies": _rallies,
    "third": _third,
    "adders": _adders,
    "collectives": _collectives,
    "counted": _counted,
    "experts": _experts,
    "order": _order,
    "ahead": _ahead,
    "carried": _carried,
    "blocks": _blocks,
    "resident": _resident,
    "kept": _kept,
}
