"""RMSNorm as an operator of torch: the kernel, its backward, and one line that registers both."""

import tilejit.language as pl

TOKENS = pl.dynamic("TOKENS")
HIDDEN = 48
EPSILON = 1e-6


@pl.jit
def norm(x: pl.Tensor[[TOKENS, HIDDEN], pl.FP32], weight: pl.Tensor[[1, HIDDEN], pl.FP32], out: pl.Out[pl.Tensor[[TOKENS, HIDDEN], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        scale = pl.rsqrt(pl.row_sum(x * x) * (1.0 / HIDDEN) + EPSILON)
        out[:] = pl.col_expand_mul(pl.row_expand_mul(x, scale), weight)


@pl.jit
def norm_backward(
    x: pl.Tensor[[TOKENS, HIDDEN], pl.FP32],
    weight: pl.Tensor[[1, HIDDEN], pl.FP32],
    grad_out: pl.Tensor[[TOKENS, HIDDEN], pl.FP32],
    grad_x: pl.Out[pl.Tensor[[TOKENS, HIDDEN], pl.FP32]],
    grad_weight: pl.Out[pl.Tensor[[1, HIDDEN], pl.FP32]],
):
    with pl.at(level=pl.Level.CORE_GROUP):
        scale = pl.rsqrt(pl.row_sum(x * x) * (1.0 / HIDDEN) + EPSILON)
        normal = pl.row_expand_mul(x, scale)
        scaled = pl.col_expand_mul(grad_out, weight)
        along = pl.row_sum(scaled * normal) * (1.0 / HIDDEN)
        grad_x[:] = pl.row_expand_mul(scaled - pl.row_expand_mul(normal, along), scale)
        grad_weight[:] = pl.col_sum(grad_out * normal)


rms_norm = norm.as_torch_op("tilejit_examples::rms_norm", backward=norm_backward)
