"""What runs on a GPU: examples, the suite's kernels, every op with every data type (once, or in every way), random programs; each a list of jobs by number."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from tilejit.errors import UnsupportedFeatureError

if TYPE_CHECKING:
    from tests.differential.plans import Use

ROOT = Path(__file__).parents[2]
REFUSED = "refused: "
"""How the result of a job starts that the target has no rule for."""


@dataclass(frozen=True)
class Kind:
    """A list of jobs."""

    count: Callable[[], int]
    run: Callable[[int], list[str]]
    """What is wrong, in words; nothing: all is right."""


_SMALL = ("--layers", "2", "--hidden", "256", "--length", "16", "--new", "4")


@cache
def _examples() -> list[tuple[str, ...]]:
    """What Python is told to run."""
    files = sorted([*(ROOT / "examples").glob("*.py"), *(ROOT / "examples" / "distributed").glob("*.py")])
    return [*((str(path),) for path in files), ("-m", "examples.llama", *_SMALL), ("-m", "examples.training")]


def _example(number: int) -> list[str]:
    command = _examples()[number]
    done = subprocess.run([sys.executable, *command, "--device", "cuda"], capture_output=True, text=True, check=False, cwd=ROOT)
    right = done.returncode == 0 and (command[0] == "-m" or done.stdout == "OK\n")
    return [] if right else [f"{' '.join(command[:2])}: {_last(done.stderr)}"]


def _last(text: str) -> str:
    lines = text.strip().splitlines()
    return next((line for line in lines if line.startswith("tilejit.errors.")), lines[-1] if lines else "no word")


@cache
def _cases() -> list[tuple[str, object]]:
    from tests.suite.test_suite import CASES

    return [(parameters.id, parameters.values[0]) for parameters in CASES]  # type: ignore[attr-defined]


def _case(number: int) -> list[str]:
    name, case = _cases()[number]
    try:
        case.check("cuda")  # type: ignore[attr-defined]
    except UnsupportedFeatureError as error:
        return [f"{REFUSED}{name}: {error.message}"]
    except AssertionError as error:
        return [f"{name}: wrong: {' '.join(str(error).split())[:300]}"]
    return []


@cache
def _batches(all: bool) -> list[list[Use]]:
    """Uses of ops, some together: all, or one of each op with each data type, here on tensors and there on tiles, with these and with other arguments."""
    from tests.differential.plans import all_uses
    from tests.differential.runner import batches

    uses = list(all_uses())
    if not all:
        alike: dict[tuple[str, str], list[Use]] = {}
        for use in uses:
            alike.setdefault((use.row.name, use.dtype.name), []).append(use)
        uses = [group[7 * number % len(group)] for number, group in enumerate(alike.values())]
    return list(batches(uses))


def _batch(all: bool, number: int) -> list[str]:
    from tests.differential.runner import check

    with _variants(both=all or number % 8 == 0):
        return [_ordered(str(difference)) for difference in check(_batches(all)[number])]


@contextmanager
def _variants(both: bool) -> Generator[None]:
    """Compiling is what takes the time: inside, kernels have only the variant for any arguments, unless both are wanted."""
    from tilejit.backends.cuda import compile

    variants = compile.variants
    if not both:
        compile.variants = lambda kernel: variants(kernel)[:1]
    try:
        yield
    finally:
        compile.variants = variants


def _ordered(text: str) -> str:
    return f"{REFUSED}{text}" if "UnsupportedFeatureError" in text else text


def _program(seed: int) -> list[str]:
    from tests.fuzz.program import generate
    from tests.fuzz.runner import check

    with _variants(both=seed % 16 == 0):
        problem = check(generate(seed + 1))
    return [] if problem is None else [_ordered(f"seed {seed + 1}: {problem.stage}: {problem.kind}: {' '.join(problem.message.split())[:300]}")]


PROGRAMS = 2000
KINDS = {
    "examples": Kind(lambda: len(_examples()), _example),
    "suite": Kind(lambda: len(_cases()), _case),
    "pairs": Kind(lambda: len(_batches(False)), partial(_batch, False)),
    "ops": Kind(lambda: len(_batches(True)), partial(_batch, True)),
    "programs": Kind(lambda: PROGRAMS, _program),
}
