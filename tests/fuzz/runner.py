"""Runs a generated program every way there is and compares: reference, cpu, printed and parsed back, lowered."""

from __future__ import annotations

import linecache
import re
import types
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tests.fuzz.arguments import packed
from tests.fuzz.problem import Problem
from tests.fuzz.program import Case
from tests.fuzz.regions import SYMBOL, TWICE
from tests.fuzz.text_forms import comments_kept, mutated, other_forms, round_trip, told_apart
from tests.fuzz.values import EPSILON, NARROW, integer_range
from tests.fuzz.writer import Param
from tests.hardware import PLATFORM, prepare
from tilejit.compiler import lower_program
from tilejit.dtypes import dtype_named
from tilejit.errors import InternalError, OutOfBoundsError, TilejitError
from tilejit.frontend.aliases import COPY, SHOWN
from tilejit.passes import cost

Arrays = dict[str, Any]
"""Arguments by name: arrays, and numbers for scalar parameters."""
Outcome = Arrays | OutOfBoundsError


def make(param: Param, rng: np.random.Generator, size: int) -> Any:
    """Data for a parameter."""
    if param.style == "scalar":
        number = rng.uniform(-2, 2)
        return float(np.float32(number)) if param.dtype in EPSILON else int(number)
    shape = tuple({SYMBOL: size, TWICE: 2 * size}[extent] if isinstance(extent, str) else extent for extent in param.shape)
    dtype = dtype_named(param.dtype).numpy
    low, high = param.bounds()
    if param.dtype == "BOOL":
        return rng.integers(0, 2, shape).astype(bool)
    if param.dtype in NARROW:
        return rng.uniform(low, high, shape).astype(np.float32).astype(dtype)
    if param.dtype not in EPSILON:
        edge = integer_range(param.dtype)
        return rng.integers(max(int(low), edge[0]), min(int(high), edge[1], 2**63 - 1), shape, np.int64, endpoint=True).astype(dtype)
    values = rng.uniform(low, high, shape)
    return (np.round(values * 8) / 8 if param.style == "grid" else values).astype(dtype)


def arguments(case: Case, size: int) -> Arrays:
    rng = np.random.default_rng((case.seed, size))
    # Scalars are specialised: the same for all sizes.
    fixed = np.random.default_rng(case.seed)
    return {param.name: make(param, fixed if param.style == "scalar" else rng, size) for param in case.params}


def load(text: str, name: str) -> types.ModuleType:
    """Execute program text so that its source can be found."""
    filename = f"<fuzz {name}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    module = types.ModuleType("fuzz_program")
    module.__file__ = filename
    exec(compile(text, filename, "exec"), module.__dict__)
    return module


def check(case: Case, text: str | None = None) -> Problem | None:
    """The first problem of a case (or of another text with the same parameters), or None."""
    text = text or case.text
    problem = _first_problem(case, text)
    if problem is not None and problem.message.startswith((COPY, SHOWN)) and (copying := _with_copies(text)) != text:
        return _first_problem(case, copying)  # What the help says must work.
    return problem


def _with_copies(text: str) -> str:
    """The program with copies of its own, as the help for those says, of `x.T` and of slices with a step."""
    lines = [line.partition(" = ") for line in text.splitlines(keepends=True)]
    return "".join(target + sign + re.sub(r"\w+(\.T\b|\[[^][]*::[^][]*\])", r"(+\g<0>)", value) for target, sign, value in lines)


def _first_problem(case: Case, text: str) -> Problem | None:
    stage = "reference"
    try:
        for stage, problem in _stages(case, text):
            if problem is not None:
                return problem
            stage = _NEXT[stage]
    except Exception as error:
        return Problem(stage, type(error).__name__, str(error))
    finally:
        linecache.cache.pop(f"<fuzz {case.seed}>", None)
    return None


_NEXT = {"reference": "cpu", "cpu": "print", "print": "lower", "lower": "lower"}


