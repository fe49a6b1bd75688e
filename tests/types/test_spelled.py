"""`help(kernel)` shows annotations as they are written."""

from __future__ import annotations

import inspect

import tilejit.language as pl

M = pl.dynamic("M")


def test_the_signature_of_a_kernel_reads_as_its_text() -> None:
    def body(x, tile, scale, out, bias=None) -> None: ...  # type: ignore[no-untyped-def]

    body.__annotations__ = {
        "x": pl.Tensor[[M, 8], pl.FP32],
        "tile": pl.Tile[[4, 8], pl.BF16],
        "scale": pl.Scalar[pl.FP32],
        "out": pl.Out[pl.Tensor[[M * 2, 8], pl.FP16]],
        "bias": pl.InOut[pl.Tensor] | None,
    }
    shown = "x: pl.Tensor[[M, 8], pl.FP32], tile: pl.Tile[[4, 8], pl.BF16], scale: pl.Scalar[pl.FP32], out: pl.Out[pl.Tensor[[M * 2, 8], pl.FP16]]"
    assert str(inspect.signature(body)) == f"({shown}, bias: pl.InOut[pl.Tensor] | None = None)"
