"""A name bound twice under strict_ssa."""

import tilejit.language as pl

def mistake() -> object:
    @pl.program(strict_ssa=True)
    class Wrong:
        @pl.function(type=pl.FunctionType.InCore)
        def main(self, a: pl.Tensor[[4, 8], pl.FP32], out: pl.Out[pl.Tensor[[4, 8], pl.FP32]]):
            t = pl.load(a, [0, 0], [4, 8])
            t = pl.neg(t)
            pl.store(t, [0, 0], out)

    return Wrong
