"""An extent of zero in an annotation."""

import tilejit.language as pl

def mistake() -> object:
    @pl.program
    class Wrong:
        @pl.function
        def main(self, a: pl.Tensor[[4, 0], pl.FP32], out: pl.Out[pl.Tensor[[4, 8], pl.FP32]]):
            out[:] = pl.full([4, 8], pl.FP32, 1.0)

    return Wrong
