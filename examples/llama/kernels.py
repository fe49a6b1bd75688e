"""The kernels: any number of tokens, requests and pages is one compiled kernel; the other sizes are constants of it."""

from __future__ import annotations

import math

import tilejit.language as pl

TOKENS, REQUESTS, PAGES, POOL, BLOCKS = (pl.dynamic(name) for name in ("TOKENS", "REQUESTS", "PAGES", "POOL", "BLOCKS"))
QUERIES = 64
"""Tokens in a block of a prompt."""
NEVER = -1e30


@pl.jit
def embed(tokens: pl.Tensor, table: pl.Tensor, out: pl.Out[pl.Tensor]):
    tokens.bind_dynamic(0, TOKENS)
    out.bind_dynamic(0, TOKENS)
    for t in pl.parallel(tokens.shape[0]):
        with pl.at(level=pl.Level.CORE_GROUP):
            row = pl.load(table, [pl.cast(pl.read(tokens, [t]), pl.INDEX), 0], [1, table.shape[1]])
            pl.store(pl.cast(row, pl.FP32), [t, 0], out)
    return out


@pl.jit.inline
def normalised(x: pl.Tensor, weight: pl.Tensor, eps: pl.FP32):
    """RMSNorm of every row."""
    inverse = pl.rsqrt(pl.row_sum(x * x) * (1.0 / x.shape[1]) + eps)
    return pl.col_expand_mul(pl.row_expand_mul(x, inverse), weight)


