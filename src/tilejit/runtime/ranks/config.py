"""How a program for several ranks is run: DistributedConfig."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field

from tilejit import config as settings
from tilejit.errors import OptionError

ENGINES = ("auto", "local", "shm", "mpi")
GATHERS = ("all", "root", "none")


@dataclass(frozen=True)
class DistributedConfig:
    """One entry of `device_ids` per rank; the fields after `aicpu_thread_num` are ours and given by name."""

    device_ids: Sequence[int] = field(default_factory=lambda: [0])
    num_sub_workers: int = 0
    runtime: str = "tensormap_and_ringbuffer"
    aicpu_thread_num: int = 0
    _: KW_ONLY
    engine: str = "auto"
    threads_per_rank: int | None = None
    timeout_s: float | None = None
    gather: str = "all"

    def __post_init__(self) -> None:
        ids = list(self.device_ids)
        if not ids or any(isinstance(item, bool) or not isinstance(item, int) or item < 0 for item in ids) or len(set(ids)) != len(ids):
            raise ValueError(f"device_ids are different numbers from 0 on, one per rank, got {ids}")
        object.__setattr__(self, "device_ids", tuple(ids))  # the list is the caller's, who may change it
        if self.num_sub_workers < 0:
            raise ValueError(f"num_sub_workers must not be negative, got {self.num_sub_workers}")
        if not isinstance(self.runtime, str):
            raise TypeError(f"runtime is a name, got {self.runtime!r}")
        if self.aicpu_thread_num != 0 and self.aicpu_thread_num < 2:
            raise ValueError(f"aicpu_thread_num is 0 or at least 2, got {self.aicpu_thread_num}")
        for name, value, choices in (("engine", self.engine, ENGINES), ("gather", self.gather, GATHERS)):
            if value not in choices:
                raise OptionError(f"{name} is one of {', '.join(map(repr, choices))}, got {value!r}", help=f"write {name}={choices[0]!r}")
        if self.threads_per_rank is not None and self.threads_per_rank < 1:
            raise ValueError(f"threads_per_rank must be positive, got {self.threads_per_rank}")
        if self.timeout_s is not None and self.timeout_s < 0:
            raise ValueError(f"timeout_s must not be negative, got {self.timeout_s}")

    @property
    def timeout(self) -> float:
        """Seconds a wait may last while nothing changes; 0: for ever."""
        return settings.WAIT_TIMEOUT.value if self.timeout_s is None else self.timeout_s

    @property
    def patience(self) -> float:
        """Seconds until another process is thought not to come to a call: it may still compile, however short a wait is."""
        return max(self.timeout, settings.WAIT_TIMEOUT.value) if self.timeout else 0.0