def _stages(case: Case, text: str) -> Iterator[tuple[str, Problem | None]]:
    from tilejit import ir

    prepare()
    module = load(text, str(case.seed))
    given = [arguments(case, size) for size in case.sizes]
    program = program_of(case, module, given[0])
    reference = ir.compile(program, platform="reference")
    # What was specialised away is no parameter of the text.
    tensors = [{name: value for name, value in data.items() if not case.jit or isinstance(value, np.ndarray)} for data in given]
    expected = [_outcome(reference, data) for data in tensors]
    yield "reference", _poison(case, expected)
    case = _judged(case, reference)
    yield "cpu", _cpu(case, module, program, given, expected) or (_other_arguments(replace(case, text=text), given, expected) if case.seed % 8 == 3 else None)
    if PLATFORM != "cpu":
        return  # The rest does not depend on where programs run.
    yield "print", round_trip(program) or comments_kept(case, text, program) or other_forms(program, case.seed) or _changed(case, program, tensors, expected)
    lowered = lower_program(program)
    again = ir.compile(lowered, platform="reference")
    problems = (compare(case, "lower", wanted, _outcome(again, data), exact=True) for data, wanted in zip(tensors, expected, strict=True))
    different = next((problem for problem in problems if problem), None)
    yield "lower", different or round_trip(lowered, "lower") or (other_forms(lowered, case.seed, "lower") if case.seed % 2 else None)


def _judged(case: Case, compiled: Any) -> Case:
    """The case with a tolerance for the inputs that its program writes."""
    written = {param.name: 64 * EPSILON.get(str(param.dtype), 0.0) for param in compiled.param_infos if param.direction != "In"}
    return replace(case, tolerances={**written, **case.tolerances})


def run_for_errors(case: Case, program: Any, given: Arrays) -> Problem | None:
    """Run a program that may be wrong: both backends refuse it, or neither does."""
    from tilejit import ir

    tensors = {name: value for name, value in given.items() if not case.jit or isinstance(value, np.ndarray)}
    outcomes: list[str] = []
    for platform in ("reference", PLATFORM):
        try:
            ir.compile(program, platform=platform)(*_copies(tensors).values())
            outcomes.append("no error")
        except InternalError:
            raise
        except TilejitError as error:
            outcomes.append(type(error).__name__)
    # What one finds while compiling, the other may find while running.
    agree = (outcomes[0] == "no error") == (outcomes[1] == "no error")
    return None if agree else Problem("running", "error", f"reference: {outcomes[0]}; {PLATFORM}: {outcomes[1]}")


def _changed(case: Case, program: Any, tensors: list[Arrays], expected: list[Outcome]) -> Problem | None:
    """A program with one thing changed is told apart, unless the change means nothing."""
    from tilejit import ir

    other = mutated(program, case.seed) if case.seed % 5 == 4 else None
    if other is None:
        return None
    problem = told_apart(program, other)
    if problem is None and ir.structural_equal(program, other):
        run = ir.compile(other, platform="reference")
        differences = [compare(case, "print", wanted, _outcome(run, data), exact=True) for data, wanted in zip(tensors, expected, strict=True)]
        problem = next((found for found in differences if found), None)
    return problem


def program_of(case: Case, module: types.ModuleType, data: Arrays) -> Any:
    from tilejit import language as pl

    if not case.jit:
        return module.Fuzz
    return pl.parse(module.kernel.specialized_source(*_copies(data).values()))


@contextmanager
def shared_out(wanted: bool) -> Generator[None]:
    """Let the CPU backend share out the smallest piece of work, so that random programs meet its threads."""
    saved = cost.WORTH_NS, cost.CERTAIN_NS
    if wanted:
        cost.WORTH_NS, cost.CERTAIN_NS = 0, 1
    yield
    cost.WORTH_NS, cost.CERTAIN_NS = saved


def _cpu(case: Case, module: types.ModuleType, program: Any, given: list[Arrays], expected: list[Outcome]) -> Problem | None:
    from tilejit import ir
    from tilejit.runtime.config import RunConfig

    with shared_out(case.seed % 2 == 0):
        compiled = module.kernel if case.jit else ir.compile(program, platform=PLATFORM)
        for data, wanted in zip(given, expected, strict=True):
            for threads in (1, 2) if PLATFORM == "cpu" else (1,):
                run = _Configured(compiled, RunConfig(platform=PLATFORM, num_threads=threads))
                problem = compare(case, "cpu", wanted, _outcome(run, data))
                if problem is None and threads == 1 and case.seed % 8 == 0:
                    problem = compare(case, "cpu", wanted, _outcome(run, _with_gaps(case, data)))
                if problem:
                    return replace(problem, message=f"{problem.message} ({threads} thread{'s' * (threads > 1)})")
    return None


