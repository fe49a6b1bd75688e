"""The same kernel with its tensors in a container, and with arguments that are decided while compiling."""

from __future__ import annotations

import ast
import enum
import random
from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any, NamedTuple

from tests.fuzz.program import Case


class Way(enum.Enum):
    RIGHT = 1
    WRONG = 2


@dataclass(frozen=True)
class Setting:
    way: Way
    steps: tuple[int, ...] = (1, 2)
    name: str | None = None


class Count(NamedTuple):
    low: int
    high: int = 3


def following(number: int) -> int:
    return number + 1


DECISIONS = (
    ("how == 'right'", "'right'"),
    ("len(how) == 5 and how.startswith('r')", "'right'"),
    ("how", "True"),
    ("how is False", "False"),
    ("how is None", "None"),
    ("how is Way.RIGHT", "Way.RIGHT"),
    ("how[1] == 2 and len(how) == 2", "(1, 2)"),
    ("sum(how) == 6", "[1, 2, 3]"),
    ("[n for n in how if n > 1] == [2, 3]", "(1, 2, 3)"),
    ("how['way'] == 'right'", "{'way': 'right', 'other': 2}"),
    ("how.way is Way.RIGHT and how.steps[0] == 1 and how.name is None", "Setting(Way.RIGHT)"),
    ("all(step < 9 for step in how.steps)", "Setting(Way.WRONG, (3, 4))"),
    ("how.high - how.low == 2", "Count(1)"),
    ("how is pl.FP16", "pl.FP16"),
    ("how(3) == 4", "following"),
    ("f'{how}-{how + 1}' == '2-3'", "2"),
)
"""A question to an argument, and an argument for which the answer is yes."""
CONTAINERS = ("list", "tuple", "star", "dict", "named", "optional")


@dataclass(frozen=True)
class Packed:
    """Another text of a case, whose `kernel` takes the same data in another form."""

    text: str
    pack: Callable[[ModuleType, dict[str, Any]], tuple[list[Any], dict[str, Any]]]
    """(module of the text, arguments by name) → what to call `kernel` with."""


def packed(case: Case) -> Packed | None:
    """The form that a seed chooses; None where extents are dynamic, which annotations of parameters say."""
    if not case.jit or any(param.is_dynamic for param in case.params):
        return None
    rng = random.Random(case.seed)
    container, (question, answer), only_keyword = rng.choice(CONTAINERS), rng.choice(DECISIONS), rng.random() < 0.5
    inside = [param.name for param in case.params if param.direction == "In" and param.style != "scalar"]
    tree = ast.parse(case.text)
    kernel = next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "kernel")
    others = [arg for arg in kernel.args.args if arg.arg not in inside]
    first, starred, last, unpack = _parameters(container, inside)
    keyword_only = only_keyword or bool(starred)
    header = ", ".join([*first, *map(ast.unparse, others), *starred, *(["*"] if keyword_only and not starred else []), "how", *last])
    lines = [*unpack, f"if not ({question}):", "    pl.no_such_operator(how)"]
    made = ast.parse(f"def kernel({header}):\n" + "\n".join("    " + line for line in lines)).body[0]
    assert isinstance(made, ast.FunctionDef)
    kernel.args, kernel.body = made.args, made.body + kernel.body
    before = "from tests.fuzz.arguments import Count, Setting, Way, following\n"

    def pack(module: ModuleType, data: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        tensors, rest = [data[name] for name in inside], [data[arg.arg] for arg in others]
        by_name = dict(zip(inside, tensors, strict=True))
        named = namedtuple("Inputs", inside)  # pyright: ignore[reportUntypedNamedTuple]
        forms: dict[str, list[Any]] = {"list": [tensors], "tuple": [tuple(tensors)], "dict": [by_name], "named": [named(*tensors)], "optional": tensors}
        keywords = {"how": module.HOW} if keyword_only else {}
        if starred:
            return [*rest, *tensors], keywords
        return [*forms[container], *rest, *([] if keyword_only else [module.HOW])], keywords

    return Packed(f"{before}{ast.unparse(tree)}\n\nHOW = {answer}\n", pack)


def _parameters(container: str, inside: list[str]) -> tuple[list[str], list[str], list[str], list[str]]:
    """Parameters in front of the others, starred ones, ones behind, and the lines that take tensors out."""
    whole = f"{', '.join(inside)}, = inputs" if inside else "assert len(inputs) == 0"
    match container:
        case "optional":
            return inside, [], ["absent: pl.Tensor = None"], ["if absent is not None:", "    pl.no_such_operator(absent)"]
        case "star":
            return [], ["*inputs"], [], [whole]
        case "dict":
            return ["inputs: dict"], [], [], [f"{name} = inputs[{name!r}]" for name in inside]
        case "named":
            return ["inputs"], [], [], [f"{name} = inputs.{name}" for name in inside]
        case "tuple":
            return ["inputs"], [], [], [f"{name} = inputs[{number - len(inside)}]" for number, name in enumerate(inside)]
        case _:
            return ["inputs: list"], [], [], [whole]
