"""What orders ranks without signals: host tensors, collectives of the host function, results, sub-workers, rounds."""

from __future__ import annotations

import numpy as np

import tilejit.language as pl
import tilejit.language.distributed as pld

NR = pl.dynamic("NR")


@pl.program
class Handed:
    """A chain over one host tensor, rounds of slices, two results, a Python function, and launches that go round."""

    @pl.function(type=pl.FunctionType.Orchestration)
    def double(self, x: pl.Tensor[[4, 8], pl.FP32], y: pl.Out[pl.Tensor[[4, 8], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            y[:, :] = x * 2.0

    @pl.function(type=pl.FunctionType.InCore)
    def both(self, x: pl.Tensor[[4, 8], pl.FP32], low: pl.Out[pl.Tensor[[4, 8], pl.FP32]], high: pl.Out[pl.Tensor[[4, 8], pl.FP32]], by: pl.Scalar[pl.INT32]):
        tile = pl.load(x, [0, 0], [4, 8])
        pl.store(tile - pl.cast(by, pl.FP32), [0, 0], low)
        pl.store(tile + pl.cast(by, pl.FP32), [0, 0], high)

    @pl.function(level=pl.Level.HOST, role=pl.Role.SubWorker)
    def check(
        x: pl.Tensor[[4, 8], pl.FP32],  # pyright: ignore[reportGeneralTypeIssues] - it has no self
        y: pl.Out[pl.Tensor[[4, 8], pl.FP32]],
    ):
        y[:] = np.asarray(x) + 1000.0

    @pl.function(level=pl.Level.HOST, role=pl.Role.Orchestrator)
    def chain(
        self,
        x: pl.Tensor[[2, NR, 4, 8], pl.FP32],
        rounds: pl.Out[pl.Tensor[[2, NR, 4, 8], pl.FP32]],
        last: pl.Out[pl.Tensor[[4, 8], pl.FP32]],
        seen: pl.Out[pl.Tensor[[4, 8], pl.FP32]],
        low: pl.Out[pl.Tensor[[4, 8], pl.FP32]],
    ):
        for rd in pl.range(2):
            for r in pl.range(pld.world_size()):
                self.double(x[rd, r], rounds[rd, r], device=r)
        t = pl.create_tensor([4, 8], dtype=pl.FP32)
        self.double(x[0, 0], t, device=0)
        for r in pl.range(1, pld.world_size()):
            u = pl.create_tensor([4, 8], dtype=pl.FP32)
            t = self.double(t, u, device=r)
        high = pl.create_tensor([4, 8], dtype=pl.FP32)
        a, b = self.both(t, low, high, 3, device=pld.world_size() - 1)
        self.double(b, last)
        self.check(a, seen)
        return last


def expected(x: np.ndarray) -> dict[str, np.ndarray]:
    """The same in NumPy."""
    world = x.shape[1]
    t = x[0, 0] * np.float32(2.0**world)
    return {"rounds": x * 2, "last": (t + 3) * 2, "seen": (t - 3) + 1000, "low": t - 3}
