"""`tilejit trace FILE:KERNEL`: a page that shows each step of a compile, from the source to the code."""

from __future__ import annotations

import argparse
import json
import re
import runpy
import sys
from pathlib import Path

import numpy as np

from tilejit.dtypes import DTYPES
from tilejit.errors import ArgumentError, did_you_mean
from tilejit.jit.function import JITFunction
from tilejit.runtime.config import RunConfig

_TENSOR = re.compile(r"(?P<shape>\d+(?:x\d+)*)(?::(?P<dtype>\w+))?")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("kernel", metavar="FILE:KERNEL", help="a Python file and the name of a @pl.jit kernel in it")
    parser.add_argument("arguments", nargs="*", metavar="NAME=VALUE", help="x=64x128:FP32 is a tensor, n=3 a number; none: as the annotations say")
    parser.add_argument("--out", metavar="PAGE", help="where to write; default: trace-KERNEL.html")
    parser.add_argument("--platform", metavar="NAME", help="what to compile for")
    parser.add_argument("--json", action="store_true", help="print what the page shows as JSON instead of writing it")


def run(options: argparse.Namespace) -> int:
    """Write the page; 1 when the compile failed, which the page shows."""
    kernel = _kernel(options.kernel)
    found = kernel.trace(path=options.out, config=RunConfig(platform=options.platform), **_arguments(kernel, options.arguments))
    if options.json:
        print(json.dumps(found.record.plain()))
        if options.out is None:
            found.path.unlink()
    else:
        print(found.path)
    if found.record.error:
        print(f"tilejit trace: {found.record.failed} failed: {found.record.error}", file=sys.stderr)
    return 1 if found.record.error else 0


def _kernel(place: str) -> JITFunction:
    file, _, name = place.rpartition(":")
    if not file or not Path(file).is_file():
        raise ArgumentError(f"there is no file {file or place}", help="write tilejit trace FILE:KERNEL, such as softmax.py:softmax")
    sys.path.insert(0, str(Path(file).parent.resolve()))
    kernels = {key: value for key, value in runpy.run_path(file, run_name="__tilejit_trace__").items() if isinstance(value, JITFunction)}
    if name not in kernels:
        raise ArgumentError(f"{file} has no kernel `{name}`", help=did_you_mean(name, kernels) or f"it has {', '.join(kernels) or 'none'}")
    return kernels[name]


def _arguments(kernel: JITFunction, given: list[str]) -> dict[str, object]:
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
