"""The ends of a language model: embeddings, caches of keys and values, and the choice of the next token."""

from __future__ import annotations

import math

import numpy as np

import tilejit.language as pl
from tests.suite.harness import Cases, f16, f32, i32
from tests.suite.llm_moe_quant import TOKENS, Array, softmax

CASES = Cases()


@CASES(i32(1, 9, low=0, high=20), f32(20, 14), expected=lambda ids, table: table[ids[0]])
@pl.jit
def embedding_by_mgather(ids: pl.Tensor, table: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.store(pl.mgather(table, pl.load(ids, [0, 0], [1, 9])), [0, 0], out)
    return out


@CASES(
    i32(6, low=0, high=20),
    f32(20, 14),
    f32(6, 14),
    more=[(i32(2, low=0, high=20), f32(20, 14), f32(2, 14))],
    compiles=1,
    expected=lambda ids, t, p: t[ids] * 2 + p,
    tol=1e-6,
)
@pl.jit
def embedding_of_any_tokens(
    ids: pl.Tensor[[TOKENS], pl.INT32], table: pl.Tensor, positions: pl.Tensor[[TOKENS, 14], pl.FP32], out: pl.Out[pl.Tensor[[TOKENS, 14], pl.FP32]]
):
    for i in pl.spmd(pl.tensor.dim(ids, 0)):
        token = pl.cast(pl.read(ids, [i]), pl.INDEX)
        t = pl.add(pl.mul(pl.load(table, [token, 0], [1, 14]), 2.0), pl.load(positions, [i, 0], [1, 14]))
        pl.store(t, [i, 0], out)
    return out


def updated(cache: Array, rows: Array, new: Array) -> Array:
    out = cache.copy()
    out[rows.ravel()] = new
    return out


@CASES(f32(16, 10), np.array([[3, 9], [0, 15]], np.int32), f32(4, 10), expected=updated)
@pl.jit
def cache_rows_replaced(cache: pl.InOut[pl.Tensor], rows: pl.Tensor, new: pl.Tensor):
    with pl.at(level=pl.Level.CORE_GROUP):
        cache = pl.scatter_update(cache, -2, rows, new)
    return cache


def paged_update(cache: Array, slots: Array, new: Array) -> Array:
    out = cache.copy()
    out.reshape(-1, cache.shape[-1])[slots.ravel()] = new.reshape(-1, cache.shape[-1])
    return out


@CASES(f32(4, 8, 1, 6), np.array([[17, 2, 31]], np.int32), f32(1, 3, 1, 6), expected=paged_update)
@pl.jit
def paged_cache_updated(cache: pl.InOut[pl.Tensor], slots: pl.Tensor, new: pl.Tensor):
    with pl.at(level=pl.Level.CORE_GROUP):
        cache = pl.scatter_update(cache, slots, new, dim=-2)
    return cache


@CASES(
    f32(3, 8),
    np.array([5, 0, 2], np.int32),
    f32(3, 4, 6, 8),
    expected=lambda new, at, cache: np.stack([updated_page(c, a, n) for c, a, n in zip(cache, at, new, strict=True)]),
)
@pl.jit
def cache_written_at_positions(new: pl.Tensor, positions: pl.Tensor, cache: pl.InOut[pl.Tensor]):
    """One new key per request, into its page and place."""
    for r in pl.spmd(3):
        p = pl.cast(pl.read(positions, [r]), pl.INDEX)
        t = pl.reshape(pl.load(new, [r, 0], [1, 8]), [1, 1, 1, 8])
        pl.store(t, [r, p // 6, p % 6, 0], cache)
    return cache


def updated_page(cache: Array, at: int, new: Array) -> Array:
    out = cache.copy()
    out[at // 6, at % 6] = new
    return out


# sampling -----------------------------------------------------------------------------------------------------------------


@CASES(f32(7, 50), expected=lambda x: x.argmax(1).astype(np.int32)[:, None])
@pl.jit
def greedy(logits: pl.Tensor, token: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        token[:] = pl.row_argmax(logits)
    return token


@CASES(f32(3, 96), expected=lambda x: x.argmax(1).astype(np.int32)[:, None])
@pl.jit
def greedy_over_vocabulary_chunks(logits: pl.Tensor, token: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        tmp = pl.create_tile([1, 32], dtype=pl.FP32)
        for r in pl.range(3):
            best = -1e30
            place = pl.const(0, pl.INT32)
            for j in pl.range(3):
                t = pl.load(logits, [r, j * 32], [1, 32])
                top = pl.read(pl.row_max(t, tmp), [0, 0])
                if top > best:
                    best = top
                    place = pl.read(pl.row_argmax(t, tmp), [0, 0]) + pl.cast(j * 32, pl.INT32)
            pl.write(token, [r, 0], place)
    return token


def inverse_cdf(logits: Array, u: Array) -> Array:
    return (np.cumsum(softmax(logits), 1) < u).sum(1, keepdims=True).astype(np.int32)


@CASES(f32(6, 12), f32(6, 1, low=0.05, high=0.95), expected=inverse_cdf)
@pl.jit
def sampled_by_inverse_cdf(logits: pl.Tensor, u: pl.Tensor, token: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        e = pl.row_expand_expdif(logits, pl.row_max(logits))
        p = pl.row_expand_div(e, pl.row_sum(e))
        for r in pl.range(6):
            total = 0.0
            n = pl.const(0, pl.INT32)
            for j in pl.range(12):
                total = total + pl.read(p, [r, j])
                if total >= pl.read(u, [r, 0]):
                    break
                n = n + 1
            pl.write(token, [r, 0], n)
    return token


def speculative(draft: Array, target: Array, tokens: Array, u: Array) -> Array:
    n = 0
    for i, t in enumerate(tokens):
        if u[i] * draft[i, t] > target[i, t]:
            break
        n += 1
    return np.array([n], np.int32)


@CASES(
    f32(5, 9, low=0.1, high=1.0), f32(5, 9, low=0.1, high=1.0), i32(5, low=0, high=9), f32(5, low=0.0, high=1.0),
    more=[(f32(5, 9, low=0.1, high=0.2), f32(5, 9, low=0.5, high=1.0), i32(5, low=0, high=9), f32(5, low=0.0, high=1.0))],
    expected=speculative,
)  # fmt: skip
@pl.jit
def speculative_acceptance(draft: pl.Tensor, target: pl.Tensor, tokens: pl.Tensor, u: pl.Tensor, accepted: pl.Out[pl.Tensor]):
    """Drafted tokens are kept up to the first that the target model rejects."""
    with pl.at(level=pl.Level.CORE_GROUP):
        n = pl.const(0, pl.INT32)
        going = True
        i = 0
        while going and i < 5:
            t = pl.cast(pl.read(tokens, [pl.min(i, 4)]), pl.INDEX)
            if pl.read(u, [i]) * pl.read(draft, [i, t]) > pl.read(target, [i, t]):
                going = False
            else:
                n = n + 1
                i = i + 1
        pl.write(accepted, [0], n)
    return accepted


def nucleus(logits: Array, p: float = 0.6) -> Array:
    out = np.full_like(logits, -np.inf)
    for row, new in zip(logits, out, strict=True):
        order = np.argsort(-row, kind="stable")
        mass = np.cumsum(softmax(row[order]))
        keep = order[: int((mass < p).sum()) + 1]
        new[keep] = row[keep]
    return out


@CASES(f32(3, 32), expected=nucleus)
@pl.jit
def nucleus_filter(logits: pl.Tensor, out: pl.Out[pl.Tensor]):
    """Sorted descending, probabilities summed until they reach 0.6, the rest set to minus infinity."""
    with pl.at(level=pl.Level.CORE_GROUP):
        tmp = pl.create_tile([1, 32], dtype=pl.FP32)
        for r in pl.range(3):
            t = pl.load(logits, [r, 0], [1, 32])
            order = pl.tile.reinterpret_view(pl.tile.arange(0, [1, 32], dtype=pl.INT32), pl.UINT32)
            pairs = pl.sort32(t, order)
            best = pl.tile.gather_mask(pairs, pl.tile.MaskPattern.P0101)
            e = pl.row_expand_expdif(best, pl.row_max(best, tmp))
            p = pl.row_expand_div(e, pl.row_sum(e, tmp))
            mass = 0.0
            limit = pl.read(best, [0, 31])
            for j in pl.range(32):
                mass = mass + pl.read(p, [0, j])
                if mass >= 0.6:
                    limit = pl.read(best, [0, j])
                    break
            keep = pl.tile.cmps(t, limit, cmp_type=5)
            pl.store(pl.tile.sels(keep, t, tmp, -math.inf), [r, 0], out)
    return out


@CASES(f16(4, 24), f16(24, 40), expected=lambda h, w: (h.astype(np.float32) @ w.astype(np.float32)).argmax(1).astype(np.int32)[:, None])
@pl.jit
def logits_and_argmax_fused(h: pl.Tensor, w: pl.Tensor, token: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        token[:] = pl.row_argmax(pl.matmul(h, w, out_dtype=pl.FP32))
    return token
