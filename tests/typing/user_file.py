"""A file of a user, annotated throughout: pyright (`make check`) and mypy (`make install-test`) accept it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

import tilejit
import tilejit.language as pl
from tilejit import CompiledProgram, RunConfig
from tilejit.dtypes import DType
from tilejit.errors import ParserTypeError, TilejitError

Array = npt.NDArray[np.float32]
KINDS: Sequence[DType] = (pl.FP32, pl.BF16)


@pl.jit.inline
def scaled(x: pl.Tensor, by: pl.FP32) -> pl.Tensor:
    return x * by


@pl.jit
def softmax(x: pl.Tensor, factor: pl.FP32, out: pl.Out[pl.Tensor]) -> None:
    with pl.at(level=pl.Level.CORE_GROUP):
        e = pl.exp(x - pl.row_max(x))
        out[:] = scaled(e / pl.row_sum(e), factor)


@pl.jit(runtime_scalars=("n",))
def first(x: pl.Tensor, n: pl.INT32, out: pl.Out[pl.Tensor]) -> None:
    rows = pl.dynamic("ROWS")
    x.bind_dynamic(0, rows)
    with pl.at(level=pl.Level.CORE_GROUP):
        total = pl.tile.full([1, 8], dtype=pl.FP32, value=0.0)
        for i in pl.range(pl.min(n, rows)):
            total = total + pl.load(x, [i, 0], [1, 8])
        pl.store(total, [0, 0], out)


def run(x: Array, config: RunConfig | None = None) -> Array:
    """Calls in every style; results are what the caller says."""
    program: CompiledProgram = softmax.compile(x, 2.0)
    text: str = softmax.specialized_source(x, 2.0)
    assert text and program.platform
    with tilejit.eager():
        eager: Array = softmax(x, 2.0)
    result: Array = softmax(x, 2.0, config=config)
    np.testing.assert_allclose(eager, result, rtol=1e-5)
    total = np.zeros((1, 8), np.float32)
    first(x, 2, total)
    return np.concatenate([result, total])


def refused(x: Array) -> str:
    """What a mistake says."""
    try:
        softmax(x, 2.0, x[:1].copy())
    except ParserTypeError as error:
        found: TilejitError = error
        return found.message
    return ""
