"""How tests run programs of ranks."""

from __future__ import annotations

from tilejit.runtime import DistributedConfig, RunConfig

PLATFORMS = ("reference", "cpu")


def on(world: int, platform: str = "cpu", **options: object) -> RunConfig:
    """A world of threads."""
    return RunConfig(platform=platform, distributed_config=DistributedConfig(list(range(world)), **options))  # type: ignore[arg-type]
