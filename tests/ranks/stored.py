"""`python -m tests.ranks.stored FOLDER WORLD`, alone or as one process of a job: what the artifacts in FOLDER do, without any compiler."""

from __future__ import annotations

import sys

import numpy as np

from tilejit.runtime import CompiledProgram, DistributedConfig, RunConfig


def main(folder: str, world: str) -> None:
    config = RunConfig(distributed_config=DistributedConfig(list(range(int(world)))))
    given = np.load(f"{folder}/given.npz")
    for name in ("program", "kernels", "nested"):
        compiled = CompiledProgram.from_dir(f"{folder}/{name}")
        for _ in range(2):
            found = compiled(given[name], config=config)
        for got, wanted in zip(found if isinstance(found, tuple) else (found,), (given[key] for key in given if key.startswith(f"{name}.")), strict=True):
            assert got.tobytes() == wanted.tobytes(), name
    assert not {"xdsl", "llvmlite"} & sys.modules.keys()


if __name__ == "__main__":
    main(*sys.argv[1:])
