"""Which extents the operands have: the symbols of tensors take many sizes in one program, the constant shapes of tiles come in variants."""

from __future__ import annotations

import os
import random

SCALARS = "S"
"""The extent of the arrays from which scalar-level uses take their operands."""

TILES = (
    {"M": 6, "N": 37, "K": 12, "B": 3},
    {"M": 16, "N": 64, "K": 32, "B": 2},
    {"M": 7, "N": 131, "K": 33, "B": 1},
    {"M": 32, "N": 40, "K": 17, "B": 2},
    {"M": 11, "N": 257, "K": 5, "B": 2},
    {"M": 1, "N": 1, "K": 1, "B": 1},
    {"M": 3, "N": 8, "K": 2, "B": 2},
    {"M": 1, "N": 4099, "K": 3, "B": 1},
    {"M": 61, "N": 5, "K": 64, "B": 1},
    {"M": 2, "N": 1031, "K": 4, "B": 1},
)
"""What the symbols stand for in tiles, whose shapes are constant: one program per variant."""
ROOMY = 5
"""The first variants have room for the windows and offsets that the movement rows are tried with."""
TABLES = ((6, 40), (9, 64), (3, 128), (17, 32), (2, 24))
"""Rows and columns of what is gathered from, per variant."""

VARIANT = int(os.environ.get("DIFFERENTIAL_TILES", "0"))
"""The variant of this process."""
TILE_EXTENTS = TILES[VARIANT]
TABLE_ROWS, TABLE_COLUMNS = TABLES[VARIANT % len(TABLES)]

SIZES = (
    {"M": 6, "N": 37, "K": 12, "B": 3, SCALARS: 64},
    {"M": 1, "N": 1, "K": 1, "B": 1, SCALARS: 1},
    {"M": 5, "N": 67, "K": 33, "B": 2, SCALARS: 200},
    {"M": 3, "N": 8, "K": 7, "B": 1, SCALARS: 17},
)
_MANY = (
    (2, 2, 2, 2), (1, 97, 5, 1), (13, 1, 1, 3), (7, 64, 16, 2), (17, 31, 3, 1), (4, 128, 8, 3), (1, 257, 2, 1), (64, 5, 64, 1), (11, 33, 31, 2),
    (3, 1031, 4, 1), (29, 16, 17, 1), (2, 255, 9, 5), (8, 8, 8, 8), (19, 43, 127, 1), (5, 512, 6, 1), (1, 4099, 3, 1),
)  # fmt: skip
MANY_SIZES = (*SIZES, *({"M": m, "N": n, "K": k, "B": b, SCALARS: min(m * n, 40)} for m, n, k, b in _MANY))
"""Twenty sizes: one, odd, prime, powers of two, large."""


def valid_sizes(seed: int) -> tuple[dict[str, int], ...]:
    """For a variant of the tiles: the whole, one cell, and parts of it."""
    rng = random.Random(seed)
    parts = [{symbol: rng.randint(1, extent) for symbol, extent in TILE_EXTENTS.items()} for _ in range(3)]
    return tuple({**sizes, SCALARS: 8} for sizes in (TILE_EXTENTS, dict.fromkeys(TILE_EXTENTS, 1), *parts))
