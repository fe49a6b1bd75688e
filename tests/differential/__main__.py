"""`python -m tests.differential`: the full product of rows, levels, dtypes, arguments and sizes."""

from __future__ import annotations

import argparse
import collections
import multiprocessing
import os
import sys
import time

from tests.differential.plans import Use, all_uses
from tests.differential.runner import MANY_SIZES, Difference, batches, check


def _work(task: tuple[int, int, str, int]) -> tuple[int, list[str]]:
    """Check one batch, found again by its number (uses cannot be pickled)."""
    number, count, only, seed = task
    return count, [str(difference) for difference in check(_batches(only)[number], seed, MANY_SIZES)]


_CACHE: dict[str, list[list[Use]]] = {}


def _batches(only: str) -> list[list[Use]]:
    if only not in _CACHE:
        _CACHE[only] = list(batches([use for use in all_uses() if only in str(use)]))
    return _CACHE[only]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.differential", description=__doc__)
    parser.add_argument("--only", default="", help="uses whose text contains this, such as `tile.add[FP32]`")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--every", type=int, default=1, help="take only every n-th batch")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    tasks = [(number, len(batch), options.only, options.seed) for number, batch in enumerate(_batches(options.only))][:: options.every]
    started, done, failures = time.monotonic(), 0, collections.Counter[str]()
    with multiprocessing.Pool(options.jobs) as pool:
        for number, (count, differences) in enumerate(pool.imap_unordered(_work, tasks), 1):
            done += count
            for difference in differences:
                failures[difference.partition("[")[0]] += 1
                print(difference, flush=True)
            if number % 50 == 0:
                print(f"{number}/{len(tasks)} programs, {done} uses, {sum(failures.values())} differences, {time.monotonic() - started:.0f} s", flush=True)
    print(f"{done} uses in {time.monotonic() - started:.0f} s: {'all agree' if not failures else dict(failures)}")
    return 1 if failures else 0


_ = Difference
if __name__ == "__main__":
    sys.exit(main())
