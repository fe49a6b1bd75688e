"""What the pass `share` marks for several threads, and what it leaves alone."""

from __future__ import annotations

from typing import Any

import numpy as np

import tilejit.language as pl
from tilejit.backends.cpu.target import PASSES
from tilejit.passes.pipeline import run_pipeline
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.program import Program

X = np.ones((256, 256), np.float32)


def marks(kernel: Any, *arguments: object) -> list[str]:
    """For each launch and parallel loop, in order: `shared`, `with next` or `alone`."""
    parsed = pl.parse(kernel.specialized_source(*arguments))
    assert isinstance(parsed, Program)
    program = run_pipeline(parsed, PASSES)
    found: list[str] = []
    for function in program.functions.values():
        for op in function.walk():
            if isinstance(op, d.LaunchOp) or (isinstance(op, d.ForOp) and op.static("kind") == "parallel"):
                found.append("with next" if op.static("with_next") else "shared" if "share" in op.attributes else "alone")
    return found


@pl.jit
def blocks(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    for i in pl.spmd(32):
        out = pl.store(pl.exp(pl.load(x, [i * 8, 0], [8, 256])), [i * 8, 0], out)
    return out


def test_blocks_that_write_different_places_are_shared() -> None:
    assert marks(blocks, X, X.copy()) == ["shared"]


@pl.jit
def one_place(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    for i in pl.spmd(32):
        out = pl.store(pl.exp(pl.load(x, [i * 8, 0], [8, 256])), [0, 0], out)
    return out


def test_blocks_that_write_one_place_are_not() -> None:
    assert marks(one_place, X, X.copy()) == ["alone"]


@pl.jit
def first_block_only(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    for i in pl.spmd(32):
        t = pl.exp(pl.load(x, [i * 8, 0], [8, 256]))
        if i == 0:
            out = pl.store(t, [0, 0], out)
    return out


def test_a_write_that_one_block_does_is_no_conflict() -> None:
    assert marks(first_block_only, X, X.copy()) == ["shared"]


@pl.jit
def waiting(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    for i in pl.spmd(32):
        out = pl.store(pl.exp(pl.load(x, [i * 8, 0], [8, 256])), [i * 8, 0], out)
        pl.system.syncall()
        out = pl.store(pl.exp(pl.load(out, [i * 8, 0], [8, 256])), [i * 8, 0], out)
    return out


def test_blocks_that_wait_for_each_other_are_not() -> None:
    assert marks(waiting, X, X.copy()) == ["alone"]


@pl.jit
def speaking(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    for i in pl.spmd(32):
        pl.print("block", i)
        out = pl.store(pl.exp(pl.load(x, [i * 8, 0], [8, 256])), [i * 8, 0], out)
    return out


def test_blocks_that_print_keep_their_order() -> None:
    assert marks(speaking, X, X.copy()) == ["alone"]


@pl.jit
def own_scratch(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    for i in pl.parallel(32):
        half = pl.create_tensor([8, 256], dtype=pl.FP32)
        with pl.at(level=pl.Level.CORE_GROUP):
            half = pl.store(pl.exp(pl.load(x, [i * 8, 0], [8, 256])), [0, 0], half)
        with pl.at(level=pl.Level.CORE_GROUP):
            out = pl.store(pl.exp(pl.load(half, [0, 0], [8, 256])), [i * 8, 0], out)
    return out


def test_a_buffer_made_in_every_trip_is_no_conflict() -> None:
    assert marks(own_scratch, X, X.copy()) == ["shared", "alone", "alone"]


@pl.jit
def carried(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        total = pl.tile.full([8, 256], dtype=pl.FP32, value=0.0)
        for i in pl.parallel(32):
            total = pl.add(total, pl.load(x, [i * 8, 0], [8, 256]))
        out = pl.store(total, [0, 0], out)
    return out


def test_trips_that_hand_a_value_on_are_not_shared() -> None:
    assert marks(carried, X, X.copy()) == ["alone", "alone"]


@pl.jit
def two_then_one(x: pl.Tensor, a: pl.Out[pl.Tensor], b: pl.Out[pl.Tensor], c: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(32):
            a = pl.store(pl.exp(pl.load(x, [i * 8, 0], [8, 256])), [i * 8, 0], a)
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(32):
            b = pl.store(pl.sqrt(pl.load(x, [i * 8, 0], [8, 256])), [i * 8, 0], b)
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(32):
            c = pl.store(pl.add(pl.load(a, [i * 8, 0], [8, 256]), 1.0), [i * 8, 0], c)
    return a, b, c


def test_launches_are_grouped_until_one_needs_another() -> None:
    assert marks(two_then_one, X, X.copy(), X.copy(), X.copy()) == ["with next", "shared", "alone"]


@pl.jit
def whole_tensors(x: pl.Tensor, a: pl.Out[pl.Tensor], b: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        a[:] = pl.exp(x)
    with pl.at(level=pl.Level.CORE_GROUP):
        b[:] = pl.sqrt(x)
    return a, b


def test_launches_that_are_shared_out_by_rows_are_not_grouped() -> None:
    assert marks(whole_tensors, X, X.copy(), X.copy()) == ["alone", "alone"]
