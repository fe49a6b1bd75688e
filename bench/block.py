"""A kernel of about a hundred lines with three helpers, and the same loops for numba: a gated block with residuals over chunks of rows."""

from __future__ import annotations

import math

import numpy as np

import tilejit.language as pl

Array = np.ndarray[tuple[int, ...], np.dtype[np.float32]]

ROWS = 8
EPSILON = 1e-6
LIMIT = 30.0


@pl.jit.inline
def normalise(x: pl.Tensor, weight: pl.Tensor):
    mean_square = pl.row_sum(x * x) * (1.0 / x.shape[1])
    scaled = pl.row_expand_mul(x, pl.rsqrt(mean_square + EPSILON))
    return pl.col_expand_mul(scaled, weight)


@pl.jit.incore
def gate_up(x: pl.Tensor, norm: pl.Tensor, w_gate: pl.Tensor, w_up: pl.Tensor, out: pl.Out[pl.Tensor]):
    h = normalise(x, norm)
    gate = pl.matmul(h, w_gate)
    up = pl.matmul(h, w_up)
    gate = pl.minimum(gate, LIMIT)
    gate = pl.maximum(gate, -LIMIT)
    gate = gate / (pl.exp(-gate) + 1.0)
    out[:] = gate * up
    return out


@pl.jit.incore
def down(h: pl.Tensor, w_down: pl.Tensor, residual: pl.Tensor, scale: pl.FP32, out: pl.Out[pl.Tensor]):
    y = pl.matmul(h, w_down)
    if scale != 1.0:
        y = y * scale
    out[:] = y + residual
    return out


@pl.jit
def block(
    x: pl.Tensor,
    norm: pl.Tensor,
    w_gate: pl.Tensor,
    w_up: pl.Tensor,
    w_down: pl.Tensor,
    final_norm: pl.Tensor,
    out: pl.Out[pl.Tensor],
):
    tokens, width = x.shape
    inner = w_gate.shape[1]
    hidden = pl.create_tensor([tokens, inner], dtype=pl.FP32)
    hidden = gate_up(x, norm, w_gate, w_up, hidden)
    mixed = pl.create_tensor([tokens, width], dtype=pl.FP32)
    mixed = down(hidden, w_down, x, 0.5, mixed)
    with pl.at(level=pl.Level.CORE_GROUP):
        scratch = pl.create_tile([ROWS, width], dtype=pl.FP32)
        weight = pl.load(final_norm, [0, 0], [1, width])
        for i in pl.range(tokens // ROWS):
            t = pl.load(mixed, [i * ROWS, 0], [ROWS, width])
            r = pl.load(x, [i * ROWS, 0], [ROWS, width])
            # a first normalisation with the mean removed
            mean = pl.mul(pl.row_sum(t, scratch), 1.0 / width)
            centred = pl.row_expand_sub(t, mean)
            variance = pl.mul(pl.row_sum(pl.mul(centred, centred), scratch), 1.0 / width)
            normal = pl.row_expand_mul(centred, pl.rsqrt(pl.add(variance, EPSILON)))
            normal = pl.col_expand_mul(normal, weight)
            # a soft cap, in two halves so that exp never overflows
            capped = pl.minimum(normal, LIMIT)
            capped = pl.maximum(capped, -LIMIT)
            e = pl.exp(pl.mul(capped, -2.0 / LIMIT))
            squashed = pl.div(pl.mul(pl.sub(1.0, e), LIMIT), pl.add(e, 1.0))
            # a softmax over the row decides how much of the residual stays
            top = pl.row_max(squashed, scratch)
            p = pl.row_expand_expdif(squashed, top)
            total = pl.row_sum(p, scratch)
            share = pl.row_expand_div(p, total)
            kept = pl.mul(r, share)
            # three damped steps toward the residual
            for _ in pl.unroll(3):
                step = pl.sub(kept, squashed)
                squashed = pl.add(squashed, pl.mul(step, 0.25))
            result = pl.add(squashed, kept)
            for j in pl.range(4):
                if j == 2:
                    result = pl.mul(result, 0.5)
                elif j == 3:
                    result = pl.add(result, r)
                else:
                    result = pl.maximum(result, -LIMIT)
            pl.store(result, [i * ROWS, 0], out)
    return out


def block_loops(x: Array, norm: Array, w_gate: Array, w_up: Array, w_down: Array, final_norm: Array, out: Array) -> None:
    tokens, width = x.shape
    inner = w_gate.shape[1]
    h = np.empty(width, np.float32)
    hidden = np.empty(inner, np.float32)
    t = np.empty(width, np.float32)
    for i in range(tokens):
        square = 0.0
        for j in range(width):
            square += x[i, j] * x[i, j]
        scale = 1 / math.sqrt(square / width + EPSILON)
        for j in range(width):
            h[j] = x[i, j] * scale * norm[0, j]
        for n in range(inner):
            gate = 0.0
            up = 0.0
            for j in range(width):
                gate += h[j] * w_gate[j, n]
                up += h[j] * w_up[j, n]
            gate = max(min(gate, LIMIT), -LIMIT)
            hidden[n] = gate / (math.exp(-gate) + 1) * up
        mean = 0.0
        for j in range(width):
            y = 0.0
            for n in range(inner):
                y += hidden[n] * w_down[n, j]
            t[j] = y * 0.5 + x[i, j]
            mean += t[j]
        mean /= width
        variance = 0.0
        for j in range(width):
            t[j] -= mean
            variance += t[j] * t[j]
        scale = 1 / math.sqrt(variance / width + EPSILON)
        top = -math.inf
        for j in range(width):
            e = math.exp(max(min(t[j] * scale * final_norm[0, j], LIMIT), -LIMIT) * (-2 / LIMIT))
            t[j] = (1 - e) * LIMIT / (e + 1)
            top = max(top, t[j])
        total = 0.0
        for j in range(width):
            total += math.exp(t[j] - top)
        for j in range(width):
            kept = x[i, j] * math.exp(t[j] - top) / total
            squashed = t[j]
            for _ in range(3):
                squashed += (kept - squashed) * 0.25
            result = max(squashed + kept, -LIMIT)
            out[i, j] = result * 0.5 + x[i, j]
