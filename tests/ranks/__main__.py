"""`python -m tests.ranks FOLDER [RANKS_PER_NODE…]`, as one process of a job: run every scenario and leave what came out in FOLDER, once for each division."""

from __future__ import annotations

import os
import sys

import numpy as np

from tests.ranks.scenarios import SCENARIOS
from tilejit import config as settings
from tilejit.runtime import RunConfig
from tilejit.runtime.ranks import engines


def main(folder: str, *divisions: str) -> None:
    """Every process of a job has all outputs; so many ranks count as a machine, 0: as it is."""
    world, config = engines.started_with(), RunConfig(platform="cpu")
    for division in divisions or ("0",):
        os.environ[settings.RANKS_PER_NODE.variable] = division
        found = {f"{name}.{key}": array for name, scenario in SCENARIOS.items() for key, array in scenario(world, config)[0].items()}
        with engines.Held(None) as engine:
            np.savez(f"{folder}/{division}-{engine.here[0]}.npz", **found)  # pyright: ignore[reportArgumentType]
        engines.leave()


if __name__ == "__main__":
    main(*sys.argv[1:])
