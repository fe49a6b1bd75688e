import numpy as np

import tilejit.language as pl


def mistake():
    @pl.program(strict_ssa=True)
    class Twice:
        @pl.function
        def main(self, a: pl.Tensor[[8, 16], pl.FP32], out: pl.Out[pl.Tensor[[8, 16], pl.FP32]]):
            with pl.at(level=pl.Level.CORE_GROUP):
                t = pl.load(a, [0, 0], [8, 16])
                t = pl.exp(t)
                pl.store(t, [0, 0], out)
