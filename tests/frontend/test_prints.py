"""f-strings in prints show what they hold when the kernel runs, as Python would; what cannot be shown is refused with what to write."""

from __future__ import annotations

import numpy as np
import pytest

import tilejit
import tilejit.language as pl
from tests.jit.conftest import MakeKernel
from tests.jit.conftest import make_kernel as make_kernel
from tilejit.errors import KernelAssertionError, ParserTypeError, UnsupportedFeatureError
from tilejit.tile_ir.equal import assert_structural_equal
from tilejit.tile_ir.program import Program

KERNEL = """
class Config:
    name = "run"

N, CONFIG = 5, Config()

@pl.jit
def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    n = 7
    for i in pl.range(2):
        {line}
    out[:] = x
"""
X = np.array([[1.5, 1.1], [2.5, 3.25]], np.float32)
TEXTS = [
    'f"row {i}: {x[i, 0]}"',
    'f"{x[i, 0]:.2f}|{x[i, 1]:>9.3e}|{x[i, 0]!s:>6}|{i:{n}d}|{i + N:03d}"',
    'f"{N:>3} {CONFIG.name} {i} \\"quoted\\" \'it\' {{b}} \\\\ é\\n {x[i, 0] > 2.0}"',
    'f"{x[i, 0]=!s}", "and", i, f"known {N}"',
    'f"{x} and {x[i]}"',
    'f"{x.shape} {[i, N]} {(i,)}", [i, "a"]',
    '[1, 2], list(x.shape), [CONFIG.name], (N,), [(N,)], [], (), {"a": [N]}, f"{[N]} {(N,)}", True, None, 1.5',
    '{"a": i, "n": [N, (i,)]}, ({"it\'s": i}, 1), f"{ {1: i, (2,): {}} } {[{N: i}]}"',
]


@pytest.mark.parametrize("platform", ["cpu", "reference", "eager"])
@pytest.mark.parametrize("text", TEXTS)
def test_f_strings_show_values_of_the_run(make_kernel: MakeKernel, capsys: pytest.CaptureFixture[str], text: str, platform: str) -> None:
    kernel = make_kernel(KERNEL.replace("{line}", f"print({text})"))
    kernel(X, np.zeros_like(X), config=tilejit.RunConfig(platform=platform))
    shown = capsys.readouterr().out
    names = {"x": X, "N": 5, "n": 7, "CONFIG": type("Config", (), {"name": "run"})}
    for i in range(2):
        exec(f"print({text})", {**names, "i": i})
    assert shown == capsys.readouterr().out


@pytest.mark.parametrize("text", TEXTS)
def test_programs_that_print_survive_printing(make_kernel: MakeKernel, text: str) -> None:
    program = make_kernel(KERNEL.replace("{line}", f"print({text})")).lower(X, X)
    again = pl.parse(program.as_python())
    assert isinstance(again, Program)
    assert_structural_equal(again, program)


def test_dynamic_extents_are_printed(make_kernel: MakeKernel, capsys: pytest.CaptureFixture[str]) -> None:
    text = """
        M = pl.dynamic("M")
        @pl.jit
        def kernel(x: pl.Tensor[[M, 2], pl.FP32], out: pl.Out[pl.Tensor]):
            print(x.shape, f"{x.shape} {M}")
            out[:] = x
    """
    make_kernel(text)(X, config=tilejit.RunConfig(platform="cpu"))
    assert capsys.readouterr().out == "(2, 2) (2, 2) 2\n"


@pytest.mark.parametrize(
    ("line", "kind", "said", "help"),
    [
        ('print(f"{x:.2f}")', ParserTypeError, "the format `.2f` is for numbers, `x` is Tensor", "print the elements"),
        ('print(f"{x[i, 0]:d}")', ParserTypeError, "cannot be printed as `d`", "leave the format out"),
        ('print(f"{x[i, 0]:{i}}")', UnsupportedFeatureError, "the format of `x[i, 0]` is known only at run time", "as a number"),
        ('print(f"{N:>{i}}")', UnsupportedFeatureError, "the format of `5` is known only at run time", "as a number"),
        ('print(f"{CONFIG.name:>{i + N}} {i}")', UnsupportedFeatureError, "the format of `'run'` is known only at run time", "as a number"),
        ('text = f"{x[i, 0]:.2f}"\n        print(text)', UnsupportedFeatureError, "`text` is a text of what only the run knows", 'print("row", i, x[i, 0])'),
        ('print("a" + f"{i}")', UnsupportedFeatureError, "is a text of what only the run knows", 'print("row", i, x[i, 0])'),
    ],
)
def test_what_a_print_cannot_show(make_kernel: MakeKernel, line: str, kind: type[Exception], said: str, help: str) -> None:
    with pytest.raises(kind) as caught:
        make_kernel(KERNEL.replace("{line}", line))(X, np.zeros_like(X))
    assert said in str(caught.value)
    assert help in str(caught.value)


@pytest.mark.parametrize("line", ['assert x[i, 0] > 100, f"got {x[i, 0]:.2f}"', 'pl.device_assert(x[i, 0] > 100, f"got {x[i, 0]:.2f}")'])
def test_messages_of_assertions_say_that_they_have_no_values(make_kernel: MakeKernel, line: str) -> None:
    with pytest.raises(KernelAssertionError, match="values of the run are not in this text: print them before"):
        make_kernel(KERNEL.replace("{line}", line))(X, np.zeros_like(X))


@pytest.mark.parametrize("platform", ["cpu", "eager"])
@pytest.mark.parametrize("given", ['sep=", "', 'end=""', '**{"sep": ","}'])
def test_separators_of_a_print_are_refused(make_kernel: MakeKernel, given: str, platform: str) -> None:
    """They were ignored."""
    kernel = make_kernel(KERNEL.replace("{line}", f"print('row', i, {given})"))
    with pytest.raises(UnsupportedFeatureError, match="f-string"):
        kernel(X, np.zeros_like(X), config=tilejit.RunConfig(platform=platform))
    make_kernel(KERNEL.replace("{line}", "print('row', i, flush=True)"))(X, np.zeros_like(X))
