"""Programs for several ranks, where scripts of PyPTO look for them."""

from __future__ import annotations

from tilejit.jit.hosts.distributed import DistributedCompiledProgram
from tilejit.runtime.ranks.config import DistributedConfig

__all__ = ["DistributedCompiledProgram", "DistributedConfig"]
