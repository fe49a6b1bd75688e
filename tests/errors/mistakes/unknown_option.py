"""A compile option that does not exist."""

import tilejit.language as pl
from tilejit import ir

@pl.program
class Negate:
    @pl.function
    def main(self, a: pl.Tensor[[4, 8], pl.FP32], n: pl.Scalar[pl.INT8], out: pl.Out[pl.Tensor[[4, 8], pl.FP32]]) -> pl.Tensor[[4, 8], pl.FP32]:
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.mul(a, pl.cast(n, pl.FP32))
        return out


def mistake() -> object:
    return ir.compile(Negate, plattform="cpu")
