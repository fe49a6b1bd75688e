"""`python bench/run.py SUITE... [--json FILE]`: time tilejit against its peers in the same process, one thread each unless `--threads` says more."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

SUITES = ("cpu", "llama", "newcomers", "tune", "science", "threads", "compile", "dispatch", "start", "ranks", "pto", "cuda")
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS", "TILEJIT_NUM_THREADS")
WRITERS: dict[object, str] = {"cpu": "write_cpu", "cuda": "write_cuda"}
"""Suites whose results are kept beside them, and the functions of results.py that write them."""
NO_DISK_CACHE = {"TILEJIT_CACHE": "0"}


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench/run.py", description="ratio = peer time / our time: above 1 is in our favour")
    parser.add_argument("suites", nargs="+", choices=SUITES, metavar="SUITE", help=", ".join(SUITES))
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows as JSON too")
    parser.add_argument("--only", default="", metavar="TEXT", help="only cases whose name contains TEXT")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="threads for us and for the peers, in the suites cpu and llama")
    parser.add_argument("--seconds", type=float, default=3.0, metavar="S", help="after so many a row has enough samples, if there are a few")
    options = parser.parse_args()
    os.environ.update(dict.fromkeys(THREADS, str(options.threads)) | NO_DISK_CACHE)  # libraries read them when they are loaded, so before the suites are
    rows: list[dict[str, object]] = []
    for row in run(options.suites, options.only, options.seconds):
        rows.append(row)
        if row["suite"] in WRITERS and not options.only:  # as far as it got: a machine may be lent for minutes only
            results = importlib.import_module("results")
            getattr(results, WRITERS[row["suite"]])([other for other in rows if other["suite"] == row["suite"]])
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 0


def run(suites: list[str], only: str, seconds: float) -> Iterator[dict[str, object]]:
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
                try:
                    row = measure(case, seconds)
                except Exception as error:  # a case that does not run is told, and the others still count
                    print(f"{case.case:<44} {case.peer:<28} FAILED: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}", flush=True)
                    continue
                numbers = f"{row.ratio:>7.2f} {row.ours_us:>12.2f} {row.peer_us:>12.2f}"
            verdict = f"  {row.target}: {'met' if row.met else 'NOT MET'}" if row.target else ""
            print(f"{row.case:<44} {row.peer:<28} {numbers}{verdict}", flush=True)
            yield {"suite": suite, **asdict(row), "threads": int(os.environ["TILEJIT_NUM_THREADS"]), "load": _load()}


def _load() -> float | None:
    """How busy the machine is: absolute times mean nothing without it."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


if __name__ == "__main__":
    sys.exit(main())
