"""Conditions that mix what only the run knows with what is known while compiling: they hold as in Python, wherever each part stands."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tilejit.language as pl
from tests.jit.conftest import MakeKernel
from tilejit.errors import ParserTypeError, UnsupportedFeatureError

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


@pl.jit.inline
def count(t: pl.Tensor):
    t[:] = t + 1.0
    return pl.cast(pl.read(t, [0, 0]), pl.INT64)


@pl.jit(runtime_scalars=("s",))
def guarded(x: pl.Tensor, s: pl.INT64, seen: pl.InOut[pl.Tensor], out: pl.Out[pl.Tensor]):
    t = x
    if s >= 0 and s < 2 and pl.read(x, [0, s]) > 1.5:
        t = t + 10.0
    if s < 0 or pl.read(x, [0, s % 2]) > 1.5:
        t = t + 100.0
    if s > 0 and count(seen) > 2:
        t = t + 1000.0
    i = s
    while 0 <= i < pl.read(x, [0, i]) or i == 1:
        i = i + 1 if i < 1 else -3
    out[:] = t + 10000.0 * pl.cast(i, pl.FP64)


@pytest.mark.parametrize("platform", ["cpu", "reference"])
def test_what_follows_is_looked_at_only_where_it_is_open(platform: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else it would be a read past the end of `x`, and `seen` would change."""
    monkeypatch.setenv("TILEJIT_PLATFORM", platform)
    x, seen = np.array([[1.0, 2.0]]), np.array([[1.0]])
    assert [guarded(x, s, seen)[0, 0] for s in (-1, 0, 1, 1)] == [101 - 10000, 1 - 30000, 111 - 30000, 1111 - 30000]
    assert seen == 3


def test_extents_of_parameters_that_are_bound_anew() -> None:
    m, k = pl.dynamic("M"), pl.dynamic("K")

    @pl.jit
    def swapped(x: pl.Tensor[[m, 4], pl.FP64], y: pl.Tensor[[k, 4], pl.FP64], out: pl.Out[pl.Tensor[[1, 4], pl.FP64]]):
        n = x.shape[0] * 10000
        x, y = y, x
        t = pl.create_tensor([1, 4], dtype=pl.FP64, init_value=0)
        for i in pl.range(x.shape[0]):
            t[:] = t + x[i : i + 1, :]
        out[:] = t + pl.cast(n + y.shape[0] * 100 + m * 10, pl.FP64)

    for rows, others in ((3, 5), (5, 3), (2, 6)):
        assert swapped(np.ones((rows, 4)), np.ones((others, 4)))[0, 0] == rows * 10000 + rows * 110 + others


SHAPE = pl.Tensor[[1, 2], pl.FP32]


def test_a_local_is_annotated_by_another_name_of_a_type() -> None:
    @pl.jit
    def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        y: SHAPE = x + 1.0
        out[:] = y

    assert kernel(np.zeros((1, 2), np.float32)).tolist() == [[1.0, 1.0]]


@pl.jit.inline
def halved(x: pl.Tensor):
    return x * 0.5


def test_the_width_of_a_window_by_a_number_that_is_computed() -> None:
    @pl.jit
    def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        parts = 4
        size = x.shape[1] // parts
        for g in pl.range(parts):
            c = g * size
            out[:, c : c + size] = halved(x[:, c : c + size])

    x, out = np.arange(16, dtype=np.float32).reshape(2, 8), np.full((2, 8), np.nan, np.float32)
    kernel(x, out)
    np.testing.assert_array_equal(out, x / 2)


class Config:
    def __init__(self, size: int) -> None:
        self.size = size


CONFIGS = (Config(1), Config(2))


def test_objects_change_names_and_strided_windows_tell_a_shape() -> None:
    @pl.jit
    def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        a, b = CONFIGS
        a, b = b, a
        out[:, 0:6:2] = x + float(a.size * 10 + b.size)
        out[:, 1:6:2] = x

    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(kernel(x), np.stack([x + 21, x], 2).reshape(2, 6))


def test_one_and_true_are_two_values(make_kernel: MakeKernel) -> None:
    kernel = make_kernel(KERNEL.replace("{lines}", "if s > 0:\n        a = 1\n    else:\n        a = True\n    t = x + (2.0 if isinstance(a, bool) else 3.0)"))
    with pytest.raises(ParserTypeError, match="cannot have two types"):
        kernel(np.zeros((1, 2), np.float32), 1)


def test_containers_with_values_of_the_run_are_true_in_conditions_of_the_run(make_kernel: MakeKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_PLATFORM", "reference")
    text = "@pl.jit\ndef kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):\n    out[:] = {} if {} else {}\n"
    x = np.ones((2, 4), np.float32)
    for test, holds in (("[x] and x[0, 0] > 0.0", True), ("(x, 1) and x[0, 0] > 9.0", False), ("[x] or x[0, 0] > 9.0", True)):
        out = np.zeros_like(x)
        make_kernel(text.format("x", test, "x * 2.0"))(x, out)
        np.testing.assert_array_equal(out, x if holds else x * 2)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("any([s > 1, s < -1 or x[0, 0] > 0.5])", "write s > 1 or (s < -1 or x[0, 0] > 0.5)"),
        ("all((s > 0, x[0, 0] > 0.5, YES))", "write s > 0 and x[0, 0] > 0.5 and True"),
        ("any([s, x[0, 0]])", "write s != 0 or x[0, 0] != 0"),
        ("all([s])", "write s != 0"),
        ("any([s > 0, *[s < k for k in (-2, -1)]])", None),
    ],
)
def test_what_is_said_of_any_and_all_of_flags_works(wrong: str, said: str | None, make_kernel: MakeKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    """pl.any and pl.all were said to work, which are of a tensor or tile."""
    monkeypatch.setenv("TILEJIT_PLATFORM", "reference")
    x = np.zeros((1, 2), np.float32)
    with pytest.raises(UnsupportedFeatureError) as caught:
        make_kernel(KERNEL.replace("{lines}", f"if {wrong}:\n        t = t + 1.0"))(x, 1)
    help = caught.value.hint or ""
    assert "pl." not in help and help.startswith("write ")
    if said is None:
        return
    assert help == said
    kernel = make_kernel(KERNEL.replace("{lines}", f"if {help.removeprefix('write ')}:\n        t = t + 1.0"))
    for s, first in itertools.product((-2, 0, 1, 2), (0.0, 1.0)):
        x[0, 0] = first
        assert bool(kernel(x, s)[0, 0] > first) == bool(eval(wrong, {"x": x, "s": s, "YES": True}))


@pytest.mark.parametrize("value", ["x[0, 0] > 0.5 and 'big' or 'small'", "x[0, 0] > 0.5 or [1]", "x[0, 0] > 0.5 or None"])
def test_what_is_no_flag_is_no_result_of_a_choice_of_the_run(make_kernel: MakeKernel, value: str) -> None:
    head = "@pl.jit\ndef kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):\n    out[:] = x\n    "
    x = np.ones((2, 4), np.float32)
    with pytest.raises(ParserTypeError, match="must be a BOOL, got") as caught:
        make_kernel(f"{head}print({value})\n")(x)
    assert "if … else …" in str(caught.value.hint)
    np.testing.assert_array_equal(make_kernel(f"{head}if {value}:\n        out[:] = x * 2.0\n")(x), 2 * x)
