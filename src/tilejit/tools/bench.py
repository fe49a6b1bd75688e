"""`tilejit bench FILE:KERNEL NAME=VALUE…`: times a kernel, in turns with peers; `--profile` says where its time goes."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tilejit.errors import ArgumentError, did_you_mean
from tilejit.tools import kernels
from tilejit.tools.output import say
from tilejit.view.measure import bench


def configure(parser: argparse.ArgumentParser) -> None:
    kernels.configure(parser)
    parser.add_argument("--peer", action="append", default=[], metavar="FILE:FUNCTION", help="a function of the same inputs to compare with; may be repeated")
    parser.add_argument("--rounds", type=int, default=21, metavar="N", help="samples (default 21)")
    parser.add_argument("--profile", action="store_true", help="where the time goes: regions, limits of the machine, passes of the compile")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="with --profile: write the roofline there")


def run(options: argparse.Namespace) -> int:
    """Print the table."""
    if options.rounds < 1:
        raise ArgumentError(f"--rounds is at least 1, got {options.rounds}", help="write --rounds 21")
    kernel = kernels.tunable_at(options.kernel)
    given = kernels.random_arguments(kernel, options.arguments)
    config = kernels.config_of(options)
    if options.profile:
        found = kernel.profile(**given, rounds=options.rounds, config=config)
        if options.svg is not None:
            options.svg.write_text(found.svg(), encoding="utf-8")
        say(options, found, found.as_json())
        return 0
    if options.svg is not None:
        raise ArgumentError("--svg is the roofline of a profile", help="add --profile")
    named: dict[str, Any] = {**given, **({"config": config} if config is not None else {})}
    inputs = kernels.inputs_of(kernel, given)
    peers = {place: _without_outputs(_function_at(place), inputs) for place in options.peer}
    measured = bench(kernel, peers=peers, rounds=options.rounds, **named)
    say(options, measured, measured.as_json())
    return 0


def _function_at(place: str) -> Callable[..., object]:
    file, _, name = place.rpartition(":")
    names = kernels.names_of(file or place)
    found = names.get(name)
    if not callable(found):
        known = [key for key, value in names.items() if callable(value) and not key.startswith("_")]
        raise ArgumentError(f"{file} has no function `{name}`", help=did_you_mean(name, known) or f"it has {', '.join(known) or 'none'}")
    return found


def _without_outputs(peer: Callable[..., object], inputs: dict[str, object]) -> Callable[..., object]:
    """A peer takes the inputs, in the order of the kernel, and returns its results."""
    values = tuple(inputs.values())
    return lambda **_: peer(*values)
