"""`tilejit dump FILE:KERNEL --stage NAME`: one intermediate form of a kernel, as text."""

from __future__ import annotations

import argparse
import json

from tilejit.errors import ArgumentError, did_you_mean
from tilejit.runtime.config import RunConfig
from tilejit.tools import kernels


def configure(parser: argparse.ArgumentParser) -> None:
    kernels.configure(parser)
    parser.add_argument("--stage", metavar="NAME", help="which form; default: the names of all")


def run(options: argparse.Namespace) -> int:
    kernel = kernels.kernel_at(options.kernel)
    compiled = kernel.compile(config=RunConfig(platform=options.platform), **kernels.sample_arguments(kernel, options.arguments))
    names = compiled.stages()
    if options.stage is not None and options.stage not in names:
        raise ArgumentError(f"{kernel.__name__} has no stage `{options.stage}`", help=did_you_mean(options.stage, names) or f"it has {', '.join(names)}")
    if options.json:
        print(json.dumps({name: compiled.stage(name) for name in ([options.stage] if options.stage else names)}))
    else:
        print(compiled.stage(options.stage).rstrip() if options.stage else "\n".join(names))
    return 0
