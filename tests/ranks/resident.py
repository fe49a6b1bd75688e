"""A program whose weights and sums stay with the ranks."""

from __future__ import annotations

import tilejit.language as pl
import tilejit.language.distributed as pld

NR = pl.dynamic("NR")


@pl.program
class Scaling:
    @pl.function(type=pl.FunctionType.Orchestration)
    def scale(self, x: pl.Tensor[[2, 8], pl.FP32], w: pl.Tensor[[8], pl.FP32], total: pl.InOut[pl.Tensor[[2, 8], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            total[:, :] = total + pl.col_expand_mul(x, pl.reshape(w, [1, 8]))

    @pl.function(level=pl.Level.HOST, role=pl.Role.Orchestrator)
    def all(
        self, x: pl.Tensor[[NR, 2, 8], pl.FP32], w: pl.Tensor[[NR, 8], pl.FP32], total: pl.InOut[pl.Tensor[[NR, 2, 8], pl.FP32]], shift: pl.Scalar[pl.INT32]
    ):
        for r in pl.range(pld.world_size()):
            self.scale(x[r], w[(r + shift) % pld.world_size()], total[r], device=r)
