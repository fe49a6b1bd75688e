"""`python -m tilejit` is the `tilejit` command."""

from __future__ import annotations

import os
import sys

from tilejit.tools import cli

_PIPE_CLOSED = 141
"""The exit status that shells give a command which a closed pipe ended."""


def main() -> int:
    """The command line; when the reader of its output goes away, as `head` does, it ends in silence."""
    try:
        try:
            return cli.main()
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        # Python flushes once more when it ends, and would complain then.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _PIPE_CLOSED


if __name__ == "__main__":
    sys.exit(main())
