"""Several kernels in one call: helpers run as kernels of their own, intermediate tensors connect them."""

import numpy as np

import tilejit.language as pl
from tilejit.testing import on_device


@pl.jit.incore
def add(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = a + b
    return out


@pl.jit.incore
def shifted_product(x: pl.Tensor, first: pl.FP32, second: pl.FP32, out: pl.Out[pl.Tensor]):
    out[:] = (x + first) * (x + second)
    return out


@pl.jit
def vector_dag(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    """(a + b + 1) · (a + b + 2) + (a + b), each intermediate computed once."""
    c = pl.create_tensor([a.shape[0], a.shape[1]], dtype=a.dtype)
    d = pl.create_tensor([a.shape[0], a.shape[1]], dtype=a.dtype)
    c = add(a, b, c)
    d = shifted_product(c, 1.0, second=2.0, out=d)
    out = add(d, c, out)
    return out


def reference(a, b):
    c = a + b
    return (c + 1) * (c + 2) + c


def inputs(rng):
    for shape in ((512, 1024), (17, 23)):
        yield rng.standard_normal(shape, np.float32), rng.standard_normal(shape, np.float32)


if __name__ == "__main__":
    run = on_device(vector_dag)
    for a, b in inputs(np.random.default_rng(0)):
        out = np.empty_like(a)
        run(a, b, out)
        np.testing.assert_allclose(out, reference(a, b), rtol=1e-5, atol=1e-5)
    print("OK")
