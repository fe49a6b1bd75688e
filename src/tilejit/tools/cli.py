"""The `tilejit` command: one row per subcommand, its module loaded only when it is used."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from tilejit.errors import TilejitError


@dataclass(frozen=True, slots=True)
class Command:
    """A subcommand; its module has `configure(parser)` and `run(arguments) -> exit status`."""

    name: str
    module: str
    summary: str
    one_thread: bool = False
    """Compare on equal terms: libraries read the number of threads when they are loaded, so it is set before that."""


COMMANDS = (
    Command("demo", "tilejit.tools.demo", "run the example kernels and compare them with NumPy", one_thread=True),
    Command("run", "tilejit.tools.run", "run a compiled program from its artifact directory on .npy files"),
)
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "TILEJIT_NUM_THREADS")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    parser = argparse.ArgumentParser(prog="tilejit", description="Tile kernels in Python, run natively.")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for command in COMMANDS:
        subparser = subparsers.add_parser(command.name, help=command.summary, description=command.summary)
        if command.name in given[:1]:
            if command.one_thread:
                os.environ.update(dict.fromkeys(THREAD_VARIABLES, "1"))
            importlib.import_module(command.module).configure(subparser)
    options = parser.parse_args(given)
    module = next(command.module for command in COMMANDS if command.name == options.command)
    try:
        return int(importlib.import_module(module).run(options))
    except TilejitError as error:
        print(f"tilejit {options.command}: {error}", file=sys.stderr)
        return 1
