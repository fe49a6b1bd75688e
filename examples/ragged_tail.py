"""Any number of rows in tiles of 32: the last tile is clamped to the rows that exist. One compile serves every size."""

import numpy as np

import tilejit.language as pl
from tilejit.testing import on_device

TILE = 32


@pl.jit
def ragged_tail(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    rows = pl.dynamic("ROWS")
    x.bind_dynamic(0, rows)
    out.bind_dynamic(0, rows)
    n = x.shape[1]
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range((rows + TILE - 1) // TILE):
            t = pl.load(x, [i * TILE, 0], [TILE, n], clamp=True)
            pl.store(pl.sqrt(pl.abs(t)), [i * TILE, 0], out)


def reference(x):
    return np.sqrt(np.abs(x))


def inputs(rng):
    for rows in (4096, 1, 32, 33, 100):
        yield (rng.standard_normal((rows, 50), np.float32),)


if __name__ == "__main__":
    run = on_device(ragged_tail)
    for (x,) in inputs(np.random.default_rng(0)):
        out = np.empty_like(x)
        run(x, out)
        np.testing.assert_allclose(out, reference(x), rtol=1e-6)
    assert len(ragged_tail._cache) == 1
    print("OK")
