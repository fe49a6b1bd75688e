"""`python -m tests.soak --seconds 60 --threads 16`."""

from __future__ import annotations

import argparse
import sys

from tests.soak.run import SLACK, Soak


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--threads", type=int, default=16)
    options = parser.parse_args()
    soak = Soak(options.threads, options.seconds)
    soak.run()
    print(*soak.problems, soak.report(), sep="\n")
    return 1 if soak.problems or soak.growth > SLACK else 0


if __name__ == "__main__":
    sys.exit(main())
