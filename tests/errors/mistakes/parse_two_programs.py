"""Text with more than one program."""

import tilejit.language as pl

TEXT = '''
@pl.function
def first(a: pl.Tensor[[4], pl.FP32], out: pl.Out[pl.Tensor[[4], pl.FP32]]):
    out[:] = pl.neg(a)

@pl.function
def second(a: pl.Tensor[[4], pl.FP32], out: pl.Out[pl.Tensor[[4], pl.FP32]]):
    out[:] = pl.abs(a)
'''


def mistake() -> object:
    return pl.parse(TEXT)
