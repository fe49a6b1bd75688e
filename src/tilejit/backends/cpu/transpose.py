"""Copies whose two sides run along different axes."""

from __future__ import annotations

from collections.abc import Sequence

from tilejit.backends.cpu.emit import Emitter, Index
from tilejit.backends.cpu.nest import copy_box
from tilejit.backends.cpu.storage import Array


def transpose_into(e: Emitter, target: Array, source: Array, extents: Sequence[Index]) -> None:
    """Copy a box cell by cell; `source` is a view with swapped axes."""
    copy_box(e, target, source, extents)
