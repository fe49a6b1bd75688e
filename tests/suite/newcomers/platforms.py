"""Where the kernels of this folder run, and what they run on."""

from __future__ import annotations

import numpy as np

from tests import hardware
from tilejit.runtime.config import RunConfig

PLATFORMS = ["sanitize"] if hardware.PLATFORM == "sanitize" else ["cpu", "reference"]


def on(platform: str) -> RunConfig:
    return RunConfig(platform=platform)


def data(*shape: int, seed: int = 0, dtype: str = "float32") -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


DTYPES = ("float32", "float64")
"""The precisions in which kernels of science are checked."""
PRECISIONS = list(zip(DTYPES, (1e-5, 1e-12), strict=True))
"""The same, with how closely results agree."""
