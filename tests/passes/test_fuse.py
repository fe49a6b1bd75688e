"""Fusion: what belongs to one loop nest becomes one group, and nothing that would read another value does."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from xdsl.ir import SSAValue

import tilejit.language as pl
from tests.backends.cpu.harness import Kernel, buffer, fused, program
from tilejit.dtypes import INT64
from tilejit.errors import TilejitError
from tilejit.runtime import RunConfig
from tilejit.tile_ir import dialect as d
from tilejit.types.values import ScalarType, ValueType


def groups(types: Sequence[ValueType], body: Callable[..., None], outputs: int = 1) -> list[list[str]]:
    """Names of the members of every group, after fusion; ops that stay alone are lists of one."""
    out: list[list[str]] = []
    for op in fused(program(types, body, outputs)).functions["kernel"].body.block.ops:
        members = list(op.body.block.ops)[:-1] if isinstance(op, d.GroupOp) else [op]
        names = [inner.op if isinstance(inner, d.ApplyOp) else "store" for inner in members if isinstance(inner, d.ApplyOp | d.StoreOp)]
        if names:
            out.append(names)
    return out


def test_softmax_is_one_nest() -> None:
    def body(k: Kernel, x: SSAValue, out: SSAValue) -> None:
        t = k.tile(x, [0, 0], [8, 40])
        e = k.op("exp", k.op("row_expand_sub", t, k.op("row_max", t)))
        k.put(k.op("row_expand_div", e, k.op("row_sum", e)), out)

    assert groups([buffer(8, 40)] * 2, body) == [["row_max", "row_expand_sub", "exp", "row_sum", "row_expand_div", "store"]]


def test_a_load_after_a_store_to_its_tensor_begins_a_new_nest() -> None:
    def body(k: Kernel, x: SSAValue, out: SSAValue) -> None:
        k.put(k.op("exp", k.tile(x, [0, 0], [8, 40])), out)
        k.put(k.op("neg", k.tile(out, [0, 0], [8, 40])), x)

    assert groups([buffer(8, 40)] * 2, body) == [["exp", "store"], ["neg", "store"]]


def test_a_store_to_another_window_of_what_was_read_stays_outside() -> None:
    def body(k: Kernel, x: SSAValue) -> None:
        t = k.tile(x, [0, 0], [8, 40])
        k.put(k.op("neg", k.op("exp", t)), x, 1, 0)

    assert groups([buffer(9, 40)], body) == [["exp", "neg"], ["store"]]


def test_a_store_to_the_window_that_was_read_joins() -> None:
    def body(k: Kernel, x: SSAValue) -> None:
        k.put(k.op("exp", k.tile(x, [1, 0], [8, 40])), x, 1, 0)

    assert groups([buffer(9, 40)], body) == [["exp", "store"]]


def test_column_sums_end_a_nest() -> None:
    def body(k: Kernel, x: SSAValue, out: SSAValue) -> None:
        t = k.op("exp", k.tile(x, [0, 0], [8, 40]))
        k.put(k.op("col_expand_sub", t, k.op("col_sum", t)), out)

    assert groups([buffer(8, 40)] * 2, body) == [["exp", "col_sum"], ["col_expand_sub", "store"]]


def test_other_shapes_and_other_valid_regions_stay_apart() -> None:
    def body(k: Kernel, x: SSAValue, n: SSAValue, out: SSAValue, small: SSAValue, part: SSAValue) -> None:
        k.put(k.op("exp", k.tile(x, [0, 0], [8, 40])), out)
        k.put(k.op("exp", k.tile(x, [0, 0], [4, 40])), small)
        k.put(k.op("exp", k.tile(x, [0, 0], [4, 40], [n, 40])), part)

    types = [buffer(8, 40), ScalarType(INT64), buffer(8, 40), buffer(4, 40), buffer(4, 40)]
    assert groups(types, body, outputs=3) == [["exp", "store"]] * 3


def test_equal_valid_extents_known_only_at_run_time_fuse() -> None:
    def body(k: Kernel, x: SSAValue, n: SSAValue, out: SSAValue) -> None:
        a, b = k.tile(x, [0, 0], [8, 40], [n, 40]), k.tile(x, [0, 0], [8, 40], [n, 40])
        k.put(k.op("add", k.op("exp", a), k.op("mul", b, k.const(2.0))), out)

    assert groups([buffer(8, 40), ScalarType(INT64), buffer(8, 40)], body) == [["exp", "mul", "add", "store"]]


def test_a_sum_of_row_values_is_a_sweep_of_its_own() -> None:
    def body(k: Kernel, x: SSAValue, out: SSAValue) -> None:
        rows = k.op("row_sum", k.tile(x, [0, 0], [8, 40]))
        k.put(k.op("col_sum", k.op("exp", rows)), out)

    assert groups([buffer(8, 40), buffer(1, 1)], body) == [["row_sum", "exp"], ["col_sum"], ["store"]]


def test_a_product_between_two_chains_separates_them() -> None:
    def body(k: Kernel, x: SSAValue, out: SSAValue) -> None:
        t = k.op("exp", k.op("neg", k.tile(x, [0, 0], [8, 8])))
        k.put(k.op("add", k.op("matmul", t, t), k.const(1.0)), out)

    assert groups([buffer(8, 8)] * 2, body) == [["neg", "exp"], ["matmul"], ["add", "store"]]


M, N = pl.dynamic("M"), pl.dynamic("N")


@pl.jit
def unused_extremes(x: pl.Tensor[[M, N], pl.FP32], y: pl.Tensor[[M, N], pl.FP32], out: pl.Out[pl.Tensor[[M, N], pl.FP32]]):
    """Nobody reads the extremes, but an empty one is a mistake of the program."""
    _rows = pl.row_max(pl.exp(x))
    _columns = pl.col_min(pl.tanh(x))
    out[:] = pl.abs(y) + 1.0
    return out


@pytest.mark.parametrize("platform", ["reference", "cpu"])
def test_ops_that_nobody_uses_share_a_nest_and_may_still_fail(platform: str) -> None:
    config = RunConfig(platform=platform)
    x = np.random.default_rng(0).standard_normal((7, 33)).astype(np.float32)
    out = np.zeros_like(x)
    unused_extremes(x, x, out, config=config)
    np.testing.assert_array_equal(out, np.abs(x) + np.float32(1.0))
    empty = np.zeros((0, 33), np.float32)
    with pytest.raises(TilejitError, match="col_min"):
        unused_extremes(empty, empty, empty.copy(), config=config)


def test_values_that_are_used_twice_at_every_step_are_followed_once() -> None:
    @pl.jit
    def kernel(x: pl.Tensor, n: pl.Tensor, out: pl.InOut[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.load(x, [0, 0], [4, 16], valid_shape=[4, pl.cast(pl.read(n, [0]), pl.INDEX)])
            for _ in pl.unroll(60):
                t = (t + pl.abs(t)) * 0.5
            pl.store(t, [0, 0], out)

    x, out = np.random.default_rng(3).standard_normal((4, 16)).astype(np.float32), np.full((4, 16), 7, np.float32)
    kernel(x, np.array([5], np.int32), out)
    np.testing.assert_array_equal(out, np.hstack([np.maximum(x[:, :5], 0), out[:, 5:]]))
    assert (out[:, 5:] == 7).all()