def _other_arguments(case: Case, given: list[Arrays], expected: list[Outcome]) -> Problem | None:
    """The same from a kernel that takes its tensors in a container, and an argument that is decided while compiling."""
    form = packed(case)
    if form is None:
        return None
    module = load(form.text, f"{case.seed} with other arguments")

    def call(data: Arrays, args: tuple[object, ...]) -> None:
        positional, keywords = form.pack(module, dict(zip(data, args, strict=True)))
        module.kernel(*positional, **keywords)

    actual = (_outcome(lambda *args, data=data: call(data, args), data) for data in given)
    problems = (compare(case, "cpu", wanted, got, same_names=False) for wanted, got in zip(expected, actual, strict=True))
    problem = next((found for found in problems if found), None)
    return problem and replace(problem, message=f"{problem.message}\n{form.text}")


def _with_gaps(case: Case, data: Arrays) -> Arrays:
    """The same inputs as windows of larger arrays: rows lie apart, or columns follow each other."""
    out = dict(data)
    for param in case.params:
        array = data[param.name]
        if param.name not in case.tolerances and isinstance(array, np.ndarray) and array.ndim == 2:
            larger = np.zeros((array.shape[0], array.shape[1] + 3), array.dtype)
            larger[:, 1:-2] = array
            out[param.name] = larger[:, 1:-2] if len(param.name) % 2 else np.asfortranarray(array)
    return out


@dataclass(frozen=True)
class _Configured:
    compiled: Any
    config: Any

    def __call__(self, *args: object) -> object:
        return self.compiled(*args, config=self.config)


def _copies(data: Arrays) -> Arrays:
    return {name: value.copy() if isinstance(value, np.ndarray) and value.flags.c_contiguous else value for name, value in data.items()}


def _outcome(compiled: Any, data: Arrays) -> Outcome:
    """The arguments after a call, or the error that running found."""
    copies = _copies(data)
    try:
        compiled(*copies.values())
    except OutOfBoundsError as error:
        if error.note is None:
            raise
        return error
    return copies


def _poison(case: Case, results: list[Outcome]) -> Problem | None:
    """The generator writes only finite programs: a NaN from the reference is a cell that must not be used."""
    for result in results:
        if isinstance(result, OutOfBoundsError):
            continue
        for name in case.tolerances:
            values = result[name]
            if values.dtype.kind not in "iub" and np.isnan(values.astype(np.float64)).any():
                return Problem("reference", "poison", f"{name} has cells without meaning:\n{values}")
    return None


def compare(case: Case, stage: str, expected: Outcome, actual: Outcome, exact: bool = False, same_names: bool = True) -> Problem | None:
    """Whether all arrays agree: outputs within their tolerance, inputs untouched; or whether the same error was found.

    Without `same_names` the sides come from two texts, in which a tensor is the parameter `x` or a member of one, and errors call it so.
    """
    if isinstance(expected, OutOfBoundsError) or isinstance(actual, OutOfBoundsError):
        texts = [str(side.message) if isinstance(side, OutOfBoundsError) else "no error" for side in (expected, actual)]
        compared = texts if same_names else [re.sub("`[^`]*`", "a tensor", text) for text in texts]
        return Problem(stage, "error", f"reference: {texts[0]}; {stage}: {texts[1]}") if compared[0] != compared[1] else None
    for name, wanted in expected.items():
        got = actual[name]
        if not isinstance(wanted, np.ndarray):
            continue
        if wanted.dtype.kind in "iub":
            wrong = wanted != got
        else:
            a, b = wanted.astype(np.float64), got.astype(np.float64)
            tolerance = 0.0 if exact else 2.0 * case.tolerances.get(name, 0.0)
            with np.errstate(invalid="ignore"):
                wrong = ~((np.abs(a - b) <= tolerance) | (a == b) | (np.isnan(a) & np.isnan(b)))
        if wrong.any():
            cell = tuple(int(i) for i in np.argwhere(wrong)[0])
            counted = f"{int(wrong.sum())} of {wrong.size} cells differ (tolerance {case.tolerances.get(name, 0.0):.3g})"
            message = f"{name}{list(cell)}: reference {wanted[cell]!r}, {stage} {got[cell]!r}; {counted}"
            beyond = abs(float(wanted[cell]) - float(got[cell])) / (2.0 * case.tolerances.get(name, 0.0) + 1e-6 * (1.0 + abs(float(wanted[cell]))))
            return Problem(stage, "difference", message, beyond)
    return None
