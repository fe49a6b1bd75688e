"""The model of examples/llama, 4 layers × 1024, batch 4: prefill of 512 tokens and single steps, against torch eager with the same weights."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from measure import Pair, Target

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from examples.llama.__main__ import random_config
from examples.llama.model import Cache, Model
from examples.llama.peer import Plain
from examples.llama.weights import random_weights
from suites.products import turned

torch.set_num_threads(int(os.environ["TILEJIT_NUM_THREADS"]))
BATCH, TOKENS, ROOM = 4, 128, 512
Step = Callable[[], object]


def cases() -> Iterator[Pair]:
    config = random_config(4, 1024)
    weights = random_weights(config)
    prompts = [torch.randint(config.vocabulary, (TOKENS,), generator=torch.Generator().manual_seed(r)).tolist() for r in range(BATCH)]
    models = {bits: Model(config, weights, bits) for bits in (16, 8, 4)}

    def prefill(model: Model | None) -> Step:
        if model is None:
            return in_inference(lambda: Plain(config, weights, BATCH, TOKENS + 1).step(prompts))
        return in_inference(lambda: model.step(Cache(config, BATCH, TOKENS + 1), prompts))

    def decode(model: Model | None) -> Step:
        plain, cache = Plain(config, weights, BATCH, ROOM), Cache(config, BATCH, ROOM)

        def start() -> None:
            plain.lengths[:] = 0
            if model is not None:
                cache.free, cache.lengths = list(range(cache.table.numel())), [0] * BATCH
            step(prompts)

        def step(fresh: list[list[int]]) -> object:
            return plain.step(fresh) if model is None else model.step(cache, fresh)

        def one() -> None:
            if (int(plain.lengths.max()) if model is None else max(cache.lengths)) in (0, ROOM):
                start()
            step([[5]] * BATCH)

        return in_inference(one)

    yield Pair("llama prefill 4x128, bf16", "torch eager", prefill(models[16]), prefill(None), samples=7, target=Target(1.0))
    yield Pair("llama decode, bf16", "torch eager", decode(models[16]), decode(None), target=Target(1 / 1.1))
    matrices = [part for layer in models[16].layers for parts in layer for part in parts if part.dtype == torch.bfloat16] + [models[16].head[1]]
    plenty = torch.ones(sum(matrix.numel() for matrix in matrices) // 2)  # FP32: as many bytes
    rows = {matrix.shape[1]: torch.randn(BATCH, matrix.shape[1]).bfloat16() for matrix in matrices}
    outs = [torch.empty(BATCH, matrix.shape[0]) for matrix in matrices]

    def products() -> None:
        for matrix, out in zip(matrices, outs, strict=True):
            turned(rows[matrix.shape[1]], matrix, out)

    yield Pair("the products of llama decode, bf16", "reading as many bytes (torch sum)", products, plenty.sum, target=Target(1 / 0.85))
    yield Pair("llama decode, bf16, whole step", "reading as many bytes (torch sum)", decode(models[16]), plenty.sum, target=Target(1 / 0.85))
    yield Pair("llama decode, int8 weights", "ours in bf16", decode(models[8]), decode(models[16]), target=Target(1 / 1.6))
    yield Pair("llama decode, int4 weights", "ours in bf16", decode(models[4]), decode(models[16]))


def in_inference(step: Step) -> Step:
    def run() -> object:
        with torch.inference_mode():
            return step()

    return run
