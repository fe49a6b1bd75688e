"""`tilejit run FILE|DIR`: runs a script, a kernel of a file on made-up data, a PTO file, or an artifact directory on .npy files without any compiler."""

from __future__ import annotations

import argparse
import importlib
import runpy
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np

from tilejit.errors import ArgumentError
from tilejit.runtime.artifact.compiled import CompiledProgram
from tilejit.runtime.artifact.entry import CompiledEntry
from tilejit.runtime.call.signature import ParamInfo
from tilejit.runtime.config import RunConfig
from tilejit.runtime.copies import in_numpy
from tilejit.tools import kernels
from tilejit.tools.output import say


def configure(parser: argparse.ArgumentParser) -> None:
    what = "script.py, kernels.py:KERNEL, kernel.pto, or an artifact directory that ir.compile(output_dir=…) wrote"
    arguments = "of a script (after `--` if they begin with a dash), NAME=VALUE of a kernel (x=64x128:FP32, x=x.npy, n=3), or of a PTO file"
    inputs = "of a directory: one .npy file per tensor that is read, then one number per scalar"
    parser.add_argument("what", nargs="?", metavar="FILE|DIR", help=what)
    parser.add_argument("arguments", nargs="*", metavar="ARGUMENT", help=arguments)
    parser.add_argument("--inputs", nargs="*", default=[], metavar="FILE", help=inputs)
    parser.add_argument("--out", nargs="*", default=[], metavar="FILE", help="one .npy file per tensor that is written, in parameter order, then per result")
    parser.add_argument("--entry", metavar="NAME", help="which function, when a program or a PTO file has several")
    parser.add_argument("--platform", metavar="NAME", help="where a kernel is to run; of a directory: must be the one it was compiled for")
    parser.add_argument("--check", action="store_true", help="of a kernel: compare the results with the NumPy reference")
    parser.add_argument("--pypto", nargs=argparse.REMAINDER, metavar="SCRIPT", help="run a script in which `pypto` means tilejit; the rest is for it")


def run(options: argparse.Namespace) -> int:
    if options.pypto:
        importlib.import_module("tilejit.compat.pypto")  # by its name: the facades stand above the tools
        return _run_script(options.pypto, "tilejit run --pypto script.py")
    if options.what is None:
        help = "tilejit run script.py, or tilejit run kernels.py:KERNEL x=64x128"
        raise ArgumentError("tilejit run takes a script, a kernel, a PTO file or an artifact directory", help=help)
    what = str(options.what)
    if what.endswith(".pto"):
        return _run_pto(options)
    if what.endswith(".py"):
        return _run_script([what, *options.arguments], "tilejit run script.py")
    if not Path(what).is_dir() and what.rpartition(":")[0].endswith(".py"):
        return _run_kernel(options)
    if options.arguments:
        raise ArgumentError(f"an artifact directory takes no {options.arguments[0]}", help="name .npy files after --inputs")
    return _run_directory(options)


def _run_pto(options: argparse.Namespace) -> int:
    from tilejit.tools import pto

    return pto.run(argparse.Namespace(**vars(options), action="run", file=options.what, grid=1, interpret=False))


def _run_kernel(options: argparse.Namespace) -> int:
    """Run a kernel on what the arguments describe; 1 when --check finds a difference."""
    kernel = kernels.tunable_at(options.what)
    given = kernels.random_arguments(kernel, options.arguments)
    config = kernels.config_of(options)
    before = {name: value.copy() if isinstance(value, np.ndarray) else value for name, value in given.items()}
    results = _results(kernel, given, config)
    wrong = ""
    if options.check:
        from tilejit.jit.tune.trial import difference

        expected = _results(kernels.kernel_at(options.what), before, replace(config or RunConfig(), platform="reference"))
        found = ((name, difference(array, other)) for (name, array), (_, other) in zip(results, expected, strict=True))
        wrong = "; ".join(f"{name}: {text}" for name, text in found if text is not None)
    data = _given_out(options, options.what.rpartition(":")[2], results)
    if options.check:
        data["check"] = wrong or "as the reference"
    verdict = "" if not options.check else f"\nwrong: {wrong}" if wrong else "\nthe reference computes the same"
    say(options, _shown(options, results) + verdict, data)
    return 1 if wrong else 0


def _results(kernel: object, given: dict[str, object], config: RunConfig | None) -> list[tuple[str, np.ndarray]]:
    """Name and content of what a kernel writes and returns."""
    assert isinstance(kernel, kernels.JITFunction | kernels.Autotuned)
    returned = kernel(**given, **({"config": config} if config is not None else {}))  # type: ignore[arg-type]
    params = kernel.definition.params
    written = [(param.name, in_numpy(given[param.name])) for param in params if param.direction != "In" and param.name in given]
    new = [param.name for param in params if param.direction == "Out" and param.name not in given]
    values = returned if isinstance(returned, tuple) else () if returned is None else (returned,)
    return [*written, *((new[at] if at < len(new) else f"result{at}", in_numpy(value)) for at, value in enumerate(cast("tuple[object, ...]", values)))]


def _run_directory(options: argparse.Namespace) -> int:
    compiled = CompiledProgram.from_dir(options.what)
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
    data = _given_out(options, entry.signature.name, results)
    say(options, _shown(options, results), data)
    return 0


def _given_out(options: argparse.Namespace, name: str, results: Sequence[tuple[str, np.ndarray]]) -> dict[str, object]:
    """Save the results where --out says; what there is to tell of them."""
    out = cast("list[str]", options.out)
    if out and len(out) != len(results):
        names = ", ".join(name for name, _ in results)
        raise ArgumentError(f"{name} writes {len(results)} tensors ({names}), got {len(out)} files for --out", help="name one .npy file for each")
    for file, (_, array) in zip(out, results, strict=False):
        np.save(file, array)
    files = out or [None] * len(results)
    rows = [{"name": label, "shape": list(array.shape), "dtype": str(array.dtype), "file": file} for (label, array), file in zip(results, files, strict=True)]
    return {"ran": name, "results": rows}


def _shown(options: argparse.Namespace, results: Sequence[tuple[str, np.ndarray]]) -> str:
    if options.out:
        return "\n".join(f"{name} → {file}" for (name, _), file in zip(results, options.out, strict=True))
    return "\n".join(f"{name} = {array}" for name, array in results)


def _run_script(command: list[str], usage: str) -> int:
    """Run a script as Python would."""
    script = command[0]
    if not Path(script).is_file():
        raise ArgumentError(f"there is no script {script}", help=usage)
    sys.argv, sys.path[0] = command, str(Path(script).parent.resolve())
    runpy.run_path(script, run_name="__main__")
    return 0


def _usage(params: Sequence[ParamInfo]) -> str:
    return " ".join(f"{param.name}.npy" if param.is_tensor else f"<{param.name}>" for param in params)


def _argument(param: ParamInfo, text: str) -> object:
    if param.is_tensor:
        return kernels.loaded(param.name, text, param.dtype)
    try:
        return float(text) if param.dtype.is_float else int(text)
    except ValueError:
        raise ArgumentError(f"`{param.name}` is a number ({param.dtype}), got {text!r}") from None


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
