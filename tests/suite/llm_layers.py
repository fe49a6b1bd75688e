"""Whole layers: projections with norms and rotary embedding, feed-forward blocks, LLaMA layers with their caches, stacks of layers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

import tilejit.language as pl
from tests.suite.harness import Cases, data, f32
from tilejit.jit.function import JITFunction

CASES = Cases()
Array = np.ndarray[Any, Any]
EPS = 1e-5
TOKENS = pl.dynamic("TOKENS")


def silu(x: Array) -> Array:
    return x / (1 + np.exp(-x))


def rms(x: Array, w: Array) -> Array:
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPS) * w


def rotate(x: Array, cos: Array, sin: Array) -> Array:
    """Of [tokens, heads, d] with tables [tokens, d / 2]."""
    half = x.shape[-1] // 2
    low, high = x[..., :half], x[..., half:]
    c, s = cos[:, None], sin[:, None]
    return np.concatenate([low * c - high * s, high * c + low * s], -1)


def causal_attention(q: Array, k: Array, v: Array) -> Array:
    """Of [tokens, heads, d] and [keys, kv heads, d]; gives [tokens, heads * d]."""
    group = q.shape[1] // k.shape[1]
    qt, kt, vt = (torch.from_numpy(np.ascontiguousarray(item.transpose(1, 0, 2))) for item in (q, k, v))
    kt, vt = kt.repeat_interleave(group, 0), vt.repeat_interleave(group, 0)
    s = qt @ kt.transpose(1, 2) / math.sqrt(q.shape[2])
    ahead = torch.arange(k.shape[0])[None] - torch.arange(q.shape[0])[:, None] - (k.shape[0] - q.shape[0])
    o = torch.softmax(s.masked_fill(ahead > 0, -math.inf), -1) @ vt
    return o.permute(1, 0, 2).reshape(q.shape[0], -1).numpy()


# shared kernels -----------------------------------------------------------------------------------------------------------


@pl.jit.inline
def rms_rows(x: pl.Tensor, w: pl.Tensor):
    ms = pl.mul(pl.row_sum(pl.mul(x, x)), 1.0 / x.shape[1])
    return pl.col_expand_mul(pl.row_expand_mul(x, pl.rsqrt(pl.add(ms, EPS))), w)


@pl.jit.incore
def norm_project(x: pl.Tensor, w_norm: pl.Tensor, w: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = pl.matmul(rms_rows(x, w_norm), w)
    return out


@pl.jit.incore
def rotate_heads(x: pl.Tensor, cos: pl.Tensor, sin: pl.Tensor, d: int, out: pl.Out[pl.Tensor]):
    """Rotate each head of [tokens, heads * d] by the tables of its token."""
    half = d // 2
    for h in pl.unroll(x.shape[1] // d):
        low = x[:, h * d : h * d + half]
        high = x[:, h * d + half : h * d + d]
        out[:, h * d : h * d + half] = pl.sub(pl.mul(low, cos), pl.mul(high, sin))
        out[:, h * d + half : h * d + d] = pl.add(pl.mul(high, cos), pl.mul(low, sin))
    return out


@pl.jit.incore
def project_add(x: pl.Tensor, w: pl.Tensor, residual: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = pl.add(pl.matmul(x, w), residual)
    return out


@pl.jit.incore
def feed_forward(x: pl.Tensor, w_norm: pl.Tensor, w_gate: pl.Tensor, w_up: pl.Tensor, w_down: pl.Tensor, out: pl.Out[pl.Tensor]):
    h = rms_rows(x, w_norm)
    g = pl.matmul(h, w_gate)
    act = pl.mul(pl.mul(g, pl.sigmoid(g)), pl.matmul(h, w_up))
    out[:] = pl.add(pl.matmul(act, w_down), x)
    return out


# pieces -------------------------------------------------------------------------------------------------------------------


def qkv_rope(x: Array, w_norm: Array, wq: Array, wk: Array, wv: Array, cos: Array, sin: Array) -> tuple[Array, Array, Array]:
    h = rms(x, w_norm)
    q, k = (rotate((h @ w).reshape(len(x), -1, 8), cos, sin).reshape(len(x), -1) for w in (wq, wk))
    return q, k, h @ wv


@CASES(f32(5, 24), f32(1, 24), f32(24, 32), f32(24, 16), f32(24, 16), f32(5, 4), f32(5, 4), expected=qkv_rope, tol=1e-4)
@pl.jit
def rmsnorm_qkv_rope(
    x: pl.Tensor, w_norm: pl.Tensor, wq: pl.Tensor, wk: pl.Tensor, wv: pl.Tensor, cos: pl.Tensor, sin: pl.Tensor,
    q: pl.Out[pl.Tensor], k: pl.Out[pl.Tensor], v: pl.Out[pl.Tensor],
):  # fmt: skip
    n = x.shape[0]
    q0 = pl.create_tensor([n, wq.shape[1]], dtype=pl.FP32)
    k0 = pl.create_tensor([n, wk.shape[1]], dtype=pl.FP32)
    q0 = norm_project(x, w_norm, wq, q0)
    k0 = norm_project(x, w_norm, wk, k0)
    v = norm_project(x, w_norm, wv, v)
    q = rotate_heads(q0, cos, sin, 8, q)
    k = rotate_heads(k0, cos, sin, 8, k)
    return q, k, v


def qkv_fused(x: Array, w_norm: Array, w: Array, cos: Array, sin: Array) -> Array:
    y = (rms(x, w_norm) @ w).reshape(len(x), -1, 8)
    return np.concatenate([rotate(y[:, :6], cos, sin), y[:, 6:]], 1).reshape(len(x), -1)


@CASES(
    f32(9, 24), f32(1, 24), f32(24, 64), f32(9, 4), f32(9, 4), more=[(f32(2, 24), f32(1, 24), f32(24, 64), f32(2, 4), f32(2, 4))],
    compiles=1, expected=qkv_fused, tol=1e-4,
)  # fmt: skip
@pl.jit
def fused_qkv_on_tiles_of_any_tokens(
    x: pl.Tensor[[TOKENS, 24], pl.FP32],
    w_norm: pl.Tensor[[1, 24], pl.FP32],
    w: pl.Tensor[[24, 64], pl.FP32],
    cos: pl.Tensor[[TOKENS, 4], pl.FP32],
    sin: pl.Tensor[[TOKENS, 4], pl.FP32],
    out: pl.Out[pl.Tensor[[TOKENS, 64], pl.FP32]],
):
    n = pl.tensor.dim(x, 0)
    for b in pl.spmd((n + 3) // 4):
        row = b * 4
        t = pl.load(x, [row, 0], [4, 24], clamp=True)
        tmp = pl.create_tile([4, 24], dtype=pl.FP32)
        inv = pl.rsqrt(pl.add(pl.mul(pl.row_sum(pl.mul(t, t), tmp), 1.0 / 24), EPS))
        h = pl.col_expand_mul(pl.row_expand_mul(t, inv), pl.load(w_norm, [0, 0], [1, 24]))
        c = pl.load(cos, [row, 0], [4, 4], clamp=True)
        s = pl.load(sin, [row, 0], [4, 4], clamp=True)
        for head in pl.range(8):
            low = pl.matmul(h, pl.load(w, [0, head * 8], [24, 4]))
            high = pl.matmul(h, pl.load(w, [0, head * 8 + 4], [24, 4]))
            if head < 6:
                low, high = pl.sub(pl.mul(low, c), pl.mul(high, s)), pl.add(pl.mul(high, c), pl.mul(low, s))
            pl.store(low, [row, head * 8], out)
            pl.store(high, [row, head * 8 + 4], out)
    return out


def ffn(x: Array, gate: Array, up: Array, down: Array) -> Array:
    return (silu(x @ gate) * (x @ up)) @ down


@CASES(f32(6, 16), f32(16, 48), f32(16, 48), f32(48, 16), expected=ffn, tol=1e-3)
@pl.jit
def swiglu_ffn_of_tensors(x: pl.Tensor, gate: pl.Tensor, up: pl.Tensor, down: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        g = pl.matmul(x, gate)
        h = pl.mul(pl.mul(g, pl.sigmoid(g)), pl.matmul(x, up))
        out[:] = pl.matmul(h, down)
    return out


@CASES(f32(8, 16), f32(16, 48), f32(16, 48), f32(48, 16), expected=ffn, tol=1e-3, threads=(1, 2))
@pl.jit
def swiglu_ffn_hidden_in_blocks(x: pl.Tensor, gate: pl.Tensor, up: pl.Tensor, down: pl.Tensor, out: pl.Out[pl.Tensor]):
    """Rows on a grid, hidden units in a pipelined loop that accumulates the second product."""
    for b in pl.spmd(2):
        t = pl.load(x, [b * 4, 0], [4, 16])
        acc = pl.tile.full([4, 16], dtype=pl.FP32, value=0.0)
        for k in pl.pipeline(0, 48, 12, stage=2):
            g = pl.matmul(t, pl.load(gate, [0, k], [16, 12]))
            u = pl.matmul(t, pl.load(up, [0, k], [16, 12]))
            h = pl.mul(pl.mul(g, pl.recip(pl.add(pl.exp(pl.neg(g)), 1.0))), u)
            acc = pl.matmul_acc(acc, h, pl.load(down, [k, 0], [12, 16]))
        pl.store(acc, [b * 4, 0], out)
    return out


@CASES(
    data(np.float16, 6, 16), data(np.float16, 16, 32), data(np.float16, 16, 32), data(np.float16, 32, 16),
    expected=lambda x, g, u, d: ffn(*(item.astype(np.float32) for item in (x, g, u, d))).astype(np.float16), tol=0.25,
)  # fmt: skip
@pl.jit
def swiglu_ffn_fp16(x: pl.Tensor, gate: pl.Tensor, up: pl.Tensor, down: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [6, 16], target_memory=pl.Mem.Mat)
        g = pl.matmul(t, pl.load(gate, [0, 0], [16, 32], target_memory=pl.Mem.Mat))
        u = pl.matmul(t, pl.load(up, [0, 0], [16, 32], target_memory=pl.Mem.Mat))
        h = pl.mul(pl.mul(g, pl.recip(pl.add(pl.exp(pl.neg(g)), 1.0))), u)
        y = pl.matmul(pl.cast(h, pl.FP16), pl.load(down, [0, 0], [32, 16]))
        pl.store(pl.cast(y, pl.FP16), [0, 0], out)
    return out


@CASES(
    f32(5, 12), f32(12, 20), f32(1, 20), f32(20, 12), f32(1, 12),
    expected=lambda x, a, ab, b, bb: torch.nn.functional.gelu(torch.from_numpy(x @ a + ab)).numpy() @ b + bb, tol=1e-3,
)  # fmt: skip
@pl.jit
def gelu_mlp_with_biases(x: pl.Tensor, w1: pl.Tensor, b1: pl.Tensor, w2: pl.Tensor, b2: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        h = pl.tile.matmul_bias(pl.load(x, [0, 0], [5, 12]), pl.load(w1, [0, 0], [12, 20]), pl.load(b1, [0, 0], [1, 20]))
        act = pl.mul(pl.mul(h, 0.5), pl.add(pl.erf(pl.mul(h, 1 / math.sqrt(2))), 1.0))
        pl.store(pl.tile.matmul_bias(act, pl.load(w2, [0, 0], [20, 12]), pl.load(b2, [0, 0], [1, 12])), [0, 0], out)
    return out


# a LLaMA layer --------------------------------------------------------------------------------------------------------------


def layer_weights(hidden: int, heads: int, kv_heads: int, d: int, inner: int) -> list[Any]:
    small = {"low": -0.4, "high": 0.4}
    return [
        f32(1, hidden), f32(hidden, heads * d, **small), f32(hidden, kv_heads * d, **small), f32(hidden, kv_heads * d, **small),
        f32(heads * d, hidden, **small), f32(1, hidden), f32(hidden, inner, **small), f32(hidden, inner, **small), f32(inner, hidden, **small),
    ]  # fmt: skip


def llama(d: int, past: int = 0) -> Any:
    """The formula of a layer with caches: hidden states and the filled caches."""

    def formula(
        x: Array, cos: Array, sin: Array, n1: Array, wq: Array, wk: Array, wv: Array, wo: Array, n2: Array, wg: Array, wu: Array, wd: Array, *caches: Array
    ) -> Any:
        tokens = len(x)
        h = rms(x, n1)
        q = rotate((h @ wq).reshape(tokens, -1, d), cos, sin)
        k = rotate((h @ wk).reshape(tokens, -1, d), cos, sin)
        v = (h @ wv).reshape(tokens, -1, d)
        if caches:
            keys, values = (cache.copy() for cache in caches)
            keys[past : past + tokens] = k.reshape(tokens, -1)
            values[past : past + tokens] = v.reshape(tokens, -1)
            k, v = (cache[: past + tokens].reshape(past + tokens, -1, d) for cache in (keys, values))
        y = causal_attention(q, k, v) @ wo + x
        out = (ffn(rms(y, n2), wg, wu, wd) + y).astype(np.float32)
        return (keys, values, out) if caches else out

    return formula


@pl.jit.incore
def attend(q: pl.Tensor, keys: pl.Tensor, values: pl.Tensor, length: pl.INDEX, past: pl.INDEX, d: int, out: pl.Out[pl.Tensor]):
    """Causal attention of [tokens, heads * d] over the first `length` rows of the caches, a token and a head at a time."""
    tokens, width = q.shape
    heads, kv_heads, capacity = width // d, keys.shape[1] // d, keys.shape[0]
    tmp = pl.create_tile([1, capacity], dtype=pl.FP32)
    for t in pl.range(tokens):
        for h in pl.unroll(heads):
            kv = h * kv_heads // heads
            seen = pl.min(past + t + 1, length)
            tq = pl.mul(pl.load(q, [t, h * d], [1, d]), 1.0 / math.sqrt(d))
            tk = pl.load(keys, [0, kv * d], [capacity, d], valid_shape=[seen, d])
            tv = pl.load(values, [0, kv * d], [capacity, d], valid_shape=[seen, d])
            s = pl.matmul(tq, pl.transpose(tk, 0, 1))
            p = pl.row_expand_expdif(s, pl.row_max(s, tmp))
            o = pl.row_expand_div(pl.matmul(p, tv), pl.row_sum(p, tmp))
            pl.store(o, [t, h * d], out)
    return out


def llama_prefill(d: int) -> JITFunction:
    """Attention over the keys of the same call."""

    @pl.jit
    def layer(
        x: pl.Tensor, cos: pl.Tensor, sin: pl.Tensor, n1: pl.Tensor, wq: pl.Tensor, wk: pl.Tensor, wv: pl.Tensor, wo: pl.Tensor,
        n2: pl.Tensor, wg: pl.Tensor, wu: pl.Tensor, wd: pl.Tensor, out: pl.Out[pl.Tensor],
    ):  # fmt: skip
        tokens, hidden = x.shape
        q0 = pl.create_tensor([tokens, wq.shape[1]], dtype=pl.FP32)
        k0 = pl.create_tensor([tokens, wk.shape[1]], dtype=pl.FP32)
        q = pl.create_tensor([tokens, wq.shape[1]], dtype=pl.FP32)
        k = pl.create_tensor([tokens, wk.shape[1]], dtype=pl.FP32)
        v = pl.create_tensor([tokens, wv.shape[1]], dtype=pl.FP32)
        att = pl.create_tensor([tokens, wq.shape[1]], dtype=pl.FP32)
        mid = pl.create_tensor([tokens, hidden], dtype=pl.FP32)
        q0 = norm_project(x, n1, wq, q0)
        k0 = norm_project(x, n1, wk, k0)
        v = norm_project(x, n1, wv, v)
        q = rotate_heads(q0, cos, sin, d, q)
        k = rotate_heads(k0, cos, sin, d, k)
        att = attend(q, k, v, tokens, 0, d, att)
        mid = project_add(att, wo, x, mid)
        out = feed_forward(mid, n2, wg, wu, wd, out)
        return out

    return layer


for _hidden, _heads, _kv, _d, _tokens in ((16, 2, 2, 8, 7), (24, 4, 2, 6, 5), (16, 4, 1, 4, 9)):
    CASES(
        f32(_tokens, _hidden), f32(_tokens, _d // 2), f32(_tokens, _d // 2), *layer_weights(_hidden, _heads, _kv, _d, 2 * _hidden),
        expected=llama(_d), tol=2e-3, name=f"llama_prefill_{_heads}_heads_{_kv}_kv",
    )(llama_prefill(_d))  # fmt: skip


def llama_cached(d: int, past: int) -> JITFunction:
    """New keys and values go into the caches at `past`, attention reads the caches: prefill continued, or one decoding step."""

    @pl.jit
    def layer(
        x: pl.Tensor, cos: pl.Tensor, sin: pl.Tensor, n1: pl.Tensor, wq: pl.Tensor, wk: pl.Tensor, wv: pl.Tensor, wo: pl.Tensor,
        n2: pl.Tensor, wg: pl.Tensor, wu: pl.Tensor, wd: pl.Tensor, keys: pl.InOut[pl.Tensor], values: pl.InOut[pl.Tensor], out: pl.Out[pl.Tensor],
    ):  # fmt: skip
        tokens, hidden = x.shape
        q0 = pl.create_tensor([tokens, wq.shape[1]], dtype=pl.FP32)
        k0 = pl.create_tensor([tokens, wk.shape[1]], dtype=pl.FP32)
        k1 = pl.create_tensor([tokens, wk.shape[1]], dtype=pl.FP32)
        v0 = pl.create_tensor([tokens, wv.shape[1]], dtype=pl.FP32)
        q = pl.create_tensor([tokens, wq.shape[1]], dtype=pl.FP32)
        att = pl.create_tensor([tokens, wq.shape[1]], dtype=pl.FP32)
        mid = pl.create_tensor([tokens, hidden], dtype=pl.FP32)
        q0 = norm_project(x, n1, wq, q0)
        k0 = norm_project(x, n1, wk, k0)
        v0 = norm_project(x, n1, wv, v0)
        q = rotate_heads(q0, cos, sin, d, q)
        k1 = rotate_heads(k0, cos, sin, d, k1)
        with pl.at(level=pl.Level.CORE_GROUP, name_hint="cache"):
            keys = pl.assemble(keys, k1, [past, 0])
            values[past : past + tokens, :] = v0
        att = attend(q, keys, values, past + tokens, past, d, att)
        mid = project_add(att, wo, x, mid)
        out = feed_forward(mid, n2, wg, wu, wd, out)
        return out

    return layer


for _tokens, _past in ((6, 0), (4, 6), (1, 10)):
    CASES(
        f32(_tokens, 16), f32(_tokens, 4), f32(_tokens, 4), *layer_weights(16, 4, 2, 8, 40), f32(12, 16), f32(12, 16),
        expected=llama(8, _past), tol=2e-3, name=f"llama_{_tokens}_tokens_after_{_past}",
    )(llama_cached(8, _past))  # fmt: skip


# stacks ---------------------------------------------------------------------------------------------------------------------


def stack(x: Array, w: Array, b: Array) -> Array:
    for i in range(len(w)):
        x = x + np.tanh(x @ w[i] + b[i])
    return x


@pl.jit.incore
def residual_layer(x: pl.Tensor, w: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = pl.add(x, pl.tanh(pl.col_expand_add(pl.matmul(x, w), b)))
    return out


@CASES(f32(6, 8), f32(5, 8, 8), f32(5, 1, 8), expected=stack, tol=1e-4)
@pl.jit
def stack_swaps_buffers(x: pl.Tensor, w: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    cur = pl.create_tensor([6, 8], dtype=pl.FP32)
    nxt = pl.create_tensor([6, 8], dtype=pl.FP32)
    with pl.at(level=pl.Level.CORE_GROUP):
        cur[:] = x
    for i in pl.range(5):
        nxt = residual_layer(cur, w[i], b[i], nxt)
        cur, nxt = nxt, cur
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = cur
    return out


@CASES(f32(6, 8), f32(4, 8, 8), f32(4, 1, 8), more=[(f32(2, 8), f32(4, 8, 8), f32(4, 1, 8))], compiles=1, expected=stack, tol=1e-4)
@pl.jit
def stack_of_any_tokens(x: pl.Tensor[[TOKENS, 8], pl.FP32], w: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor[[TOKENS, 8], pl.FP32]]):
    tokens = pl.tensor.dim(x, 0)
    cur = pl.create_tensor([tokens, 8], dtype=pl.FP32)
    nxt = pl.create_tensor([tokens, 8], dtype=pl.FP32)
    with pl.at(level=pl.Level.CORE_GROUP):
        cur[:] = x
    for i in pl.range(4):
        cur, nxt = residual_layer(cur, w[i], b[i], nxt), cur
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = cur
    return out


@CASES(f32(6, 8), f32(3, 8, 8), f32(3, 1, 8), expected=stack, tol=1e-4)
@pl.jit
def stack_unrolled_with_tasks(x: pl.Tensor, w: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    y1, t1 = pl.submit(residual_layer, x, w[0], b[0])
    y2, t2 = pl.submit(residual_layer, y1, w[1], b[1], deps=[t1])
    out, _ = pl.submit(residual_layer, y2, w[2], b[2], out, deps=[t2])
    return out


@CASES(f32(4, 8), f32(3, 8, 8), f32(3, 1, 8), np.array([2], np.int32), expected=lambda x, w, b, n: stack(x, w[: n[0]], b[: n[0]]), tol=1e-4)
@pl.jit
def stack_with_early_exit(x: pl.Tensor, w: pl.Tensor, b: pl.Tensor, depth: pl.Tensor, out: pl.Out[pl.Tensor]):
    """The number of layers is read from memory; buffers are swapped under a branch and after a break."""
    cur = pl.create_tensor([4, 8], dtype=pl.FP32)
    nxt = pl.create_tensor([4, 8], dtype=pl.FP32)
    with pl.at(level=pl.Level.CORE_GROUP):
        cur[:] = x
    n = pl.cast(pl.read(depth, [0]), pl.INDEX)
    for i in pl.range(3):
        if i >= n:
            break
        nxt = residual_layer(cur, w[i], b[i], nxt)
        cur, nxt = nxt, cur
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.store(pl.load(cur, [0, 0], [4, 8]), [0, 0], out)
    return out
