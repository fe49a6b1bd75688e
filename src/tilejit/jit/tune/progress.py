"""How far a search is: a bar of `rich` on a terminal that has it, else one line; nothing is printed twice."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from typing import Any, Protocol


class Progress(Protocol):
    """Is told what is tried, and how it ended."""

    def update(self, done: int, text: str) -> None: ...

    def close(self, summary: str) -> None: ...


def progress_of(title: str, total: int, wanted: bool) -> Progress:
    """What shows a search on stderr: nothing where nobody wants it or nobody could see it."""
    if not wanted or sys.stderr is None:
        return _Silent()
    if not sys.stderr.isatty():
        return _OneLine()
    return _Bar(title, total) if importlib.util.find_spec("rich") is not None else _Rewritten(title, total)


class _Silent:
    def update(self, done: int, text: str) -> None:
        pass

    def close(self, summary: str) -> None:
        pass


class _OneLine(_Silent):
    """For logs: what came out of it."""

    def close(self, summary: str) -> None:
        if summary:
            print(summary, file=sys.stderr, flush=True)


class _Rewritten(_OneLine):
    """For terminals: one line that changes."""

    def __init__(self, title: str, total: int) -> None:
        self._title, self._total = title, total

    def update(self, done: int, text: str) -> None:
        print(f"\r\x1b[K{self._title}: {done} of {self._total} candidates, {text}", end="", file=sys.stderr, flush=True)

    def close(self, summary: str) -> None:
        print("\r\x1b[K", end="", file=sys.stderr)
        super().close(summary)


class _Bar(_OneLine):
    """For terminals with `rich`."""

    def __init__(self, title: str, total: int) -> None:
        rich: Any = importlib.import_module("rich.progress")
        console = importlib.import_module("rich.console").Console(stderr=True)
        title_column, candidate = (rich.TextColumn(text) for text in ("{task.description}", "{task.fields[best]}"))
        columns = (title_column, rich.BarColumn(), rich.MofNCompleteColumn(), rich.TimeElapsedColumn(), candidate)
        self._bar = rich.Progress(*columns, console=console, transient=True)
        self._task = self._bar.add_task(title, total=total, best="")
        self._bar.start()

    def update(self, done: int, text: str) -> None:
        self._bar.update(self._task, completed=done, best=text)

    def close(self, summary: str) -> None:
        self._bar.stop()
        super().close(summary)
