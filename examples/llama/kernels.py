"""The kernels: any number of tokens, requests and pages is one compiled kernel; the other sizes are constants of it."""

from __future__ import annotations

import tilejit.language as pl

TOKENS, REQUESTS, PAGES, POOL, BLOCKS, ROWS = (pl.dynamic(name) for name in ("TOKENS", "REQUESTS", "PAGES", "POOL", "BLOCKS", "ROWS"))
NEVER = -1e30


@pl.jit
def take(rows: pl.Tensor, table: pl.Tensor, out: pl.Out[pl.Tensor]):
    """Rows of a table in FP32: the embeddings of tokens, and the last tokens of requests."""
    rows.bind_dynamic(0, ROWS)
    out.bind_dynamic(0, ROWS)
    table.bind_dynamic(0, TOKENS)
    for r in pl.spmd(rows.shape[0]):
        row = pl.load(table, [pl.cast(pl.read(rows, [r]), pl.INDEX), 0], [1, table.shape[1]])
        pl.store(pl.cast(row, pl.FP32), [r, 0], out)
    return out


@pl.jit.inline
def normalised(x: pl.Tensor, weight: pl.Tensor, eps: pl.FP32):
    """RMSNorm of every row."""
    inverse = pl.rsqrt(pl.row_sum(x * x) * (1.0 / x.shape[1]) + eps)
    return pl.col_expand_mul(pl.row_expand_mul(x, inverse), weight)


