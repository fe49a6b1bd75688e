"""`python -m tests.backends.cuda.scores`: attention over blocks of keys in Triton's interpreter against the reference: masks, carried maxima, descriptors."""

from __future__ import annotations

import os

os.environ["TRITON_INTERPRET"] = "1"

import ml_dtypes
import numpy as np

import tilejit.language as pl
from tests.backends.cuda import interpreted
from tests.backends.cuda.test_lower import planned
from tilejit.backends.cuda import schedule
from tilejit.runtime.config import RunConfig

assert interpreted.TARGET
N, LENGTH = 16, 64


@pl.jit
def causal(q: pl.Tensor, k: pl.Tensor, v: pl.Tensor, sums: pl.Out[pl.Tensor], out: pl.Out[pl.Tensor]):
    """The diagonal masked under a branch; the maximum is used once more after the loop."""
    d = q.shape[1]
    for block in pl.spmd(q.shape[0] // N):
        first = block * N // LENGTH * LENGTH
        here = block * N - first
        tq = pl.load(q, [block * N, 0], [N, d])
        scratch = pl.create_tile([N, N], dtype=pl.FP32)
        m = pl.tile.full([N, 1], dtype=pl.FP32, value=-1e30)
        l = pl.tile.full([N, 1], dtype=pl.FP32, value=0.0)
        o = pl.tile.full([N, d], dtype=pl.FP32, value=0.0)
        for j in pl.range(here // N + 1):
            tk = pl.load(k, [first + j * N, 0], [N, d])
            tv = pl.load(v, [first + j * N, 0], [N, d])
            s = pl.mul(pl.matmul(tq, pl.transpose(tk, 0, 1)), 0.25)
            if j * N == here:
                s = pl.sub(s, pl.mul(pl.tri(1, [N, N], dtype=pl.FP32, upper=True), 1e30))
            top = pl.maximum(m, pl.row_max(s, scratch))
            p = pl.row_expand_expdif(s, top)
            fade = pl.exp(pl.sub(m, top))
            l = pl.add(pl.mul(l, fade), pl.row_sum(p, scratch))
            o = pl.add(pl.row_expand_mul(o, fade), pl.matmul(pl.cast(p, pl.BF16, mode="rint"), tv))
            m = top
        pl.store(pl.add(m, pl.log(l)), [block * N, 0], sums)
        pl.store(pl.cast(pl.row_expand_div(o, l), pl.BF16, mode="rint"), [block * N, 0], out)


@pl.jit
def masked_away(q: pl.Tensor, k: pl.Tensor, v: pl.Tensor, sums: pl.Out[pl.Tensor], out: pl.Out[pl.Tensor]):
    """Every score of the first block is masked: its weights are equal, and count for nothing once others come."""
    d = q.shape[1]
    for block in pl.spmd(q.shape[0] // N):
        tq = pl.load(q, [block * N, 0], [N, d])
        scratch = pl.create_tile([N, N], dtype=pl.FP32)
        m = pl.tile.full([N, 1], dtype=pl.FP32, value=-1e30)
        l = pl.tile.full([N, 1], dtype=pl.FP32, value=0.0)
        o = pl.tile.full([N, d], dtype=pl.FP32, value=0.0)
        for j in pl.range(3 - block % 3):
            tk = pl.load(k, [j * N, 0], [N, d])
            tv = pl.load(v, [j * N, 0], [N, d])
            s = pl.mul(pl.matmul(tq, pl.transpose(tk, 0, 1)), 0.25)
            if j == 0:
                s = pl.sub(s, 1e30)
            top = pl.maximum(m, pl.row_max(s, scratch))
            p = pl.row_expand_expdif(s, top)
            l = pl.add(pl.mul(l, pl.exp(pl.sub(m, top))), pl.row_sum(p, scratch))
            o = pl.add(pl.row_expand_mul(o, pl.exp(pl.sub(m, top))), pl.matmul(pl.cast(p, pl.BF16, mode="rint"), tv))
            m = top
        pl.store(l, [block * N, 0], sums)
        pl.store(pl.cast(pl.row_expand_div(o, l), pl.BF16, mode="rint"), [block * N, 0], out)


def main() -> None:
    schedule.walkers_of = lambda blocks, copied: 3 if copied else 0  # as if there were many blocks
    rng = np.random.default_rng(3)
    q, k, v = (rng.standard_normal((2 * LENGTH, N)).astype(ml_dtypes.bfloat16) for _ in range(3))
    for kernel in (causal, masked_away):
        text = planned(kernel, q, k, v, np.zeros((2 * LENGTH, 1), np.float32), q).kernels[0].text
        assert text.count("copied(") == 3 and "exp2" in text and "libdevice.exp" not in text and "debug_barrier" not in text, text
        assert "tl.num_programs(0)" in text
        found: list[np.ndarray] = []
        for platform in ("triton", "reference"):
            sums, out = np.full((2 * LENGTH, 1), np.nan, np.float32), np.zeros_like(q)
            kernel(q, k, v, sums, out, config=RunConfig(platform=platform))
            found += [sums, out.astype(np.float32)]
        np.testing.assert_allclose(found[0], found[2], rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(found[1], found[3], rtol=1e-2, atol=1e-2)


if __name__ == "__main__":
    main()
