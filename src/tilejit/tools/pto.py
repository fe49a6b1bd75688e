"""`tilejit pto check|run|fmt FILE`: PTO files from the shell."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tilejit.errors import AbiError, ArgumentError, PtoSyntaxError, SourceNotFoundError

if TYPE_CHECKING:
    from tilejit.tile_ir.pto.module import PtoFile


def configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    check = actions.add_parser("check", help="read files and report every rule they break")
    check.add_argument("files", nargs="+", metavar="FILE")
    check.add_argument("--arch", choices=("a2a3", "a5"), help="the architecture, whatever the file says")
    form = actions.add_parser("fmt", help="print files in canonical form")
    form.add_argument("files", nargs="+", metavar="FILE")
    form.add_argument("--write", action="store_true", help="write the files instead of printing them (comments are lost)")
    form.add_argument("--long", action="store_true", help="tile types with all their keys")
    form.add_argument("--generic", action="store_true", help="MLIR's generic form")
    run = actions.add_parser("run", help="run an entry on .npy files and numbers")
    run.add_argument("file", metavar="FILE")
    run.add_argument("arguments", nargs="*", metavar="ARG", help="one .npy file per pointer (written back when it changed), one number per scalar, in order")
    run.add_argument("--entry", metavar="NAME", help="which function, when the file has several entries")
    run.add_argument("--grid", type=int, default=1, metavar="N", help="number of blocks (default 1)")


def run(options: argparse.Namespace) -> int:
    action = {"check": _check, "fmt": _format, "run": _run}[options.action]
    return action(options)


def _read(path: str, arch: str | None = None) -> PtoFile:
    from tilejit.frontend.pto_text import parse_pto

    try:
        raw = Path(path).read_bytes()
    except OSError as error:
        raise SourceNotFoundError(f"{path}: {error.strerror or error}") from None
    return parse_pto(raw, path, arch)


def _check(options: argparse.Namespace) -> int:
    from tilejit.tile_ir.pto.verify import build_level, problems

    wrong = 0
    for path in cast("Sequence[str]", options.files):
        try:
            file = _read(path, options.arch)
            found = list(problems(file))
        except PtoSyntaxError as error:
            file, found = None, [error]
        for error in found:
            print(f"{type(error).__name__}: {error}")
        wrong += bool(found)
        if file is not None and not found:
            entries = ", ".join(f"@{entry.sym_name.data}" for entry in file.entries()) or "no entry"
            print(f"{path}: ok ({entries}; {'A5' if file.arch == 'a5' else 'A2/A3'}, level {build_level(file)})")
    return 1 if wrong else 0


def _format(options: argparse.Namespace) -> int:
    from tilejit.tile_ir.pto.verify import verify

    for path in cast("Sequence[str]", options.files):
        file = _read(path)
        verify(file)
        text = file.print(long_tiles=options.long, generic=options.generic)
        if options.write:
            Path(path).write_text(text, encoding="utf-8")
        else:
            print(text, end="")
    return 0


def _run(options: argparse.Namespace) -> int:
    from tilejit.backends.pto.launch import launch, refuse_unrunnable
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
    refuse_unrunnable(file, entry)
    launch(file, entry, names, values, options.grid)
    for path, value, old in zip(given, values, before):
        if isinstance(value, np.ndarray) and value.tobytes() != cast("np.ndarray[Any, Any]", old).tobytes():
            np.save(path, value)
            print(f"{path} written")
    return 0


def _argument(name: str, type: str, text: str) -> object:
    """A .npy file for a pointer, a number for a scalar."""
    if type.startswith("!pto.ptr<"):
        from tilejit.tile_ir.pto.elements import ELEMENTS

        try:
            array = np.ascontiguousarray(np.load(text, allow_pickle=False))
        except (OSError, ValueError) as error:
            raise ArgumentError(f"{text} is no .npy file that could be read for `{name}`: {error}") from None
        element = ELEMENTS.get(type[9:].split(",")[0].removeprefix("!pto."))
        if array.dtype.kind == "V" and element is not None and element.dtype is not None and element.bytes == array.dtype.itemsize:
            array = array.view(element.dtype.numpy)
        return array
    try:
        return float(text) if type in ("f32", "f16", "bf16") else int(text)
    except ValueError:
        raise ArgumentError(f"`{name}` is a number ({type}), got {text!r}") from None
