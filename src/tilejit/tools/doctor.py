"""`tilejit doctor`: what runs here, and what is missing where something does not."""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Iterator
from dataclasses import asdict

from tilejit import config as settings
from tilejit.errors import TilejitError
from tilejit.runtime import machine
from tilejit.runtime.call.layout import supported
from tilejit.runtime.store.directory import default_root
from tilejit.runtime.targets import Finding, TargetRow, compiler_of, findings, rows
from tilejit.tools.output import as_json


def configure(parser: argparse.ArgumentParser) -> None:
    """Nothing besides --json."""


def run(arguments: argparse.Namespace) -> int:
    """Print what was found; 0 when every target that is installed can run."""
    if arguments.json:
        found = {", ".join(row.platforms): [asdict(finding) for finding in _target(row)] for row in rows()}
        print(as_json({"machine": [asdict(finding) for finding in _machine()], "targets": found}))
        return 0
    print("this machine")
    for finding in _machine():
        print(_line(finding))
    for row in rows():
        found = list(_target(row))
        verdict = "runs here" if all(finding.help is None for finding in found) else "does not run here"
        print(f"\n{', '.join(row.platforms)}: {verdict}")
        for finding in found:
            print(_line(finding))
    return 0


def _line(finding: Finding) -> str:
    help = "" if finding.help is None else f"\n      → {finding.help}"
    return f"  {'ok' if finding.help is None else '--'} {finding.what}: {finding.text}{help}"


def _machine() -> Iterator[Finding]:
    yield Finding("Python", f"{platform.python_version()} ({sys.implementation.name}) on {platform.system()} {machine.architecture()}")
    native = "native code takes warm calls" if supported() else "warm calls go through Python: the native dispatcher does not know this interpreter"
    yield Finding("calls", native)
    root = default_root()
    if root is None:
        yield Finding("disk cache", "there is no home directory", "set TILEJIT_CACHE_DIR")
    elif not os.access(os.path.dirname(root) if not os.path.isdir(root) else root, os.W_OK):
        yield Finding("disk cache", f"{root} cannot be written", "set TILEJIT_CACHE_DIR to a directory of yours")
    else:
        yield Finding("disk cache", root)
    yield from _settings()


def _settings() -> Iterator[Finding]:
    """What the environment sets, and what of it means nothing."""
    unknown = settings.unknown_variables(settings.variables_set())
    for name in sorted(name for name in os.environ if name.startswith(settings.PREFIX)):
        close = unknown.get(name)
        help = None if name not in unknown else f"did you mean {close}?" if close else "unset it"
        yield Finding(name, os.environ[name] if help is None else "there is no such setting", help)


def _target(row: TargetRow) -> Iterator[Finding]:
    try:
        compiler_of(row.platforms[0])
        yield Finding("compiler", row.compiler)
    except TilejitError as error:
        yield Finding("compiler", error.message, error.hint or "install it")
    except ImportError as error:
        yield Finding("compiler", f"cannot be imported: {error}", "install tilejit again")
    yield from findings(row)
