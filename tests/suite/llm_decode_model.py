"""A decoding layer as model code writes it: any batch in tiles, BF16 weights, rotary embedding, caches, attention block by block, SwiGLU."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np

import tilejit.language as pl
from tests.suite.harness import Cases

CASES = Cases()
Array = np.ndarray[Any, Any]
BF16 = ml_dtypes.bfloat16
BATCH_DYN, KV_DYN = pl.dynamic("BATCH_DYN"), pl.dynamic("KV_DYN")
HIDDEN, HEADS, KV_HEADS, D, INTER, MAX_SEQ = 32, 4, 2, 8, 48, 24
KV_HIDDEN, HALF, Q_PER_KV = KV_HEADS * D, D // 2, HEADS // KV_HEADS
BATCH_TILE, K_CHUNK, OUT_CHUNK, SEQ_TILE, MLP_CHUNK = 4, 16, 16, 8, 16
EPS, HIDDEN_INV, SCALE = 1e-6, 1.0 / HIDDEN, 1 / math.sqrt(D)


def wide(x: Array) -> Array:
    return x.astype(np.float32)


def rounded(x: Array) -> Array:
    return x.astype(BF16).astype(np.float32)


def normalised(x: Array, weight: Array) -> Array:
    return rounded(x / np.sqrt((x * x).mean(1, keepdims=True) + EPS) * weight)


def rotated(x: Array, cos: Array, sin: Array) -> Array:
    low, high = x[..., :HALF], x[..., HALF:]
    return np.concatenate([low * cos[:HALF] - high * sin[:HALF], high * cos[HALF:] + low * sin[HALF:]], -1)


def decoded(h: Array, n1: Array, wq: Array, wk: Array, wv: Array, lens: Array, cos: Array, sin: Array, keys: Array, values: Array, *rest: Array) -> Any:
    wo, n2, wg, wu, wd = rest
    h, keys, values = wide(h), wide(keys), wide(values)
    x = normalised(h, n1)
    q, k, v = (x @ wide(w) for w in (wq, wk, wv))
    attended = np.zeros_like(h)
    for b, n in enumerate(lens):
        for head in range(KV_HEADS):
            base, cols = (b * KV_HEADS + head) * MAX_SEQ, slice(head * D, head * D + D)
            keys[base + n - 1] = rounded(rotated(k[b, cols], cos[n - 1], sin[n - 1]))
            values[base + n - 1] = rounded(v[b, cols])
            for i in range(head * Q_PER_KV, (head + 1) * Q_PER_KV):
                s = keys[base : base + n] @ rounded(rotated(q[b, i * D : i * D + D], cos[n - 1], sin[n - 1])) * SCALE
                p = np.exp(s - s.max())
                attended[b, i * D : i * D + D] = rounded(p / p.sum() @ values[base : base + n])
    r = attended @ wide(wo) + h
    y = normalised(r, n2)
    g = y @ wide(wg)
    out = rounded(g / (1 + np.exp(-g)) * (y @ wide(wu))) @ wide(wd) + r
    return keys.astype(BF16), values.astype(BF16), out.astype(BF16)


def arguments(seed: int, batch: int) -> tuple[Array, ...]:
    rng = np.random.default_rng(seed)

    def small(*shape: int) -> Array:
        return (rng.standard_normal(shape) * 0.2).astype(BF16)

    angles = np.tile(rng.random((MAX_SEQ, HALF), np.float32) * 3, 2)
    norms = [rng.uniform(0.5, 1.0, (1, HIDDEN)).astype(np.float32) for _ in range(2)]
    cache = [small(batch * KV_HEADS * MAX_SEQ, D) for _ in range(2)]
    return (
        small(batch, HIDDEN), norms[0], small(HIDDEN, HIDDEN), small(HIDDEN, KV_HIDDEN), small(HIDDEN, KV_HIDDEN),
        rng.integers(1, MAX_SEQ + 1, batch).astype(np.int32), np.cos(angles), np.sin(angles), *cache,
        small(HIDDEN, HIDDEN), norms[1], small(HIDDEN, INTER), small(HIDDEN, INTER), small(INTER, HIDDEN),
    )  # fmt: skip


@CASES(*arguments(1, 3), more=[arguments(2, 1), arguments(3, 6)], compiles=1, expected=decoded, tol=3e-2)
@pl.jit
def decode(
    hidden_states: pl.Tensor[[BATCH_DYN, HIDDEN], pl.BF16],
    input_rms_weight: pl.Tensor[[1, HIDDEN], pl.FP32],
    wq: pl.Tensor[[HIDDEN, HIDDEN], pl.BF16],
    wk: pl.Tensor[[HIDDEN, KV_HIDDEN], pl.BF16],
    wv: pl.Tensor[[HIDDEN, KV_HIDDEN], pl.BF16],
    seq_lens: pl.Tensor[[BATCH_DYN], pl.INT32],
    rope_cos: pl.Tensor[[MAX_SEQ, D], pl.FP32],
    rope_sin: pl.Tensor[[MAX_SEQ, D], pl.FP32],
    k_cache: pl.InOut[pl.Tensor[[KV_DYN, D], pl.BF16]],
    v_cache: pl.InOut[pl.Tensor[[KV_DYN, D], pl.BF16]],
    wo: pl.Tensor[[HIDDEN, HIDDEN], pl.BF16],
    post_rms_weight: pl.Tensor[[1, HIDDEN], pl.FP32],
    w_gate: pl.Tensor[[HIDDEN, INTER], pl.BF16],
    w_up: pl.Tensor[[HIDDEN, INTER], pl.BF16],
    w_down: pl.Tensor[[INTER, HIDDEN], pl.BF16],
    out: pl.Out[pl.Tensor[[BATCH_DYN, HIDDEN], pl.BF16]],
):
    user_batch = pl.tensor.dim(hidden_states, 0)
    batch_padded = ((user_batch + BATCH_TILE - 1) // BATCH_TILE) * BATCH_TILE
    q_proj = pl.create_tensor([batch_padded, HIDDEN], dtype=pl.FP32)
    k_proj = pl.create_tensor([batch_padded, KV_HIDDEN], dtype=pl.FP32)
    v_proj = pl.create_tensor([batch_padded, KV_HIDDEN], dtype=pl.FP32)
    attn_out = pl.create_tensor([batch_padded, HIDDEN], dtype=pl.BF16)
    # scope 1: norm and projections
    for b0 in pl.parallel(0, batch_padded, BATCH_TILE):
        cur_valid = pl.min(BATCH_TILE, user_batch - b0)
        normed_tile = pl.create_tensor([BATCH_TILE, HIDDEN], dtype=pl.BF16)
        with pl.at(level=pl.Level.CORE_GROUP, name_hint="rmsnorm"):
            partial_sq = pl.full([1, BATCH_TILE], dtype=pl.FP32, value=0.0)
            for kb in pl.range(HIDDEN // K_CHUNK):
                k0 = kb * K_CHUNK
                x_chunk = pl.cast(pl.fillpad(pl.slice(hidden_states, [BATCH_TILE, K_CHUNK], [b0, k0], valid_shape=[cur_valid, K_CHUNK])), target_type=pl.FP32)
                partial_sq = pl.add(partial_sq, pl.reshape(pl.row_sum(pl.mul(x_chunk, x_chunk)), [1, BATCH_TILE]))
            variance = pl.reshape(pl.add(pl.mul(partial_sq, HIDDEN_INV), EPS), [BATCH_TILE, 1])
            inv_rms = pl.recip(pl.sqrt(variance))
            for kb in pl.range(HIDDEN // K_CHUNK):
                k0 = kb * K_CHUNK
                x_chunk = pl.cast(pl.fillpad(pl.slice(hidden_states, [BATCH_TILE, K_CHUNK], [b0, k0], valid_shape=[cur_valid, K_CHUNK])), target_type=pl.FP32)
                gamma = pl.slice(input_rms_weight, [1, K_CHUNK], [0, k0])
                normed = pl.col_expand_mul(pl.row_expand_mul(x_chunk, inv_rms), gamma)
                normed_tile = pl.assemble(normed_tile, pl.cast(normed, target_type=pl.BF16), [0, k0])
        for ob in pl.spmd(HIDDEN // OUT_CHUNK, name_hint="q_proj"):
            q0 = ob * OUT_CHUNK
            tile_a = pl.slice(normed_tile, [BATCH_TILE, K_CHUNK], [0, 0])
            tile_b = pl.slice(wq, [K_CHUNK, OUT_CHUNK], [0, q0])
            q_acc = pl.matmul(tile_a, tile_b, out_dtype=pl.FP32)
            for kb in pl.pipeline(1, HIDDEN // K_CHUNK, stage=2):
                k0 = kb * K_CHUNK
                tile_a_i = pl.slice(normed_tile, [BATCH_TILE, K_CHUNK], [0, k0])
                tile_b_i = pl.slice(wq, [K_CHUNK, OUT_CHUNK], [k0, q0])
                q_acc = pl.matmul_acc(q_acc, tile_a_i, tile_b_i)
            q_proj = pl.assemble(q_proj, q_acc, [b0, q0])
        with pl.at(level=pl.Level.CORE_GROUP, name_hint="kv_proj"):
            k_acc = pl.matmul(normed_tile, wk, out_dtype=pl.FP32)
            k_proj = pl.assemble(k_proj, k_acc, [b0, 0])
            v_acc = pl.matmul(normed_tile, wv, out_dtype=pl.FP32)
            v_proj = pl.assemble(v_proj, v_acc, [b0, 0])
    # scope 2: rope, cache, attention
    for b in pl.parallel(user_batch):
        ctx_len = pl.tensor.read(seq_lens, [b])
        pos = ctx_len - 1
        ctx_blocks = (ctx_len + SEQ_TILE - 1) // SEQ_TILE
        cos_row = pl.slice(rope_cos, [1, D], [pos, 0])
        sin_row = pl.slice(rope_sin, [1, D], [pos, 0])
        cos_lo = pl.slice(cos_row, [1, HALF], [0, 0])
        cos_hi = pl.slice(cos_row, [1, HALF], [0, HALF])
        sin_lo = pl.slice(sin_row, [1, HALF], [0, 0])
        sin_hi = pl.slice(sin_row, [1, HALF], [0, HALF])
        q_rot = pl.create_tensor([HEADS, D], dtype=pl.BF16)
        with pl.at(level=pl.Level.CORE_GROUP, name_hint="rope_kv_cache"):
            for ki in pl.range(KV_HEADS):
                kv_col = ki * D
                cache_row = b * KV_HEADS * MAX_SEQ + ki * MAX_SEQ + pos
                k_lo = pl.slice(k_proj, [1, HALF], [b, kv_col])
                k_hi = pl.slice(k_proj, [1, HALF], [b, kv_col + HALF])
                rot_lo = pl.sub(pl.col_expand_mul(k_lo, cos_lo), pl.col_expand_mul(k_hi, sin_lo))
                rot_hi = pl.add(pl.col_expand_mul(k_hi, cos_hi), pl.col_expand_mul(k_lo, sin_hi))
                k_cache = pl.assemble(k_cache, pl.cast(rot_lo, target_type=pl.BF16), [cache_row, 0])
                k_cache = pl.assemble(k_cache, pl.cast(rot_hi, target_type=pl.BF16), [cache_row, HALF])
                v_cache = pl.assemble(v_cache, pl.cast(pl.slice(v_proj, [1, D], [b, kv_col]), target_type=pl.BF16), [cache_row, 0])
                q_base = ki * Q_PER_KV
                q_block = pl.reshape(pl.slice(q_proj, [1, Q_PER_KV * D], [b, q_base * D]), [Q_PER_KV, D])
                q_lo = pl.slice(q_block, [Q_PER_KV, HALF], [0, 0])
                q_hi = pl.slice(q_block, [Q_PER_KV, HALF], [0, HALF])
                q_rot = pl.assemble(q_rot, pl.cast(pl.sub(pl.col_expand_mul(q_lo, cos_lo), pl.col_expand_mul(q_hi, sin_lo)), target_type=pl.BF16), [q_base, 0])
                q_rot = pl.assemble(
                    q_rot, pl.cast(pl.add(pl.col_expand_mul(q_hi, cos_hi), pl.col_expand_mul(q_lo, sin_hi)), target_type=pl.BF16), [q_base, HALF]
                )
        attn_row = pl.create_tensor([1, HIDDEN], dtype=pl.BF16)
        for ki in pl.range(KV_HEADS):
            with pl.at(level=pl.Level.CORE_GROUP, name_hint="attention"):
                q_group = pl.slice(q_rot, [Q_PER_KV, D], [ki * Q_PER_KV, 0])
                oi = pl.full([Q_PER_KV, D], dtype=pl.FP32, value=0.0)
                li = pl.full([Q_PER_KV, 1], dtype=pl.FP32, value=0.0)
                mi = pl.full([Q_PER_KV, 1], dtype=pl.FP32, value=-1e30)
                for sb in pl.range(ctx_blocks):
                    s0 = sb * SEQ_TILE
                    valid_len = pl.min(SEQ_TILE, ctx_len - s0)
                    row0 = b * KV_HEADS * MAX_SEQ + ki * MAX_SEQ + s0
                    k_tile = pl.slice(k_cache, [SEQ_TILE, D], [row0, 0])
                    v_tile = pl.slice(v_cache, [SEQ_TILE, D], [row0, 0], valid_shape=[valid_len, D])
                    scores = pl.matmul(q_group, k_tile, b_trans=True, out_dtype=pl.FP32)
                    scores_valid = pl.slice(scores, [Q_PER_KV, SEQ_TILE], [0, 0], valid_shape=[Q_PER_KV, valid_len])
                    scores_padded = pl.fillpad(scores_valid, pad_value=pl.PadValue.min)
                    scores = pl.mul(scores_padded, SCALE)
                    cur_mi = pl.row_max(scores)
                    exp_scores = pl.exp(pl.row_expand_sub(scores, cur_mi))
                    exp_bf16 = pl.cast(exp_scores, target_type=pl.BF16)
                    cur_li = pl.row_sum(pl.cast(exp_bf16, target_type=pl.FP32))
                    oi_tmp = pl.matmul(exp_bf16, pl.fillpad(v_tile), out_dtype=pl.FP32)
                    mi_new = pl.maximum(mi, cur_mi)
                    alpha = pl.exp(pl.sub(mi, mi_new))
                    beta = pl.exp(pl.sub(cur_mi, mi_new))
                    li = pl.add(pl.mul(alpha, li), pl.mul(beta, cur_li))
                    oi = pl.add(pl.row_expand_mul(oi, alpha), pl.row_expand_mul(oi_tmp, beta))
                    mi = mi_new
                ctx = pl.row_expand_div(oi, li)
                attn_row = pl.assemble(attn_row, pl.cast(pl.reshape(ctx, [1, Q_PER_KV * D]), target_type=pl.BF16), [0, ki * Q_PER_KV * D])
        attn_out = pl.assemble(attn_out, attn_row, [b, 0])
    # scope 3: output projection, mlp
    for b0 in pl.parallel(0, batch_padded, BATCH_TILE):
        cur_valid = pl.min(BATCH_TILE, user_batch - b0)
        resid = pl.create_tensor([BATCH_TILE, HIDDEN], dtype=pl.FP32)
        with pl.at(level=pl.Level.CORE_GROUP, name_hint="out_proj", optimizations=[pl.split(pl.SplitMode.UP_DOWN)]):
            o_acc = pl.matmul(pl.slice(attn_out, [BATCH_TILE, HIDDEN], [b0, 0], valid_shape=[cur_valid, HIDDEN]), wo, out_dtype=pl.FP32)
            hs = pl.cast(pl.slice(hidden_states, [BATCH_TILE, HIDDEN], [b0, 0], valid_shape=[cur_valid, HIDDEN]), target_type=pl.FP32)
            resid = pl.assemble(resid, pl.fillpad(pl.add(o_acc, hs)), [0, 0])
        post = pl.create_tensor([BATCH_TILE, HIDDEN], dtype=pl.BF16)
        with pl.at(level=pl.Level.CORE_GROUP, name_hint="post_rmsnorm"):
            sq = pl.row_sum(pl.mul(resid, resid))
            inv = pl.rsqrt(pl.add(pl.mul(sq, HIDDEN_INV), EPS))
            post = pl.assemble(post, pl.cast(pl.col_expand_mul(pl.row_expand_mul(resid, inv), post_rms_weight), target_type=pl.BF16), [0, 0])
        mlp = pl.create_tensor([BATCH_TILE, INTER], dtype=pl.BF16)
        for ob in pl.spmd(INTER // MLP_CHUNK, name_hint="gate_up"):
            o0 = ob * MLP_CHUNK
            gate = pl.matmul(post, pl.slice(w_gate, [HIDDEN, MLP_CHUNK], [0, o0]), out_dtype=pl.FP32)
            up = pl.matmul(post, pl.slice(w_up, [HIDDEN, MLP_CHUNK], [0, o0]), out_dtype=pl.FP32)
            sigmoid = pl.recip(pl.add(pl.exp(pl.neg(gate)), 1.0))
            chunk = pl.mul(pl.mul(gate, sigmoid), up)
            mlp = pl.assemble(mlp, pl.cast(chunk, target_type=pl.BF16), [0, o0])
        with pl.at(level=pl.Level.CORE_GROUP, name_hint="down"):
            down = pl.matmul(mlp, w_down, out_dtype=pl.FP32)
            final = pl.cast(pl.add(down, resid), target_type=pl.BF16)
            final_valid = pl.set_validshape(final, cur_valid, HIDDEN)
            out = pl.assemble(out, final_valid, [b0, 0])
    return out
