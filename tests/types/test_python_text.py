"""Trees of Python text: as `ast.parse` makes them, also while other threads parse."""

from __future__ import annotations

import ast
import gc
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from tilejit.types.python_text import expression, statements

TEXT = "[" * 30 + "a + f(b, *c)" + "]" * 30


@pytest.fixture
def other_threads_run_while_one_parses() -> Iterator[None]:
    """A collection of garbage in the middle of a tree lets another thread run."""

    def give_way(phase: str, info: dict[str, int]) -> None:
        time.sleep(0)

    before = gc.get_threshold()
    gc.callbacks.append(give_way)
    gc.set_threshold(20)
    yield
    gc.set_threshold(*before)
    gc.callbacks.remove(give_way)


@pytest.mark.usefixtures("other_threads_run_while_one_parses")
@pytest.mark.parametrize(("parse", "want"), [(statements, ast.parse(TEXT)), (expression, ast.parse(TEXT, mode="eval").body)])
def test_threads_parse_at_once(parse: Callable[[str], ast.AST], want: ast.AST) -> None:
    wrong: list[object] = []

    def work() -> None:
        for _ in range(20):
            try:
                if ast.dump(parse(TEXT)) != ast.dump(want):
                    wrong.append("another tree")
            except Exception as error:
                wrong.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_mistake_stays_a_syntax_error() -> None:
    with pytest.raises(SyntaxError):
        statements("def f(:")
    with pytest.raises(SyntaxError):
        expression("a = 1")
