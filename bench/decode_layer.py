"""One layer of a LLaMA-like model for the next token of several requests, as one program and as torch writes it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn.functional import rms_norm, scaled_dot_product_attention, silu

import tilejit.language as pl

EPS, NEVER, PAGE = 1e-5, -1e30, 64


@pl.jit.inline
def normalised(x: pl.Tensor, weight: pl.Tensor):
    wide = pl.cast(x, pl.FP32)
    inverse = pl.rsqrt(pl.row_sum(wide * wide) * (1.0 / x.shape[1]) + EPS)
    return pl.cast(pl.col_expand_mul(pl.row_expand_mul(wide, inverse), pl.cast(weight, pl.FP32)), pl.BF16, mode="rint")


@pl.jit.inline
def turned(x: pl.Tile, cos: pl.Tile, sin: pl.Tile):
    """The two halves of rotated heads [h, d]."""
    h, d = x.shape[0], x.shape[1]
    low = pl.tile.slice(x, [h, d // 2], [0, 0])
    high = pl.tile.slice(x, [h, d // 2], [0, d // 2])
    first = pl.sub(pl.col_expand_mul(low, cos), pl.col_expand_mul(high, sin))
    second = pl.add(pl.col_expand_mul(high, cos), pl.col_expand_mul(low, sin))
    return pl.cast(first, pl.BF16, mode="rint"), pl.cast(second, pl.BF16, mode="rint")


@pl.jit
def layer(
    x: pl.Tensor, norm: pl.Tensor, w_qkv: pl.Tensor, cos: pl.Tensor, sin: pl.Tensor, keys: pl.InOut[pl.Tensor], values: pl.InOut[pl.Tensor],
    w_out: pl.Tensor, norm_2: pl.Tensor, w_in: pl.Tensor, w_down: pl.Tensor, out: pl.Out[pl.Tensor],
):  # fmt: skip
    """Keys and values are [batch * kv heads * length, d]; the new token is the last of them."""
    batch, hidden = x.shape
    d = keys.shape[1]
    kv_heads = (w_qkv.shape[1] - hidden) // (2 * d)
    group = hidden // d // kv_heads
    length = keys.shape[0] // (batch * kv_heads)
    inner = w_down.shape[0]
    y = pl.create_tensor([batch, hidden], dtype=pl.BF16)
    qkv = pl.create_tensor([batch, w_qkv.shape[1]], dtype=pl.FP32)
    q = pl.create_tensor([batch * hidden // d, d], dtype=pl.BF16)
    seen = pl.create_tensor([batch, hidden], dtype=pl.BF16)
    middle = pl.create_tensor([batch, hidden], dtype=pl.FP32)
    both = pl.create_tensor([batch, 2 * inner], dtype=pl.FP32)
    act = pl.create_tensor([batch, inner], dtype=pl.BF16)
    with pl.at(level=pl.Level.CORE_GROUP):
        y[:] = normalised(x, norm)
    with pl.at(level=pl.Level.CORE_GROUP):
        qkv[:] = pl.matmul(y, w_qkv, out_dtype=pl.FP32)
    for cell in pl.spmd(batch * kv_heads):
        b = cell // kv_heads
        kv = cell % kv_heads
        tc = pl.load(cos, [length - 1, 0], [1, d // 2])
        ts = pl.load(sin, [length - 1, 0], [1, d // 2])
        first, second = turned(pl.reshape(pl.load(qkv, [b, kv * group * d], [1, group * d]), [group, d]), tc, ts)
        pl.store(first, [cell * group, 0], q)
        pl.store(second, [cell * group, d // 2], q)
        first, second = turned(pl.load(qkv, [b, hidden + kv * d], [1, d]), tc, ts)
        pl.store(first, [cell * length + length - 1, 0], keys)
        pl.store(second, [cell * length + length - 1, d // 2], keys)
        fresh = pl.load(qkv, [b, hidden + (kv_heads + kv) * d], [1, d])
        pl.store(pl.cast(fresh, pl.BF16, mode="rint"), [cell * length + length - 1, 0], values)
    for cell in pl.spmd(batch * kv_heads):
        tq = pl.load(q, [cell * group, 0], [group, d])
        tmp = pl.create_tile([group, PAGE], dtype=pl.FP32)
        m = pl.tile.full([group, 1], dtype=pl.FP32, value=NEVER)
        total = pl.tile.full([group, 1], dtype=pl.FP32, value=0.0)
        o = pl.tile.full([group, d], dtype=pl.FP32, value=0.0)
        for j in pl.range(length // PAGE):
            tk = pl.load(keys, [cell * length + j * PAGE, 0], [PAGE, d])
            tv = pl.load(values, [cell * length + j * PAGE, 0], [PAGE, d])
            s = pl.mul(pl.matmul(tq, pl.transpose(tk, 0, 1)), d**-0.5)
            top = pl.maximum(m, pl.row_max(s, tmp))
            p = pl.row_expand_expdif(s, top)
            fade = pl.exp(pl.sub(m, top))
            total = pl.add(pl.mul(total, fade), pl.row_sum(p, tmp))
            o = pl.add(pl.row_expand_mul(o, fade), pl.matmul(pl.cast(p, pl.BF16, mode="rint"), tv))
            m = top
        heads = pl.cast(pl.row_expand_div(o, total), pl.BF16, mode="rint")
        pl.store(pl.reshape(heads, [1, group * d]), [cell // kv_heads, cell % kv_heads * group * d], seen)
    with pl.at(level=pl.Level.CORE_GROUP):
        middle[:] = pl.matmul(seen, w_out, out_dtype=pl.FP32) + pl.cast(x, pl.FP32)
    with pl.at(level=pl.Level.CORE_GROUP):
        y[:] = normalised(middle, norm_2)
    with pl.at(level=pl.Level.CORE_GROUP):
        both[:] = pl.matmul(y, w_in, out_dtype=pl.FP32)
    with pl.at(level=pl.Level.CORE_GROUP):
        gate = both[:, 0:inner]
        act[:] = pl.cast(gate / (pl.exp(pl.neg(gate)) + 1.0) * both[:, inner : 2 * inner], pl.BF16, mode="rint")
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.cast(pl.matmul(act, w_down, out_dtype=pl.FP32) + middle, pl.BF16, mode="rint")
    return out


@dataclass(frozen=True)
class Sizes:
    """The sizes of a layer and of what it has seen."""

    batch: int
    hidden: int
    heads: int
    kv_heads: int
    inner: int
    length: int

    @property
    def d(self) -> int:
        return self.hidden // self.heads


def arguments(sizes: Sizes, device: str) -> list[torch.Tensor]:
    """Everything that `layer` takes, random, and room for its result."""

    def random(*shape: int, scale: float = 1.0) -> torch.Tensor:
        return (torch.randn(*shape, device=device) * scale).to(torch.bfloat16)

    d, cache = sizes.d, sizes.batch * sizes.kv_heads * sizes.length
    angle = torch.outer(torch.arange(sizes.length), 10000.0 ** (-torch.arange(0, d, 2) / d))
    width = sizes.hidden + 2 * sizes.kv_heads * d
    return [
        random(sizes.batch, sizes.hidden), random(1, sizes.hidden), random(sizes.hidden, width, scale=sizes.hidden**-0.5),
        angle.cos().float().to(device), angle.sin().float().to(device), random(cache, d), random(cache, d),
        random(sizes.hidden, sizes.hidden, scale=sizes.hidden**-0.5), random(1, sizes.hidden),
        random(sizes.hidden, 2 * sizes.inner, scale=sizes.hidden**-0.5), random(sizes.inner, sizes.hidden, scale=sizes.inner**-0.5),
        random(sizes.batch, sizes.hidden),
    ]  # fmt: skip


class Layer(torch.nn.Module):
    """The same as a module of torch: weights and caches are its buffers, which torch may write to within a graph that it captures."""

    def __init__(self, sizes: Sizes, given: list[torch.Tensor]) -> None:
        super().__init__()
        self.sizes = sizes
        for number, tensor in enumerate(given[1:]):
            self.register_buffer(f"held{number}", tensor.clone())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return plain(self.sizes, [x, *self.buffers()])


def plain(sizes: Sizes, given: list[torch.Tensor]) -> torch.Tensor:
    """The same in torch."""
    x, norm, w_qkv, cos, sin, keys, values, w_out, norm_2, w_in, w_down, _ = given
    shape = (sizes.batch, sizes.kv_heads, sizes.length, sizes.d)
    keys, values = keys.view(shape), values.view(shape)
    q, k, v = (rms_norm(x, norm.shape[1:], norm[0], EPS) @ w_qkv).split([sizes.hidden, sizes.kv_heads * sizes.d, sizes.kv_heads * sizes.d], 1)

    def rotated(heads: torch.Tensor) -> torch.Tensor:
        low, high = heads.view(sizes.batch, -1, sizes.d).float().chunk(2, 2)
        c, s = cos[-1], sin[-1]
        return torch.cat([low * c - high * s, high * c + low * s], 2).to(x.dtype)

    keys[:, :, -1] = rotated(k)
    values[:, :, -1] = v.view(sizes.batch, sizes.kv_heads, sizes.d)
    seen = scaled_dot_product_attention(rotated(q)[:, :, None], keys, values, enable_gqa=True)
    middle = x + seen.reshape(sizes.batch, sizes.hidden) @ w_out
    gate, up = (rms_norm(middle, norm_2.shape[1:], norm_2[0], EPS) @ w_in).chunk(2, 1)
    return middle + (silu(gate) * up) @ w_down
