"""Calls that cannot be: each ends in an error that names the parameter and says what to do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilejit.language as pl
from tests.jit.test_calls import MakeKernel, annotated, axpy, data, grow
from tilejit import compiler
from tilejit.errors import ArgumentError, DTypeError, OutOfBoundsError, RangeError, ShapeError, TilejitError, UnsupportedFeatureError

pytestmark = pytest.mark.dispatch


x44 = data(4, 4)
MISUSE = [
    ("too few", (x44,), {}, ArgumentError, r"@pl.jit function 'axpy': missing argument 'y', 'a'"),
    ("too many", (x44, x44, 1.0, x44, x44), {}, ArgumentError, r"takes 4 \(in place\) or 3 \(the outputs are returned\) arguments, got 5"),
    ("unknown keyword", (x44, x44), {"b": 1.0}, ArgumentError, r"unexpected keyword argument 'b'"),
    ("twice", (x44, x44, 1.0), {"a": 2.0}, ArgumentError, r"multiple values for argument 'a'"),
    ("a list", ([1.0], x44, 1.0), {}, ArgumentError, r"`x` must be a tensor, got list"),
    ("a tensor for a scalar", (x44, x44, x44), {}, ArgumentError, r"`a` must be a number, got a tensor"),
    ("a string for a scalar", (x44, x44, "1"), {}, ArgumentError, r"`a` must be a number, got str"),
    ("complex128", (x44.astype(np.complex128), x44, 1.0), {}, DTypeError, r"`x`: Unsupported NumPy dtype complex128"),
]


@pytest.mark.parametrize(("what", "args", "kwargs", "kind", "message"), MISUSE, ids=[row[0] for row in MISUSE])
def test_wrong_calls_are_refused(what: str, args: tuple[object, ...], kwargs: dict[str, object], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        axpy(*args, **kwargs)  # type: ignore[arg-type]


def test_annotated_dtype_and_rank_are_checked() -> None:
    with pytest.raises(DTypeError, match=r"`x` must hold FP32, got FP16"):
        annotated(data(3, 6, dtype=np.float16), 1.0)
    with pytest.raises(ShapeError, match=r"`x` must have rank 2, got rank 1"):
        annotated(data(6), 1.0)


def test_the_callers_shape_overrides_the_annotated_one(platform: str) -> None:
    @pl.jit
    def square(x: pl.Tensor[[64, 64], pl.FP32], out: pl.Out[pl.Tensor[[64, 64], pl.FP32]]):
        out[:] = x * x
        return out

    x = data(12, 5)
    out = np.empty_like(x)
    square(x, out)
    np.testing.assert_array_equal(out, x * x)


def test_extents_of_one_symbol_must_agree(platform: str) -> None:
    out = data(6, 4)
    before = out.copy()
    with pytest.raises(ShapeError, match=r"`ROWS` is 5 in dim 0 of `x` but 6 in dim 0 of `out`"):
        grow(data(5, 4), out)
    np.testing.assert_array_equal(out, before)


def test_an_output_shape_that_cannot_be_told_names_the_parameter() -> None:
    @pl.jit
    def chunks(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            i = pl.cast(x[0, 0], pl.INDEX)
            pl.store(pl.load(x, [0, 0], [2, 4]), [i * 2, 0], out)
        return out

    with pytest.raises(ShapeError, match="the shape of output `out` of `chunks` cannot be told from this write"):
        chunks(data(4, 4))


BODIES = {
    "double = lambda n: n * 2.0; out[:] = x * double(1.0)": "a kernel cannot contain a lambda",
    "factors = [s * 2.0 for s in pl.range(2)]; out[:] = x * factors[0]": "a comprehension over",
    "out[:] = x * {1, 2}": "a kernel cannot contain a set",
    "out[:] = pl.exp(x, 1)": "pl.exp takes 1 argument, got 2",
    "out[:] = pl.add(x, x[0:3, :])": r"add cannot broadcast \[4, 4\] and \[3, 4\]",
    "helper(x, out)": "a kernel cannot contain a set",
}


@pytest.mark.parametrize("body", BODIES)
def test_a_mistake_in_the_body_is_named_also_when_the_outputs_are_left_out(body: str, make_kernel: MakeKernel) -> None:
    """It used to be hidden by the shape of the output, which could not be told because of it."""
    kernel = make_kernel(
        f"""
        @pl.jit.inline
        def helper(x: pl.Tensor, target: pl.Tensor):
            target[:] = x * {{1, 2}}
            return target

        @pl.jit
        def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
            with pl.at(level=pl.Level.CORE_GROUP):
                {body}
        """
    )
    with pytest.raises(TilejitError, match=BODIES[body]) as in_place:
        kernel(data(4, 4), data(4, 4))
    with pytest.raises(TilejitError, match=BODIES[body]) as returned:
        kernel(data(4, 4))
    assert str(in_place.value) == str(returned.value)


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 2**64 + 3, 10**400, np.uint64(2**63)])
def test_a_scalar_argument_that_no_64_bits_hold_is_refused(number: int) -> None:
    """Such numbers used to wrap around; one that has the low bits of a compiled one must not be taken for it."""

    @pl.jit
    def scaled(x: pl.Tensor, n: int, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = x * n

    x, out = data(4, 4), np.zeros((4, 4), np.float32)
    for _ in range(3):
        scaled(x, 3, out)
    with pytest.raises(RangeError, match="is outside the range of INDEX"):
        scaled(x, number, out)
    np.testing.assert_array_equal(out, x * 3)


def test_an_integer_argument_of_a_float_type_is_converted_or_refused() -> None:
    @pl.jit
    def scaled(x: pl.Tensor, n: pl.FP32, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = x * n

    x = data(4, 4)
    np.testing.assert_array_equal(scaled(x, 2**70), x * np.float32(2**70))
    with pytest.raises(RangeError, match=r"`n` = about 2\*\*1328 is outside the range of FP32"):
        scaled(x, 10**400)


def test_outputs_written_in_pieces_at_constant_offsets_have_the_size_of_all_pieces(platform: str) -> None:
    @pl.jit
    def pieces(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.load(x, [0, 0], [2, 4])
            pl.store(t, [0, 0], out)
            pl.store(pl.neg(t), [2, 3], out)
        return out

    x = data(2, 4)
    out = pieces(x)
    assert isinstance(out, np.ndarray)
    assert out.shape == (4, 7)
    expected = np.zeros((4, 7), np.float32)
    expected[:2, :4] = x
    expected[2:, 3:] = -x
    np.testing.assert_array_equal(out, expected)


def test_j16_errors_point_at_the_users_line_and_names(platform: str) -> None:
    """Errors used to point into generated text and to speak of generated aliases."""

    @pl.jit
    def wrong(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            half = x.shape[1] // 2
            y = pl.load(x, [0, 0], [4, half])
            y = pl.add(y, pl.load(x, [0, 0], [3, half]))
            pl.store(y, [0, 0], out)
        return out

    with pytest.raises(ShapeError) as caught:
        wrong(data(4, 8), data(4, 4))
    error = caught.value
    assert error.span is not None
    assert error.span.filename == __file__
    assert error.source_lines[0].strip() == "y = pl.add(y, pl.load(x, [0, 0], [3, half]))"
    assert any(item.startswith("y: Tile[[4, 4], FP32]") for item in error.where)


def test_j16_errors_in_inlined_helpers_show_the_chain_of_calls(platform: str) -> None:
    @pl.jit.inline
    def inner(x: pl.Tensor, out: pl.Tensor):
        with pl.at(level=pl.Level.CORE_GROUP):
            pl.store(pl.load(x, [0, 0], [9, 4]), [0, 0], out)
        return out

    @pl.jit
    def outer(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        out = inner(x, out)
        return out

    with pytest.raises(OutOfBoundsError) as caught:
        outer(data(4, 4), data(4, 4))
    text = str(caught.value)
    assert "pl.store(pl.load(x, [0, 0], [9, 4]), [0, 0], out)" in text
    assert "called from" in text
    assert "out = inner(x, out)" in text


class Bunch:
    """A set of settings, as people write one."""

    def __init__(self, settings: dict[object, object]) -> None:
        vars(self).update(settings)  # type: ignore[arg-type]


class Silent:
    def __dir__(self) -> list[str]:
        raise ValueError("nothing to see here")


@pytest.mark.parametrize(
    ("expression", "message", "hint"),
    [("SETTINGS.dmi", "has no `dmi`", "did you mean `dim`?"), ("SILENT.dmi", "has no `dmi`", None), ("unheard_of", "`unheard_of` is not defined", None)],
)
def test_misspelt_names_beside_keys_that_are_no_texts(make_kernel: MakeKernel, expression: str, message: str, hint: str | None) -> None:
    kernel = make_kernel(f"@pl.jit\ndef kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):\n    out[:] = x + float({expression})\n")
    names: dict[Any, object] = kernel.definition.function.__globals__
    names.update({"SETTINGS": Bunch({1: "a", "dim": 4}), "SILENT": Silent(), 7: 3})
    with pytest.raises(TilejitError, match=message) as caught:
        kernel(x44)
    assert caught.value.hint == hint


def test_a_kernel_that_something_calls_while_it_is_compiled_blames_no_question(make_kernel: MakeKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = make_kernel("N = 1.0\n@pl.jit\ndef kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):\n    out[:] = x + N\n")
    told: list[str] = []
    plain = compiler.compile_program

    def interrupted(*args: Any, **named: Any) -> Any:
        with pytest.raises(UnsupportedFeatureError) as caught:
            kernel(x44)
        told.append(caught.value.message)
        return plain(*args, **named)

    monkeypatch.setattr(compiler, "compile_program", interrupted)
    np.testing.assert_array_equal(kernel(x44), x44 + 1)
    assert told == ["kernel `kernel` is called while this thread compiles it: by its annotations, or by what came in between (a signal, `__del__`)"]
