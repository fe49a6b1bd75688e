"""The requirements J1 to J10 of the specification, on the text of specialisations. Each names what goes wrong without it."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilejit.language as pl
from tilejit.errors import ArgumentError, ParserTypeError, ShapeError, TilejitError, UnsupportedFeatureError
from tilejit.jit.function import JITFunction
from tilejit.jit.reads.answers import Answers
from tilejit.jit.reads.trace import Trace
from tilejit.jit.specialize.dynamic import analyse
from tilejit.jit.specialize.meta import DynDim, TensorMeta
from tilejit.jit.specialize.program import Specializer

MakeKernel = Callable[..., JITFunction]

M = pl.dynamic("M")
WIDTH = 24
TABLE: dict[str, Any] = {"block": 8, "names": ("a", "b")}


class Settings:
    depth = 3
    scale = 0.125


def data(*shape: int, dtype: object = np.float32) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(dtype)  # type: ignore[arg-type]


def body(source: str, function: str) -> str:
    """The text of one function of a specialised program."""
    tree = ast.parse(source)
    program = next(node for node in tree.body if isinstance(node, ast.ClassDef))
    found = next(node for node in program.body if isinstance(node, ast.FunctionDef) and node.name == function)
    return ast.unparse(found)


# J1 ---------------------------------------------------------------------------------------------------------------------


@pl.jit
def tiled(x: pl.Tensor, BLOCK_M: pl.INDEX, alpha: pl.FP32, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(x.shape[0] // BLOCK_M):
            t = pl.load(x, [i * BLOCK_M, 0], [BLOCK_M, WIDTH])
            pl.store(pl.mul(t, alpha), [i * BLOCK_M, 0], out)
    return out


def test_j1_scalars_become_literals_and_two_values_two_programs() -> None:
    """Systems that only keyed on scalars compiled one program with a run-time scalar, so tile sizes could not be constants."""
    x = data(64, WIDTH)
    first, second = (tiled.specialized_source(x, block, 0.5, x.copy()) for block in (16, 32))
    assert "pl.load(x, [i * 16, 0], [16, 24])" in first
    assert "pl.mul(t, 0.5)" in first
    assert "pl.range(4)" in first
    assert "BLOCK_M" not in first
    assert "alpha" not in first
    assert "pl.load(x, [i * 32, 0], [32, 24])" in second


def test_j1_a_scalar_takes_the_kind_of_its_declared_type() -> None:
    x = data(64, WIDTH)
    assert "pl.mul(t, 2.0)" in tiled.specialized_source(x, 16.0, 2, x.copy())
    with pytest.raises(ArgumentError, match=r"`BLOCK_M` is an integer \(INDEX\), got 2.5"):
        tiled.specialized_source(x, 2.5, 2, x.copy())


def test_j1_constants_of_the_module_closure_and_objects_become_literals() -> None:
    rows = 4

    @pl.jit
    def constants(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.load(x, [0, 0], [rows * TABLE["block"], WIDTH // Settings.depth])
            t = pl.mul(t, Settings.scale * max(2, len(TABLE["names"])))
            pl.store(t, [0, 0], out)
        return out

    source = constants.specialized_source(data(32, 8), data(32, 8))
    assert "pl.load(x, [0, 0], [32, 8])" in source
    assert "pl.mul(t, 0.25)" in source


def test_j1_the_five_numbers_that_look_alike_stay_apart() -> None:
    @pl.jit
    def shift(x: pl.Tensor, by, out: pl.Out[pl.Tensor]):  # pyright: ignore[reportMissingParameterType]
        out[:] = pl.add(x, by)
        return out

    x = data(4, 4)
    texts = [re.search(r"pl\.add\(x, (.*)\)", shift.specialized_source(x, by, x.copy())) for by in (1, 1.0, True, 0.0, -0.0)]
    assert [text.group(1) if text else None for text in texts] == ["1", "1.0", "True", "0.0", "-0.0"]


def test_j1_a_scalar_that_the_body_rebinds_starts_as_a_local() -> None:
    @pl.jit
    def countdown(x: pl.Tensor, n: pl.INDEX, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.load(x, [0, 0], [4, 4])
            while n > 0:
                t = pl.add(t, 1.0)
                n = n - 1
            pl.store(t, [0, 0], out)
        return out

    source = countdown.specialized_source(data(4, 4), 3, data(4, 4))
    assert "n = 3\n" in source
    assert "while n > 0:" in source


# J2, J3 -----------------------------------------------------------------------------------------------------------------


@pl.jit.incore
def first_helper(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    rows = pl.dynamic("M")
    x.bind_dynamic(0, rows)
    out.bind_dynamic(0, rows)
    out[:] = pl.add(x, 1.0)
    return out


@pl.jit.incore
def second_helper(y: pl.Tensor, out: pl.Out[pl.Tensor]):
    rows = pl.dynamic("N")
    y.bind_dynamic(0, rows)
    out.bind_dynamic(0, rows)
    out[:] = pl.mul(y, 2.0)
    return out


@pl.jit
def both_helpers(x: pl.Tensor, y: pl.Tensor, a: pl.Out[pl.Tensor], b: pl.Out[pl.Tensor]):
    a = first_helper(x, a)
    b = second_helper(y, b)
    return a, b


def test_j2_literals_of_symbols_survive_and_equal_local_names_do_not_merge() -> None:
    """Naming a symbol after the local variable merged the two `rows` of different helpers into one extent."""
    source = both_helpers.specialized_source(data(5, 8), data(7, 8), data(5, 8), data(7, 8))
    assert 'M = pl.dynamic("M")' in source
    assert 'N = pl.dynamic("N")' in source
    assert "rows" not in source
    entry = body(source, "both_helpers")
    assert "x: pl.Tensor[[M, 8], pl.FP32], y: pl.Tensor[[N, 8], pl.FP32]" in entry


def test_j2_equal_literals_of_different_symbols_get_names_of_their_own() -> None:
    @pl.jit
    def twice(x: pl.Tensor, y: pl.Tensor, a: pl.Out[pl.Tensor], b: pl.Out[pl.Tensor]):
        a = first_helper(x, a)
        b = first_helper(y, b)
        return a, b

    source = twice.specialized_source(data(5, 8), data(7, 8), data(5, 8), data(7, 8))
    entry = body(source, "twice")
    assert "x: pl.Tensor[[M, 8], pl.FP32], y: pl.Tensor[[M_1, 8], pl.FP32]" in entry
    assert 'M_1 = pl.dynamic("M")' in source
    assert source.count("def first_helper") == 1


def test_j3_one_name_for_two_symbols_is_refused_with_both_places() -> None:
    """The second assignment silently overwrote the first, and both tensors got the second extent."""

    @pl.jit
    def confused(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        rows = pl.dynamic("A")
        x.bind_dynamic(0, rows)
        rows = pl.dynamic("B")
        out.bind_dynamic(0, rows)
        out[:] = pl.add(x, 1.0)
        return out

    with pytest.raises(ParserTypeError) as caught:
        confused.specialized_source(data(4, 4), data(4, 4))
    assert "`rows` is bound to two dynamic extents: 'A' and 'B'" in str(caught.value)
    lines = [int(line) for line in re.findall(r"test_specialize\.py:(\d+)", str(caught.value))]
    assert lines[0] - lines[1] == 2


# J4, J5 -----------------------------------------------------------------------------------------------------------------


@pl.jit.incore
def leaf(x: pl.Tensor, k: pl.FP32, out: pl.Out[pl.Tensor]):
    out[:] = pl.mul(x, k)
    return out


@pl.jit.inline
def middle(x: pl.Tensor, out: pl.Tensor, factor: pl.FP32 = 3.0):
    out = leaf(x, factor, out)
    return out


@pl.jit.inline
def other_middle(x: pl.Tensor, out: pl.Tensor):
    out = leaf(out=out, k=3.0, x=x)
    return out


@pl.jit
def diamond(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    tmp = pl.create_tensor([x.shape[0], WIDTH], dtype=pl.FP32)
    tmp = middle(x, tmp)
    out = other_middle(tmp, out=out)
    return out


def functions_of(source: str) -> list[str]:
    return re.findall(r"def (\w+)\(", source)


def test_j4_helpers_are_found_transitively_once_each_and_leaf_first() -> None:
    source = diamond.specialized_source(data(6, WIDTH), data(6, WIDTH))
    assert functions_of(source) == ["leaf", "middle", "other_middle", "diamond"]


def test_j4_each_distinct_signature_of_a_helper_is_a_specialisation() -> None:
    @pl.jit
    def two_sizes(x: pl.Tensor, y: pl.Tensor, a: pl.Out[pl.Tensor], b: pl.Out[pl.Tensor]):
        a = leaf(x, 2.0, a)
        b = leaf(y, 2.0, b)
        a = leaf(a, 2.0, a)
        b = leaf(b, 4.0, b)
        return a, b

    source = two_sizes.specialized_source(data(3, 4), data(5, 6), data(3, 4), data(5, 6))
    assert functions_of(source) == ["leaf", "leaf_1", "leaf_2", "two_sizes"]
    entry = body(source, "two_sizes")
    assert "a = self.leaf(x, a)" in entry
    assert "b = self.leaf_1(y, b)" in entry
    assert "a = self.leaf(a, a)" in entry
    assert "b = self.leaf_2(b, b)" in entry


def test_j4_recursion_is_refused_and_the_cycle_named() -> None:
    """Discovery that follows calls without remembering them never came back."""
    with pytest.raises(UnsupportedFeatureError, match="kernels cannot be recursive: ping → pong → ping"):
        uses_ping.specialized_source(data(4, 4), data(4, 4))


@pl.jit.inline
def ping(x: pl.Tensor, out: pl.Tensor):
    out = pong(x, out)
    return out


@pl.jit.inline
def pong(x: pl.Tensor, out: pl.Tensor):
    out = ping(x, out)
    return out


@pl.jit
def uses_ping(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out = ping(x, out)
    return out


def test_j4_an_entry_may_be_called_like_a_helper() -> None:
    @pl.jit
    def calls_an_entry(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        out = diamond(x, out)
        return out

    x = data(4, WIDTH)
    wanted, found = np.zeros_like(x), np.zeros_like(x)
    diamond(x, wanted)
    calls_an_entry(x, found)
    np.testing.assert_array_equal(found, wanted)


ROUNDABOUT = [
    "out = STEPS[0](x, 2.0, out)",
    "out = TABLE['a'](x, 2.0, out)",
    "g = leaf; out = g(x, 2.0, out)",
    "out = (leaf if x.shape[0] == 4 else None)(x, 2.0, out)",
    "out = leaf(x, 2.0, out); out = STEPS[0](x, 2.0, out)",
]
REFUSED = [
    ("out = UNTRACKED(x, 2.0, out)", "UNTRACKED"),
    ("out, task = pl.submit(STEPS[0], x, 2.0, out)", "STEPS[0]"),
    ("g = leaf; out, task = pl.submit(g, x, 2.0, out)", "g"),
]


@pytest.mark.parametrize("lines", ROUNDABOUT)
def test_j4_a_helper_may_be_called_through_what_holds_it(lines: str, make_kernel: MakeKernel) -> None:
    text = "@pl.jit\ndef kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):\n    {lines}\n    return out\n"
    names = {"leaf": leaf, "STEPS": (leaf,), "TABLE": {"a": leaf}}
    by_name, other = make_kernel(text.format(lines="out = leaf(x, 2.0, out)"), **names), make_kernel(text.format(lines=lines), **names)
    x = data(4, 4)
    wanted, found = np.zeros_like(x), np.zeros_like(x)
    for _ in range(3):
        by_name(x, wanted)
        other(x, found)
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(("lines", "written"), REFUSED)
def test_j4_a_helper_that_is_not_called_by_name_is_refused_at_the_call(lines: str, written: str, make_kernel: MakeKernel) -> None:
    """The key is made from the helpers that are called by name; any other call was a KeyError."""
    text = f"@pl.jit\ndef kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):\n    {lines}\n    return out\n"
    kernel = make_kernel(text, leaf=leaf, STEPS=(leaf,), TABLE={"a": leaf}, UNTRACKED=pl.untracked(leaf))
    with pytest.raises(UnsupportedFeatureError) as caught:
        kernel(data(4, 4), data(4, 4))
    assert caught.value.message == f"`{written}` stands for the helper `leaf`, which makes extents dynamic and so can only be called by its name"
    span = caught.value.span
    assert span is not None and caught.value.source_lines[0][span.column - 1 : span.end_column - 1] == written


def test_j5_keywords_and_defaults_bind_by_name() -> None:
    """Arguments zipped by position silently swapped operands of keyword calls and dropped what was left over."""
    source = diamond.specialized_source(data(6, WIDTH), data(6, WIDTH))
    assert "pl.mul(x, 3.0)" in body(source, "leaf")
    assert "self.leaf(x, out)" in body(source, "other_middle")


MISTAKES = [
    ("leaf(x, 2.0)", ArgumentError, "the call of `leaf` lacks its argument `out`"),
    ("leaf(x, 2.0, out, out)", ArgumentError, "`leaf` takes 3 arguments, got 4"),
    ("leaf(x, 2.0, out=out, k=1.0)", ArgumentError, "`leaf` got `k` twice"),
    ("leaf(x, 2.0, output=out)", ArgumentError, "`leaf` has no parameter `output`"),
    ("leaf(*x, 2.0, out)", ArgumentError, r"`leaf` cannot be called with \*arguments"),
    ("leaf(x, x, out)", ArgumentError, "`k` of `leaf` is a scalar, got Tensor"),
    ("leaf(2.0, 2.0, out)", ArgumentError, "`x` of `leaf` is a tensor, got a scalar"),
]


@pytest.mark.parametrize(("call", "kind", "message"), MISTAKES)
def test_j5_calls_that_do_not_fit_are_refused_at_the_call(call: str, kind: type[TilejitError], message: str, make_kernel: MakeKernel) -> None:
    kernel = make_kernel(
        f"""
        @pl.jit
        def wrong(x: pl.Tensor, out: pl.Out[pl.Tensor]):
            out = {call}
            return out
        """,
        leaf=leaf,
    )
    with pytest.raises(kind, match=message) as caught:
        kernel.specialized_source(data(4, 4), data(4, 4))
    assert caught.value.span is not None
    assert caught.value.source_lines[0].strip() == f"out = {call}"


# J6, J7, J8, J9, J10 ----------------------------------------------------------------------------------------------------


def test_j6_extents_declared_only_in_a_helper_reach_the_entry() -> None:
    """Without it the entry was compiled again for every number of rows."""

    @pl.jit
    def entry(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        source = x
        out = first_helper(source, out)
        return out

    texts = {entry.specialized_source(data(rows, 8), data(rows, 8)) for rows in (1, 5, 100)}
    assert len(texts) == 1
    assert "def entry(self, x: pl.Tensor[[M, 8], pl.FP32], out: pl.Out[pl.Tensor[[M, 8], pl.FP32]])" in texts.pop()


def test_j6_extents_do_not_flow_through_sliced_arguments() -> None:
    @pl.jit
    def sliced(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        out = first_helper(x[0], out)
        return out

    assert "x: pl.Tensor[[3, 5, 8], pl.FP32]" in body(sliced.specialized_source(data(3, 5, 8), data(5, 8)), "sliced")


def test_j7_dynamic_dims_live_in_the_shape() -> None:
    trace = Trace(both_helpers.definition, Answers())
    known = analyse(trace)
    specializer = Specializer(both_helpers.definition, known, trace)
    dim = specializer.dim_of(known[both_helpers.definition].dims["x"][0])
    meta = TensorMeta((dim, 8), pl.FP32)
    assert isinstance(meta.shape[0], DynDim)
    assert meta.shape[0].literal == "M"
    assert meta.key() == ((None, 8), "FP32")


@pl.jit.incore
def layer(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = pl.add(pl.mul(x, 0.5), 1.0)
    return out


def test_j8_local_tensors_inherit_dynamic_extents() -> None:
    """Locals were created with the extent of the first call, so the second call wrote past them."""

    @pl.jit
    def token_loop(x: pl.Tensor[[M, 8], pl.BF16], out: pl.Out[pl.Tensor[[M, 8], pl.BF16]]):
        tokens = pl.tensor.dim(x, 0)
        cur = pl.create_tensor([tokens, 8], dtype=pl.BF16)
        nxt = pl.create_tensor([M, 8], dtype=pl.BF16)
        cur = layer(x, cur)
        for _ in pl.range(3):
            nxt = layer(cur, nxt)
            cur = layer(nxt, cur)
        out = layer(cur, out)
        return out

    bfloat16 = pl.BF16.numpy
    source = token_loop.specialized_source(data(5, 8, dtype=bfloat16), data(5, 8, dtype=bfloat16))
    assert source == token_loop.specialized_source(data(9, 8, dtype=bfloat16), data(9, 8, dtype=bfloat16))
    assert functions_of(source) == ["layer", "token_loop"]
    assert "x: pl.Tensor[[M, 8], pl.BF16], out: pl.Out[pl.Tensor[[M, 8], pl.BF16]]" in body(source, "layer")
    assert "nxt = pl.create_tensor([pl.tensor.dim(x, 0), 8], dtype=pl.BF16)" in source


def test_j9_symbols_become_reads_of_a_dimension() -> None:
    """A symbol left in an expression was the name of an object that the program does not have."""

    @pl.jit
    def uses(y: pl.Tensor, x: pl.Tensor[[M, 8], pl.FP32], out: pl.Out[pl.Tensor[[M, 8], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            rows, columns = x.shape
            whole = x.shape
            for i in pl.range(M):
                for _ in pl.range(x.shape[0] + rows + whole[0] + columns):
                    t = pl.load(x, [i, 0], [1, columns])
                    pl.store(t, [i, 0], out)
        return out

    source = body(uses.specialized_source(data(2, 2), data(5, 8), data(5, 8)), "uses")
    assert "rows = pl.tensor.dim(x, 0)" in source
    assert "whole = (pl.tensor.dim(x, 0), 8)" in source
    assert "for i in pl.range(pl.tensor.dim(x, 0)):" in source
    assert "pl.range(pl.tensor.dim(x, 0) + rows + whole[0] + 8)" in source
    assert "pl.load(x, [i, 0], [1, 8])" in source


def test_j9_a_symbol_that_no_parameter_has_is_an_error() -> None:
    @pl.jit
    def lost(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        tmp = pl.create_tensor([M, 8], dtype=pl.FP32)
        tmp = layer(x, tmp)
        out = layer(tmp, out)
        return out

    with pytest.raises(ShapeError, match="no parameter of `lost` has the dynamic extent `M`"):
        lost.specialized_source(data(4, 8), data(4, 8))


def test_j10_a_rebound_name_no_longer_stands_for_the_extent() -> None:
    """`t` was still stamped with x's symbol after `t = t - 1`."""

    @pl.jit
    def shorter(x: pl.Tensor[[M, 8], pl.FP32], out: pl.Out[pl.Tensor]):
        t = pl.tensor.dim(x, 0)
        t = t - 1
        tmp = pl.create_tensor([t, 8], dtype=pl.FP32)
        tmp = layer(x[1:], tmp)
        out = layer(tmp, out)
        return out

    entry = shorter.specialized_source(data(5, 8), data(4, 8))
    helpers = re.findall(r"def layer\w*\(self, x: pl\.Tensor\[\[(\w+), 8\].*out: pl\.Out\[pl\.Tensor\[\[(\w+), 8\]", entry)
    assert helpers[0][1] != "M"


def test_j10_chained_assignment_tracks_every_target() -> None:
    @pl.jit
    def chained(x: pl.Tensor[[M, 8], pl.FP32], out: pl.Out[pl.Tensor[[M, 8], pl.FP32]]):
        a = b = pl.tensor.dim(x, 0)
        first = pl.create_tensor([a, 8], dtype=pl.FP32)
        second = pl.create_tensor([b, 8], dtype=pl.FP32)
        first = layer(x, first)
        second = layer(first, second)
        out = layer(second, out)
        return out

    assert functions_of(chained.specialized_source(data(5, 8), data(5, 8))) == ["layer", "chained"]
