"""`python -m tests.levels`: the differential suite and random programs with each instruction set forced that this processor has; a verdict for each.

Where the matrix unit is missing, another level has the stand-in for it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator

from tests import matrix_unit
from tilejit.backends.cpu.llvm.host import host
from tilejit.config import LEVELS

SEEDS = 200_000
"""Where the random programs of the first level begin; those of the next follow far behind."""
STAND_IN = "stand-in"
"""The level that has everything, and a matrix unit that this processor lacks."""


def levels() -> Iterator[str]:
    """Those that make a difference here, least first; the last is everything there is."""
    seen: set[str] = set()
    for level in (*LEVELS, ""):
        os.environ["TILEJIT_CPU"] = level
        if host().features not in seen:
            seen.add(host().features)
            yield level
    if matrix_unit.can_begin():
        yield STAND_IN


def run(level: str, module: str, *options: str) -> tuple[bool, str]:
    """Whether a suite passes at a level, and its last line."""
    environment = {**os.environ, "TILEJIT_CPU": level, "TILEJIT_CACHE": "0"}
    if level == STAND_IN:
        environment |= {"TILEJIT_CPU": "", matrix_unit.VARIABLE: "1"}
    done = subprocess.run([sys.executable, "-m", module, *options], env=environment, stdout=subprocess.PIPE, text=True, check=False)
    lines = done.stdout.splitlines() or ["no output"]
    if done.returncode:
        print(done.stdout, flush=True)
    return done.returncode == 0, lines[-1]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.levels", description=__doc__)
    parser.add_argument("--only", nargs="*", help="levels, instead of all")
    parser.add_argument("--programs", type=int, default=1000, help="random programs for each level")
    parser.add_argument("--every", type=int, default=1, help="take only every n-th batch of the differential suite")
    parser.add_argument("--variants", type=int, default=1, help="how many shapes of tiles to try in it")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    good = True
    for number, level in enumerate(list(levels()) if options.only is None else options.only):
        jobs = ("--jobs", str(options.jobs))
        uses = run(level, "tests.differential", "--every", str(options.every), "--variants", str(options.variants), *jobs)
        programs = run(level, "tests.fuzz", "--programs", str(options.programs), "--seed", str(SEEDS + number * 100_000), *jobs)
        good = good and uses[0] and programs[0]
        verdict = "pass" if uses[0] and programs[0] else "FAIL"
        print(f"level {level or 'all'!r}: {verdict} ({uses[1]}; {programs[1]})", flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
