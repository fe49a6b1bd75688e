"""The `tilejit` command: one row per subcommand, its module loaded only when it is used."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

from tilejit.errors import OptionError, TilejitError
from tilejit.runtime.config import check_settings
from tilejit.tools.output import error_json

DONE, FAILED, MISUSED, INTERRUPTED = 0, 1, 2, 130
"""Exit statuses: all is well; something went wrong that is named; the command line or a setting makes no sense; Ctrl-C. 141: nobody reads the output."""


@dataclass(frozen=True, slots=True)
class Command:
    """A subcommand; its module has `configure(parser)` and `run(arguments) -> exit status`. All take --json."""

    name: str
    module: str
    summary: str
    environment: tuple[tuple[str, str], ...] = ()
    """Variables to set before the module is loaded: libraries read them then."""


ONE_THREAD = tuple((name, "1") for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "TILEJIT_NUM_THREADS"))

COMMANDS = (
    Command("run", "tilejit.tools.run", "run a script, a kernel on made-up data, a PTO file, or a compiled program from its artifact directory"),
    Command("bench", "tilejit.tools.bench", "time a kernel, with peers, or say where its time goes"),
    Command("tune", "tilejit.tools.tune", "find the best compile-time arguments and schedules of a kernel"),
    Command("dump", "tilejit.tools.dump", "print one intermediate form of a kernel"),
    Command("trace", "tilejit.tools.trace", "write a page that shows what happens to a kernel, step by step"),
    Command("repro", "tilejit.tools.repro", "write a zip with which others can reproduce a problem"),
    Command("doctor", "tilejit.tools.doctor", "say what runs on this machine, and what is missing where something does not"),
    # The comparison is on equal terms, and its compile times are times of compiling, not of reading the disk cache.
    Command("demo", "tilejit.tools.demo", "run the example kernels and compare them with NumPy", (*ONE_THREAD, ("TILEJIT_CACHE", "0"))),
    Command("ops", "tilejit.tools.ops", "list every op: its names, data types, and which targets run it"),
    Command("cache", "tilejit.tools.cache", "list, explain, check, ship and clear the compiled kernels on disk"),
    Command("pto", "tilejit.tools.pto", "check, run or format PTO files; write kernels as PTO"),
    Command("launch", "tilejit.tools.launch", "run a script once per rank, as processes of this machine that share memory"),
)


def _version() -> str:
    return str(importlib.import_module("tilejit").__version__)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    parser = argparse.ArgumentParser(prog="tilejit", description="Tile kernels in Python, run natively.")
    parser.add_argument("--version", action="version", version=f"tilejit {_version()}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for command in COMMANDS:
        subparser = subparsers.add_parser(command.name, help=command.summary, description=command.summary)
        if command.name in given[:1]:
            os.environ.update(command.environment)
            importlib.import_module(command.module).configure(subparser)
            _take_json(subparser)
    options = parser.parse_args(given)
    module = next(command.module for command in COMMANDS if command.name == options.command)
    try:
        with warnings.catch_warnings(record=True) as strange:
            warnings.simplefilter("always")
            check_settings()
        for warning in strange:
            print(f"tilejit: warning: {warning.message}", file=sys.stderr)
    except OptionError as error:
        return _told(options, error, MISUSED)
    try:
        return int(importlib.import_module(module).run(options))
    except TilejitError as error:
        return _told(options, error, FAILED)
    except KeyboardInterrupt:
        return INTERRUPTED


def _take_json(parser: argparse.ArgumentParser) -> None:
    """Every command, and every action of one, answers in JSON if it is asked to."""
    actions = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    for action in actions:
        for inner in action.choices.values():
            _take_json(inner)
    if not actions:
        parser.add_argument("--json", action="store_true", help="answer in JSON")


def _told(options: argparse.Namespace, error: TilejitError, status: int) -> int:
    if options.json:
        print(error_json(error))
    else:
        print(f"tilejit {options.command}: {error}", file=sys.stderr)
    return status
