"""A kernel that host functions of other modules find here, and a host function whose annotations are read where it is defined."""

import tilejit.language as pl
import tilejit.language.distributed as pld

WEIGHT = 2.0
ROWS = 2


@pl.jit(on_drift="recompile")
def weighted(x: pl.Tensor[[8], pl.FP32], y: pl.Out[pl.Tensor[[8], pl.FP32]]):
    y[:] = x * WEIGHT


@pl.jit
def times(x: pl.Tensor[[8], pl.FP32], y: pl.Out[pl.Tensor[[8], pl.FP32]], by: pl.Scalar[pl.INT32]):
    y[:] = x * pl.cast(by, pl.FP32)


@pl.jit.host
def by_rows(x: pl.Tensor[[ROWS, 8], pl.FP32], y: pl.Out[pl.Tensor[[ROWS, 8], pl.FP32]]):
    for r in pl.range(pld.world_size()):
        times(x[r], y[r], ROWS, device=r)