@pl.jit.inline
def product(x: pl.Tensor, weight: pl.Tensor, scale: pl.Tensor, out: pl.Tensor):
    """x · weightᵀ in FP32; weights of 4 bits are unpacked by groups of some rows, as they are read or in the cache."""
    if weight.dtype == pl.BF16:
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.matmul(x, weight, b_trans=True, out_dtype=pl.FP32)
    elif weight.dtype == pl.INT8:
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.col_expand_mul(pl.matmul(x, weight, b_trans=True, out_dtype=pl.FP32), scale)
    else:
        n, half, size = scale.shape[1], scale.shape[0] // 2, weight.shape[1]
        rows, stored = min(n & -n, 64), half * size
        for block in pl.spmd(n // rows):
            r = block * rows
            y = pl.full([x.shape[0], rows], dtype=pl.FP32, value=0.0)
            for g in pl.range(half):
                c, first = g * size, g * n + r
                part = weight[first : first + rows, 0:size]
                low = pl.matmul(x[:, c : c + size], pl.cast(pl.ands(part, 15), pl.INT8) - 8, b_trans=True, out_dtype=pl.FP32)
                high = pl.matmul(x[:, stored + c : stored + c + size], pl.cast(pl.shrs(part, 4), pl.INT8) - 8, b_trans=True, out_dtype=pl.FP32)
                for_low, for_high = scale[g : g + 1, r : r + rows], scale[half + g : half + g + 1, r : r + rows]
                y = y + pl.col_expand_mul(low, for_low) + pl.col_expand_mul(high, for_high)
            out[:, r : r + rows] = y
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
    return pl.cast(first, pl.BF16, mode="rint"), pl.cast(second, pl.BF16, mode="rint")


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
    heads, kv_heads, page, d = q.shape[1], keys.shape[1], keys.shape[2], keys.shape[3]
    y = pl.create_tensor(x.shape, dtype=pl.BF16)
    with pl.at(level=pl.Level.CORE_GROUP):
        y[:] = pl.cast(normalised(x, norm, eps), pl.BF16, mode="rint")
    qkv = product(y, weight, scale, pl.create_tensor([x.shape[0], bias.shape[1]], dtype=pl.FP32))
    for t in pl.spmd(x.shape[0]):
        position, slot = [pl.cast(pl.read(places, [t]), pl.INDEX) for places in (positions, slots)]
        row = pl.add(pl.load(qkv, [t, 0], [1, bias.shape[1]]), pl.load(bias, [0, 0], [1, bias.shape[1]]))
        tc, ts = [pl.load(turns, [position, 0], [1, d // 2]) for turns in (cos, sin)]
        queries = pl.reshape(pl.tile.slice(row, [1, heads * d], [0, 0]), [heads, d])
        first, second = turned(queries, tc, ts, q_norm, norms, eps)
        pl.store(pl.reshape(first, [1, heads, d // 2]), [t, 0, 0], q)
        pl.store(pl.reshape(second, [1, heads, d // 2]), [t, 0, d // 2], q)
        fresh = pl.reshape(pl.tile.slice(row, [1, kv_heads * d], [0, heads * d]), [kv_heads, d])
        first, second = turned(fresh, tc, ts, k_norm, norms, eps)
        pl.store(pl.reshape(first, [1, kv_heads, 1, d // 2]), [slot // page, 0, slot % page, 0], keys)
        pl.store(pl.reshape(second, [1, kv_heads, 1, d // 2]), [slot // page, 0, slot % page, d // 2], keys)
        fresh = pl.cast(pl.tile.slice(row, [1, kv_heads * d], [0, (heads + kv_heads) * d]), pl.BF16, mode="rint")
        pl.store(pl.reshape(fresh, [1, kv_heads, 1, d]), [slot // page, 0, slot % page, 0], values)
    return q


@pl.jit
def attend(q: pl.Tensor, keys: pl.Tensor, values: pl.Tensor, table: pl.Tensor, blocks: pl.Tensor, queries: int, out: pl.Out[pl.Tensor]):
    """Attention over the pages that `table` lists for each request.

    A block is up to `queries` tokens of one request: its row in `table`, its first row in q, the position of that token, how many they are.
    The heads that share a key head make one matrix, and a token sees the keys up to itself."""
    q.bind_dynamic(0, TOKENS)
    out.bind_dynamic(0, TOKENS)
    blocks.bind_dynamic(0, BLOCKS)
    table.bind_dynamic(0, REQUESTS)
    table.bind_dynamic(1, PAGES)
    keys.bind_dynamic(0, POOL)
    values.bind_dynamic(0, POOL)
    kv_heads, page, d = keys.shape[1], keys.shape[2], keys.shape[3]
    group = q.shape[1] // kv_heads
    rows = queries * group
    for cell in pl.spmd(blocks.shape[0] * kv_heads):
        b, kv = cell // kv_heads, cell % kv_heads
        request, start, position, count = [pl.cast(pl.read(blocks, [b, which]), pl.INDEX) for which in range(4)]
        tq = pl.reshape(pl.fillpad(pl.load(q, [start, kv * group, 0], [queries, group, d], valid_shape=[count, group, d])), [rows, d])
        columns = pl.cast(pl.tile.arange(0, [1, page], dtype=pl.INT32), pl.FP32)
        steps = pl.reshape(pl.cast(pl.tile.arange(0, [1, queries], dtype=pl.INT32), pl.FP32), [queries, 1])
        token = pl.reshape(pl.row_expand(pl.tile.full([queries, group], dtype=pl.FP32, value=0.0), steps), [rows, 1])
        ahead = pl.row_expand_sub(pl.col_expand(pl.tile.full([rows, page], dtype=pl.FP32, value=0.0), columns), token)
        tmp = pl.create_tile([rows, page], dtype=pl.FP32)
        m = pl.tile.full([rows, 1], dtype=pl.FP32, value=NEVER)
        l = pl.tile.full([rows, 1], dtype=pl.FP32, value=0.0)
        o = pl.tile.full([rows, d], dtype=pl.FP32, value=0.0)
        for j in pl.range((position + count + page - 1) // page):
            place = pl.cast(pl.read(table, [request, j]), pl.INDEX)
            tk, tv = [pl.reshape(pl.load(pages, [place, kv, 0, 0], [1, 1, page, d]), [page, d]) for pages in (keys, values)]
            seen = pl.tile.cmps(ahead, pl.cast(position - j * page, pl.FP32), cmp_type=3)
            s = pl.tile.sels(seen, pl.mul(pl.matmul(tq, pl.transpose(tk, 0, 1)), d**-0.5), tmp, NEVER)
            top = pl.maximum(m, pl.row_max(s, tmp))
            p = pl.row_expand_expdif(s, top)
            fade = pl.exp(pl.sub(m, top))
            l = pl.add(pl.mul(l, fade), pl.row_sum(p, tmp))
            o = pl.add(pl.row_expand_mul(o, fade), pl.matmul(pl.cast(p, pl.BF16, mode="rint"), tv))
            m = top
        y = pl.reshape(pl.cast(pl.row_expand_div(o, l), pl.BF16, mode="rint"), [queries, group * d])
        pl.store(pl.set_validshape(y, count, group * d), [start, kv * group * d], out)
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
    inner = (s_in.shape[1] if w_in.dtype == pl.UINT8 else w_in.shape[0]) // 2
    back = product(seen, w_out, s_out, pl.create_tensor([tokens, hidden], dtype=pl.FP32))
    middle = pl.create_tensor([tokens, hidden], dtype=pl.FP32)
    y = pl.create_tensor([tokens, hidden], dtype=pl.BF16)
    with pl.at(level=pl.Level.CORE_GROUP):
        middle[:] = x + back
        y[:] = pl.cast(normalised(middle, norm, eps), pl.BF16, mode="rint")
    both = product(y, w_in, s_in, pl.create_tensor([tokens, 2 * inner], dtype=pl.FP32))
    act = pl.create_tensor([tokens, inner], dtype=pl.BF16)
    with pl.at(level=pl.Level.CORE_GROUP):
        gate = both[:, 0:inner]
        act[:] = pl.cast(gate / (pl.exp(pl.neg(gate)) + 1.0) * both[:, inner : 2 * inner], pl.BF16, mode="rint")
    down = product(act, w_down, s_down, pl.create_tensor([tokens, hidden], dtype=pl.FP32))
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = middle + down
    return out


@pl.jit
def head(x: pl.Tensor, norm: pl.Tensor, weight: pl.Tensor, scale: pl.Tensor, eps: float, out: pl.Out[pl.Tensor]):
    """Logits."""
    x.bind_dynamic(0, REQUESTS)
    out.bind_dynamic(0, REQUESTS)
    y = pl.create_tensor(x.shape, dtype=pl.BF16)
    with pl.at(level=pl.Level.CORE_GROUP):
        y[:] = pl.cast(normalised(x, norm, eps), pl.BF16, mode="rint")
    return product(y, weight, scale, out)


@pl.jit
def greedy(logits: pl.Tensor, out: pl.Out[pl.Tensor]):
    logits.bind_dynamic(0, REQUESTS)
    out.bind_dynamic(0, REQUESTS)
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.row_argmax(logits)
    return out


@pl.jit
def sample(logits: pl.Tensor, temperature: pl.Tensor, top_p: pl.Tensor, noise: pl.Tensor, out: pl.Out[pl.Tensor]):
    """A token of the fewest whose probabilities reach `top_p`, equals together; `noise` is uniform in (0, 1).

    No sort: halving finds the lowest score that is kept, and the largest of score + Gumbel noise is a draw by probability."""
    logits.bind_dynamic(0, REQUESTS)
    temperature.bind_dynamic(0, REQUESTS)
    top_p.bind_dynamic(0, REQUESTS)
    noise.bind_dynamic(0, REQUESTS)
    out.bind_dynamic(0, REQUESTS)
    with pl.at(level=pl.Level.CORE_GROUP):
        score = pl.row_expand_div(pl.row_expand_sub(logits, pl.row_max(logits)), temperature)
        weight = pl.exp(score)
        wanted = pl.row_sum(weight) * top_p
        high = pl.row_max(score)
        low = high - 64.0
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
