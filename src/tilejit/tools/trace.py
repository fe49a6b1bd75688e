"""`tilejit trace FILE:KERNEL`: a page that shows each step of a compile, from the source to the code."""

from __future__ import annotations

import argparse
import json
import sys

from tilejit.runtime.config import RunConfig
from tilejit.tools import kernels


def configure(parser: argparse.ArgumentParser) -> None:
    kernels.configure(parser)
    parser.add_argument("--out", metavar="PAGE", help="where to write; default: trace-KERNEL.html")


def run(options: argparse.Namespace) -> int:
    """Write the page; 1 when the compile failed, which the page shows."""
    kernel = kernels.kernel_at(options.kernel)
    found = kernel.trace(path=options.out, config=RunConfig(platform=options.platform), **kernels.sample_arguments(kernel, options.arguments))
    if options.json:
        print(json.dumps(found.record.plain()))
        if options.out is None:
            found.path.unlink()
    else:
        print(found.path)
    if found.record.error:
        print(f"tilejit trace: {found.record.failed} failed: {found.record.error}", file=sys.stderr)
    return 1 if found.record.error else 0
