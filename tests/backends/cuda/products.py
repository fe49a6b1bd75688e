"""The op × dtype product on CUDA: the benches of tests/differential in Triton's interpreter instead of on the CPU.

python -m tests.backends.cuda.products [--every N] [--start N] [--only TEXT] [--gpu]
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from typing import Any

if "--gpu" in sys.argv:
    os.environ["TEST_ON_GPU"] = "1"
else:
    os.environ["TRITON_INTERPRET"] = "1"

from tests.backends.cuda import interpreted
from tests.differential import runner
from tests.differential.plans import all_uses
from tests.differential.shapes import SIZES
from tilejit.runtime.config import RunConfig

_compile = runner.compile_program


def _with_triton(program: Any, config: RunConfig) -> Any:
    return _compile(program, RunConfig(platform="triton" if config.platform == "cpu" else config.platform))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=40)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--only", default="")
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after this time")
    options = parser.parse_args()
    assert interpreted.TARGET
    runner.compile_program = _with_triton
    chosen = list(runner.batches([use for use in all_uses() if options.only in str(use)]))[options.start :: options.every]
    started, tried, wrong = time.monotonic(), 0, 0
    for batch in chosen:
        if time.monotonic() - started > options.seconds:
            break
        tried += len(batch)
        for difference in runner.check(batch, 0, SIZES[:2]):
            wrong += 1
            print(str(difference)[:300], flush=True)
    print(f"{tried} uses, {wrong} differ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
