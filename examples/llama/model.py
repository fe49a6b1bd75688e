"""The model: its weights as the kernels take them, the pages of its cache, and one step for prompts and single tokens alike."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import accumulate

import torch

from . import kernels
from .config import Config
from .weights import EMBEDDING, HEAD, LAST_NORM, Weights, quantised

PAGE, ROWS = 64, 64  # tokens in a page; rows of the matrices that attention over prompts works on: tokens × heads that share a key head


class Cache:
    """Keys and values of some requests, in pages that any request may get; what a step writes is here too, for the next one to write again."""

    def __init__(self, config: Config, requests: int, tokens: int, page: int = PAGE, device: str = "cpu") -> None:
        self.config, self.page, self.zeros, each = config, page, partial(torch.zeros, device=device), -(-tokens // page)
        pools = self.zeros(config.layers, 2, requests * each, config.kv_heads, page, config.head_dim, dtype=torch.bfloat16)
        self.layers, self.free = [layer.unbind() for layer in pools], list(range(requests * each))
        self.lengths, self.pages, self.sizes = [0] * requests, [[0] * each for _ in range(requests)], list[int]()
        self.table = self.zeros(requests, each, dtype=torch.int32)
        self.last, self.logits = (self.zeros(requests, wide) for wide in (config.hidden, config.vocabulary))

    def extend(self, fresh: Sequence[int]) -> tuple[list[int], list[int]]:
        """Room for `fresh[r]` more tokens of each request: their positions and their slots, page · size + place in the page."""
        first, self.lengths = self.lengths, [length + count for length, count in zip(self.lengths, fresh, strict=True)]
        places = [(r, *divmod(position, self.page)) for r, length in enumerate(self.lengths) for position in range(first[r], length)]
        for r, number, place in places:
            if place == 0:
                self.table[r, number] = self.pages[r][number] = self.free.pop()
        return [number * self.page + place for _, number, place in places], [self.pages[r][number] * self.page + place for r, number, place in places]

    def work(self, *lists: list[int]) -> list[torch.Tensor]:
        """Hidden states twice, queries and what they saw, for as many tokens as the first list has; then the lists, the last one in fours."""
        if self.sizes != (sizes := [len(numbers) for numbers in lists]):
            config, self.sizes, self.wide = self.config, sizes, -(-max(sizes) // 4) * 4  # each list begins at a multiple of 16 bytes
            self.host = torch.zeros(len(lists) * self.wide, dtype=torch.int32)
            self.numbers, self.there = self.host.numpy(), self.host.to(self.table.device)
            *parts, blocks = (part[:size] for part, size in zip(self.there.split(self.wide), sizes, strict=True))
            x, q = self.zeros(sizes[0], config.hidden), self.zeros(sizes[0], config.heads, config.head_dim, dtype=torch.bfloat16)
            self.written = [x, torch.zeros_like(x), q, torch.zeros_like(q).flatten(1), *parts, blocks.view(-1, 4)]
        self.numbers[:] = [number for numbers in lists for number in numbers + [0] * (self.wide - len(numbers))]
        if self.there is not self.host:
            self.there.copy_(self.host)
        return self.written


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
        tied = (self.embedding, torch.ones(1, 1, device=device)) if bits == 16 and head == EMBEDDING else ()
        self.head = (wide(0, LAST_NORM), *(tied or matrix(head.removesuffix(".weight"))))

    def step(self, cache: Cache, fresh: Sequence[Sequence[int]]) -> torch.Tensor:
        """Take in the fresh tokens of every request, one or many each; logits after the last of each, until the next step."""
        config, counts, before = self.config, [len(tokens) for tokens in fresh], cache.lengths
        if not all(counts):
            raise ValueError("every request needs at least one fresh token")
        ends, single, ids = list(accumulate(counts)), max(counts) == 1, [token for tokens in fresh for token in tokens]
        queries = 1 if single else max(1, ROWS * config.kv_heads // config.heads)
        parts = [(r, count, first) for r, count in enumerate(counts) for first in range(0, count, queries)]
        blocks = [n for r, count, first in parts for n in (r, ends[r] - count + first, before[r] + first, min(queries, count - first))]
        x, new, q, seen, tokens, *places, last, fours = cache.work(ids, *cache.extend(counts), [end - 1 for end in ends], blocks)
        kernels.take(tokens, self.embedding, x)
        for (project, finish), cached in zip(self.layers, cache.layers, strict=True):
            kernels.project(x, *project, *self.rotary, *places, *cached, config.head_norms, config.eps, q)
            kernels.attend(q, *cached, cache.table, fours, queries, seen)
            kernels.finish(x, seen, *finish, config.eps, new)
            x, new = new, x
        if not single:
            kernels.take(last, x, cache.last)
        kernels.head(x if single else cache.last, *self.head, config.eps, cache.logits)
        return cache.logits


def choose(logits: torch.Tensor, temperature: float, top_p: float, random: torch.Generator) -> list[int]:
    """The next token of every request; temperature 0 takes the likeliest."""
    chosen = torch.empty(len(logits), 1, dtype=torch.int32, device=logits.device)
    if temperature == 0:
        kernels.greedy(logits, chosen)
    else:
        knobs = (torch.full(chosen.shape, knob, device=logits.device) for knob in (temperature, top_p))
        kernels.sample(logits, *knobs, torch.rand(logits.shape, generator=random).clamp(1e-7, 1 - 1e-7).to(logits.device), chosen)
    return chosen[:, 0].tolist()
