"""An attribute of a function given twice in one dict."""

import tilejit.language as pl


def mistake() -> object:
    @pl.program
    class Twice:
        @pl.function
        def main(self, x: pl.Tensor[[4, 4], pl.FP32], o: pl.Out[pl.Tensor[[4, 4], pl.FP32]]):
            pl.func_attr({"a": 1, "a": 2})  # noqa: F601
            o[:] = x

    return Twice
