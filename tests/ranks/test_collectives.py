"""Every collective against NumPy, in kernels and in host functions, over dtypes, reductions, ranks and sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilejit.language.distributed as pld
from tests.ranks import collectives
from tests.ranks.engines import on
from tilejit.dtypes import DTYPES, INT32, dtype_of_numpy
from tilejit.ops.ranks import COLLECTIVES, REDUCIBLE
from tilejit.runtime import DistributedConfig
from tilejit.runtime.ranks import meeting
from tilejit.runtime.ranks.call import Call
from tilejit.runtime.ranks.engines import Held
from tilejit.runtime.ranks.plan import Plan, Step, Window, WindowBuffer

REDUCE = {pld.ReduceOp.Sum: np.add, pld.ReduceOp.Max: np.maximum, pld.ReduceOp.Min: np.minimum, pld.ReduceOp.Prod: np.multiply}
MOVES = ("broadcast", "allgather", "all_to_all")
FOLDS = ("allreduce", "reduce_scatter")
SHAPES = ((1, 7), (2, 1), (3, 256), (5, 33), (8, 5))
"""Ranks, and columns of a row."""


def data(name: str, *shape: int, seed: int = 0) -> Any:
    random, dtype = np.random.default_rng(seed + sum(shape)), DTYPES[name]
    if dtype.is_float:
        return random.standard_normal(shape).astype(np.float32).astype(dtype.numpy)
    info = np.iinfo(np.dtype(dtype.numpy).str)
    return random.integers(info.min, int(info.max) + 1, shape, dtype=dtype.numpy)


def reduced(parts: Any, op: pld.ReduceOp, name: str) -> Any:
    """In the order of ranks; half floats in single."""
    wide = parts.astype(np.float32) if name in ("FP16", "BF16") else parts
    total = wide[0]
    with np.errstate(all="ignore"):
        for part in wide[1:]:
            total = REDUCE[op](total, part)
    return total.astype(parts.dtype)


def expected(kind: str, x: Any, op: pld.ReduceOp, name: str) -> Any:
    """What each rank has afterwards."""
    world = x.shape[0]
    if kind == "allreduce":
        return np.stack([reduced(x, op, name)] * world)
    if kind == "broadcast":
        return np.stack([x[0]] * world)
    if kind == "allgather":
        return np.stack([x[:, 0]] * world)
    if kind == "all_to_all":
        return np.swapaxes(x, 0, 1).copy()
    out = x.copy()
    for rank in range(world):
        out[rank, rank] = reduced(x[:, rank], op, name)
    return out


def check(kind: str, name: str, op: pld.ReduceOp, platform: str, mode: str = "mesh", shapes: Any = SHAPES) -> None:
    run = collectives.in_kernel(kind, DTYPES[name], op, mode)
    for world, columns in shapes:
        x = data(name, world, world, columns)
        y = np.zeros_like(x)
        run(x, y, config=on(world, platform))
        assert y.tobytes() == expected(kind, x, op, name).tobytes(), (kind, name, op, world, columns)


def meet(kind: str, x: Any, op: pld.ReduceOp) -> Any:
    """The collective alone, without kernels: the ranks write their windows, meet and read them."""
    world, dtype = x.shape[0], dtype_of_numpy(x.dtype)
    assert dtype is not None
    names = ("win", "out", "sig")
    buffers = [WindowBuffer(name, max(x[0].nbytes, 4 * world), ranks=set(range(world))) for name in names]
    win, out = (Window(buffer, x.shape[1:], dtype) for buffer in buffers[:2])
    sig = Window(buffers[2], (world, 1), INT32)
    operands = {"barrier": [sig], "allgather": [win, out, sig], "all_to_all": [win, out, sig]}.get(kind, [win, sig])
    result, y = (out if len(operands) == 3 else win), np.zeros_like(x)
    plan = Plan(world, buffers=buffers)

    def run(call: Call, rank: int) -> None:
        call.window(win, rank)[...] = x[rank]
        arrays = [call.window(operand, rank) for operand in operands]
        arrays = [arrays[0][:1], *arrays[1:]] if kind == "allgather" else arrays
        assert meeting.meet(call.context(buffers[2], rank), COLLECTIVES.index(kind), op.value, 0, False, 0, arrays, False)
        y[rank] = call.window(result, rank)

    for rank in range(world):
        plan.add(Step(rank, kind, run))
    with Held(DistributedConfig(list(range(world)), engine="local")) as engine:
        Call(engine, plan, DistributedConfig(list(range(world)))).run()
    return y


@pytest.mark.parametrize("name", sorted(dtype.name for dtype in REDUCIBLE))
@pytest.mark.parametrize("kind", [*FOLDS, *MOVES])
def test_every_collective_of_every_dtype(kind: str, name: str) -> None:
    for world, columns in (*SHAPES, (2, 100_003)):
        for op in REDUCE if kind in FOLDS and columns < 100 else [pld.ReduceOp.Sum]:
            x = data(name, world, world, columns)
            assert meet(kind, x, op).tobytes() == expected(kind, x, op, name).tobytes(), (world, columns, op)


@pytest.mark.parametrize("name", ["FP32", "BF16", "INT8"])
@pytest.mark.parametrize("kind", [*FOLDS, *MOVES])
def test_in_a_kernel(kind: str, name: str) -> None:
    check(kind, name, pld.ReduceOp.Sum, "cpu")


def test_flags_move_too() -> None:
    run = collectives.in_kernel("all_to_all", DTYPES["BOOL"], pld.ReduceOp.Sum)
    x = data("INT8", 3, 3, 9) > 0
    y = np.zeros_like(x)
    run(x, y, config=on(3))
    np.testing.assert_array_equal(y, np.swapaxes(x, 0, 1))


@pytest.mark.parametrize("kind", [*FOLDS, *MOVES])
def test_the_reference_does_the_same(kind: str) -> None:
    check(kind, "FP32", pld.ReduceOp.Sum, "reference", shapes=SHAPES[:4])


def test_a_ring_gives_all_ranks_the_same_bits() -> None:
    check("allreduce", "INT32", pld.ReduceOp.Sum, "cpu", mode="ring", shapes=((2, 5), (3, 100)))


def test_a_million_elements() -> None:
    x = data("FP32", 3, 3, 350_003)
    assert meet("allreduce", x, pld.ReduceOp.Sum).tobytes() == expected("allreduce", x, pld.ReduceOp.Sum, "FP32").tobytes()


def test_a_maximum_hands_on_what_is_no_number() -> None:
    run = collectives.in_kernel("allreduce", DTYPES["FP32"], pld.ReduceOp.Max)
    x = data("FP32", 2, 2, 6)
    x[1, 0, 3] = np.nan
    y = np.zeros_like(x)
    run(x, y, config=on(2))
    assert np.isnan(y[:, 0, 3]).all() and np.isnan(y).sum() == 2


@pytest.mark.parametrize("kind", [*FOLDS, *MOVES])
def test_a_collective_of_the_host_function_takes_its_place_between_launches(kind: str) -> None:
    run = collectives.on_host(kind, DTYPES["FP32"], pld.ReduceOp.Sum)
    for world in (1, 2, 5):
        x = data("FP32", world, world, 11)
        y = np.zeros_like(x)
        run(x, x[:, 0].copy(), y, config=on(world))
        assert y.tobytes() == expected(kind, x, pld.ReduceOp.Sum, "FP32").tobytes()


@pytest.mark.parametrize("platform", ["cpu", "reference"])
def test_all_to_all_v_sends_as_many_rows_as_the_counts_say(platform: str) -> None:
    run, random = collectives.counted(DTYPES["FP32"]), np.random.default_rng(5)
    for world, rows in ((1, 3), (2, 4), (3, 1), (4, 6)):
        x = data("FP32", world, world * rows, 5)
        send = random.integers(0, rows + 4, (world, world, 1)).astype(np.int32)
        send[0, 0] = rows + 3
        y, got = np.zeros_like(x), np.full((world, world, 1), -1, np.int32)
        run(x, send, y, got, config=on(world, platform))
        for me in range(world):
            for q in range(world):
                count = min(int(send[q, me, 0]), rows)
                assert got[me, q, 0] == count
                np.testing.assert_array_equal(y[me, q * rows : q * rows + count], x[q, me * rows : me * rows + count])
                rest = y[me, q * rows + count : (q + 1) * rows]
                assert np.isnan(rest).all() if platform == "reference" else not rest.any()
