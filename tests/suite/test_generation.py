"""A prompt in one call, then a token per call on the same caches, gives the numbers of the whole sequence at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.suite.llm_layers import llama, llama_cached, llama_prefill

Array = np.ndarray[Any, Any]
HIDDEN, HEADS, KV_HEADS, D, INNER, TOKENS, PROMPT = 16, 4, 2, 8, 40, 9, 6


def test_decoding_continues_a_prompt(platform: str) -> None:
    rng = np.random.default_rng(3)

    def small(*shape: int) -> Array:
        return rng.uniform(-0.4, 0.4, shape).astype(np.float32)

    weights = [
        small(1, HIDDEN), small(HIDDEN, HEADS * D), small(HIDDEN, KV_HEADS * D), small(HIDDEN, KV_HEADS * D), small(HEADS * D, HIDDEN),
        small(1, HIDDEN), small(HIDDEN, INNER), small(HIDDEN, INNER), small(INNER, HIDDEN),
    ]  # fmt: skip
    x = rng.standard_normal((TOKENS, HIDDEN)).astype(np.float32)
    angles = rng.random((TOKENS, D // 2), np.float32) * 3
    cos, sin = np.cos(angles), np.sin(angles)
    keys, values = (np.full((TOKENS, KV_HEADS * D), np.nan, np.float32) for _ in range(2))
    out = np.empty_like(x)
    llama_cached(D, 0)(x[:PROMPT], cos[:PROMPT], sin[:PROMPT], *weights, keys, values, out[:PROMPT])
    for i in range(PROMPT, TOKENS):
        llama_cached(D, i)(x[i : i + 1], cos[i : i + 1], sin[i : i + 1], *weights, keys, values, out[i : i + 1])
    np.testing.assert_allclose(out, llama(D)(x, cos, sin, *weights), rtol=2e-3, atol=2e-3)
    whole = np.empty_like(x)
    llama_prefill(D)(x, cos, sin, *weights, whole)
    np.testing.assert_allclose(out, whole, rtol=1e-4, atol=1e-4)
