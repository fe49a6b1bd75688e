"""`tilejit pto check|run|fmt|emit FILE`: PTO files from the shell, and PTO files from kernels."""

from __future__ import annotations

import argparse
import runpy
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tilejit.dtypes import DTYPES
from tilejit.errors import AbiError, ArgumentError, PtoSyntaxError, SourceNotFoundError
from tilejit.runtime.targets import row_of
from tilejit.tools.output import as_json, say

if TYPE_CHECKING:
    from tilejit.tile_ir.pto.module import PtoFile


_PLATFORM = "a2a3"
"""What kernels are written for unless --platform says another."""


def configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    check = actions.add_parser("check", help="read files and report every rule they break")
    check.add_argument("files", nargs="+", metavar="FILE")
    check.add_argument("--arch", choices=row_of(_PLATFORM).platforms, help="the architecture, whatever the file says")
    form = actions.add_parser("fmt", help="print files in canonical form")
    form.add_argument("files", nargs="+", metavar="FILE")
    form.add_argument("--write", action="store_true", help="write the files instead of printing them (comments are lost)")
    form.add_argument("--long", action="store_true", help="tile types with all their keys")
    form.add_argument("--generic", action="store_true", help="MLIR's generic form")
    emit = actions.add_parser("emit", help="write the kernels of a Python file as PTO text")
    emit.add_argument("file", metavar="FILE", help="a Python file; it is run")
    emit.add_argument("name", metavar="NAME", help="a @pl.jit kernel, or a @pl.program, of the file")
    emit.add_argument("arguments", nargs="*", metavar="ARG", help="what a kernel is specialised on: .npy files, tensors like 64x128:FP32, numbers")
    emit.add_argument("--platform", choices=row_of(_PLATFORM).platforms, default=_PLATFORM, help=f"the architecture (default {_PLATFORM})")
    emit.add_argument("--out", metavar="DIR", help="write the artifact directory instead of printing the kernels")
    run = actions.add_parser("run", help="run an entry on .npy files and numbers")
    run.add_argument("file", metavar="FILE", help="a PTO file, or the artifact directory of a program compiled for a2a3 or a5")
    run.add_argument("arguments", nargs="*", metavar="ARG", help="one .npy file per pointer (written back when it changed), one number per scalar, in order")
    run.add_argument("--entry", metavar="NAME", help="which function, when the file has several entries")
    run.add_argument("--grid", type=int, default=1, metavar="N", help="number of blocks (default 1)")
    run.add_argument("--interpret", action="store_true", help="op by op, never as machine code")


def run(options: argparse.Namespace) -> int:
    action = {"check": _check, "fmt": _format, "run": _run, "emit": _emit}[options.action]
    return action(options)


def _read(path: str, arch: str | None = None) -> PtoFile:
    from tilejit.frontend.pto.text import parse_pto

    try:
        raw = Path(path).read_bytes()
    except OSError as error:
        raise SourceNotFoundError(f"{path}: {error.strerror or error}") from None
    return parse_pto(raw, path, arch)


def _check(options: argparse.Namespace) -> int:
    from tilejit.tile_ir.pto.spec import A5
    from tilejit.tile_ir.pto.verify import build_level, problems

    lines: list[str] = []
    rows: list[dict[str, object]] = []
    for path in cast("Sequence[str]", options.files):
        try:
            file = _read(path, options.arch)
            found = list(problems(file))
        except PtoSyntaxError as error:
            file, found = None, [error]
        lines += [f"{type(error).__name__}: {error}" for error in found]
        row: dict[str, object] = {"file": path, "problems": [{"type": type(error).__name__, "message": error.message} for error in found]}
        if file is not None and not found:
            names = [entry.sym_name.data for entry in file.entries()]
            arch, level = "A5" if file.arch == A5 else "A2/A3", build_level(file)
            lines.append(f"{path}: ok ({', '.join(f'@{name}' for name in names) or 'no entry'}; {arch}, level {level})")
            row |= {"entries": names, "architecture": arch, "level": level}
        rows.append(row)
    say(options, "\n".join(lines), rows)
    return 1 if any(row["problems"] for row in rows) else 0


def _format(options: argparse.Namespace) -> int:
    from tilejit.tile_ir.pto.verify import verify

    texts: dict[str, str] = {}
    for path in cast("Sequence[str]", options.files):
        file = _read(path)
        verify(file)
        texts[path] = file.print(long_tiles=options.long, generic=options.generic)
        if options.write:
            Path(path).write_text(texts[path], encoding="utf-8")
    if options.json:
        print(as_json(texts))
    elif not options.write:
        print("".join(texts.values()), end="")
    return 0


