"""`python -m tests.differential`: the full product of rows, levels, dtypes, arguments and sizes, then tiles of other shapes."""

from __future__ import annotations

import argparse
import collections
import multiprocessing
import os
import subprocess
import sys
import time

from tests.differential.indexed import INDEXED
from tests.differential.movement import MOVEMENT
from tests.differential.plans import Use, all_uses
from tests.differential.runner import batches, check
from tests.differential.shapes import MANY_SIZES, ROOMY, TILES, VARIANT, valid_sizes


def _work(task: tuple[int, int, str, int]) -> tuple[int, list[str]]:
    """Check one batch, found again by its number (uses cannot be pickled)."""
    number, count, only, seed = task
    sizes = MANY_SIZES if VARIANT == 0 else valid_sizes(seed + VARIANT)
    return count, [str(difference) for difference in check(_batches(only)[number], seed, sizes)]


_CACHE: dict[str, list[list[Use]]] = {}


def _uses() -> list[Use]:
    """All uses; for other shapes of tiles those that they make a difference for, every second one in turn."""
    found = list(all_uses())
    if VARIANT == 0:
        return found
    moved = {*MOVEMENT, *INDEXED}
    fitting = [use for use in found if (use.row.name in moved if use.level == "tensor" else use.level == "tile")]
    if VARIANT >= ROOMY:
        fitting = [use for use in fitting if use.row.name not in moved]
    return fitting[VARIANT % 2 :: 2]


def _batches(only: str) -> list[list[Use]]:
    if only not in _CACHE:
        _CACHE[only] = list(batches([use for use in _uses() if only in str(use)]))
    return _CACHE[only]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.differential", description=__doc__)
    parser.add_argument("--only", default="", help="uses whose text contains this, such as `tile.add[FP32]`")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--every", type=int, default=1, help="take only every n-th batch")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--variants", type=int, default=len(TILES), help="how many shapes of tiles to try")
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
    verdict = "all agree" if not failures else dict(failures)
    print(f"{done} uses with tiles {TILES[VARIANT]} in {time.monotonic() - started:.0f} s: {verdict}", flush=True)
    wrong = bool(failures)
    if VARIANT == 0:
        for variant in range(1, options.variants):
            # Shapes of tiles are constants of the plans: each variant is a process of its own.
            environment = {**os.environ, "DIFFERENTIAL_TILES": str(variant)}
            wrong |= subprocess.run([sys.executable, "-m", "tests.differential", *sys.argv[1:]], env=environment, check=False).returncode != 0
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
