"""`python bench/first_call.py KERNEL HOW`: prints the seconds of the first call of a kernel in this process, imports excluded, once it is told to start."""

from __future__ import annotations

import gc
import importlib
import os
import pkgutil
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

KERNEL, HOW = sys.argv[1:]
FOLDERS = os.path.join(tempfile.gettempdir(), f"tilejit-bench-{os.getuid()}")
"""Caches that the runs from disk share; the others start with empty ones."""
os.environ["TILEJIT_CACHE"] = "1" if HOW == "disk" else "0"
os.environ["TILEJIT_CACHE_DIR"] = os.path.join(FOLDERS, "tilejit")
os.environ["TRITON_CACHE_DIR"] = os.path.join(FOLDERS, "triton") if HOW == "triton disk" else tempfile.mkdtemp()

import torch  # noqa: E402 - the variables come first


def tensors() -> list[torch.Tensor]:
    """Inputs and output, on the GPU, which has started."""
    size = 2048 if KERNEL == "matmul" else 1024
    dtype = torch.bfloat16 if KERNEL == "matmul" else torch.float32
    made = [torch.randn(size, size, device="cuda").to(dtype) for _ in range(2 if KERNEL == "softmax" else 3)]
    torch.cuda.synchronize()
    return made


def ours() -> Callable[..., object]:
    """With all that compiling runs imported."""
    package = importlib.import_module("tilejit.backends.cuda")
    names = [module.name for module in pkgutil.walk_packages(package.__path__, "tilejit.backends.cuda.")]
    own = ("compiler", "jit.specialize.requests", "jit.specialize.build", "frontend.program", "runtime.torch", "runtime.cuda.entry")
    for name in (*(f"tilejit.{part}" for part in own), *names):
        importlib.import_module(name)
    return from_disk()


def from_disk() -> Callable[..., object]:
    """With all that running what is there needs imported."""
    for name in ("language", "runtime.torch", "runtime.cuda.entry"):
        importlib.import_module(f"tilejit.{name}")
    suite = importlib.import_module("suites.cuda")
    return {"add": suite.add, "softmax": suite.softmax, "matmul": suite.product}[KERNEL]


def tritons() -> Callable[..., object]:
    peers: Any = importlib.import_module("peers_triton")
    match KERNEL:
        case "add":
            return lambda x, y, out: peers.add_kernel[(1024,)](x, y, out, out.numel(), 1024)
        case "softmax":
            return lambda x, out: peers.softmax_kernel[(1024,)](x, out, 1024, 1024)
        case _:
            return peers.matmul


def main() -> None:
    given = tensors()
    if "disk" not in HOW:
        for name in ("triton.compiler.code_generator", "triton.backends.compiler", "triton.language.extra.cuda"):
            importlib.import_module(name)
    kernel = {"ours": ours, "disk": from_disk, "triton": tritons, "triton disk": tritons}[HOW]()
    print("ready", flush=True)
    sys.stdin.readline()
    gc.collect()  # what importing left behind is not ours to clean up
    awake = time.perf_counter() + 0.05
    while time.perf_counter() < awake:
        pass  # a process that has just imported everything did not sleep
    start = time.perf_counter()
    kernel(*given)
    torch.cuda.synchronize()
    print(time.perf_counter() - start)


if __name__ == "__main__":
    main()
