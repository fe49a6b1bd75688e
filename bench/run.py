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
sys.path.insert(1, str(Path(__file__).resolve().parents[1]))  # kernels of the tests and examples, before what others install under these names


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench/run.py", description="ratio = peer time / our time: above 1 is in our favour")
    parser.add_argument("suites", nargs="+", choices=SUITES, metavar="SUITE", help=", ".join(SUITES))
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows as JSON too")
    parser.add_argument("--only", default="", metavar="TEXT", help="only cases whose name contains TEXT")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="threads for us and for the peers, in the suites cpu and llama")
    parser.add_argument("--seconds", type=float, default=3.0, metavar="S", help="after so many a row has enough samples, if there are a few")
    parser.add_argument("--runs", type=int, default=1, metavar="N", help="passes over all rows that have a target; their ratios are shown side by side")
    options = parser.parse_args()
    os.environ.update(dict.fromkeys(THREADS, str(options.threads)) | NO_DISK_CACHE)  # libraries read them when they are loaded, so before the suites are
    found: dict[tuple[str, int], dict[str, object]] = {}
    for place, row in run(options.suites, options.only, options.seconds, options.runs):
        found[place] = row
        if place[0] in WRITERS and not options.only:  # as far as it got: a machine may be lent for minutes only
            results = importlib.import_module("results")
            getattr(results, WRITERS[place[0]])([other for (suite, _), other in found.items() if suite == place[0]])
    rows = list(found.values())
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 0


def run(suites: list[str], only: str, seconds: float, runs: int) -> Iterator[tuple[tuple[str, int], dict[str, object]]]:
    """The rows with their places; a row of several passes comes once for each."""
    from measure import SAME, Count, Row, agree, count, measure, together

    for suite in suites:
        cases = (case for case in importlib.import_module(f"suites.{suite}").cases() if only in case.case)
        cases = cases if runs == 1 else list(cases)  # their arrays are kept then
        passes: dict[int, list[Row]] = {}
        for number in range(runs):
            print(f"\n{suite:<44} {'peer':<28} {'ratio':>7} {'ours µs':>12} {'peer µs':>12}  target{f', pass {number + 1}' if runs > 1 else ''}")
            for index, case in enumerate(cases):
                if number and (isinstance(case, Count) or case.target is None):
                    continue
                more = ""
                if isinstance(case, Count):
                    row = count(case)
                    numbers = f"{row.count:>7} {'':>12} {'':>12}"
                else:
                    try:
                        passes.setdefault(index, []).append(measure(case, seconds))
                    except Exception as error:  # a case that does not run is told, and the others still count
                        print(f"{case.case:<44} {case.peer:<28} FAILED: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}", flush=True)
                        continue
                    row = together(case, passes[index])
                    numbers = f"{row.ratio:>7.2f} {row.ours_us:>12.2f} {row.peer_us:>12.2f}"
                    if len(passes[index]) > 1:
                        same = "agree" if agree(row.runs, SAME.get(suite, SAME["cpu"])) else "DIFFER"
                        more = f"  runs {', '.join(f'{ratio:.2f}' for ratio in row.runs)}: {same}"
                verdict = f"  {row.target}: {'met' if row.met else 'NOT MET'}" if row.target else ""
                print(f"{row.case:<44} {row.peer:<28} {numbers}{verdict}{more}", flush=True)
                yield (suite, index), {"suite": suite, **asdict(row), "threads": int(os.environ["TILEJIT_NUM_THREADS"]), "load": _load()}


def _load() -> float | None:
    """How busy the machine is: absolute times mean nothing without it."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


if __name__ == "__main__":
    sys.exit(main())
