"""The same model in plain torch, with a cache of the usual kind: what ours is compared with."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F

from ..config import Config  # noqa: TID252 - the package has the name of where it lies
from ..weights import EMBEDDING, HEAD, LAST_NORM, Weights  # noqa: TID252


class Plain:
    """A torch model in one dtype; requests of different lengths are padded on the right."""

    def __init__(self, config: Config, weights: Weights, requests: int, tokens: int, dtype: torch.dtype = torch.bfloat16, device: str = "cpu") -> None:
        self.config, self.device, self.lengths = config, device, torch.zeros(requests, dtype=torch.long)
        self.weights = {name: weight.to(device, dtype) for name, weight in weights.items()}
        self.cache = torch.zeros(config.layers, 2, requests, config.kv_heads, tokens, config.head_dim, dtype=dtype, device=device)
        self.rotary = torch.stack(config.rotary()).to(device)

    def norm(self, x: torch.Tensor, name: str) -> torch.Tensor:
        return F.rms_norm(x, x.shape[-1:], self.weights[f"{name}.weight"], self.config.eps)

    def linear(self, x: torch.Tensor, name: str) -> torch.Tensor:
        return F.linear(x, self.weights[f"{name}.weight"], self.weights.get(f"{name}.bias"))

    def step(self, fresh: Sequence[Sequence[int]]) -> torch.Tensor:
        """As `Model.step`."""
        counts = torch.tensor([len(tokens) for tokens in fresh])
        rows, width = torch.arange(len(fresh), device=self.device), int(counts.max())
        tokens = torch.tensor([[*tokens, *[0] * (width - len(tokens))] for tokens in fresh], device=self.device)
        positions = (self.lengths[:, None] + torch.arange(width)).clamp(max=self.cache.shape[4] - 1).to(self.device)
        self.lengths += counts
        reach = int(self.lengths.max())
        mask = None if width == reach else (torch.arange(reach, device=self.device) <= positions[:, :, None])[:, None]
        cos, sin = self.rotary[:, positions][:, :, None]
        x = self.weights[EMBEDDING][tokens]
        for number in range(self.config.layers):
            x = self.layer(f"model.layers.{number}.", x, cos, sin, self.cache[number], (rows[:, None], slice(None), positions), reach, mask)
        ends = self.norm(x[rows, (counts - 1).to(self.device)], LAST_NORM.removesuffix(".weight"))
        return F.linear(ends, self.weights.get(HEAD, self.weights[EMBEDDING]))

    def layer(
        self, start: str, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, cache: torch.Tensor, slots: tuple[torch.Tensor | slice, ...],
        reach: int, mask: torch.Tensor | None,
    ) -> torch.Tensor:  # fmt: skip
        y = self.norm(x, f"{start}input_layernorm")
        q, k, v = (self.linear(y, f"{start}self_attn.{name}_proj").unflatten(2, (-1, self.config.head_dim)).transpose(1, 2) for name in "qkv")
        if self.config.head_norms:
            q, k = self.norm(q, f"{start}self_attn.q_norm"), self.norm(k, f"{start}self_attn.k_norm")
        (q1, q2), (k1, k2) = q.chunk(2, -1), k.chunk(2, -1)
        q, k = (torch.cat([low * cos - high * sin, high * cos + low * sin], -1).to(x.dtype) for low, high in ((q1, q2), (k1, k2)))
        cache[0][slots], cache[1][slots] = k.transpose(1, 2), v.transpose(1, 2)
        keys, values = cache[:, :, :, :reach]
        seen = F.scaled_dot_product_attention(q, keys, values, mask, is_causal=mask is None, enable_gqa=self.config.heads > self.config.kv_heads)
        x = x + self.linear(seen.transpose(1, 2).flatten(2), f"{start}self_attn.o_proj")
        y = self.norm(x, f"{start}post_attention_layernorm")
        return x + self.linear(F.silu(self.linear(y, f"{start}mlp.gate_proj")) * self.linear(y, f"{start}mlp.up_proj"), f"{start}mlp.down_proj")
