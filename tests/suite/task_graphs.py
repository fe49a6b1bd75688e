"""Submitted tasks: dependencies, arrays of ids, dummies, predicates, outputs left out; manual scopes."""
# pl.Tuple, and keywords that pl.submit hands on are no types.
# pyright: reportReturnType=false, reportCallIssue=false

from __future__ import annotations

from typing import Any

import numpy as np

import tilejit.language as pl
from tests.suite.harness import Cases, f32, i32

CASES = Cases()
Array = np.ndarray[Any, Any]
M = pl.dynamic("M")


@pl.jit.incore
def plus(x: pl.Tensor, amount: pl.FP32, out: pl.Out[pl.Tensor]):
    out[:] = pl.add(x, amount)
    return out


@pl.jit.incore
def total(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = pl.add(a, b)
    return out


@pl.jit.incore
def scale_in_place(x: pl.InOut[pl.Tensor], factor: pl.FP32):
    x[:] = pl.mul(x, factor)
    return x


@CASES(f32(8, 12), expected=lambda x: (x + 1) + (x + 2), tol=1e-6)
@pl.jit
def diamond_of_tasks(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    a = pl.create_tensor([8, 12], dtype=pl.FP32)
    b = pl.create_tensor([8, 12], dtype=pl.FP32)
    with pl.manual_scope():
        a, ta = pl.submit(plus, x, 1.0, a)
        b, tb = pl.submit(plus, x, 2.0, b)
        out, _ = pl.submit(total, a, b, out, deps=[ta, tb])
    return out


@CASES(f32(8, 12), expected=lambda x: x + 3, tol=1e-6)
@pl.jit
def outputs_left_out(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    a, ta = pl.submit(plus, x, 1.0)
    out, _ = pl.submit(plus, a, 2.0, out, deps=[ta])
    return out


@pl.jit.incore
def rows_plus(x: pl.Tensor[[M, 12], pl.FP32], out: pl.Out[pl.Tensor[[M, 12], pl.FP32]], amount: pl.FP32 = 1.0):
    out[:] = pl.add(x, amount)
    return out


@CASES(f32(8, 12), more=[(f32(3, 12),)], compiles=1, expected=lambda x: x + 1 + 5 + 1, tol=1e-6, returned=True)
@pl.jit
def dynamic_outputs_left_out(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    a, ta = pl.submit(rows_plus, x)
    b, tb = pl.submit(rows_plus, a, amount=5.0, deps=[ta])
    out, _ = pl.submit(rows_plus, b, out, deps=[tb])
    return out


@CASES(f32(8, 12), expected=lambda x: (x + 1 + x + 2) * 3, tol=1e-5)
@pl.program
class ProgramLeavesOutputsOut:
    @pl.function(type=pl.FunctionType.InCore)
    def add(self, x: pl.Tensor[[8, 12], pl.FP32], out: pl.Out[pl.Tensor[[8, 12], pl.FP32]], k: pl.Scalar[pl.FP32]) -> pl.Tensor[[8, 12], pl.FP32]:
        return pl.store(pl.add(pl.load(x, [0, 0], [8, 12]), k), [0, 0], out)

    @pl.function(type=pl.FunctionType.InCore)
    def both(self, a: pl.Tensor[[8, 12], pl.FP32], b: pl.Tensor[[8, 12], pl.FP32], out: pl.Out[pl.Tensor[[8, 12], pl.FP32]]) -> pl.Tensor[[8, 12], pl.FP32]:
        t = pl.add(pl.load(a, [0, 0], [8, 12]), pl.load(b, [0, 0], [8, 12]))
        return pl.store(pl.mul(t, 3.0), [0, 0], out)

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, x: pl.Tensor[[8, 12], pl.FP32], out: pl.Out[pl.Tensor[[8, 12], pl.FP32]]) -> pl.Tensor[[8, 12], pl.FP32]:
        a, ta = pl.submit(self.add, x, 1.0)
        b, tb = pl.submit(self.add, x, 2.0)
        out, _ = pl.submit(self.both, a, b, out, deps=[ta, tb])
        return out


@CASES(f32(8, 12), expected=lambda x: (x.min(1, keepdims=True), x.max(1, keepdims=True)))
@pl.program
class ResultsOfATask:
    """Several results, unpacked nested and bound to one name."""

    @pl.function(type=pl.FunctionType.InCore)
    def extremes(
        self, x: pl.Tensor[[8, 12], pl.FP32], low: pl.Out[pl.Tensor[[8, 1], pl.FP32]], high: pl.Out[pl.Tensor[[8, 1], pl.FP32]]
    ) -> pl.Tuple[pl.Tensor[[8, 1], pl.FP32], pl.Tensor[[8, 1], pl.FP32]]:
        t = pl.load(x, [0, 0], [8, 12])
        tmp = pl.create_tile([8, 12], dtype=pl.FP32)
        low = pl.store(pl.row_min(t, tmp), [0, 0], low)
        high = pl.store(pl.row_max(t, tmp), [0, 0], high)
        return low, high

    @pl.function(type=pl.FunctionType.InCore)
    def copy(self, x: pl.Tensor[[8, 1], pl.FP32], out: pl.Out[pl.Tensor[[8, 1], pl.FP32]]) -> pl.Tensor[[8, 1], pl.FP32]:
        return pl.store(pl.load(x, [0, 0], [8, 1]), [0, 0], out)

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(
        self, x: pl.Tensor[[8, 12], pl.FP32], low: pl.Out[pl.Tensor[[8, 1], pl.FP32]], high: pl.Out[pl.Tensor[[8, 1], pl.FP32]]
    ) -> pl.Tuple[pl.Tensor[[8, 1], pl.FP32], pl.Tensor[[8, 1], pl.FP32]]:
        (a, _b), first = pl.submit(self.extremes, x)
        everything = pl.submit(self.extremes, x)
        low, _ = pl.submit(self.copy, a, low, deps=[first])
        high, _ = pl.submit(self.copy, everything[1], high, deps=[everything[2]])
        return low, high


@CASES(f32(8, 12), expected=lambda x: x * 2**5)
@pl.jit
def chain_in_a_loop(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x
    last = None
    with pl.manual_scope():
        for _ in pl.range(5):
            out, last = pl.submit(scale_in_place, out, 2.0, deps=[last])
    return out


@CASES(f32(4, 8, 12), expected=lambda x: x + 1, tol=1e-6)
@pl.jit
def ids_in_an_array(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    ids = pl.array.create(4, pl.TASK_ID)
    for i in pl.range(4):
        ids[i] = pl.system.task_invalid()
    for i in pl.range(4):
        _, ids[i] = pl.submit(page_plus, x, i, 0.5, out)
    done = pl.system.task_dummy(deps=[ids[i] for i in range(4)])
    for i in pl.range(4):
        out, _ = pl.submit(page_plus, out, i, 0.5, out, deps=[done, ids[i]])
    return out


@pl.jit.incore
def page_plus(x: pl.Tensor, page: pl.INDEX, amount: pl.FP32, out: pl.InOut[pl.Tensor]):
    t = pl.load(x, [page, 0, 0], [1, 8, 12])
    out = pl.store(pl.add(t, amount), [page, 0, 0], out)
    return out


@CASES(f32(8, 12), expected=lambda x: (x + 1) * 2)
@pl.jit
def id_of_a_region_orders_a_task(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    tmp = pl.create_tensor([8, 12], dtype=pl.FP32)
    with pl.at(level=pl.Level.CORE_GROUP) as region:
        tmp[:] = pl.add(x, 1.0)
    barrier = pl.system.task_dummy(deps=[region, None])
    out, _ = pl.submit(total, tmp, tmp, out, deps=[barrier])
    return out


def rows_flagged(flags: Array, x: Array, out: Array) -> Array:
    out = out.copy()
    for i, flag in enumerate(flags):
        if flag > 0:
            out[i] = x[i] + 1
    return out


@pl.jit.incore
def row_plus(x: pl.Tensor, row: pl.INDEX, out: pl.InOut[pl.Tensor]):
    t = pl.load(x, [row, 0], [1, 12])
    out = pl.store(pl.add(t, 1.0), [row, 0], out)
    return out


@CASES(np.array([1, 0, 3, -2, 0, 7, 1, 0], np.int32), f32(8, 12), f32(8, 12), expected=rows_flagged)
@pl.jit
def predicate_per_row(flags: pl.Tensor, x: pl.Tensor, out: pl.InOut[pl.Tensor]):
    for i in pl.range(8):
        out, _ = pl.submit(row_plus, x, i, out, predicate=flags[i] > 0)
    return out


@CASES(
    np.array([0, 1], np.int32),
    f32(8, 12),
    more=[(np.array([1, 1], np.int32), f32(8, 12)), (np.array([5, 0], np.int32), f32(8, 12)), (np.array([0, 0], np.int32), f32(8, 12))],
    expected=lambda flags, x: (np.where(flags[0] != 0, x + 1, x) + 10) * (2 if flags[1] == 1 else 1),
    tol=1e-6,
)
@pl.jit
def dependents_of_skipped_tasks_run(flags: pl.Tensor, x: pl.Tensor, out: pl.Out[pl.Tensor]):
    tmp = pl.create_tensor([8, 12], dtype=pl.FP32)
    with pl.at(level=pl.Level.CORE_GROUP):
        tmp[:] = x
    tmp, first = pl.submit(plus, x, 1.0, tmp, predicate=flags[0] != 0)
    out, second = pl.submit(plus, tmp, 10.0, out, deps=[first])
    out, _ = pl.submit(scale_in_place, out, 2.0, deps=[second], predicate=flags[1] == 1)
    return out


@pl.jit.incore
def count_positive(x: pl.Tensor, out: pl.Out[pl.Tensor[[1], pl.INT32]]):
    n = pl.const(0, pl.INT32)
    for i in pl.range(8):
        if pl.read(x, [i, 0]) > 0.0:
            n = n + 1
    pl.write(out, [0], n)
    return out


@CASES(
    f32(8, 12),
    more=[(f32(8, 12, low=0.5, high=1.0),), (f32(8, 12, low=-1.0, high=-0.5),)],
    expected=lambda x: x * 2 if (x[:, 0] > 0).sum() >= 4 else x * 1,
)
@pl.jit
def predicate_on_what_a_task_computed(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x
    count, counted = pl.submit(count_positive, x)
    out, _ = pl.submit(scale_in_place, out, 2.0, deps=[counted], predicate=count[0] >= 4)
    return out


@pl.jit.incore
def block_row(x: pl.Tensor, out: pl.InOut[pl.Tensor]):
    i = pl.tile.get_block_idx()
    out[i] = pl.add(out[i], x[i])
    return out


@CASES(
    np.array([0, 9], np.int32),
    f32(8, 12),
    f32(8, 12),
    more=[(np.array([2, 9], np.int32), f32(8, 12), f32(8, 12)), (np.array([2, 3], np.int32), f32(8, 12), f32(8, 12))],
    expected=lambda flags, x, out: out + x * (int(flags[0] > 1) + int(flags[1] <= 4)),
    tol=1e-6,
)
@pl.jit
def blocks_submitted_with_predicates(flags: pl.Tensor, x: pl.Tensor, out: pl.InOut[pl.Tensor]):
    out, first = pl.spmd_submit(block_row, x, out, core_num=8, predicate=flags[0] > 1)
    out, _ = pl.spmd_submit(block_row, x, out, core_num=8, deps=[first], predicate=flags[1] <= 4, sync_start=True)
    return out


@CASES(f32(8, 12), np.array([6], np.int32), expected=lambda x, n: np.where(np.arange(8)[:, None] < n[0], x, 0).astype(np.float32), returned=True)
@pl.jit
def blocks_counted_at_run_time(x: pl.Tensor, n: pl.Tensor, out: pl.Out[pl.Tensor[[8, 12], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.full([8, 12], dtype=pl.FP32, value=0.0)
    count = pl.cast(pl.read(n, [0]), pl.INDEX)
    out, _ = pl.spmd_submit(block_row, x, out, core_num=count)
    return out


@CASES(i32(8, 12, low=0, high=9), expected=lambda x: x * 2 + 1)
@pl.program
class SubmittedBlocksOfAProgram:
    @pl.function(type=pl.FunctionType.InCore)
    def kernel(self, x: pl.Tensor[[8, 12], pl.INT32], out: pl.Out[pl.Tensor[[8, 12], pl.INT32]]) -> pl.Tensor[[8, 12], pl.INT32]:
        i = pl.tile.get_block_idx() * 2
        t = pl.load(x, [i, 0], [2, 12])
        return pl.store(pl.add(t, t), [i, 0], out)

    @pl.function(type=pl.FunctionType.InCore)
    def one(self, x: pl.Tensor[[8, 12], pl.INT32], out: pl.Out[pl.Tensor[[8, 12], pl.INT32]]) -> pl.Tensor[[8, 12], pl.INT32]:
        return pl.store(pl.add(pl.load(x, [0, 0], [8, 12]), 1), [0, 0], out)

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, x: pl.Tensor[[8, 12], pl.INT32], out: pl.Out[pl.Tensor[[8, 12], pl.INT32]]) -> pl.Tensor[[8, 12], pl.INT32]:
        with pl.manual_scope():
            doubled, tid = pl.spmd_submit(self.kernel, x, core_num=4)
            out, _ = pl.submit(self.one, doubled, out, deps=[tid], allow_early_resolve=True, dumps=[doubled])
        return out


@CASES(f32(6, 8, 12), expected=lambda x: x.sum(0), tol=1e-5)
@pl.jit
def reduction_tree(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    """Pairs of pages are added by tasks, sums of sums follow."""
    ids = pl.array.create(3, pl.TASK_ID)
    partial = pl.create_tensor([3, 8, 12], dtype=pl.FP32)
    for i in pl.unroll(3):
        partial, ids[i] = pl.submit(add_pages, x, 2 * i, 2 * i + 1, i, partial)
    partial, joined = pl.submit(add_pages, partial, 0, 1, 0, partial, deps=[ids[0], ids[1]])
    out, _ = pl.submit(total, partial[0], partial[2], out, deps=[joined, ids[2]])
    return out


@pl.jit.incore
def add_pages(x: pl.Tensor, a: pl.INDEX, b: pl.INDEX, to: pl.INDEX, out: pl.InOut[pl.Tensor]):
    t = pl.add(pl.load(x, [a, 0, 0], [1, 8, 12]), pl.load(x, [b, 0, 0], [1, 8, 12]))
    return pl.store(t, [to, 0, 0], out)


@CASES(f32(8, 12), np.array([3], np.int32), expected=lambda x, n: x * 2 ** n[0])
@pl.jit
def ids_through_while_and_branches(x: pl.Tensor, n: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x
    last = pl.system.task_invalid()
    i = 0
    steps = pl.cast(pl.read(n, [0]), pl.INDEX)
    while i < steps:
        if i % 2 == 0:
            out, last = pl.submit(scale_in_place, out, 4.0, deps=[last])
        else:
            out, last = pl.submit(scale_in_place, out, 0.5, deps=[last])
            out, last = pl.submit(scale_in_place, out, 2.0, deps=[last])
        i = i + 1
    out, last = pl.submit(scale_in_place, out, 0.5, deps=[last], predicate=n[0] >= 1)
    return out


@pl.jit.incore
def split_signs(x: pl.Tensor[[M, 12], pl.FP32], low: pl.Out[pl.Tensor[[M, 12], pl.FP32]], high: pl.Out[pl.Tensor[[M, 12], pl.FP32]]):
    low[:] = pl.minimum(x, 0.0)
    high[:] = pl.maximum(x, 0.0)
    return low, high


@CASES(f32(8, 12), more=[(f32(3, 12),)], compiles=1, expected=lambda x: np.abs(x), returned=True)
@pl.jit
def nested_results_of_any_rows(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    (low, high), first = pl.submit(split_signs, x)
    both = pl.submit(split_signs, high, deps=[first])
    pair, _ = pl.submit(split_signs, low, deps=[first, both[2]])
    neg, t = pl.submit(rows_plus, both[1], amount=0.0, deps=[both[2]])
    out, _ = pl.submit(rows_minus, neg, pair[0], out, deps=[t])
    return out


@pl.jit.incore
def rows_minus(a: pl.Tensor[[M, 12], pl.FP32], b: pl.Tensor[[M, 12], pl.FP32], out: pl.Out[pl.Tensor[[M, 12], pl.FP32]]):
    out[:] = pl.sub(a, b)
    return out
