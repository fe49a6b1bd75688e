"""Time in tests: none is measured. A hang ends after minutes, and a file's age is relative to the moment it was written."""

from __future__ import annotations

import os
from pathlib import Path

HANG = 600.0
"""Seconds after which something that should have ended never will, however busy the machine is."""


def older(path: Path, seconds: float) -> None:
    """As if the file had been written so much earlier."""
    written = path.stat().st_mtime - seconds
    os.utime(path, (written, written))
