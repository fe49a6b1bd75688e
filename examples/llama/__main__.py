"""`python -m examples.llama [FOLDER]`: generate tokens, and time every step against torch with the same weights."""

from __future__ import annotations

import argparse
import shutil
import statistics
import time
from collections.abc import Callable, Sequence
from itertools import takewhile
from pathlib import Path

import torch

from .config import Config, read_config
from .model import Cache, Model, choose
from .peer import Plain
from .weights import random_weights, read_weights

Step = Callable[[Sequence[Sequence[int]]], torch.Tensor]


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m examples.llama", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, help="config.json and .safetensors of a LLaMA, Mistral, Qwen2 or Qwen3 model; none: random weights")
    parser.add_argument("--bits", type=int, choices=(16, 8, 4), default=16, help="of our weights; torch keeps 16")
    parser.add_argument("--device", default="cpu", help="cpu, cuda, cuda:1, …")
    parser.add_argument("--prompt", action="append", metavar="1,2,3", help="token ids; repeat it for a batch; none: random prompts of different lengths")
    parser.add_argument("--batch", type=int, default=4, help="random prompts; each is a quarter shorter than the one before")
    parser.add_argument("--length", type=int, default=128, help="of the longest random prompt")
    parser.add_argument("--new", type=int, default=32, help="tokens to generate")
    parser.add_argument("--temperature", type=float, default=0.0, help="0 takes the likeliest token")
    parser.add_argument("--top-p", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--layers", type=int, default=4, help="of the random model")
    parser.add_argument("--hidden", type=int, default=1024, help="width of the random model")
    parser.add_argument("--alone", action="store_true", help="without torch")
    parser.add_argument("--compile", action="store_true", help="torch.compile too, which takes minutes the first time and a C++ compiler")
    return parser.parse_args()


def random_config(layers: int, hidden: int) -> Config:
    """A small model of today's proportions."""
    return Config(hidden, layers, heads=hidden // 64, kv_heads=max(1, hidden // 256), head_dim=64, inner=hidden * 11 // 4, vocabulary=32000)


def timed(step: Step, fresh: Sequence[Sequence[int]]) -> tuple[float, torch.Tensor]:
    start = time.perf_counter()
    logits = step(fresh)
    if logits.is_cuda:
        torch.cuda.synchronize()
    return time.perf_counter() - start, logits


@torch.inference_mode()
def main() -> None:
    given = options()
    config = read_config(given.folder) if given.folder else random_config(given.layers, given.hidden)
    weights = read_weights(given.folder, config) if given.folder else random_weights(config, given.seed)
    random = torch.Generator().manual_seed(given.seed)
    made_up = (torch.randint(config.vocabulary, (max(1, int(given.length * 0.75**r)),), generator=random).tolist() for r in range(given.batch))
    prompts = [[int(token) for token in ids.split(",")] for ids in given.prompt or ()] or list(made_up)
    requests, room, model = len(prompts), max(map(len, prompts)) + given.new + 2, Model(config, weights, given.bits, given.device)

    def steps() -> dict[str, Step]:
        cache = Cache(config, requests, room, device=given.device)
        found: dict[str, Step] = {"tilejit": lambda fresh: model.step(cache, fresh)}
        if not given.alone:
            found["torch eager"] = Plain(config, weights, requests, room, device=given.device).step
        if given.compile and not given.alone and (given.device != "cpu" or shutil.which("c++")):
            compiled = Plain(config, weights, requests, room, device=given.device)
            compiled.layer = torch.compile(compiled.layer, dynamic=True)
            found["torch.compile"] = compiled.step
        return found

    for name, step in steps().items():  # the first calls compile
        print(f"{name}: first calls {sum(timed(step, fresh)[0] for fresh in (prompts, *[[[0]] * requests] * 2)):.2f} s", flush=True)
    runs, made, fresh = steps(), [list[int]() for _ in prompts], prompts
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(given.new):
        results = {name: timed(step, fresh) for name, step in runs.items()}  # in turns, so that all see the same machine
        fresh = [[token] for token in choose(results["tilejit"][1], given.temperature, given.top_p, random)]
        for name, (seconds, _logits) in results.items():
            times[name].append(seconds)
        for row, tokens in zip(made, fresh, strict=True):
            row += tokens
    for prompt, row in zip(prompts, made, strict=True):
        print(f"{len(prompt)} tokens, then:", *takewhile(lambda token: token not in config.ends, row))
    print(f"\n{'tokens per second':<18}{'prefill':>10}{'decode':>10}")
    for name, seconds in times.items():
        print(f"{name:<18}{sum(map(len, prompts)) / seconds[0]:>10.1f}{requests / statistics.median(seconds[1:] or seconds):>10.1f}")


if __name__ == "__main__":
    main()
