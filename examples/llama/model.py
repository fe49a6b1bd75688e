"""The model: its weights as the kernels take them, the pages of its cache, and one step for prompts and single tokens alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate

import torch

from . import kernels
from .config import Config
from .weights import EMBEDDING, HEAD, LAST_NORM, Weights, quantised

PAGE = 64
ROWS = 64  # of the matrices that attention over prompts works on: tokens × heads that share a key head


def filled(kernel: Callable[..., object], shape: Sequence[int], first: torch.Tensor, *rest: object, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """A new tensor, beside `first`, that the kernel writes as its last argument."""
    out = torch.empty(shape, dtype=dtype, device=first.device)
    kernel(first, *rest, out)
    return out


class Cache:
    """Keys and values of some requests, in pages that any request may get; `lengths` says how many tokens each has."""

    def __init__(self, config: Config, requests: int, tokens: int, page: int = PAGE, device: str = "cpu") -> None:
        self.page, self.device = page, device
        each = -(-tokens // page)
        pool = (requests * each, config.kv_heads, page, config.head_dim)
        self.layers = [[torch.zeros(pool, dtype=torch.bfloat16, device=device) for _ in range(2)] for _ in range(config.layers)]
        self.free = list(range(requests * each))
        self.table = torch.zeros(requests, each, dtype=torch.int32)
        self.lengths = [0] * requests

    def extend(self, fresh: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor]:
        """Room for `fresh[r]` more tokens of each request: their positions and their slots, page · size + place in the page."""
        positions, slots = list[int](), list[int]()
        for r, count in enumerate(fresh):
            for position in range(self.lengths[r], self.lengths[r] + count):
                if position % self.page == 0:
                    self.table[r, position // self.page] = self.free.pop()
                positions.append(position)
                slots.append(int(self.table[r, position // self.page]) * self.page + position % self.page)
            self.lengths[r] += count
        return self.whole(positions), self.whole(slots)

    def whole(self, numbers: Sequence[int] | Sequence[tuple[int, ...]]) -> torch.Tensor:
        return torch.tensor(numbers, dtype=torch.int32).to(self.device)


class Model:
    """A model on a device with weights of 16, 8 or 4 bits; embeddings, norms and biases are never quantised."""

    def __init__(self, config: Config, weights: Weights, bits: int = 16, device: str = "cpu") -> None:
        self.config, self.device = config, device

        def wide(size: int, *names: str) -> torch.Tensor:
            return torch.cat([weights[name].float() if name in weights else torch.zeros(size) for name in names]).reshape(1, -1).to(device)

        def matrix(*names: str) -> tuple[torch.Tensor, ...]:
            return tuple(part.to(device) for part in quantised(torch.cat([weights[f"{name}.weight"] for name in names]), bits))

        self.embedding = weights[EMBEDDING].to(device)
        self.rotary = tuple(part.to(device) for part in config.rotary())
        self.layers: list[tuple[tuple[torch.Tensor, ...], tuple[torch.Tensor, ...]]] = []
        for start in (f"model.layers.{number}" for number in range(config.layers)):
            q, k, v, out = (f"{start}.self_attn.{name}_proj" for name in "qkvo")
            bias = [wide(weights[f"{name}.weight"].shape[0], f"{name}.bias") for name in (q, k, v)]
            norms = (wide(config.head_dim, f"{start}.self_attn.{name}_norm.weight") for name in "qk")
            project = (wide(0, f"{start}.input_layernorm.weight"), *matrix(q, k, v), torch.cat(bias, 1), *norms)
            into, down = matrix(f"{start}.mlp.gate_proj", f"{start}.mlp.up_proj"), matrix(f"{start}.mlp.down_proj")
            self.layers.append((project, (*matrix(out), wide(0, f"{start}.post_attention_layernorm.weight"), *into, *down)))
        head = EMBEDDING if HEAD not in weights else HEAD
        shared = bits == 16 and head == EMBEDDING
        self.head = (wide(0, LAST_NORM), *((self.embedding, torch.ones(1, 1, device=device)) if shared else matrix(head.removesuffix(".weight"))))

    def step(self, cache: Cache, fresh: Sequence[Sequence[int]]) -> torch.Tensor:
        """Take in the fresh tokens of every request, one or many each; logits after the last of each."""
        config, counts, before = self.config, [len(tokens) for tokens in fresh], list(cache.lengths)
        if not all(counts):
            raise ValueError("every request needs at least one fresh token")
        total, ends = sum(counts), list(accumulate(counts))
        queries = 1 if total == len(counts) else max(1, ROWS // config.group)
        places = cache.extend(counts)
        parts = [(r, count, first) for r, count in enumerate(counts) for first in range(0, count, queries)]
        blocks = [(r, ends[r] - count + first, before[r] + first, min(queries, count - first)) for r, count, first in parts]
        pages = (cache.table.to(self.device), cache.whole(blocks), queries)
        x = filled(kernels.take, (total, config.hidden), cache.whole([token for tokens in fresh for token in tokens]), self.embedding)
        for (project, finish), cached in zip(self.layers, cache.layers, strict=True):
            known = (*self.rotary, *places, *cached, config.head_norms, config.eps)
            q = filled(kernels.project, (total, config.heads, config.head_dim), x, *project, *known, dtype=torch.bfloat16)
            seen = filled(kernels.attend, (total, config.heads * config.head_dim), q, *cached, *pages, dtype=torch.bfloat16)
            x = filled(kernels.finish, x.shape, x, seen, *finish, config.eps)
        last = filled(kernels.take, (len(counts), config.hidden), cache.whole([end - 1 for end in ends]), x)
        return filled(kernels.head, (len(counts), config.vocabulary), last, *self.head, config.eps)


def choose(logits: torch.Tensor, temperature: float, top_p: float, random: torch.Generator) -> list[int]:
    """The next token of every request; temperature 0 takes the likeliest."""
    shape = (len(logits), 1)
    if temperature == 0:
        return filled(kernels.greedy, shape, logits, dtype=torch.int32)[:, 0].tolist()
    knobs = (torch.full(shape, knob, device=logits.device) for knob in (temperature, top_p))
    noise = torch.rand(logits.shape, generator=random).clamp(1e-7, 1 - 1e-7).to(logits.device)
    return filled(kernels.sample, shape, logits, *knobs, noise, dtype=torch.int32)[:, 0].tolist()
