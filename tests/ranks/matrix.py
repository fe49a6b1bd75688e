"""`python -m tests.ranks.matrix`: every collective with every dtype, reduction, 1 to 8 ranks and sizes up to a million elements, against NumPy, bit for bit."""

from __future__ import annotations

import argparse
import sys

import tilejit.language.distributed as pld
from tests.ranks.test_collectives import FOLDS, MOVES, REDUCE, data, expected, meet
from tilejit.ops.ranks import REDUCIBLE

WORLDS = (1, 2, 3, 5, 8)
SIZES = (1, 7, 256, 4099, 100_003, 1_000_000)
"""Elements of a rank's window; a collective with a row per rank has at least one in each."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.ranks.matrix", description=__doc__)
    parser.add_argument("--only", default="", metavar="TEXT", help="only collectives whose name contains TEXT")
    options = parser.parse_args()
    count = 0
    for kind in [kind for kind in (*FOLDS, *MOVES) if options.only in kind]:
        for name in sorted(dtype.name for dtype in REDUCIBLE):
            for world in WORLDS:
                for size in SIZES:
                    columns = -(-size // world)
                    for op in REDUCE if kind in FOLDS and size < 5000 else [pld.ReduceOp.Sum]:
                        x = data(name, world, world, columns)
                        if meet(kind, x, op).tobytes() != expected(kind, x, op, name).tobytes():
                            print(f"{kind} of {name} with {op}, {world} ranks, {columns} columns: not what NumPy has")
                            return 1
                        count += 1
        print(f"{kind}: as NumPy has it", flush=True)
    print(f"{count} collectives")
    return 0


if __name__ == "__main__":
    sys.exit(main())
