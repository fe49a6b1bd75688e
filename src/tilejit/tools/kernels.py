"""Kernels named on the command line, `FILE:KERNEL NAME=VALUE…`: what several commands take."""

from __future__ import annotations

import argparse
import re
import runpy
import sys
import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from tilejit.dtypes import DTYPES, DType
from tilejit.errors import ArgumentError, did_you_mean
from tilejit.jit.function import JITFunction
from tilejit.jit.tune.function import Autotuned
from tilejit.runtime.config import RunConfig

_TENSOR = re.compile(r"(?P<shape>\d+(?:x\d+)*)(?::(?P<dtype>\w+))?")


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments that name a kernel and what to compile it for."""
    parser.add_argument("kernel", metavar="FILE:KERNEL", help="a Python file and the name of a @pl.jit kernel in it")
    arguments = "x=64x128:FP32 is a tensor, x=x.npy one of a file, n=3 a number; none: as the annotations say"
    parser.add_argument("arguments", nargs="*", metavar="NAME=VALUE", help=arguments)
    parser.add_argument("--platform", metavar="NAME", help="what to compile for")


def config_of(options: argparse.Namespace) -> RunConfig | None:
    """What the options say of a call; None: nothing."""
    return RunConfig(platform=options.platform) if options.platform else None


def names_of(file: str) -> dict[str, object]:
    """What a Python file defines."""
    if not Path(file).is_file():
        raise ArgumentError(f"there is no file {file}", help="write FILE:KERNEL, such as softmax.py:softmax")
    folder = str(Path(file).parent.resolve())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    return runpy.run_path(file, run_name="__tilejit__")


def kernel_at(place: str) -> JITFunction:
    """The kernel that `FILE:KERNEL` names, with its defaults where it is autotuned."""
    found = tunable_at(place)
    return found.kernel if isinstance(found, Autotuned) else found


def tunable_at(place: str) -> JITFunction | Autotuned:
    """The kernel that `FILE:KERNEL` names."""
    file, _, name = place.rpartition(":")
    kernels = {key: value for key, value in names_of(file or place).items() if isinstance(value, JITFunction | Autotuned)}
    if name not in kernels:
        raise ArgumentError(f"{file} has no kernel `{name}`", help=did_you_mean(name, kernels) or f"it has {', '.join(kernels) or 'none'}")
    return kernels[name]


def sample_arguments(kernel: JITFunction | Autotuned, given: list[str]) -> dict[str, object]:
    """Arguments like those that are described."""
    out: dict[str, object] = {}
    for item in given:
        name, equals, text = item.partition("=")
        param = next((param for param in kernel.definition.params if param.name == name), None)
        if not equals or param is None:
            names = [param.name for param in kernel.definition.params]
            help = did_you_mean(name, names) or f"write NAME=VALUE with one of {', '.join(names)}"
            raise ArgumentError(f"`{item}` names no parameter of {kernel.definition.name}", help=help)
        out[name] = _tensor(name, text) if param.kind == "tensor" else number(name, text)
    return out


def random_arguments(kernel: JITFunction | Autotuned, given: list[str]) -> dict[str, object]:
    """The same to run on: tensors that are read hold numbers, the same every time, unless they come from files; those of annotations are made too."""
    out = sample_arguments(kernel, given)
    files = {item.partition("=")[0] for item in given if item.endswith(".npy")}
    for param in kernel.definition.params:
        if param.kind == "tensor" and param.name not in out and param.direction != "Out" and param.tensor is not None:
            shape, dtype = param.tensor.shape or (None,), param.tensor.dtype
            extents = [extent for extent in shape if isinstance(extent, int)]
            if dtype is not None and len(extents) == len(shape):
                out[param.name] = np.zeros(extents, dtype.numpy)
        value = out.get(param.name)
        if isinstance(value, np.ndarray) and param.name not in files:
            out[param.name] = _filled(value, zlib.crc32(param.name.encode()))
    return out


def inputs_of(kernel: JITFunction | Autotuned, given: Mapping[str, object]) -> dict[str, object]:
    """Of some arguments those that the kernel reads, in its order."""
    return {param.name: given[param.name] for param in kernel.definition.params if param.name in given and param.direction != "Out"}


def _filled(array: np.ndarray, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if array.dtype.kind == "b":
        return rng.integers(0, 2, array.shape).astype(array.dtype)
    if array.dtype.kind in "iu":
        return rng.integers(0, 100, array.shape).astype(array.dtype)
    return rng.standard_normal(array.shape).astype(array.dtype)


def _tensor(name: str, text: str) -> np.ndarray:
    if text.endswith(".npy"):
        return loaded(name, text)
    found = _TENSOR.fullmatch(text)
    dtype = DTYPES.get(found["dtype"] or "FP32") if found is not None else None
    if found is None or dtype is None:
        raise ArgumentError(f"`{name}` is a tensor, got {text!r}", help=f"write {name}=64x128:FP32 or {name}=file.npy; data types: {', '.join(DTYPES)}")
    return np.zeros([int(extent) for extent in found["shape"].split("x")], dtype.numpy)


def loaded(name: str, file: str, dtype: DType | None = None) -> np.ndarray:
    """The array of a .npy file; those of data types that NumPy lacks come back as raw bytes of the same size."""
    if not Path(file).is_file():
        raise ArgumentError(f"there is no file {file} for `{name}`", help="write it with np.save")
    try:
        array = np.load(file, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise ArgumentError(f"{file} is no .npy file that could be read for `{name}`: {error}", help="write it with np.save") from None
    return array.view(dtype.numpy) if dtype is not None and array.dtype.kind == "V" and array.dtype.itemsize == dtype.numpy.itemsize else array


def number(name: str, text: str) -> int | float | bool:
    """A number on the command line."""
    try:
        return {"True": True, "False": False}[text] if text in ("True", "False") else float(text) if not text.lstrip("-").isdigit() else int(text)
    except ValueError:
        raise ArgumentError(f"`{name}` is a number, got {text!r}", help=f"write {name}=3") from None
