"""Whether the tiles of a text that live at once fit into the local memories: level 2 leaves their places to the vendor's tool, not their sum."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tilejit.errors import Span
from tilejit.tile_ir.pto.elements import ELEMENTS

_ALLOC = re.compile(r"\s*(%\w+) = pto\.alloc_tile.*<loc=(\w+), dtype=([\w!.]+), rows=(\d+), cols=(\d+)")
_ALIAS = re.compile(r"\s*(%\w+) = pto\.(?:subset|treshape|bitcast) (%\w+)")
_LOOP = re.compile(r"\s*(?:.*= )?scf\.(?:for|while)\b")
_NAME = re.compile(r"%\w+")

Problem = tuple[Span | None, str, int]
"""Where most is needed, of which memory, how many bytes."""


def overflow(lines: Sequence[tuple[str, Span | None]], capacity: dict[str, int]) -> Problem | None:
    """The memory whose tiles need more room than there is; None when all fit."""
    tiles, lives = _lives([text for text, _ in lines])
    worst: Problem | None = None
    for loc in capacity:
        here = [(tiles[name][1], *life) for name, life in lives.items() if tiles[name][0] == loc]
        changes = sorted([*((first, size) for size, first, _ in here), *((last + 1, -size) for size, _, last in here)])
        used = 0
        for place, change in changes:
            used += change
            if used > capacity[loc] and (worst is None or used > worst[2]):
                worst = (lines[place][1], loc, used)
    return worst


def _lives(texts: Sequence[str]) -> tuple[dict[str, tuple[str, int]], dict[str, list[int]]]:
    """Memory and bytes of each tile, and its first and last line; a tile made before a loop lives through it."""
    tiles: dict[str, tuple[str, int]] = {}
    lives: dict[str, list[int]] = {}
    root: dict[str, str] = {}
    loops: list[tuple[int, int]] = []
    opened: list[tuple[int, bool]] = []
    for place, text in enumerate(texts):
        stripped = text.strip()
        if stripped.startswith("//"):
            continue
        if stripped.startswith("}") and opened:
            start, is_loop = opened.pop()
            if is_loop:
                loops.append((start, place))
        if stripped.endswith("{"):
            opened.append((place, bool(_LOOP.match(text)) or stripped == "} do {"))
        if made := _ALLOC.match(text):
            name, loc, element, rows, cols = made.groups()
            tiles[name] = (loc, int(rows) * int(cols) * ELEMENTS[element.removeprefix("!pto.")].bytes)
            lives[name] = [place, place]
        elif alias := _ALIAS.match(text):
            root[alias[1]] = root.get(alias[2], alias[2])
        for name in _NAME.findall(text):
            owner = root.get(name, name)
            if owner in lives:
                lives[owner][1] = place
    for span in lives.values():
        for start, end in loops:
            if span[0] < start <= span[1] <= end:
                span[1] = end
    return tiles, lives
