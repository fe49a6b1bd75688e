"""The smallest kernel: say what to compute on whole tensors, tilejit places the data and makes one native loop of it."""

import numpy as np

import tilejit.language as pl
from tilejit.testing import on_device


@pl.jit
def hello_add(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = a + b


def reference(a, b):
    return a + b


def inputs(rng):
    for shape in ((1024, 1024), (7, 13)):
        yield rng.standard_normal(shape, np.float32), rng.standard_normal(shape, np.float32)


if __name__ == "__main__":
    run = on_device(hello_add)
    for a, b in inputs(np.random.default_rng(0)):
        out = np.empty_like(a)
        run(a, b, out)  # in place: all parameters given
        np.testing.assert_array_equal(out, reference(a, b))
        np.testing.assert_array_equal(run(a, b), out)  # return style: outputs left out
    print("OK")
