"""`python -m examples.llama [FOLDER]`: generate tokens, and time every step against torch with the same weights."""

from __future__ import annotations

import argparse
import shutil
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from .config import Config, read_config
from .model import Cache, Model, Sampling, choose
from .plain import Plain
from .weights import random_weights, read_weights

Step = Callable[[Sequence[Sequence[int]]], torch.Tensor]


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m examples.llama", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, help="config.json and .safetensors of a LLaMA, Mistral, Qwen2 or Qwen3 model; none: random weights")
    parser.add_argument("--bits", type=int, choices=(16, 8, 4), default=16, help="of our weights (torch keeps 16)")
    parser.add_argument("--device", default="cpu", help="cpu, cuda, cuda:1, …")
    parser.add_argument("--batch", type=int, default=4, help="random prompts")
    parser.add_argument("--prompt", type=int, default=128, help="tokens of the longest random prompt; each other one is a quarter shorter than the one before")
    parser.add_argument("--ids", action="append", metavar="1,2,3", help="a prompt of token ids instead; repeat it for a batch")
    parser.add_argument("--new", type=int, default=32, help="tokens to generate")
    parser.add_argument("--temperature", type=float, default=0.0, help="0 takes the likeliest token")
    parser.add_argument("--top-p", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--layers", type=int, default=4, help="of the random model")
    parser.add_argument("--hidden", type=int, default=1024, help="width of the random model")
    parser.add_argument("--alone", action="store_true", help="without torch's times")
    return parser.parse_args()


def random_config(layers: int, hidden: int) -> Config:
    """A small model of today's proportions."""
    return Config(hidden, layers, heads=hidden // 64, kv_heads=max(1, hidden // 256), head_dim=64, inner=hidden * 11 // 4, vocabulary=32000)


def seconds(step: Step, fresh: Sequence[Sequence[int]], device: str) -> tuple[float, torch.Tensor]:
    start = time.perf_counter()
    logits = step(fresh)
    if device != "cpu":
        torch.cuda.synchronize()
    return time.perf_counter() - start, logits


def peers(config: Config, weights: Any, requests: int, tokens: int, device: str) -> dict[str, Step]:
    """torch as it is, and compiled where that can be done."""
    eager = Plain(config, weights, requests, tokens, device=device)
    found: dict[str, Step] = {"torch eager": eager.step}
    if device != "cpu" or shutil.which("c++") or shutil.which("g++"):
        compiled = Plain(config, weights, requests, tokens, device=device)
        compiled.layer = torch.compile(compiled.layer, dynamic=True)
        found["torch.compile"] = compiled.step
    return found


@torch.inference_mode()
def main() -> None:
    given = options()
    config = read_config(given.folder) if given.folder else random_config(given.layers, given.hidden)
    weights = read_weights(given.folder, config) if given.folder else random_weights(config, given.seed)
    random = torch.Generator().manual_seed(given.seed)
    lengths = [max(1, int(given.prompt * 0.75**r)) for r in range(given.batch)]
    prompts: list[list[int]] = [torch.randint(config.vocabulary, (n,), generator=random).tolist() for n in lengths]
    if given.ids:
        prompts = [[int(token) for token in ids.split(",")] for ids in given.ids]
    room = max(map(len, prompts)) + given.new
    how, model = Sampling(given.temperature, given.top_p, given.seed), Model(config, weights, given.bits, given.device)

    def fresh_steps() -> dict[str, Step]:
        cache = Cache(config, len(prompts), room, device=given.device)
        ours: dict[str, Step] = {"tilejit": lambda fresh: model.step(cache, fresh)}
        return ours if given.alone else ours | peers(config, weights, len(prompts), room, given.device)

    warm = fresh_steps()
    for fresh in (prompts, *[[[0]] * len(prompts)] * 2):  # compiles
        taken = {name: seconds(step, fresh, given.device)[0] for name, step in warm.items()}
        print("first calls:", ", ".join(f"{name} {value:.2f} s" for name, value in taken.items()), flush=True)
    steps = fresh_steps()
    times: dict[str, list[float]] = {name: [] for name in steps}
    made: list[list[int]] = [[] for _ in prompts]
    fresh = prompts
    for _ in range(given.new):
        chosen: list[int] = []
        for name, step in steps.items():  # in turns, so that all see the same machine; all go on with our tokens
            taken_now, logits = seconds(step, fresh, given.device)
            times[name].append(taken_now)
            chosen = chosen or choose(logits, how, random)
        for row, token in zip(made, chosen, strict=True):
            row.append(token)
        fresh = [[token] for token in chosen]
    for r, row in enumerate(made):
        ends = [place for place, token in enumerate(row) if token in config.ends]
        print(f"request {r}, {len(prompts[r])} tokens:", *row[: ends[0] if ends else None])
    print(f"{'':<16}{'prefill tokens/s':>18}{'decode tokens/s':>18}")
    for name, values in times.items():
        decode = len(prompts) / statistics.median(values[1:]) if len(values) > 1 else float("nan")
        print(f"{name:<16}{sum(map(len, prompts)) / values[0]:>18.1f}{decode:>18.1f}")


if __name__ == "__main__":
    main()
