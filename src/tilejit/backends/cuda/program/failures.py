"""The failures of a program's kernels by row, and the text that reports one."""

from __future__ import annotations

from collections.abc import Sequence

from tilejit.backends.cuda.text import numbers
from tilejit.backends.cuda.text.values import Scalar
from tilejit.backends.cuda.text.writer import Writer
from tilejit.runtime.call.failures import Failure


class FailureTable:
    """Rows in the order in which the program meets them."""

    def __init__(self) -> None:
        self.rows: list[Failure] = []

    def row(self, failure: Failure) -> int:
        if failure not in self.rows:
            self.rows.append(failure)
        return self.rows.index(failure)

    def report(self, out: Writer, good: str, failure: Failure, values: Sequence[Scalar] = ()) -> None:
        """Report unless `good`, the text of a scalar flag, holds."""
        errors = out.parameter("errors", "error", "*i64", None)
        block = out.program()
        texts = [numbers.wide(value) for value in values[:3]] + ["0"] * (3 - len(values))
        out.line(f"{out.helper('report')}({errors}, ({good}).to(tl.int32), {block}, {self.row(failure)}, {', '.join(texts)})")
