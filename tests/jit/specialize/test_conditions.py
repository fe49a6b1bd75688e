"""Conditions that mix what only the run knows with what is known while compiling: they hold as in Python, wherever each part stands."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.jit.conftest import MakeKernel
from tilejit.errors import ParserTypeError

KNOWN = ("YES", "NO", "x.shape[0] > 5", "here", "SIZE", "NONE")
FORMS = ["{0} {op} {1}", "{1} {op} {0}", "{0} {op} {1} {op} {0}", "not ({0} {op} {1})", "{1} {op} ({0} {op} {1})"]
CONDITIONS = [
    form.format("s > 0", known, op=op)
    for number, (form, known, op) in enumerate(itertools.product(FORMS, KNOWN, ("and", "or"))) if number % 2 == 0 or form == FORMS[0]
]  # fmt: skip
KERNEL = """
YES, NO, SIZE, NONE = True, False, 3, None
@pl.jit(runtime_scalars=("s",))
def kernel(x: pl.Tensor, s: pl.INT32, out: pl.Out[pl.Tensor]):
    here = False
    t = x
    {lines}
    out[:] = t
"""


def test_parts_that_are_known_while_compiling(make_kernel: MakeKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_PLATFORM", "reference")
    lines = [f"if {test}:\n        t = t + {2.0**number}" for number, test in enumerate(CONDITIONS)]
    kernel = make_kernel(KERNEL.replace("{lines}", "\n    ".join(lines)))
    x = np.zeros((1, 2), np.float32)
    for s in (-1, 2):
        names = {"YES": True, "NO": False, "SIZE": 3, "NONE": None, "here": False, "x": x, "s": s}
        held = kernel(x.astype(np.float64), s)[0, 0]
        assert [test for number, test in enumerate(CONDITIONS) if int(held) >> number & 1] == [test for test in CONDITIONS if eval(test, names)]


@pytest.mark.parametrize("value", ["s or 3", "s > 0 and 3", "s and 0"])
def test_a_value_of_two_kinds_is_refused(value: str, make_kernel: MakeKernel) -> None:
    kernel = make_kernel(KERNEL.replace("{lines}", f"t = x * float({value})"))
    with pytest.raises(ParserTypeError, match="must be a BOOL"):
        kernel(np.zeros((1, 2), np.float32), 1)
