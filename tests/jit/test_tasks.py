"""Kernels that a jit function starts as tasks: `pl.submit`, task ids in names, loops, branches and arrays."""

from __future__ import annotations

import numpy as np
import pytest

import tilejit.language as pl
from tilejit import ir
from tilejit.errors import ParserSyntaxError
from tilejit.jit.function import JITFunction

pytestmark = pytest.mark.dispatch
rng = np.random.default_rng(31)
M = pl.dynamic("M")


def data(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def same_text(kernel: JITFunction, *args: object) -> None:
    program = kernel.compile(*args).program
    assert isinstance(program, ir.Program)
    ir.assert_structural_equal(pl.parse(kernel.specialized_source(*args)), program)


@pl.jit.incore
def plus(x: pl.Tensor, out: pl.Out[pl.Tensor], amount: pl.FP32 = 1.0):
    x.bind_dynamic(0, M)
    out[:] = x + amount
    return out


def test_submitted_helpers_are_specialised_like_called_ones(platform: str) -> None:
    @pl.jit
    def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        middle = pl.create_tensor([x.shape[0], x.shape[1]], dtype=pl.FP32)
        middle, first = pl.submit(plus, x, middle)
        out, _second = pl.submit(plus, middle, out, 3.0, deps=[first])
        return out

    for rows in (6, 3):
        x = data(rows, 8)
        np.testing.assert_array_equal(kernel(x), x + 1 + 3)
    assert len(kernel._cache) == 1
    same_text(kernel, x)


def test_blocks_of_a_submitted_helper(platform: str) -> None:
    @pl.jit.incore
    def row(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        i = pl.tile.get_block_idx()
        out[i] = x[i] + 1.0

    @pl.jit
    def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        _result, _task = pl.spmd_submit(row, x, out, core_num=4)

    x = data(4, 8)
    out = np.zeros_like(x)
    kernel(x, out)
    np.testing.assert_array_equal(out, x + 1)
    same_text(kernel, x, out)


def test_task_ids_go_through_loops_branches_arrays_and_comprehensions(platform: str) -> None:
    @pl.jit(runtime_scalars=("n",))
    def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor], n: pl.INDEX):
        ids = pl.array.create(2, pl.TASK_ID)
        last = None
        for i in pl.range(2):
            out, last = pl.submit(plus, x, out, deps=[last])
            ids[i] = last
        other = pl.system.task_invalid()
        if n > 1:
            out, other = pl.submit(plus, x, out, 5.0, deps=[ids[i] for i in range(2)])
        barrier = pl.system.task_dummy(deps=[ids[0], other])
        with pl.at(level=pl.Level.CORE_GROUP, deps=[last, barrier]):
            out[:] = out * 2.0

    x = data(3, 8)
    out = np.zeros_like(x)
    for n, amount in ((1, 1), (2, 5)):
        kernel(x, out, n)
        np.testing.assert_array_equal(out, (x + amount) * 2)
    same_text(kernel, x, out, 2)


def test_a_predicate_skips_blocks_of_every_form(platform: str) -> None:
    @pl.jit.incore
    def row(x: pl.Tensor, out: pl.InOut[pl.Tensor]):
        i = pl.tile.get_block_idx()
        out[i] = out[i] + x[i]

    @pl.jit
    def kernel(flag: pl.Tensor, x: pl.Tensor, out: pl.InOut[pl.Tensor]):
        with pl.spmd(3, predicate=flag[0] > 0) as _task:
            row(x, out)
        for i in pl.spmd(3, predicate=flag[1] > 0):
            out[i] = out[i] * 2.0
        out, _ = pl.spmd_submit(row, x, out, core_num=3, predicate=flag[2] > 0)

    x = data(3, 8)
    for flags in ((0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 1)):
        out = np.ones_like(x)
        kernel(np.array(flags, np.int32), x, out)
        first = 1 + x * flags[0]
        np.testing.assert_allclose(out, first * (2 if flags[1] else 1) + x * flags[2], rtol=1e-6, atol=1e-6)
    same_text(kernel, np.array(flags, np.int32), x, out)


def test_a_block_starts_one_kernel() -> None:
    @pl.jit
    def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.spmd(3):
            plus(x, out)
            plus(x, out)

    with pytest.raises(ParserSyntaxError, match="starts one kernel"):
        kernel(data(3, 8), data(3, 8))
