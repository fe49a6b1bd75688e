"""Programs as text and back: in full and concise form, as MLIR, from a file; equality and hash agree with each other and with the meaning."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any

from tests.fuzz.problem import Problem
from tests.fuzz.program import Case
from tilejit import ir
from tilejit import language as pl
from tilejit.errors import TilejitError


def round_trip(program: Any, stage: str = "print", **form: Any) -> Problem | None:
    """Whether a program's text parses back to an equal program with an equal hash, which prints the same text."""
    text = program.as_python(**form)
    return same(program, pl.parse(text), text, stage)


def same(program: Any, back: Any, text: str, stage: str) -> Problem | None:
    """Whether a program that was written and read is what it was: equal hashes, and now and then equality itself."""
    alike = ir.structural_hash(back) == ir.structural_hash(program)
    if alike and len(text) % 8:
        return None
    try:
        ir.assert_structural_equal(back, program)
    except AssertionError as error:
        return Problem(stage, "structure", f"{error}\n{text}")
    if not ir.structural_equal(program, back):
        return Problem(stage, "structure", f"assert_structural_equal and structural_equal disagree\n{text}")
    return None if alike else Problem(stage, "hash", text)


def other_forms(program: Any, seed: int, stage: str = "print") -> Problem | None:
    """One more form of the text, by seed."""
    kind = seed % 5
    if kind == 0:
        return round_trip(program, stage, concise=True)
    if kind == 1:
        return round_trip(program, stage, prefix="tl", concise=bool(seed % 2))
    if kind == 2:
        text = ir.serialize(program)
        return same(program, ir.deserialize(text), text, stage)
    if kind == 3:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "kernel.py")
            path.write_text(program.as_python(), encoding="utf-8")
            return same(program, pl.loads(path), path.read_text(encoding="utf-8"), stage)
    return None


MUTATIONS = (
    ("pl.maximum(", "pl.minimum("), ("pl.add(", "pl.sub("), ("pl.row_max(", "pl.row_sum("), ("pl.neg(", "pl.abs("), (", [0, 0], ", ", [1, 0], "),
    (" < ", " <= "),
)  # fmt: skip


def mutated(program: Any, seed: int) -> Any | None:
    """The program with one thing changed, if it has what can be changed and is still legal."""
    text = program.as_python()
    for old, new in MUTATIONS[seed % len(MUTATIONS) :]:
        if old in text:
            try:
                return pl.parse(text.replace(old, new, 1))
            except TilejitError:
                return None
    return None


def told_apart(program: Any, other: Any) -> Problem | None:
    """Whether equality, the assertion and the hash agree about two programs."""
    equal = ir.structural_equal(program, other)
    if equal != (ir.structural_hash(program) == ir.structural_hash(other)):
        return Problem("print", "hash", f"equal: {equal}, but the hashes say otherwise\n{program.as_python()}\n{other.as_python()}")
    try:
        ir.assert_structural_equal(program, other)
    except AssertionError as error:
        if equal or not re.match(r"function `\w+`", str(error)):
            return Problem("print", "path", str(error))
        return None
    return None if equal else Problem("print", "assertion", "two programs differ, and the assertion holds")


def comments_kept(case: Case, text: str, program: Any) -> Problem | None:
    """Comments of the source are in the printed program."""
    wanted = re.findall(r"# (note \w+)", text)
    printed = program.as_python() if wanted else ""
    lost = [comment for comment in wanted if f"# {comment}" not in printed]
    return Problem("print", "comment", f"lost: {lost}\n{printed}") if lost else None
