"""Trees of Python text: as `ast.parse` makes them, also while other threads parse."""

from __future__ import annotations

import ast
import sys
import threading
from collections.abc import Callable, Iterator

import pytest

from tilejit.types.python_text import expression, statements

TEXT = "[" * 30 + "a + f(b, *c)" + "]" * 30


@pytest.fixture
def threads_that_switch_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("threads_that_switch_often")
@pytest.mark.parametrize(("parse", "want"), [(statements, ast.parse(TEXT)), (expression, ast.parse(TEXT, mode="eval").body)])
def test_threads_parse_at_once(parse: Callable[[str], ast.AST], want: ast.AST) -> None:
    wrong: list[object] = []

    def work() -> None:
        for _ in range(200):
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
