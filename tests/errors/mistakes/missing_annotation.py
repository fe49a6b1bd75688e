"""A parameter without annotation."""

import tilejit.language as pl


def mistake() -> object:
    @pl.program
    class Wrong:
        @pl.function
        def main(self, a, out: pl.Out[pl.Tensor[[4, 8], pl.FP32]]):
            with pl.at(level=pl.Level.CORE_GROUP):
                out[:] = pl.neg(a)

    return Wrong
