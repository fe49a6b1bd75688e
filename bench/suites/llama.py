"""The model of examples/llama, 4 layers × 1024, batch 4: prefill of 512 tokens and single steps, against torch eager with the same weights."""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Callable, Iterator
from unittest import mock

import torch
from measure import Pair, Target, rested

import tilejit.language as pl
from examples.llama import kernels
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

    yield rested(Pair("llama prefill 4x128, bf16", "torch eager", prefill(models[16]), prefill(None), samples=7, target=Target(1.0)))
    yield rested(Pair("llama decode, bf16", "torch eager", decode(models[16]), decode(None), target=Target(1 / 1.1)))
    matrices = [part for layer in models[16].layers for parts in layer for part in parts if part.dtype == torch.bfloat16] + [models[16].head[1]]
    plenty = torch.ones(sum(matrix.numel() for matrix in matrices) // 2)  # FP32: as many bytes
    rows = {matrix.shape[1]: torch.randn(BATCH, matrix.shape[1]).bfloat16() for matrix in matrices}
    outs = [torch.empty(BATCH, matrix.shape[0]) for matrix in matrices]

    def products() -> None:
        for matrix, out in zip(matrices, outs, strict=True):
            turned(rows[matrix.shape[1]], matrix, out)

    for name, step in (("the products of llama decode, bf16", products), ("llama decode, bf16, whole step", decode(models[16]))):
        yield rested(Pair(name, "reading as many bytes (sum)", step, plenty.sum, target=Target(1 / 0.85)))
    yield rested(Pair("llama decode, int8 weights", "ours in bf16", decode(models[8]), decode(models[16]), target=Target(1 / 1.6)))
    yield rested(Pair("llama decode, int4 weights", "ours in bf16", decode(models[4]), decode(models[16])))
    yield from compiles(Model(config, weights), prompts)


def compiles(model: Model, prompts: list[list[int]]) -> Iterator[Pair]:
    """All kernels of a prefill and of a single step: compiled anew, and read from disk."""
    calls: list[tuple[pl.JITFunction, tuple[object, ...]]] = []

    def noting(kernel: pl.JITFunction) -> Callable[..., object]:
        def call(*args: object) -> object:
            known = kernel.cache_info().misses
            result = kernel(*args)
            if kernel.cache_info().misses > known:
                calls.append((kernel, args))
            return result

        return call

    every = {name: getattr(kernels, name) for name in ("take", "project", "attend", "finish", "head")}
    with mock.patch.dict(vars(kernels), {name: noting(kernel) for name, kernel in every.items()}), torch.inference_mode():
        cache = Cache(model.config, BATCH, ROOM)
        for kernel in every.values():
            kernel.cache_clear()
        for fresh in (prompts, [[5]] * BATCH):
            model.step(cache, fresh)

    def again(cached: bool) -> Step:
        def step() -> None:
            with mock.patch.dict(os.environ, {"TILEJIT_CACHE": str(int(cached))}):
                for kernel in every.values():
                    kernel.cache_clear()
                for kernel, args in calls:
                    kernel.compile(*args)

        return step

    with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, {"TILEJIT_CACHE_DIR": folder}):
        yield Pair("compile of the whole llama step", "none: 3 s", again(False), lambda: None, samples=3, target=Target(math.inf, 3_000_000))
        yield Pair("the whole llama step from disk", "compiled anew", again(True), again(False), samples=3, target=Target(1, 30_000))


def in_inference(step: Step) -> Step:
    def run() -> object:
        with torch.inference_mode():
            return step()

    return run
