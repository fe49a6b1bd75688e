import numpy as np

import tilejit.language as pl


def mistake():
    pl.parse("""
@pl.function
def main(a: pl.Tensor[[8, 16], pl.FP32], out: pl.Out[pl.Tensor[[8, 16], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP)
        pl.store(pl.load(a, [0, 0], [8, 16]), [0, 0], out)
""")
