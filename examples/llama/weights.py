"""Weights under their Hugging Face names: read from `.safetensors`, or random from a seed; and quantised to 8 or 4 bits."""

from __future__ import annotations

import json
from pathlib import Path

import torch

from .config import Config

Weights = dict[str, torch.Tensor]
EMBEDDING, HEAD, LAST_NORM = "model.embed_tokens.weight", "lm_head.weight", "model.norm.weight"
GROUP = 128  # weights that share a scale when they have 4 bits; those of 8 bits share one per row


def shapes(config: Config) -> dict[str, tuple[int, ...]]:
    """Every tensor that a model of this configuration has."""
    queries, keys = config.heads * config.head_dim, config.kv_heads * config.head_dim
    found: dict[str, tuple[int, ...]] = {EMBEDDING: (config.vocabulary, config.hidden), LAST_NORM: (config.hidden,)}
    found |= {} if config.tied else {HEAD: (config.vocabulary, config.hidden)}
    for layer in range(config.layers):
        start = f"model.layers.{layer}."
        projections = {"q": queries, "k": keys, "v": keys}
        feeds = {"gate": (config.inner, config.hidden), "up": (config.inner, config.hidden), "down": (config.hidden, config.inner)}
        found |= {f"{start}self_attn.{name}_proj.weight": (rows, config.hidden) for name, rows in projections.items()}
        found |= {f"{start}self_attn.{name}_proj.bias": (rows,) for name, rows in projections.items() if config.bias}
        found |= {f"{start}self_attn.o_proj.weight": (config.hidden, queries)} | {f"{start}mlp.{name}_proj.weight": shape for name, shape in feeds.items()}
        found |= {f"{start}{name}.weight": (config.hidden,) for name in ("input_layernorm", "post_attention_layernorm")}
        found |= {f"{start}self_attn.{name}.weight": (config.head_dim,) for name in ("q_norm", "k_norm") if config.head_norms}
    return found


def random_weights(config: Config, seed: int = 0) -> Weights:
    """Weights that keep the size of what flows through them, from a seed."""
    generator = torch.Generator().manual_seed(seed)
    made: Weights = {}
    for name, shape in shapes(config).items():
        values = torch.randn(shape, generator=generator)
        made[name] = (values * shape[-1] ** -0.5 if len(shape) == 2 else 0.1 * values + ("norm" in name)).bfloat16()
    return made


def read_weights(folder: Path, config: Config) -> Weights:
    """The tensors in the `.safetensors` files of a folder, as many as its index names; BF16 whatever they are stored in."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    index = folder / "model.safetensors.index.json"
    files = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())) if index.exists() else ["model.safetensors"]
    try:
        found: Weights = {name: weight for file in files for name, weight in load_file(folder / file).items()}
    except SafetensorError as error:
        raise ValueError(f"{' or '.join(files)} is damaged or cut off ({error})") from None
    wanted = shapes(config)
    wrong = [name for name, shape in wanted.items() if name not in found or tuple(found[name].shape) != shape]
    if wrong:
        raise ValueError(f"{wrong[0]} is missing or is not {wanted[wrong[0]]} ({len(wrong)} such tensors)")
    return {name: found[name].bfloat16() for name in wanted}


def quantised(weight: torch.Tensor, bits: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A matrix [n, k] as the kernels take it, and its scales [groups, n].

    16 bits: itself. 8: INT8, one scale per row. 4: two to a byte, column c in the low and column c + k/2 in the high half, stored with 8 added,
    all rows of a group of columns before those of the next."""
    rows, columns = weight.shape
    if bits == 16:
        return weight.contiguous(), torch.ones(1, 1)
    groups, top = {8: (1, 127), 4: (2 * max(1, columns // 2 // GROUP), 7)}[bits]
    parts = weight.float().reshape(rows, groups, columns // groups)
    scale = parts.abs().amax(2).clamp(min=1e-8) / top
    whole = (parts / scale[:, :, None]).round().reshape(rows, columns)
    if bits == 8:
        return whole.to(torch.int8), scale.T.contiguous()
    low, high = (whole + 8).to(torch.uint8).chunk(2, 1)
    stored = (low | high << 4).reshape(rows, groups // 2, -1).transpose(0, 1)
    return stored.reshape(rows * groups // 2, -1), scale.T.contiguous()
