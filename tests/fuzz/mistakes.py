"""Programs with one mistake in them: whatever is wrong, the answer is one of our errors with a place, never a crash or a strange exception."""

from __future__ import annotations

import ast
import copy
import random
from collections.abc import Callable, Iterator

import numpy as np

from tests.fuzz.problem import Problem
from tests.fuzz.program import Case, generate
from tests.fuzz.runner import arguments, load, program_of, run_for_errors
from tilejit import ops
from tilejit.errors import InternalError, Span, TilejitError

NAMES = ("pl.FP16", "pl.INT8", "pl.UINT32", "None", "'text'", "undefined", "0", "-1", "3", "1.5", "True", "[1, 2]", "pl.PadValue.max", "(1, 2)")
"""What an argument may turn into."""


def statements_of(tree: ast.AST) -> list[tuple[list[ast.stmt], int]]:
    """Every statement inside a function: its list and its place there."""
    found: list[tuple[list[ast.stmt], int]] = []
    for node in ast.walk(tree):
        for field in ("body", "orelse"):
            body = getattr(node, field, None)
            if isinstance(body, list) and not isinstance(node, ast.Module | ast.ClassDef):
                found += [(body, place) for place in range(len(body))]
    return found


def calls_of(tree: ast.AST) -> list[ast.Call]:
    """Calls of the language in function bodies."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return [node for function in functions for item in function.body for node in ast.walk(item) if isinstance(node, ast.Call)]


def _drop_statement(tree: ast.AST, rng: random.Random) -> None:
    body, place = rng.choice(statements_of(tree))
    body[place] = ast.Pass()


def _move_statement(tree: ast.AST, rng: random.Random) -> None:
    body, place = rng.choice(statements_of(tree))
    other, target = rng.choice(statements_of(tree))
    other.insert(target, copy.deepcopy(body[place]))


def _drop_argument(tree: ast.AST, rng: random.Random) -> None:
    call = rng.choice([call for call in calls_of(tree) if call.args or call.keywords])
    chosen = call.args if call.args and (not call.keywords or rng.random() < 0.7) else call.keywords
    del chosen[rng.randrange(len(chosen))]


def _swap_arguments(tree: ast.AST, rng: random.Random) -> None:
    call = rng.choice([call for call in calls_of(tree) if len(call.args) > 1])
    a, b = rng.sample(range(len(call.args)), 2)
    call.args[a], call.args[b] = call.args[b], call.args[a]


def _other_argument(tree: ast.AST, rng: random.Random) -> None:
    call = rng.choice([call for call in calls_of(tree) if call.args])
    call.args[rng.randrange(len(call.args))] = ast.parse(rng.choice(NAMES), mode="eval").body


def _other_keyword(tree: ast.AST, rng: random.Random) -> None:
    call = rng.choice(calls_of(tree))
    call.keywords.append(ast.keyword(rng.choice(("dtype", "valid_shape", "mode", "tmp", "deps", "frobnicate")), ast.parse(rng.choice(NAMES), mode="eval").body))


def _other_op(tree: ast.AST, rng: random.Random) -> None:
    call = rng.choice([call for call in calls_of(tree) if isinstance(call.func, ast.Attribute)])
    assert isinstance(call.func, ast.Attribute)
    call.func.attr = rng.choice([*ops.public_names("pl"), "range", "spmd", "submit", "yield_", "cond", "frobnicate"])


def _other_number(tree: ast.AST, rng: random.Random) -> None:
    found = [node for item in calls_of(tree) for node in ast.walk(item) if isinstance(node, ast.Constant) and type(node.value) in (int, float)]
    rng.choice(found).value = rng.choice((0, 1, -1, 2, 1000, 0.5, True))


def _other_name(tree: ast.AST, rng: random.Random) -> None:
    found = [node for body, place in statements_of(tree) for node in ast.walk(body[place]) if isinstance(node, ast.Name) and node.id not in ("pl", "self")]
    rng.choice(found).id = rng.choice([*(node.id for node in found), "undefined"])


def _other_type(tree: ast.AST, rng: random.Random) -> None:
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and len(node.args.args) > 1]
    a, b = rng.sample(rng.choice(functions).args.args, 2)
    a.annotation, b.annotation = b.annotation, a.annotation


MISTAKES: tuple[Callable[[ast.AST, random.Random], None], ...] = (
    _drop_statement, _move_statement, _drop_argument, _swap_arguments, _other_argument, _other_keyword, _other_op, _other_number, _other_name, _other_type,
)  # fmt: skip


def spoiled(case: Case, number: int) -> str | None:
    """The text of a case with a mistake."""
    rng = random.Random((case.seed, number).__hash__())
    tree = ast.parse(case.text)
    try:
        rng.choice(MISTAKES)(tree, rng)
    except IndexError:
        return None
    return ast.unparse(ast.fix_missing_locations(tree))


def check_mistake(case: Case, text: str) -> Problem | None:
    """Read, compile and run a spoiled program on both backends: it works, or one of our errors says why not."""
    stage = "reading"
    try:
        module = load(text, str(case.seed))
        given = arguments(case, case.sizes[0])
        program = program_of(case, module, given)
        stage = "running"
        return None if "while" in text else run_for_errors(case, program, given)
    except InternalError as error:
        return Problem(stage, "InternalError", str(error))
    except TilejitError as error:
        # A call that does not fit its kernel has no place in the kernel.
        placed = isinstance(error.span, Span) or stage == "running" or error.message.startswith("@pl.jit function")
        return None if placed else Problem(stage, "place", f"no place: {type(error).__name__}: {error}")
    except (SyntaxError, RecursionError) as error:
        return None if isinstance(error, SyntaxError) else Problem(stage, "RecursionError", str(error))
    except (ValueError, TypeError) as error:
        # Programs that nobody can call, and calls that do not fit, before any kernel is read.
        known = ("none of type Orchestration", "decorate", "is annotated", "exactly one program")
        return None if any(words in str(error) for words in known) else Problem(stage, type(error).__name__, str(error))
    except Exception as error:
        return Problem(stage, type(error).__name__, str(error))


def mistakes(first: int, count: int, each: int = 4) -> Iterator[tuple[int, int, str, Problem]]:
    """Problems of spoiled programs: seed, number, text, problem."""
    for seed in range(first, first + count):
        case = generate(seed)
        for number in range(each):
            text = spoiled(case, number)
            if text is None:
                continue
            with np.errstate(all="ignore"):
                problem = check_mistake(case, text)
            if problem is not None:
                yield seed, number, text, problem


