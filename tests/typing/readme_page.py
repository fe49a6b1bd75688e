"""The Python of README.md, for type checkers; UPDATE_GOLDEN=1 writes it anew."""
# ruff: noqa
import numpy as np
import tilejit.language as pl

@pl.jit
def softmax(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):            # one kernel: everything in here is fused
        e = pl.exp(pl.row_expand_sub(x, pl.row_max(x)))
        out[:] = pl.row_expand_div(e, pl.row_sum(e))

x = np.random.default_rng(0).standard_normal((256, 1000), np.float32)

y = softmax(x)                                        # outputs left out: they are allocated and returned
out = np.empty_like(x)
softmax(x, out)                                       # all parameters given: it works in place
np.testing.assert_array_equal(y, out)

e = np.exp(x - x.max(1, keepdims=True))
np.testing.assert_allclose(y, e / e.sum(1, keepdims=True), rtol=1e-5, atol=1e-6)
@pl.jit
def scale(x: pl.Tensor, factor: pl.FP32, out: pl.Out[pl.Tensor]):
    rows = pl.dynamic("ROWS")
    x.bind_dynamic(0, rows)
    out.bind_dynamic(0, rows)
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range((rows + 31) // 32):
            tile = pl.load(x, [i * 32, 0], [32, x.shape[1]], clamp=True)   # the last tile is narrower
            pl.store(pl.mul(tile, factor), [i * 32, 0], out)

for n in (1, 32, 33, 1000):
    x = np.random.default_rng(n).standard_normal((n, 50), np.float32)
    out = np.empty_like(x)
    scale(x, 3.0, out)
    np.testing.assert_allclose(out, 3 * x, rtol=1e-6)
assert len(scale._cache) == 1