@pl.jit.inline
def scaled(whole: pl.Tensor, scale: pl.Tensor):
    """Quantised rows times the scales of their groups."""
    rows, columns = whole.shape
    groups = scale.shape[1]
    parts = pl.row_expand_mul(pl.reshape(whole, [rows * groups, columns // groups]), pl.reshape(scale, [rows * groups, 1]))
    return pl.reshape(parts, [rows, columns])


@pl.jit.inline
def product(x: pl.Tensor, weight: pl.Tensor, scale: pl.Tensor, out: pl.Tensor):
    """x · weightᵀ in FP32; quantised weights are restored some rows at a time, which stay in the cache."""
    n, stored = weight.shape
    if weight.dtype == pl.BF16:
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.matmul(x, weight, b_trans=True, out_dtype=pl.FP32)
    else:
        rows = math.gcd(n, 64)
        wide = pl.create_tensor([x.shape[0], x.shape[1]], dtype=pl.FP32)
        with pl.at(level=pl.Level.CORE_GROUP):
            wide[:] = pl.cast(x, pl.FP32)
        for block in pl.spmd(n // rows):
            r = block * rows
            part = weight[r : r + rows, :]
            if weight.dtype == pl.INT8:
                y = pl.matmul(wide, pl.cast(part, pl.FP32), b_trans=True)
                out[:, r : r + rows] = pl.col_expand_mul(y, pl.reshape(scale[r : r + rows, :], [1, rows]))
            else:
                half = scale.shape[1] // 2
                low = scaled(pl.cast(pl.ands(part, 15), pl.FP32) - 8.0, scale[r : r + rows, 0:half])
                high = scaled(pl.cast(pl.shrs(part, 4), pl.FP32) - 8.0, scale[r : r + rows, half : 2 * half])
                y = pl.matmul(wide[:, 0:stored], low, b_trans=True)
                out[:, r : r + rows] = y + pl.matmul(wide[:, stored : 2 * stored], high, b_trans=True)
    return out


@pl.jit.inline
def turned(x: pl.Tile, cos: pl.Tile, sin: pl.Tile, norm: pl.Tensor, norms: bool, eps: pl.FP32):
    """Heads [h, d] after their norm, if they have one, as the two halves of the rotated vector."""
    h, d = x.shape[0], x.shape[1]
    if norms:
        inverse = pl.rsqrt(pl.row_sum(pl.mul(x, x), pl.create_tile([h, d], dtype=pl.FP32)) * (1.0 / d) + eps)
        x = pl.col_expand_mul(pl.row_expand_mul(x, inverse), pl.load(norm, [0, 0], [1, d]))
    low = pl.tile.slice(x, [h, d // 2], [0, 0])
    high = pl.tile.slice(x, [h, d // 2], [0, d // 2])
    first = pl.sub(pl.col_expand_mul(low, cos), pl.col_expand_mul(high, sin))
    second = pl.add(pl.col_expand_mul(high, cos), pl.col_expand_mul(low, sin))
    return pl.cast(first, pl.BF16), pl.cast(second, pl.BF16)


@pl.jit
def project(
    x: pl.Tensor, norm: pl.Tensor, weight: pl.Tensor, scale: pl.Tensor, bias: pl.Tensor, q_norm: pl.Tensor, k_norm: pl.Tensor,
    cos: pl.Tensor, sin: pl.Tensor, positions: pl.Tensor, slots: pl.Tensor,
    keys: pl.InOut[pl.Tensor], values: pl.InOut[pl.Tensor], norms: bool, eps: float, q: pl.Out[pl.Tensor],
):  # fmt: skip
    """Norm, queries, keys and values, rotary embedding; keys and values go to their slots in the pages [pool, kv heads, page, d]."""
    x.bind_dynamic(0, TOKENS)
    positions.bind_dynamic(0, TOKENS)
    slots.bind_dynamic(0, TOKENS)
    q.bind_dynamic(0, TOKENS)
    keys.bind_dynamic(0, POOL)
    values.bind_dynamic(0, POOL)
    kv_heads, page, d = keys.shape[1], keys.shape[2], keys.shape[3]
    heads = q.shape[1]
    y = pl.create_tensor([x.shape[0], x.shape[1]], dtype=pl.BF16)
    with pl.at(level=pl.Level.CORE_GROUP):
        y[:] = pl.cast(normalised(x, norm, eps), pl.BF16)
    qkv = pl.create_tensor([x.shape[0], weight.shape[0]], dtype=pl.FP32)
    qkv = product(y, weight, scale, qkv)
    for t in pl.parallel(x.shape[0]):
        with pl.at(level=pl.Level.CORE_GROUP):
            position = pl.cast(pl.read(positions, [t]), pl.INDEX)
            slot = pl.cast(pl.read(slots, [t]), pl.INDEX)
            row = pl.add(pl.load(qkv, [t, 0], [1, weight.shape[0]]), pl.load(bias, [0, 0], [1, weight.shape[0]]))
            tc = pl.load(cos, [position, 0], [1, d // 2])
            ts = pl.load(sin, [position, 0], [1, d // 2])
            queries = pl.reshape(pl.tile.slice(row, [1, heads * d], [0, 0]), [heads, d])
            first, second = turned(queries, tc, ts, q_norm, norms, eps)
            pl.store(pl.reshape(first, [1, heads, d // 2]), [t, 0, 0], q)
            pl.store(pl.reshape(second, [1, heads, d // 2]), [t, 0, d // 2], q)
            fresh = pl.reshape(pl.tile.slice(row, [1, kv_heads * d], [0, heads * d]), [kv_heads, d])
            first, second = turned(fresh, tc, ts, k_norm, norms, eps)
            pl.store(pl.reshape(first, [1, kv_heads, 1, d // 2]), [slot // page, 0, slot % page, 0], keys)
            pl.store(pl.reshape(second, [1, kv_heads, 1, d // 2]), [slot // page, 0, slot % page, d // 2], keys)
            fresh = pl.cast(pl.tile.slice(row, [1, kv_heads * d], [0, (heads + kv_heads) * d]), pl.BF16)
            pl.store(pl.reshape(fresh, [1, kv_heads, 1, d]), [slot // page, 0, slot % page, 0], values)
    return q


@pl.jit.inline
def attended(s: pl.Tile, tv: pl.Tile, m: pl.Tile, l: pl.Tile, o: pl.Tile):
    """One more block of scores and values in a running softmax: the largest score, the sum and the output so far."""
    tmp = pl.create_tile(s.shape, dtype=pl.FP32)
    top = pl.maximum(m, pl.row_max(s, tmp))
    p = pl.row_expand_expdif(s, top)
    fade = pl.exp(pl.sub(m, top))
    total = pl.add(pl.mul(l, fade), pl.row_sum(p, tmp))
    return top, total, pl.add(pl.row_expand_mul(o, fade), pl.matmul(pl.cast(p, pl.BF16), tv))


@pl.jit
def attend_one(q: pl.Tensor, keys: pl.Tensor, values: pl.Tensor, table: pl.Tensor, lengths: pl.Tensor, out: pl.Out[pl.Tensor]):
    """Attention of one new token per request: the query heads that share a key head make one matrix; every key up to the token is seen."""
    q.bind_dynamic(0, REQUESTS)
    table.bind_dynamic(0, REQUESTS)
    lengths.bind_dynamic(0, REQUESTS)
    out.bind_dynamic(0, REQUESTS)
    table.bind_dynamic(1, PAGES)
    keys.bind_dynamic(0, POOL)
    values.bind_dynamic(0, POOL)
    kv_heads, page, d = keys.shape[1], keys.shape[2], keys.shape[3]
    group = q.shape[1] // kv_heads
    for block in pl.spmd(q.shape[0] * kv_heads):
        r = block // kv_heads
        kv = block % kv_heads
        n = pl.cast(pl.read(lengths, [r]), pl.INDEX)
        tq = pl.reshape(pl.load(q, [r, kv * group, 0], [1, group, d]), [group, d])
        m = pl.tile.full([group, 1], dtype=pl.FP32, value=NEVER)
        l = pl.tile.full([group, 1], dtype=pl.FP32, value=0.0)
        o = pl.tile.full([group, d], dtype=pl.FP32, value=0.0)
        for j in pl.range((n + page - 1) // page):
            place = pl.cast(pl.read(table, [r, j]), pl.INDEX)
            filled = pl.min(n - j * page, page)
            tk = pl.reshape(pl.load(keys, [place, kv, 0, 0], [1, 1, page, d], valid_shape=[1, 1, filled, d]), [page, d])
            tv = pl.reshape(pl.load(values, [place, kv, 0, 0], [1, 1, page, d], valid_shape=[1, 1, filled, d]), [page, d])
            s = pl.mul(pl.matmul(tq, pl.transpose(tk, 0, 1)), 1.0 / math.sqrt(d))
            m, l, o = attended(s, tv, m, l, o)
        y = pl.cast(pl.row_expand_div(o, l), pl.BF16)
        pl.store(pl.reshape(y, [1, group * d]), [r, kv * group * d], out)
    return out


@pl.jit
def attend_many(
    q: pl.Tensor, keys: pl.Tensor, values: pl.Tensor, table: pl.Tensor, lengths: pl.Tensor, starts: pl.Tensor, blocks: pl.Tensor, out: pl.Out[pl.Tensor]
):
    """Attention of prompts: block b is QUERIES tokens of request blocks[b, 0] from blocks[b, 1] on; a token sees the keys up to itself."""
    q.bind_dynamic(0, TOKENS)
    out.bind_dynamic(0, TOKENS)
    table.bind_dynamic(0, REQUESTS)
    lengths.bind_dynamic(0, REQUESTS)
    starts.bind_dynamic(0, REQUESTS)
    blocks.bind_dynamic(0, BLOCKS)
    table.bind_dynamic(1, PAGES)
    keys.bind_dynamic(0, POOL)
    values.bind_dynamic(0, POOL)
    kv_heads, page, d = keys.shape[1], keys.shape[2], keys.shape[3]
    heads = q.shape[1]
    for grid in pl.spmd(blocks.shape[0] * heads):
        b = grid // heads
        h = grid % heads
        r = pl.cast(pl.read(blocks, [b, 0]), pl.INDEX)
        first = pl.cast(pl.read(blocks, [b, 1]), pl.INDEX)
        start = pl.cast(pl.read(starts, [r, 0]), pl.INDEX)
        fresh = pl.cast(pl.read(starts, [r, 1]), pl.INDEX)
        position = pl.cast(pl.read(lengths, [r]), pl.INDEX) - fresh + first
        here = pl.min(fresh - first, QUERIES)
        tq = pl.fillpad(pl.reshape(pl.load(q, [start + first, h, 0], [QUERIES, 1, d], valid_shape=[here, 1, d]), [QUERIES, d]))
        m = pl.tile.full([QUERIES, 1], dtype=pl.FP32, value=NEVER)
        l = pl.tile.full([QUERIES, 1], dtype=pl.FP32, value=0.0)
        o = pl.tile.full([QUERIES, d], dtype=pl.FP32, value=0.0)
        tmp = pl.create_tile([QUERIES, page], dtype=pl.FP32)
        for j in pl.range((position + here + page - 1) // page):
            place = pl.cast(pl.read(table, [r, j]), pl.INDEX)
            tk = pl.reshape(pl.load(keys, [place, h // (heads // kv_heads), 0, 0], [1, 1, page, d]), [page, d])
            tv = pl.reshape(pl.load(values, [place, h // (heads // kv_heads), 0, 0], [1, 1, page, d]), [page, d])
            s = pl.mul(pl.matmul(tq, pl.transpose(tk, 0, 1)), 1.0 / math.sqrt(d))
            seen = pl.tile.cmps(pl.tri(position - j * page, [QUERIES, page], dtype=pl.INT32), 1, cmp_type=0)
            m, l, o = attended(pl.tile.sels(seen, s, tmp, NEVER), tv, m, l, o)
        y = pl.set_validshape(pl.cast(pl.row_expand_div(o, l), pl.BF16), here, d)
        pl.store(y, [start + first, h * d], out)
    return out


@pl.jit
def finish(
    x: pl.Tensor, seen: pl.Tensor, w_out: pl.Tensor, s_out: pl.Tensor, norm: pl.Tensor, w_in: pl.Tensor, s_in: pl.Tensor, w_down: pl.Tensor, s_down: pl.Tensor,
    eps: float, out: pl.Out[pl.Tensor],
):  # fmt: skip
    """What follows attention: its output projection, then norm, gate and up together, SwiGLU, down; both are added to what came in."""
    x.bind_dynamic(0, TOKENS)
    seen.bind_dynamic(0, TOKENS)
    out.bind_dynamic(0, TOKENS)
    tokens, hidden = x.shape
    inner = w_in.shape[0] // 2
    back = pl.create_tensor([tokens, hidden], dtype=pl.FP32)
    back = product(seen, w_out, s_out, back)
    middle = pl.create_tensor([tokens, hidden], dtype=pl.FP32)
    y = pl.create_tensor([tokens, hidden], dtype=pl.BF16)
    with pl.at(level=pl.Level.CORE_GROUP):
        middle[:] = x + back
        y[:] = pl.cast(normalised(middle, norm, eps), pl.BF16)
    both = pl.create_tensor([tokens, 2 * inner], dtype=pl.FP32)
    both = product(y, w_in, s_in, both)
    act = pl.create_tensor([tokens, inner], dtype=pl.BF16)
    with pl.at(level=pl.Level.CORE_GROUP):
        gate = both[:, 0:inner]
        act[:] = pl.cast(gate / (pl.exp(pl.neg(gate)) + 1.0) * both[:, inner : 2 * inner], pl.BF16)
    down = pl.create_tensor([tokens, hidden], dtype=pl.FP32)
    down = product(act, w_down, s_down, down)
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = middle + down
    return out


@pl.jit
def head(x: pl.Tensor, last: pl.Tensor, norm: pl.Tensor, weight: pl.Tensor, scale: pl.Tensor, eps: float, out: pl.Out[pl.Tensor]):
    """Logits of the last token of each request."""
    x.bind_dynamic(0, TOKENS)
    last.bind_dynamic(0, REQUESTS)
    out.bind_dynamic(0, REQUESTS)
    ends = pl.create_tensor([last.shape[0], x.shape[1]], dtype=pl.FP32)
    for r in pl.parallel(last.shape[0]):
        with pl.at(level=pl.Level.CORE_GROUP):
            row = pl.cast(pl.read(last, [r]), pl.INDEX)
            pl.store(pl.load(x, [row, 0], [1, x.shape[1]]), [r, 0], ends)
    y = pl.create_tensor([last.shape[0], x.shape[1]], dtype=pl.BF16)
    with pl.at(level=pl.Level.CORE_GROUP):
        y[:] = pl.cast(normalised(ends, norm, eps), pl.BF16)
    out = product(y, weight, scale, out)
    return out


@pl.jit
def greedy(logits: pl.Tensor, out: pl.Out[pl.Tensor]):
    logits.bind_dynamic(0, REQUESTS)
    out.bind_dynamic(0, REQUESTS)
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.row_argmax(logits)
    return out


@pl.jit
def sample(logits: pl.Tensor, knobs: pl.Tensor, noise: pl.Tensor, out: pl.Out[pl.Tensor]):
    """A token of the fewest whose probabilities reach knobs[r, 1] at temperature knobs[r, 0], equals together; `noise` is uniform in (0, 1).

    No sort: halving finds the lowest score that is kept, and the largest of score + Gumbel noise is a draw by probability.
    """
    logits.bind_dynamic(0, REQUESTS)
    knobs.bind_dynamic(0, REQUESTS)
    noise.bind_dynamic(0, REQUESTS)
    out.bind_dynamic(0, REQUESTS)
    requests = logits.shape[0]
    with pl.at(level=pl.Level.CORE_GROUP):
        score = pl.row_expand_div(pl.row_expand_sub(logits, pl.row_max(logits)), knobs[:, 0:1])
        weight = pl.exp(score)
        wanted = pl.row_sum(weight) * knobs[:, 1:2]
        low = pl.full([requests, 1], dtype=pl.FP32, value=-64.0)
        high = pl.full([requests, 1], dtype=pl.FP32, value=0.0)
        for _ in pl.range(34):
            middle = (low + high) * 0.5
            mass = pl.row_sum(weight * pl.cmp(pl.row_expand_sub(score, middle), 0.0, cmp_type=5))
            enough = pl.cmp(mass, wanted, cmp_type=5)
            low = pl.where(enough, middle, low)
            high = pl.where(enough, high, middle)
        drawn = score - pl.log(pl.neg(pl.log(noise)))
        kept = pl.cmp(pl.row_expand_sub(score, low), 0.0, cmp_type=5)
        out[:] = pl.row_argmax(pl.where(kept, drawn, NEVER))
    return out
