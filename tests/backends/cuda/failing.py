"""Kernels that fail while they run: outside their tensors, by an index, by an assertion."""

import tilejit.language as pl


@pl.jit
def load_past_the_end(x: pl.Tensor, at: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        i = pl.cast(pl.read(at, [0]), pl.INDEX)
        pl.store(pl.load(x, [i, 0], [2, 8]), [0, 0], out)


@pl.jit
def store_past_the_end(x: pl.Tensor, at: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        i = pl.cast(pl.read(at, [0]), pl.INDEX)
        pl.store(pl.load(x, [0, 0], [2, 8]), [i, 0], out)


@pl.jit
def wrong_index(x: pl.Tensor, at: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.gather(x, dim=-1, index=at)


@pl.jit
def asserts(x: pl.Tensor, at: pl.Tensor, out: pl.Out[pl.Tensor]):
    for block in pl.spmd(3):
        pl.device_assert(block < 2, "only two")
        pl.store(pl.load(x, [block, 0], [1, 8]), [block, 0], out)


@pl.jit
def rows_into_a_window_past_the_end(x: pl.Tensor, at: pl.Tensor, out: pl.InOut[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        i = 3 * pl.cast(pl.read(at, [0, 0]), pl.INDEX)
        pl.scatter_update(pl.tensor.slice(out, [2, 8], [i, 0]), -2, at, pl.tensor.slice(x, [1, 8], [0, 0]))


@pl.jit
def cells_into_a_window_past_the_end(x: pl.Tensor, at: pl.Tensor, out: pl.InOut[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        i = pl.cast(pl.read(at, [0]), pl.INDEX)
        pl.mscatter(pl.load(x, [0, 0], [1, 8]), pl.tile.ci(5, [1, 8], dtype=pl.INT32), pl.tensor.slice(out, [2, 8], [i, 0]))


@pl.jit
def cells_past_the_end(x: pl.Tensor, at: pl.Tensor, out: pl.InOut[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.mscatter(pl.load(x, [0, 0], [1, 8]), pl.tile.ci(28, [1, 8], dtype=pl.INT32), out)
