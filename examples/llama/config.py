"""The sizes of a model, from a Hugging Face `config.json`."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

KNOWN = ("llama", "mistral", "qwen2", "qwen3")


@dataclass(frozen=True)
class Config:
    """What the kernels and the weights must know of a model."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    inner: int
    vocabulary: int
    eps: float = 1e-5
    theta: float = 10000.0
    positions: int = 2048
    tied: bool = False
    bias: bool = False  # of the projections of queries, keys and values (Qwen2)
    head_norms: bool = False  # queries and keys are normalised head by head (Qwen3)
    stretch: tuple[float, ...] | None = None  # rotary scaling (LLaMA 3.1): factor, low and high frequency factors, original positions
    ends: tuple[int, ...] = ()

    def rotary(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Cosines and sines of every position, [positions, head_dim / 2] each."""
        frequency = self.theta ** -(torch.arange(0, self.head_dim, 2, dtype=torch.float64) / self.head_dim)
        if self.stretch:
            factor, low, high, original = self.stretch
            share = ((original * frequency / (2 * math.pi) - low) / (high - low)).clamp(0, 1)
            frequency = frequency * (share + (1 - share) / factor)
        angle = torch.outer(torch.arange(self.positions, dtype=torch.float64), frequency)
        return angle.cos().float(), angle.sin().float()


def read_config(folder: Path) -> Config:
    """The configuration in a folder; a model that would come out wrong is refused."""
    raw: dict[str, Any] = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    kind = raw.get("model_type", "llama")
    if kind not in KNOWN:
        raise ValueError(f"model_type {kind!r}; known are {', '.join(KNOWN)}")
    window = raw.get("sliding_window") if raw.get("use_sliding_window", kind == "mistral") else None
    if window or raw.get("mlp_bias") or raw.get("hidden_act", "silu") != "silu":
        raise ValueError("attention windows, biases in the feed-forward layers and activations other than silu are not built")
    rope = raw.get("rope_parameters") or raw.get("rope_scaling") or {}
    rope_type = rope.get("rope_type", rope.get("type", "default"))
    if rope_type not in ("default", "llama3"):
        raise ValueError(f"rotary scaling {rope_type!r}; known are default and llama3")
    scaling = ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings") if rope_type == "llama3" else ()
    ends = raw.get("eos_token_id")
    config = Config(
        hidden=raw["hidden_size"], layers=raw["num_hidden_layers"], heads=raw["num_attention_heads"],
        kv_heads=raw.get("num_key_value_heads") or raw["num_attention_heads"],
        head_dim=raw.get("head_dim") or raw["hidden_size"] // raw["num_attention_heads"],
        inner=raw["intermediate_size"], vocabulary=raw["vocab_size"], eps=raw.get("rms_norm_eps", 1e-6),
        theta=rope.get("rope_theta", raw.get("rope_theta", 10000.0)), positions=raw.get("max_position_embeddings", 2048),
        tied=raw.get("tie_word_embeddings", False), bias=raw.get("attention_bias", kind == "qwen2"), head_norms=kind == "qwen3",
        stretch=tuple(float(rope[key]) for key in scaling) or None, ends=() if ends is None else tuple(ends) if isinstance(ends, list) else (ends,),
    )  # fmt: skip
    sizes = (config.hidden, config.layers, config.heads, config.kv_heads, config.head_dim, config.inner, config.vocabulary, config.positions)
    if not all(isinstance(size, int) and size > 0 for size in sizes) or config.heads % config.kv_heads or config.head_dim % 2:
        raise ValueError(f"sizes {sizes} that no model has: whole numbers from 1, heads in equal groups, each of an even width")
    return config
