"""Which call of a host function this thread is recording; by itself, because every slow call of a kernel asks."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilejit.runtime.ranks.host import Recorder

_active = threading.local()


def recording() -> Recorder | None:
    """The recorder of this thread."""
    return getattr(_active, "recorder", None)


def record_into(recorder: Recorder | None) -> None:
    """From now on calls of kernels in this thread are recorded, or no longer."""
    _active.recorder = recorder
