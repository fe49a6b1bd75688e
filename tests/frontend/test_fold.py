"""Compile-time values are computed on the real Python objects, and every one that is read is reported."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from tests.frontend.kernels import kernel, ops, result
from tilejit.errors import KernelArithmeticError, ParserTypeError, UndefinedVariableError, UnsupportedFeatureError
from tilejit.frontend.fold import Namespace
from tilejit.frontend.program import FunctionSource, build_program
from tilejit.frontend.source import function_text
from tilejit.tile_ir import dialect as d


@dataclass(frozen=True)
class Config:
    rows: int = 4
    sizes: tuple[int, ...] = (2, 16)
    nested: SimpleNamespace = field(default_factory=lambda: SimpleNamespace(offset=1))


class Mode(enum.Enum):
    fast = 1
    slow = 2


class Size(enum.IntEnum):
    small = 4


def doubled(n: int) -> int:
    return n * 2


NAMES: dict[str, object] = {
    "cfg_": Config(),
    "Mode": Mode,
    "mode": Mode.fast,
    "Size": Size,
    "doubled": doubled,
    "tripled": lambda n: n * 3,
    "plus": partial(lambda a, b: a + b, 2),
    "TABLE": {"rows": 4, 7: [1, 2]},
    "math": math,
    "np": np,
    "COUNT": np.int64(4),
}


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("cfg_.rows", 4),
        ("cfg_.sizes[0] * 2", 4),
        ("cfg_.nested.offset + 3", 4),
        ("doubled(doubled(1))", 4),
        ("tripled(2) - plus(0)", 4),
        ("TABLE['rows']", 4),
        ("TABLE[7][-1] * 2", 4),
        ("math.floor(4.7)", 4),
        ("int(math.sqrt(16))", 4),
        ("len(x.shape) * 2", 4),
        ("max(1, min(9, 4))", 4),
        ("abs(-4)", 4),
        ("round(3.6)", 4),
        ("2 ** 2 if mode is Mode.fast else 9", 4),
        ("(1 << 3) >> 1", 4),
        ("x.shape[0] // 2", 4),
        ("int(mode == Mode.fast) * 4", 4),
        ("COUNT", 4),
        ("int('4')", 4),
        ("sum([1, 3])", 4),
        ("[1, 2, 4][2]", 4),
        ("(7, 8, 4)[1:][-1]", 4),
        ("4 if 3 in (1, 2, 3) else 5", 4),
        ("len(f'{x.shape[0]}{mode.name}') - 1", 4),
        ("int(np.prod([2, 2]))", 4),
        ("Size.small", 4),
    ],
)
def test_an_expression_over_compile_time_values_is_a_constant(expression: str, value: int) -> None:
    program = kernel(f"t = pl.load(x, [0, 0], [{expression}, 16])\npl.store(t, [0, 0], out)\npl.store(t, [4, 0], out)", names=NAMES)
    assert d.shaped_type(ops(program, d.LoadOp)[0].result).shape == (value, 16)


def test_numbers_keep_their_type() -> None:
    program = kernel("pl.print(1, 1.0, True)\npl.write(out, [0, 0], 1)\nt = pl.add(x, 1)\nu = pl.mul(t, 2.5)\nout[:] = u")
    kinds = {type(op.static("value")) for op in ops(program, d.ConstOp)}
    assert kinds == {int, float}


def test_enums_are_compared_while_compiling() -> None:
    x, out = result("if mode == Mode.fast:\n    out[:] = pl.neg(x)\nelse:\n    out[:] = x", names=NAMES)
    np.testing.assert_array_equal(out, -x)


def test_local_names_hide_captured_ones() -> None:
    x, out = result("math = 3.0\nout[:] = pl.mul(x, math)", names=NAMES)
    np.testing.assert_allclose(out, x * 3, rtol=1e-6)


def test_a_python_function_with_a_run_time_argument_is_named() -> None:
    with pytest.raises(UnsupportedFeatureError, match=r"`doubled` is a Python function .* `cfg\[0\]` \(Scalar\[INT32\]\) is known only at run time"):
        kernel("n = doubled(cfg[0])\nout[:] = x", names=NAMES)
    with pytest.raises(UnsupportedFeatureError, match=r"`int\(\)` of a run-time value"):
        kernel("n = int(cfg[0])\nout[:] = x")


@pytest.mark.parametrize(
    ("expression", "error", "message"),
    [
        ("1 // (x.shape[0] - 8)", KernelArithmeticError, "divides by zero"),
        ("cfg_.missing", ParserTypeError, "has no `missing`"),
        ("cfg_.row", ParserTypeError, "did you mean `rows`"),
        ("math.sqroot(2)", UndefinedVariableError, "module `math` has no `sqroot`"),
        ("TABLE['columns']", ParserTypeError, "KeyError"),
        ("math.sqrt(-1)", ParserTypeError, "ValueError"),
        ("'a' + 1", ParserTypeError, "TypeError"),
        ("cfg_.sizes[5]", Exception, "index 5 into a tuple of 2 items"),
        ("cfg_(3)", ParserTypeError, "cannot be called"),
        ("mdoe", UndefinedVariableError, "did you mean `mode`"),
    ],
)
def test_what_fails_while_compiling_is_an_error_of_the_kernel(expression: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        kernel(f"n = {expression}\nout[:] = x", names=NAMES)
    assert message in str(caught.value)
    assert f"n = {expression}" in str(caught.value)


def test_every_captured_value_is_reported_once_read() -> None:
    seen: dict[str, object] = {}
    config = Config()
    limit = 3

    def k(x, out):  # pyright: ignore[reportMissingParameterType]
        for i in pl.unroll(limit):
            out[i : i + 1, :] = pl.mul(x[i : i + 1, :], float(config.nested.offset))
        n = doubled(config.rows)
        pl.static_assert(n == 8)

    import tilejit.language as pl
    from tilejit.dtypes import FP32
    from tilejit.frontend.signature import ParamSpec
    from tilejit.types.values import BufferType

    text = function_text(k)
    names = Namespace(k, extra={"pl": pl})
    params = [ParamSpec("x", BufferType((8, 16), FP32)), ParamSpec("out", BufferType((8, 16), FP32), "Out")]
    build_program("P", [FunctionSource("k", text.node, text.source, names, "incore", params)], recorder=lambda path, value: seen.__setitem__(path, value))
    assert {path: value for path, value in seen.items() if not path.startswith("pl")} == {
        "limit": 3,
        "float": float,
        "config.nested.offset": 1,
        "doubled": doubled,
        "config.rows": 4,
    }
    assert "pl.mul" in seen


def test_closure_cells_beat_globals_and_unbound_cells_are_skipped() -> None:
    def outer() -> object:
        def inner() -> object:
            return doubled, late  # type: ignore[name-defined]

        doubled = 5
        names = Namespace(inner, globals={"doubled": 1, "late": 2, "other": 3})
        assert names["doubled"] == 5
        assert names["late"] == 2
        assert names["other"] == 3
        assert names["len"] is len
        with pytest.raises(KeyError):
            names["nowhere"]
        late = 7
        return late

    assert outer() == 7


@pytest.mark.parametrize(
    ("expression", "shown"),
    [
        ("pl.min(3, 4)", "3"),
        ("pl.max(3, pl.min(9, 8))", "8"),
        ("pl.cast(7, pl.INT32)", "pl.const(7, pl.INT32)"),
        ("pl.cast(2, pl.FP32)", "2.0"),
        ("pl.cast(2.75, pl.INDEX)", "3"),
        ("pl.add(pl.const(250, pl.UINT8), 10)", "pl.const(4, pl.UINT8)"),
        ("-pl.const(7, pl.INT32) // 2", "pl.const(-4, pl.INT32)"),
        ("pl.const(7, pl.INT32) / 2", "3.5"), ("pl.div(pl.const(7, pl.INT32), 2)", "pl.const(3, pl.INT32)"),
    ],
)
def test_scalar_ops_of_numbers_are_computed_while_compiling(expression: str, shown: str, capsys: pytest.CaptureFixture[str]) -> None:
    program = kernel(f"pl.static_print({expression})\nout[:] = x")
    assert capsys.readouterr().out.splitlines()[0] == shown
    assert not ops(program, d.ApplyOp)


def test_untracked_values_are_used_and_not_reported() -> None:
    import tilejit.language as pl

    x, out = result("out[:] = pl.mul(x, free * box.inner)", names={"free": pl.untracked(2.0), "box": pl.untracked(SimpleNamespace(inner=3.0))})
    np.testing.assert_allclose(out, x * 6, rtol=1e-6)
