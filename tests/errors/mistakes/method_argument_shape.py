"""A tensor of another shape than the callee's annotation."""

import tilejit.language as pl

def mistake() -> object:
    @pl.program
    class Wrong:
        @pl.function(type=pl.FunctionType.InCore)
        def negate(self, a: pl.Tensor[[4, 8], pl.FP32], out: pl.Out[pl.Tensor[[4, 8], pl.FP32]]) -> pl.Tensor[[4, 8], pl.FP32]:
            return pl.store(pl.neg(pl.load(a, [0, 0], [4, 8])), [0, 0], out)

        @pl.function(type=pl.FunctionType.Orchestration)
        def main(self, a: pl.Tensor[[8, 4], pl.FP32], out: pl.Out[pl.Tensor[[4, 8], pl.FP32]]) -> pl.Tensor[[4, 8], pl.FP32]:
            out = self.negate(a, out)
            return out

    return Wrong
