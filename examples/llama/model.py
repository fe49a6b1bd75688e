"""The model: its weights as the kernels take them, the pages of its caches, and one step for prompts and single tokens alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch

from . import kernels
from .config import Config
from .weights import EMBEDDING, HEAD, LAST_NORM, Weights, quantised

PAGE = 64


@dataclass(frozen=True)
class Layer:
    """The weights of one layer; those that are read together lie together."""

    norms: tuple[torch.Tensor, torch.Tensor]
    qkv: tuple[torch.Tensor, torch.Tensor]
    bias: torch.Tensor
    head_norms: tuple[torch.Tensor, torch.Tensor]
    out: tuple[torch.Tensor, torch.Tensor]
    into: tuple[torch.Tensor, torch.Tensor]
    down: tuple[torch.Tensor, torch.Tensor]


class Cache:
    """Keys and values of some requests, in pages that any request may get; `lengths` says how many tokens each has."""

    def __init__(self, config: Config, requests: int, tokens: int, page: int = PAGE, device: str = "cpu") -> None:
        self.page, self.device = page, device
        each = -(-tokens // page)
        pool = (requests * each, config.kv_heads, page, config.head_dim)
        self.keys = [torch.zeros(pool, dtype=torch.bfloat16, device=device) for _ in range(config.layers)]
        self.values = [torch.zeros_like(keys) for keys in self.keys]
        self.free = list(range(requests * each))
        self.table = torch.zeros(requests, each, dtype=torch.int32)
        self.lengths = [0] * requests

    def extend(self, fresh: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor]:
        """Room for `fresh[r]` more tokens of each request: their positions and their slots, page · size + place in the page."""
        positions: list[int] = []
        slots: list[int] = []
        for r, count in enumerate(fresh):
            for position in range(self.lengths[r], self.lengths[r] + count):
                if position % self.page == 0:
                    self.table[r, position // self.page] = self.free.pop()
                positions.append(position)
                slots.append(int(self.table[r, position // self.page]) * self.page + position % self.page)
            self.lengths[r] += count
        return self.whole(positions), self.whole(slots)

    def whole(self, numbers: Sequence[int] | Sequence[tuple[int, int]]) -> torch.Tensor:
        return torch.tensor(numbers, dtype=torch.int32).to(self.device)


class Model:
    """A model on a device with weights of 16, 8 or 4 bits; embeddings, norms and biases are never quantised."""

    def __init__(self, config: Config, weights: Weights, bits: int = 16, device: str = "cpu") -> None:
        self.config, self.device = config, device

        def wide(name: str, size: int) -> torch.Tensor:
            given = weights.get(name)
            return (torch.zeros(size) if given is None else given.float()).reshape(1, -1).to(device)

        def matrix(*names: str) -> tuple[torch.Tensor, torch.Tensor]:
            weight, scale = quantised(torch.cat([weights[f"{name}.weight"] for name in names]), bits)
            return weight.to(device), scale.to(device)

        def layer(start: str) -> Layer:
            attention = [f"{start}.self_attn.{name}_proj" for name in "qkv"]
            sizes = [weights[f"{name}.weight"].shape[0] for name in attention]
            return Layer(
                norms=(wide(f"{start}.input_layernorm.weight", 0), wide(f"{start}.post_attention_layernorm.weight", 0)),
                qkv=matrix(*attention),
                bias=torch.cat([wide(f"{name}.bias", size) for name, size in zip(attention, sizes, strict=True)], 1),
                head_norms=(wide(f"{start}.self_attn.q_norm.weight", config.head_dim), wide(f"{start}.self_attn.k_norm.weight", config.head_dim)),
                out=matrix(f"{start}.self_attn.o_proj"),
                into=matrix(f"{start}.mlp.gate_proj", f"{start}.mlp.up_proj"),
                down=matrix(f"{start}.mlp.down_proj"),
            )

        self.embedding = weights[EMBEDDING].to(device)
        self.layers = [layer(f"model.layers.{number}") for number in range(config.layers)]
        self.norm = wide(LAST_NORM, 0)
        tied = bits == 16 and HEAD not in weights  # then the embedding serves twice
        head = EMBEDDING if HEAD not in weights else HEAD
        self.head = (self.embedding, torch.ones(1, 1, device=device)) if tied else matrix(head.removesuffix(".weight"))
        self.rotary = tuple(part.to(device) for part in config.rotary())

    def step(self, cache: Cache, fresh: Sequence[Sequence[int]]) -> torch.Tensor:
        """Take in the fresh tokens of every request, one or many each; logits after the last of each."""
        config, counts = self.config, [len(tokens) for tokens in fresh]
        if not all(counts):
            raise ValueError("every request needs at least one fresh token")
        total = sum(counts)
        positions, slots = cache.extend(counts)
        ends = torch.tensor(counts).cumsum(0)
        table, lengths = cache.table.to(self.device), cache.whole(cache.lengths)
        x = filled(kernels.embed, (total, config.hidden), cache.whole([token for tokens in fresh for token in tokens]), self.embedding)
        if total > len(counts):
            starts = cache.whole([(int(end) - count, count) for end, count in zip(ends, counts, strict=True)])
            blocks = cache.whole([(r, first) for r, count in enumerate(counts) for first in range(0, count, kernels.QUERIES)])
            attend, where = kernels.attend_many, (table, lengths, starts, blocks)
        else:
            attend, where = kernels.attend_one, (table, lengths)
        for layer, *cached in zip(self.layers, cache.keys, cache.values, strict=True):
            known = (*layer.head_norms, *self.rotary, positions, slots, *cached, config.head_norms, config.eps)
            q = filled(kernels.project, (total, config.heads, config.head_dim), x, layer.norms[0], *layer.qkv, layer.bias, *known, dtype=torch.bfloat16)
            seen = filled(attend, (total, config.heads * config.head_dim), q, *cached, *where, dtype=torch.bfloat16)
            x = filled(kernels.finish, x.shape, x, seen, *layer.out, layer.norms[1], *layer.into, *layer.down, config.eps)
        return filled(kernels.head, (len(counts), config.vocabulary), x, (ends - 1).int().to(self.device), self.norm, *self.head, config.eps)


def filled(kernel: Callable[..., object], shape: Sequence[int], first: torch.Tensor, *rest: object, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """A new tensor, beside `first`, that the kernel writes as its last argument."""
    out = torch.empty(shape, dtype=dtype, device=first.device)
    kernel(first, *rest, out)
    return out


@dataclass(frozen=True)
class Sampling:
    """How tokens are chosen: temperature 0 takes the likeliest."""

    temperature: float = 0.0
    top_p: float = 1.0
    seed: int = 0


def choose(logits: torch.Tensor, how: Sampling, random: torch.Generator) -> list[int]:
    """The next token of every request."""
    shape = (len(logits), 1)
    if how.temperature == 0:
        return filled(kernels.greedy, shape, logits, dtype=torch.int32)[:, 0].tolist()
    knobs = torch.tensor([[how.temperature, how.top_p]]).repeat(len(logits), 1).to(logits.device)
    noise = torch.rand(logits.shape, generator=random).clamp(1e-7, 1 - 1e-7).to(logits.device)
    return filled(kernels.sample, shape, logits, knobs, noise, dtype=torch.int32)[:, 0].tolist()


def generate(model: Model, prompts: Sequence[Sequence[int]], count: int, how: Sampling | None = None) -> Iterator[list[int]]:
    """`count` tokens for every prompt, a list with one of each request at a time."""
    how = how or Sampling()
    random = torch.Generator().manual_seed(how.seed)
    cache = Cache(model.config, len(prompts), max(map(len, prompts)) + count, device=model.device)
    fresh: Sequence[Sequence[int]] = prompts
    for _ in range(count):
        tokens = choose(model.step(cache, fresh), how, random)
        yield tokens
        fresh = [[token] for token in tokens]
