"""`tilejit tune FILE:KERNEL NAME=VALUE…`: finds the best candidate of an autotuned kernel, or of values given here, and keeps it for programs that call it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from tilejit.errors import ArgumentError
from tilejit.jit.function import JITFunction
from tilejit.jit.tune.function import autotune
from tilejit.jit.tune.search import EFFORTS
from tilejit.tools import kernels
from tilejit.tools.output import say


def configure(parser: argparse.ArgumentParser) -> None:
    kernels.configure(parser)
    space = "values of a parameter, for a kernel without @pl.autotune; may be repeated"
    parser.add_argument("--space", action="append", default=[], metavar="NAME=V,V,…", help=space)
    parser.add_argument("--effort", choices=EFFORTS, help="quick goes along one axis after the other, full tries everything")
    parser.add_argument("--budget", type=float, metavar="S", help="end after so many seconds with the best so far")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="with --space: which way to go (default 0)")


def run(options: argparse.Namespace) -> int:
    """Print the candidates, the best first."""
    kernel = kernels.tunable_at(options.kernel)
    if isinstance(kernel, JITFunction):
        if not options.space:
            help = "put @pl.autotune({'NAME': [values]}) above @pl.jit, or name values here: --space rows=8,16,32"
            raise ArgumentError(f"{kernel.__name__} is no autotuned kernel", help=help)
        kernel = autotune(dict(_axis(text) for text in options.space), seed=options.seed)(kernel)
    elif options.space:
        raise ArgumentError(f"{kernel.__name__} names its own candidates", help="leave out --space")
    given = kernels.random_arguments(kernel, options.arguments)
    config = kernels.config_of(options)
    found = kernel.tune(effort=options.effort, budget=options.budget, config=config, **given)
    for module in _modules(Path(options.kernel.rpartition(":")[0])):
        kernel.keep_for(module, config=config, **given)
    say(options, found, found.as_json())
    return 0


def _axis(text: str) -> tuple[str, list[int | float | bool]]:
    name, equals, values = text.partition("=")
    if not equals or not values:
        raise ArgumentError(f"--space {text} names no values", help="write --space rows=8,16,32")
    return name, [kernels.number(name, value) for value in values.split(",")]


def _modules(file: Path) -> Iterator[str]:
    """What programs may call the module of a file: it is run, imported from its folder, or from the package it is in."""
    yield "__main__"
    name, folder = file.stem, file.resolve().parent
    yield name
    while (folder / "__init__.py").is_file():
        name, folder = f"{folder.name}.{name}", folder.parent
        yield name
