"""Kernels named on the command line, `FILE:KERNEL NAME=VALUE…`: what several commands take."""

from __future__ import annotations

import argparse
import re
import runpy
import sys
from pathlib import Path

import numpy as np

from tilejit.dtypes import DTYPES
from tilejit.errors import ArgumentError, did_you_mean
from tilejit.jit.function import JITFunction

_TENSOR = re.compile(r"(?P<shape>\d+(?:x\d+)*)(?::(?P<dtype>\w+))?")


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments that name a kernel and what to compile it for."""
    parser.add_argument("kernel", metavar="FILE:KERNEL", help="a Python file and the name of a @pl.jit kernel in it")
    parser.add_argument("arguments", nargs="*", metavar="NAME=VALUE", help="x=64x128:FP32 is a tensor, n=3 a number; none: as the annotations say")
    parser.add_argument("--platform", metavar="NAME", help="what to compile for")


def kernel_at(place: str) -> JITFunction:
    """The kernel that `FILE:KERNEL` names."""
    file, _, name = place.rpartition(":")
    if not file or not Path(file).is_file():
        raise ArgumentError(f"there is no file {file or place}", help="write FILE:KERNEL, such as softmax.py:softmax")
    sys.path.insert(0, str(Path(file).parent.resolve()))
    kernels = {key: value for key, value in runpy.run_path(file, run_name="__tilejit__").items() if isinstance(value, JITFunction)}
    if name not in kernels:
        raise ArgumentError(f"{file} has no kernel `{name}`", help=did_you_mean(name, kernels) or f"it has {', '.join(kernels) or 'none'}")
    return kernels[name]


def sample_arguments(kernel: JITFunction, given: list[str]) -> dict[str, object]:
    """Arguments like those that are described."""
    out: dict[str, object] = {}
    for item in given:
        name, equals, text = item.partition("=")
        param = next((param for param in kernel.definition.params if param.name == name), None)
        if not equals or param is None:
            names = [param.name for param in kernel.definition.params]
            help = did_you_mean(name, names) or f"write NAME=VALUE with one of {', '.join(names)}"
            raise ArgumentError(f"`{item}` names no parameter of {kernel.__name__}", help=help)
        out[name] = _tensor(name, text) if param.kind == "tensor" else _number(name, text)
    return out


def _tensor(name: str, text: str) -> np.ndarray:
    found = _TENSOR.fullmatch(text)
    dtype = DTYPES.get(found["dtype"] or "FP32") if found is not None else None
    if found is None or dtype is None:
        raise ArgumentError(f"`{name}` is a tensor, got {text!r}", help=f"write {name}=64x128:FP32; data types: {', '.join(DTYPES)}")
    return np.zeros([int(extent) for extent in found["shape"].split("x")], dtype.numpy)


def _number(name: str, text: str) -> int | float | bool:
    try:
        return {"True": True, "False": False}[text] if text in ("True", "False") else float(text) if not text.lstrip("-").isdigit() else int(text)
    except ValueError:
        raise ArgumentError(f"`{name}` is a number, got {text!r}", help=f"write {name}=3") from None
