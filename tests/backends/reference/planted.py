"""Kernels with one mistake each, which compiled code does not notice; the line of the mistake ends in `# here`.

`BUGS` has each with what the message says. All take `data()` and an output of its shape.
"""

from __future__ import annotations

import numpy as np

import tilejit.language as pl
from tilejit.jit.function import JITFunction

CORES = pl.Level.CORE_GROUP


@pl.jit
def accumulator_without_a_start(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=CORES):
        total = pl.create_tile([1, 16], pl.FP32)
        for i in pl.range(8):
            total = pl.add(total, pl.load(x, [i, 0], [1, 16]))  # here
        pl.store(total, [0, 0], out)


@pl.jit
def scratch_read_too_early(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    scratch = pl.create_tensor([8, 16], pl.FP32)
    with pl.at(level=CORES):
        early = pl.load(scratch, [0, 0], [8, 16])  # here
        pl.store(pl.load(x, [0, 0], [8, 16]), [0, 0], scratch)
        pl.store(pl.mul(early, 2.0), [0, 0], out)


@pl.jit
def last_row_forgotten(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    scratch = pl.create_tensor([8, 16], pl.FP32)
    for i in pl.range(7):
        with pl.at(level=CORES):
            pl.store(pl.exp(pl.load(x, [i, 0], [1, 16])), [i, 0], scratch)
    with pl.at(level=CORES):
        out[:] = pl.add(scratch, 1.0)  # here


@pl.jit
def output_as_accumulator(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    for i in pl.range(8):
        with pl.at(level=CORES):
            so_far = pl.load(out, [0, 0], [1, 16])  # here
            pl.store(pl.add(so_far, pl.load(x, [i, 0], [1, 16])), [0, 0], out)


@pl.jit
def output_read_as_tensor(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=CORES):
        out[:] = pl.maximum(x, out)  # here


@pl.jit
def element_of_an_output(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=CORES):
        first = pl.read(out, [0, 0])  # here
        out[:] = pl.add(x, first)


@pl.jit
def rows_beyond_the_valid_ones(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=CORES):
        t = pl.load(x, [0, 0], [8, 16], valid_shape=[5, 16])
        wide = pl.set_validshape(t, 8, 16)  # here
        pl.store(wide, [0, 0], out)


@pl.jit
def element_beyond_the_valid_ones(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=CORES):
        t = pl.load(x, [0, 0], [8, 16], valid_shape=[5, 16])
        last = pl.read(t, [7, 3])  # here
        pl.store(pl.mul(pl.load(x, [0, 0], [8, 16]), last), [0, 0], out)


@pl.jit
def store_of_an_empty_tile(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=CORES):
        t = pl.create_tile([8, 16], pl.FP32)
        pl.store(t, [0, 0], out)  # here
        pl.store(pl.load(x, [0, 0], [1, 16]), [0, 0], out)


@pl.jit
def one_cell_of_a_tile_forgotten(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=CORES):
        t = pl.create_tile([1, 16], pl.FP32)
        for j in pl.range(15):
            pl.write(t, [0, j], pl.read(x, [0, j]))
        pl.store(pl.row_expand_mul(pl.load(x, [0, 0], [8, 16]), pl.row_sum(pl.col_expand(pl.load(x, [0, 0], [8, 16]), t))), [0, 0], out)  # here


@pl.jit
def rows_that_overlap(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    for i in pl.parallel(7):
        with pl.at(level=CORES):
            pl.store(pl.load(x, [i, 0], [2, 16]), [i, 0], out)  # here


@pl.jit
def everybody_writes_the_total(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    for i in pl.parallel(8):
        with pl.at(level=CORES):
            pl.store(pl.load(x, [i, 0], [1, 16]), [0, 0], out)  # here


@pl.jit
def sum_in_parallel(x: pl.Tensor, out: pl.InOut[pl.Tensor]):
    for i in pl.parallel(8):
        with pl.at(level=CORES):
            before = pl.load(out, [0, 0], [1, 16])  # here
            pl.store(pl.add(before, pl.load(x, [i, 0], [1, 16])), [0, 0], out)


@pl.jit
def recurrence_in_parallel(x: pl.Tensor, out: pl.InOut[pl.Tensor]):
    for i in pl.parallel(1, 8):
        with pl.at(level=CORES):
            left = pl.load(out, [i - 1, 0], [1, 16])  # here
            pl.store(pl.add(left, pl.load(x, [i, 0], [1, 16])), [i, 0], out)


@pl.jit
def blocks_share_a_row(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    for b in pl.spmd(4):
        t = pl.load(x, [b, 0], [1, 16])
        pl.store(t, [b // 2, 0], out)  # here


@pl.jit
def blocks_share_an_element(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    for b in pl.spmd(4):
        pl.write(out, [0, 0], pl.read(x, [b, 0]))  # here


@pl.jit
def neighbour_without_a_barrier(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    scratch = pl.create_tensor([8, 16], pl.FP32, init_value=0.0)
    for b in pl.spmd(8):
        pl.store(pl.load(x, [b, 0], [1, 16]), [b, 0], scratch)
        other = pl.load(scratch, [(b + 7) % 8, 0], [1, 16])  # here
        pl.store(other, [b, 0], out)


@pl.jit
def atomic_beside_plain(x: pl.Tensor, out: pl.InOut[pl.Tensor]):
    for i in pl.parallel(8):
        with pl.at(level=CORES):
            pl.store(pl.load(x, [i, 0], [1, 16]), [i, 0], out, atomic=pl.AtomicType.Add)
            pl.store(pl.load(x, [i, 0], [1, 16]), [0, 0], out)  # here


@pl.jit.inline
def scaled(rows: pl.Tile, by: pl.FP32):
    return pl.mul(rows, by)  # here


@pl.jit
def nothing_handed_to_a_helper(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=CORES):
        t = pl.create_tile([8, 16], pl.FP32)
        pl.store(scaled(t, 2.0), [0, 0], out)


@pl.jit.incore
def add_one(rows: pl.Tensor, result: pl.Out[pl.Tensor]):
    t = pl.load(rows, [0, 0], [8, 16])  # here
    pl.store(pl.add(t, 1.0), [0, 0], result)


@pl.jit
def nothing_handed_to_a_kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    scratch = pl.create_tensor([8, 16], pl.FP32)
    add_one(scratch, out)


@pl.jit
def load_behind_the_end(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=CORES):
        start = pl.cast(pl.read(x, [0, 0]), pl.INDEX) + 5
        t = pl.load(x, [start, 0], [4, 16])  # here
        pl.store(t, [0, 0], out)


@pl.jit
def store_behind_the_end(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=CORES):
        start = pl.cast(pl.read(x, [0, 0]), pl.INDEX) + 5
        pl.store(pl.load(x, [0, 0], [4, 16]), [start, 0], out)  # here


@pl.jit
def index_behind_the_end(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=CORES):
        for i in pl.range(17):
            pl.write(out, [0, 0], pl.read(x, [0, i]))  # here


@pl.jit
def choice_by_an_empty_cell(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    flags = pl.create_tensor([4], pl.INT32)
    with pl.at(level=CORES):
        if pl.read(flags, [2]) > 0:  # here
            out[:] = pl.add(x, 1.0)
        else:
            out[:] = pl.mul(x, 2.0)


@pl.jit
def tensor_accumulator_without_a_start(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    total = pl.create_tensor([16], pl.FP32)
    for i in pl.range(8):
        total += x[i]  # here
    out[0] = total


@pl.jit
def copied_before_it_is_whole(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    scratch = pl.create_tensor([16], pl.FP32)
    scratch[:5] = x[0, :5]
    out[0] = scratch  # here


@pl.jit
def another_view_of_it_copied(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    scratch = pl.create_tensor([4, 4], pl.FP32)
    scratch[1:] = x[:3, :4]
    out[2] = pl.reshape(scratch, [16])  # here


@pl.jit
def row_of_an_output_copied(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[1] = out[0]  # here
    out[0] = x[0]


@pl.jit
def row_of_a_neighbour_copied(x: pl.InOut[pl.Tensor], out: pl.Out[pl.Tensor]):
    for i in pl.parallel(1, 8):
        x[i] = x[i - 1]  # here
    out[:] = x


@pl.jit
def sum_without_a_start(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    total = pl.create_tensor([1, 16], pl.FP32)
    for i in pl.parallel(8):
        with pl.at(level=CORES):
            pl.store(pl.load(x, [i, 0], [1, 16]), [0, 0], total, atomic=pl.AtomicType.Add)  # here
    out[:] = total


@pl.jit
def count_without_a_start(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    count = pl.create_tensor([1], pl.INT32)
    for _ in pl.parallel(8):
        with pl.at(level=CORES):
            pl.atomic_add(count, [0], 1)  # here
    out[:] = x * pl.cast(count[0], pl.FP32)


@pl.jit
def count_beside_a_read(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    count = pl.create_tensor([1], pl.INT32, init_value=0)
    for i in pl.parallel(8):
        with pl.at(level=CORES):
            pl.atomic_add(count, [0], 1)  # here
            out[i] = x[i] * pl.cast(count[0], pl.FP32)


@pl.jit
def bytes_of_an_empty_tile(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=CORES):
        bits = pl.reinterpret_view(pl.create_tile([8, 16], pl.FP32), pl.INT32)
        pl.store(pl.reinterpret_view(pl.add(bits, 1), pl.FP32), [0, 0], out)  # here


@pl.jit
def printed_before_it_is_whole(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    scratch = pl.create_tensor([16], pl.FP32)
    pl.print(scratch)  # here
    out[:] = x


NEVER = "were never written"
BEFORE = "before they are written"
OUTSIDE = "outside its valid region"
MEET = "they may run at the same time"
BUGS: list[tuple[JITFunction, str]] = [
    (accumulator_without_a_start, NEVER),
    (scratch_read_too_early, BEFORE),
    (last_row_forgotten, BEFORE),
    (output_as_accumulator, BEFORE),
    (output_read_as_tensor, BEFORE),
    (element_of_an_output, BEFORE),
    (rows_beyond_the_valid_ones, OUTSIDE),
    (element_beyond_the_valid_ones, OUTSIDE),
    (store_of_an_empty_tile, NEVER),
    (one_cell_of_a_tile_forgotten, NEVER),
    (rows_that_overlap, MEET),
    (everybody_writes_the_total, MEET),
    (sum_in_parallel, MEET),
    (recurrence_in_parallel, MEET),
    (blocks_share_a_row, MEET),
    (blocks_share_an_element, MEET),
    (neighbour_without_a_barrier, MEET),
    (atomic_beside_plain, MEET),
    (nothing_handed_to_a_helper, NEVER),
    (nothing_handed_to_a_kernel, BEFORE),
    (load_behind_the_end, "load reads outside `x`"),
    (store_behind_the_end, "store writes outside `out`"),
    (index_behind_the_end, "read of an element outside `x`"),
    (choice_by_an_empty_cell, BEFORE),
    (tensor_accumulator_without_a_start, BEFORE),
    (copied_before_it_is_whole, BEFORE),
    (another_view_of_it_copied, BEFORE),
    (row_of_an_output_copied, BEFORE),
    (row_of_a_neighbour_copied, MEET),
    (sum_without_a_start, BEFORE),
    (count_without_a_start, BEFORE),
    (count_beside_a_read, MEET),
    (bytes_of_an_empty_tile, NEVER),
    (printed_before_it_is_whole, BEFORE),
]


def data() -> np.ndarray:
    return np.random.default_rng(1).standard_normal((8, 16)).astype(np.float32)
