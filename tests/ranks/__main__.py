"""`python -m tests.ranks FOLDER`, as one process of a job: run every scenario and leave what came out in FOLDER."""

from __future__ import annotations

import sys

import numpy as np

from tests.ranks.scenarios import SCENARIOS
from tilejit.runtime import RunConfig
from tilejit.runtime.ranks import engines


def main(folder: str, platform: str = "cpu") -> None:
    """Every process of a job has all outputs."""
    world = engines.started_with()
    config = RunConfig(platform=platform)
    found = {f"{name}.{key}": array for name, scenario in SCENARIOS.items() for key, array in scenario(world, config)[0].items()}
    with engines.Held(None) as engine:
        np.savez(f"{folder}/{engine.here[0]}.npz", **found)  # pyright: ignore[reportArgumentType]


if __name__ == "__main__":
    main(*sys.argv[1:])
