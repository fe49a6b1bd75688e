"""`python -m examples.llama [FOLDER]`: generate tokens, and time every step against torch with the same weights."""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from itertools import takewhile
from pathlib import Path

import torch

if not __package__:  # `python examples/llama`
    sys.path.insert(0, str(Path(__file__).parents[2]))
    __package__, __spec__ = "examples.llama", None

from .config import Config, read_config
from .model import Cache, Model, choose
from .peer import Plain
from .weights import random_weights, read_weights

Step = Callable[[Sequence[Sequence[int]]], torch.Tensor]


def token_ids(text: str) -> list[int]:
    return [int(token) for token in text.split(",")]


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m examples.llama", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, help="config.json and .safetensors of a LLaMA, Mistral, Qwen2 or Qwen3 model; none: random weights")
    parser.add_argument("--bits", type=int, choices=(16, 8, 4), default=16, help="of our weights; torch keeps 16")
    devices = ["cpu", *["cuda"][: torch.cuda.device_count()], *(f"cuda:{number}" for number in range(torch.cuda.device_count()))]
    parser.add_argument("--device", choices=devices, default="cpu")
    parser.add_argument("--prompt", type=token_ids, action="append", metavar="1,2,3", help="repeat it for a batch; none: random prompts of different lengths")
    parser.add_argument("--batch", type=int, default=4, help="random prompts; each is a quarter shorter than the one before")
    parser.add_argument("--length", type=int, default=128, help="of the longest random prompt")
    parser.add_argument("--new", type=int, default=32, help="tokens to generate")
    parser.add_argument("--temperature", type=float, default=0.0, help="0 takes the likeliest token")
    parser.add_argument("--top-p", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--layers", type=int, default=4, help="of the random model")
    parser.add_argument("--hidden", type=int, choices=range(256, 8193, 256), metavar="N", default=1024, help="width of the random model")
    parser.add_argument("--alone", action="store_true", help="without torch")
    parser.add_argument("--compile", action="store_true", help="torch.compile too, which takes minutes the first time and a C++ compiler")
    return parser


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
    parser = options()
    given = parser.parse_args()
    if min(given.batch, given.length, given.new, given.layers) < 1:
        parser.error("--batch, --length, --new and --layers begin at 1")
    try:
        config = read_config(given.folder) if given.folder else random_config(given.layers, given.hidden)
        weights = read_weights(given.folder, config) if given.folder else random_weights(config, given.seed)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:  # what wrong files end in
        parser.error(f"no model in {given.folder}: {f'no {error}' if isinstance(error, KeyError) else error}; one has config.json and .safetensors")
    random = torch.Generator().manual_seed(given.seed)
    lengths = (max(1, int(given.length * 0.75**r)) for r in range(given.batch))
    prompts = given.prompt or [torch.randint(config.vocabulary, (length,), generator=random).tolist() for length in lengths]
    requests, room = len(prompts), max(map(len, prompts)) + given.new + 2
    if any(not 0 <= token < config.vocabulary for ids in prompts for token in ids):
        parser.error(f"--prompt: the token ids of this model are 0 to {config.vocabulary - 1}")
    if room > config.positions:
        parser.error(f"the longest prompt and {given.new} new tokens need {room} positions; the model has {config.positions}")
    model = Model(config, weights, given.bits, given.device)

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
    runs, made, times, fresh = steps(), list[list[list[int]]](), list[dict[str, float]](), prompts
    for _ in range(given.new):
        results = {name: timed(step, fresh) for name, step in runs.items()}  # in turns, so that all see the same machine
        fresh = [[token] for token in choose(results["tilejit"][1], given.temperature, given.top_p, random)]
        times.append({name: seconds for name, (seconds, _logits) in results.items()})
        made.append(fresh)
    for r, prompt in enumerate(prompts):
        print(f"{len(prompt)} tokens, then:", *takewhile(lambda token: token not in config.ends, [step[r][0] for step in made]))
    print(f"\n{'tokens per second':<18}{'prefill':>10}{'decode':>10}")
    for name in runs:
        seconds = [step[name] for step in times]
        print(f"{name:<18}{sum(map(len, prompts)) / seconds[0]:>10.1f}{requests / statistics.median(seconds[1:] or seconds):>10.1f}")


if __name__ == "__main__":
    main()
