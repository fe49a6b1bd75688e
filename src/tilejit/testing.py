"""For authors of kernels and of classes that are passed to them: where to run an example, how fast it is, and whether a class can be trusted in a cache key."""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from tilejit.jit.protocol import KernelArgument, register_argument, signature_digest
from tilejit.runtime.targets import HOST
from tilejit.view.measure import Bench, Report, bench, perf_report

__all__ = ["Bench", "KernelArgument", "Report", "bench", "check_argument_class", "on_device", "perf_report", "register_argument"]


def on_device(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """`kernel` as a function of NumPy arrays or torch tensors, run where `--device` on the command line says: `cpu`, or `cuda`, on torch tensors there."""
    parser = argparse.ArgumentParser(description=f"Run {getattr(kernel, '__name__', 'a kernel')} and compare it with NumPy or torch.")
    parser.add_argument("--device", default=HOST, help="where the tensors are: cpu, cuda, cuda:1, …")
    device: str = parser.parse_args().device
    if device == HOST:
        return kernel
    from tilejit.runtime import torch

    def run(*arguments: Any, **named: object) -> object:
        of_torch = any(torch.device_of(argument) is not None for argument in arguments)
        tensors = [_there(argument, device) for argument in arguments]
        results = kernel(*tensors, **named)
        for argument, tensor in zip(arguments, tensors, strict=True):
            if isinstance(argument, np.ndarray):
                argument[...] = torch.in_numpy(tensor)
            elif tensor is not argument:
                argument.copy_(tensor)
        back = (lambda tensor: tensor.to(HOST)) if of_torch else torch.in_numpy
        return tuple(map(back, results)) if isinstance(results, tuple) else back(results)

    return run


def _there(argument: Any, device: str) -> Any:
    """An array on a device; what is none stays as it is."""
    from tilejit.runtime import torch

    if isinstance(argument, np.ndarray):
        return torch.on_device(argument, device)
    return argument.to(device) if torch.device_of(argument) is not None else argument


def check_argument_class(make: Callable[[], object], other: Callable[[], object]) -> None:
    """Check the argument protocol of a class: AssertionError says what is wrong.

    `make` and `other` are functions of a module that return two objects whose kernels differ. Checked are: both methods are there, the signature
    is stable (twice in this process, and in fresh ones under three hash seeds), holds no address, and tells `make()` from `other()`.
    """
    first, second = make(), make()
    for name in ("__cache_signature__", "__abi_slots__"):
        assert hasattr(type(first), name), f"{type(first).__qualname__} has no {name}"
    slots = first.__abi_slots__()  # type: ignore[attr-defined]
    assert isinstance(slots, tuple) and len(slots) == 1, f"__abi_slots__() must return a tuple of one array or number, got {slots!r}"
    signature = first.__cache_signature__()  # type: ignore[attr-defined]
    hash(signature)
    assert not re.search(r"0x[0-9a-f]{6,}", repr(signature)), f"the signature holds an address: {signature!r}"
    digest = signature_digest(first)
    assert digest == signature_digest(second), "two objects that were made alike have different signatures"
    assert digest != signature_digest(other()), "the signature does not tell two objects apart whose kernels differ"
    assert not hasattr(make, "__closure__") or "<" not in make.__qualname__, f"{make!r} cannot be found by another process: use a function of a module"
    seen = {_in_fresh_process(make, seed) for seed in ("0", "1", "4242")}
    assert seen == {digest}, "the signature differs between processes or hash seeds"


_SCRIPT = """
import importlib, sys
from tilejit.jit.protocol import signature_digest
module, name = sys.argv[1:]
print(signature_digest(getattr(importlib.import_module(module), name)()))
"""


def _in_fresh_process(make: Callable[[], object], seed: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-c", _SCRIPT, make.__module__, make.__qualname__]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip()
