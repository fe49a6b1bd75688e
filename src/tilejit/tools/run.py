"""`tilejit run DIR`: runs an artifact directory on .npy files, without any compiler; `tilejit run --pypto SCRIPT`: runs a script that imports `pypto`."""

from __future__ import annotations

import argparse
import importlib
import runpy
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import cast

import numpy as np

from tilejit.dtypes import DType
from tilejit.errors import ArgumentError
from tilejit.runtime.artifact.compiled import CompiledProgram
from tilejit.runtime.artifact.entry import CompiledEntry
from tilejit.runtime.call.signature import ParamInfo
from tilejit.runtime.config import RunConfig


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", nargs="?", help="artifact directory, written by ir.compile(output_dir=…)")
    parser.add_argument("--inputs", nargs="*", default=[], metavar="FILE", help="one .npy file per tensor that is read, then one number per scalar")
    parser.add_argument("--out", nargs="*", default=[], metavar="FILE", help="one .npy file per tensor that is written, in parameter order, then per result")
    parser.add_argument("--entry", metavar="NAME", help="which function, when the program has several")
    parser.add_argument("--platform", metavar="NAME", help="must be the one the program was compiled for")
    parser.add_argument("--pypto", nargs=argparse.REMAINDER, metavar="SCRIPT", help="run a script in which `pypto` means tilejit; the rest is for it")


def run(options: argparse.Namespace) -> int:
    if options.pypto:
        return _run_script(options.pypto)
    if options.directory is None:
        raise ArgumentError("tilejit run takes an artifact directory", help="tilejit run DIR, or tilejit run --pypto SCRIPT")
    compiled = CompiledProgram.from_dir(options.directory)
    if options.entry and options.entry not in compiled.entries:
        raise ArgumentError(f"{compiled.name} has no entry {options.entry!r}", help=f"it has {', '.join(compiled.entries)}")
    entry = compiled[options.entry] if options.entry else compiled.only("run")
    params = entry.signature.params
    taken = [param for param in params if param.direction != "Out"]
    inputs = cast("list[str]", options.inputs)
    if len(inputs) != len(taken):
        expected = ", ".join(param.name for param in taken)
        raise ArgumentError(f"{entry.signature.name} takes {len(taken)} inputs ({expected}), got {len(inputs)}", help=f"--inputs {_usage(taken)}")
    values = [_argument(param, text) for param, text in zip(taken, inputs, strict=True)]
    returned = entry(*values, config=RunConfig(platform=options.platform))
    results = list(_written(entry, values, returned))
    out = cast("list[str]", options.out)
    if out and len(out) != len(results):
        raise ArgumentError(f"{entry.signature.name} writes {len(results)} tensors ({', '.join(name for name, _ in results)}), got {len(out)} files for --out")
    for file, (_, array) in zip(out, results, strict=False):
        np.save(file, array)
    if not out:
        for name, array in results:
            print(f"{name} = {array}")
    return 0


def _run_script(command: list[str]) -> int:
    """Run a script as Python would, with `pypto` as a name for this package."""
    script = command[0]
    if not Path(script).is_file():
        raise ArgumentError(f"there is no script {script}", help="tilejit run --pypto script.py")
    importlib.import_module("tilejit.compat.pypto")  # by its name: the facades stand above the tools
    sys.argv, sys.path[0] = command, str(Path(script).parent.resolve())
    runpy.run_path(script, run_name="__main__")
    return 0


def _usage(params: Sequence[ParamInfo]) -> str:
    return " ".join(f"{param.name}.npy" if param.is_tensor else f"<{param.name}>" for param in params)


def _argument(param: ParamInfo, text: str) -> object:
    if param.is_tensor:
        if not Path(text).is_file():
            raise ArgumentError(f"there is no file {text} for `{param.name}`")
        try:
            return _typed(np.load(text, allow_pickle=False), param.dtype)
        except (OSError, ValueError) as error:
            raise ArgumentError(f"{text} is no .npy file that could be read for `{param.name}`: {error}") from None
    try:
        return float(text) if param.dtype.is_float else int(text)
    except ValueError:
        raise ArgumentError(f"`{param.name}` is a number ({param.dtype}), got {text!r}") from None


def _typed(array: np.ndarray, dtype: DType) -> np.ndarray:
    """.npy files know only NumPy's own dtypes: the others (bfloat16, …) come back as raw bytes of the same size."""
    return array.view(dtype.numpy) if array.dtype.kind == "V" and array.dtype.itemsize == dtype.numpy.itemsize else array


def _written(entry: CompiledEntry, values: Sequence[object], returned: object) -> Iterator[tuple[str, np.ndarray]]:
    """Name and content of everything the call wrote: parameters in order, then results."""
    new = iter(returned if isinstance(returned, tuple) else (returned,))
    given = iter(values)
    for param in entry.signature.params:
        value = next(new) if param.direction == "Out" else next(given)
        if param.direction != "In":
            yield param.name, cast("np.ndarray", value)
    for result in entry.signature.results:
        yield result.name, cast("np.ndarray", next(new))