def _emit(options: argparse.Namespace) -> int:
    from tilejit.compiler import compile_program
    from tilejit.jit.function import JITFunction
    from tilejit.runtime.config import RunConfig
    from tilejit.tile_ir.program import Function, Program

    try:
        names = runpy.run_path(options.file)
    except OSError as error:
        raise SourceNotFoundError(f"{options.file}: {error.strerror or error}") from None
    found = names.get(options.name)
    config = RunConfig(platform=options.platform)
    if isinstance(found, JITFunction):
        given = [_example(text) for text in cast("Sequence[str]", options.arguments)]
        compiled = compile_program(found.lower(*given), config, options.out)
    elif isinstance(found, Program | Function):
        compiled = compile_program(found, config, options.out)
    else:
        known = [name for name, value in names.items() if isinstance(value, JITFunction | Program | Function)]
        raise ArgumentError(f"{options.file} defines no kernel or program {options.name}", help=f"it defines {', '.join(known) or 'none'}")
    texts = {stage.name: stage.text() for stage in compiled.kernel_stages()}
    if options.json:
        print(as_json({"directory": str(compiled.output_dir) if options.out else None, "kernels": texts}))
    else:
        print(compiled.output_dir if options.out else "\n".join(texts.values()), end="\n" if options.out else "")
    return 0


def _loaded(path: str, purpose: str = "") -> np.ndarray[Any, Any]:
    """The array of a .npy file."""
    try:
        found = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise ArgumentError(f"{path} is no .npy file that could be read{purpose}: {error}") from None
    if not isinstance(found, np.ndarray):
        found.close()
        raise ArgumentError(f"{path} is not a .npy file{purpose}: it is an archive of several arrays", help="save each array with np.save")
    return found


def _example(text: str) -> object:
    """What a kernel is specialised on: a .npy file, a shape and data type, or a number."""
    shape, _, name = text.partition(":")
    if name:
        dtype = DTYPES.get(name)
        if dtype is None or not all(part.isdigit() for part in shape.split("x")):
            raise ArgumentError(f"{text!r} is no tensor", help="write 64x128:FP32")
        return np.zeros([int(part) for part in shape.split("x")], dtype.numpy)
    if text.endswith(".npy"):
        return _loaded(text)
    try:
        return int(text) if text.lstrip("-").isdigit() else float(text)
    except ValueError:
        raise ArgumentError(f"{text!r} is no argument", help="a .npy file, 64x128:FP32, or a number") from None


def _run_directory(options: argparse.Namespace) -> int:
    """A whole program: its orchestration calls the texts."""
    from tilejit.runtime.artifact.compiled import CompiledProgram

    compiled = CompiledProgram.from_dir(options.file)
    entry = compiled[options.entry] if options.entry else compiled.only("run")
    given = cast("Sequence[str]", options.arguments)
    values = [_example(text) for text in given]
    before = [value.copy() if isinstance(value, np.ndarray) else value for value in values]
    entry(*values)
    _write_back(options, values, before)
    return 0


def _write_back(options: argparse.Namespace, values: Sequence[object], before: Sequence[object]) -> None:
    written: list[str] = []
    for path, value, old in zip(cast("Sequence[str]", options.arguments), values, before):
        if isinstance(value, np.ndarray) and path.endswith(".npy") and value.tobytes() != cast("np.ndarray[Any, Any]", old).tobytes():
            np.save(path, value)
            written.append(path)
    if written or options.json:
        say(options, "\n".join(f"{path} written" for path in written), {"written": written})


def _run(options: argparse.Namespace) -> int:
    if Path(options.file).is_dir():
        return _run_directory(options)
    from tilejit.jit.pto.program import PtoProgram
    from tilejit.tile_ir.pto.types import canonical
    from tilejit.tile_ir.pto.verify import verify

    file = _read(options.file)
    verify(file)
    entries = {entry.sym_name.data: entry for entry in file.entries()}
    if options.entry is None and len(entries) != 1:
        raise AbiError(f"{options.file} has {len(entries)} entries: {', '.join(entries) or 'none'}", help="name one with --entry")
    name = options.entry or next(iter(entries))
    named = {function.sym_name.data: function for function in file.definitions()}
    if name not in named:
        raise AbiError(f"{options.file} defines no function @{name}", help=f"it defines {', '.join(named)}")
    entry = named[name]
    if options.grid < 1:
        raise ArgumentError(f"--grid is a positive number, got {options.grid}")
    types = [canonical(type) for type in entry.function_type.inputs.data]
    given = cast("Sequence[str]", options.arguments)
    if len(given) != len(types):
        raise ArgumentError(f"@{name} takes {len(types)} arguments ({', '.join(types)}), got {len(given)}")
    names = [argument.name_hint or f"arg{i}" for i, argument in enumerate(entry.body.block.args)]
    values = [_argument(label, type, text) for label, type, text in zip(names, types, given)]
    before = [value.copy() if isinstance(value, np.ndarray) else value for value in values]
    program = PtoProgram(file, entry, tuple(names))
    (program.interpret if options.interpret else program.launch)(values, options.grid)
    _write_back(options, values, before)
    return 0


def _argument(name: str, type: str, text: str) -> object:
    """A .npy file for a pointer, a number for a scalar."""
    if type.startswith("!pto.ptr<"):
        from tilejit.tile_ir.pto.elements import ELEMENTS

        array = np.ascontiguousarray(_loaded(text, f" for `{name}`"))
        element = ELEMENTS.get(type[9:].split(",")[0].removeprefix("!pto."))
        if array.dtype.kind == "V" and element is not None and element.dtype is not None and element.bytes == array.dtype.itemsize:
            array = array.view(element.dtype.numpy)
        return array
    try:
        return float(text) if type in ("f32", "f16", "bf16") else int(text)
    except ValueError:
        raise ArgumentError(f"`{name}` is a number ({type}), got {text!r}") from None
