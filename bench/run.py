"""`python bench/run.py SUITE... [--json FILE]`: time tilejit against its peers in the same process, one thread each but for the suite `threads`."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

SUITES = ("cpu", "threads", "compile", "dispatch", "start", "pto")
ONE_THREAD = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS", "TILEJIT_NUM_THREADS")
NO_DISK_CACHE = {"TILEJIT_CACHE": "0"}


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench/run.py", description="ratio = peer time / our time: above 1 is in our favour")
    parser.add_argument("suites", nargs="+", choices=SUITES, metavar="SUITE", help=", ".join(SUITES))
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows as JSON too")
    parser.add_argument("--only", default="", metavar="TEXT", help="only cases whose name contains TEXT")
    options = parser.parse_args()
    os.environ.update(dict.fromkeys(ONE_THREAD, "1") | NO_DISK_CACHE)  # libraries read them when they are loaded, so before the suites are
    rows = list(run(options.suites, options.only))
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 0


def run(suites: list[str], only: str) -> Iterator[dict[str, object]]:
    from measure import Count, count, measure

    for suite in suites:
        print(f"\n{suite:<44} {'peer':<28} {'ratio':>7} {'ours µs':>12} {'peer µs':>12}  target")
        for case in importlib.import_module(f"suites.{suite}").cases():
            if only not in case.case:
                continue
            if isinstance(case, Count):
                row = count(case)
                numbers = f"{row.count:>7} {'':>12} {'':>12}"
            else:
                row = measure(case)
                numbers = f"{row.ratio:>7.2f} {row.ours_us:>12.2f} {row.peer_us:>12.2f}"
            verdict = f"  {row.target}: {'met' if row.met else 'NOT MET'}" if row.target else ""
            print(f"{row.case:<44} {row.peer:<28} {numbers}{verdict}", flush=True)
            yield {"suite": suite, **asdict(row), "load": _load()}


def _load() -> float | None:
    """How busy the machine is: absolute times mean nothing without it."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


if __name__ == "__main__":
    sys.exit(main())
