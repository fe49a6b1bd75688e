"""Running an artifact directory."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from tilejit.runtime.artifact.compiled import CompiledProgram
from tilejit.runtime.config import RunConfig


def execute_compiled(path: str | os.PathLike[str], args: Sequence[object], platform: str | None = None, device_id: int = 0) -> Any:
    """Run the program in an artifact directory, or the very one that is given, on `args`, in either calling style. See CompiledProgram.from_dir about trust."""
    config = RunConfig(platform=platform, device_id=device_id)
    compiled = path if isinstance(path, CompiledProgram) else CompiledProgram.from_dir(path)
    return compiled(*args, config=config)
