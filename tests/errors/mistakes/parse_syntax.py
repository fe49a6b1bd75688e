"""Text that is not Python."""

import tilejit.language as pl

TEXT = '''
@pl.function
def first(a: pl.Tensor[[4], pl.FP32], out: pl.Out[pl.Tensor[[4], pl.FP32]]):
    out[:] = pl.neg(a
'''


def mistake() -> object:
    return pl.parse(TEXT, filename="kernel.py")
