"""The requirements J11 to J17 of the specification: indices, closure cells, annotations and the nodes of a specialisation."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import numpy as np
import pytest

import tilejit.language as pl
from tests.jit.specialize.test_specialize import WIDTH, MakeKernel, both_helpers, data, diamond
from tilejit.errors import ShapeError, UnsupportedFeatureError
from tilejit.jit.function import JITFunction


def test_j11_an_index_beyond_the_shape_is_an_error_at_its_line() -> None:
    @pl.jit
    def beyond(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            n = x.shape[2]
            pl.store(pl.load(x, [0, 0], [n, n]), [0, 0], out)
        return out

    with pytest.raises(ShapeError, match=r"`x` has rank 2: `x.shape\[2\]` does not exist") as caught:
        beyond.specialized_source(data(4, 4), data(4, 4))
    assert caught.value.source_lines[0].strip() == "n = x.shape[2]"


WIDE = 999


def test_j12_closure_cells_beat_globals_and_unbound_cells_are_skipped() -> None:
    WIDE = 8

    @pl.jit
    def reads(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            pl.store(pl.load(x, [0, 0], [4, WIDE]), [0, 0], out)
        return out

    assert "[4, 8]" in reads.specialized_source(data(4, 8), data(4, 8))


def test_j12_a_cell_without_a_value_is_skipped() -> None:
    @pl.jit
    def reads(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            pl.store(pl.load(x, [0, 0], [4, WIDTH]), [0, 0], out)
        return out

    source = reads.specialized_source(data(4, 24), data(4, 24))
    if not source:
        WIDTH = 0
    assert "[4, 24]" in source


def test_j13_every_spelling_of_an_annotation_is_recognised(make_kernel: MakeKernel) -> None:
    spellings = [
        ("pl.Tensor", "pl.Out[pl.Tensor]"),
        ("Tensor", "Out[Tensor]"),
        ("'pl.Tensor'", "'pl.Out[pl.Tensor]'"),
        ("pl.Tensor[[4, 4], pl.FP32]", "pl.Out[pl.Tensor[[4, 4], pl.FP32]]"),
        ("Tensor[[4, 4], FP32]", "Out['Tensor']" if False else "Out[Tensor[[4, 4], FP32]]"),
        ("lang.Tensor", "lang.Out[lang.Tensor]"),
    ]
    for future in ("", "from __future__ import annotations\n"):
        for tensor, output in spellings:
            kernel = make_kernel(
                f"{future}import tilejit.language as lang\n"
                f"from tilejit.language import Tensor, Out, FP32\n"
                f"@pl.jit\n"
                f"def spelled(x: {tensor}, out: {output}):\n"
                f"    out[:] = pl.add(x, 1.0)\n"
                f"    return out\n"
            )
            source = kernel.specialized_source(data(4, 4), data(4, 4))
            assert "x: pl.Tensor[[4, 4], pl.FP32], out: pl.Out[pl.Tensor[[4, 4], pl.FP32]]" in source, (future, tensor)


def test_j13_names_of_the_language_are_spelled_pl_whatever_they_are_imported_as(make_kernel: MakeKernel) -> None:
    kernel = make_kernel(
        """
        import tilejit.language as lang
        from tilejit.language import load, FP32, Level

        @pl.jit
        def foreign(x: lang.Tensor, out: lang.Out[lang.Tensor]):
            with lang.at(level=Level.CORE_GROUP):
                t = load(x, [0, 0], [4, 4])
                lang.store(lang.cast(t, FP32), [0, 0], out)
            return out
        """
    )
    source = kernel.specialized_source(data(4, 4), data(4, 4))
    assert "with pl.at(level=pl.Level.CORE_GROUP):" in source
    assert "t = pl.load(x, [0, 0], [4, 4])" in source
    assert "pl.store(pl.cast(t, pl.FP32), [0, 0], out)" in source


def test_j14_a_function_without_source_is_an_os_error_that_names_it() -> None:
    scope: dict[str, object] = {"pl": pl}
    exec("\n".join(["@pl.jit", "def hidden(x: pl.Tensor, out: pl.Out[pl.Tensor]):", "    out[:] = x", ""]), scope)  # a text that nobody keeps
    hidden = scope["hidden"]
    assert isinstance(hidden, JITFunction)
    with pytest.raises(OSError, match=r"(?s)`hidden`.*define it in a file"):
        hidden.specialized_source(data(4, 4), data(4, 4))


def nodes_of(function: JITFunction, *args: object) -> Iterator[ast.AST]:
    special = function._specialized(args, {})
    for part in special.functions:
        for node in ast.walk(part.node):
            if isinstance(node, ast.expr | ast.stmt | ast.arg | ast.keyword):
                yield node


def test_j15_no_node_stands_in_two_places() -> None:
    """A later rewrite of one place changed the other."""
    x = data(6, WIDTH)
    nodes = list(nodes_of(diamond, x, x.copy()))
    assert len(nodes) == len({id(node) for node in nodes})
    original = {id(node) for node in ast.walk(diamond.definition.text.node) if isinstance(node, ast.expr | ast.stmt)}
    assert not original & {id(node) for node in nodes}


def test_j15_specialising_twice_gives_the_same_text_and_leaves_the_definition_alone() -> None:
    before = ast.dump(diamond.definition.text.node)
    x = data(6, WIDTH)
    assert diamond.specialized_source(x, x.copy()) == diamond.specialized_source(x, x.copy())
    assert ast.dump(diamond.definition.text.node) == before


def test_every_node_of_a_specialisation_stands_on_a_line_of_the_user() -> None:
    x = data(6, WIDTH)
    special = diamond._specialized((x, x.copy()), {})
    for function in special.functions:
        first = function.definition.text.node.lineno
        last = function.definition.text.node.end_lineno or first
        for node in ast.walk(function.node):
            if isinstance(node, ast.expr | ast.stmt):
                assert first - 1 <= node.lineno <= last


# what else becomes of a body --------------------------------------------------------------------------------------------


def test_comments_and_docstrings_are_kept() -> None:
    @pl.jit
    def commented(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        """Adds one."""
        # bring it in
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.load(x, [0, 0], [4, 4])  # all of it
            # and out
            pl.store(pl.add(t, 1.0), [0, 0], out)
        return out

    source = commented.specialized_source(data(4, 4), data(4, 4))
    assert '"""Adds one."""\n        # bring it in\n        with pl.at' in source
    assert "[4, 4])  # all of it" in source
    assert "            # and out\n            pl.store" in source


def test_a_branch_on_a_compile_time_value_is_decided() -> None:
    @pl.jit
    def chosen(x: pl.Tensor, negate: pl.BOOL, out: pl.Out[pl.Tensor]):
        if negate:
            out[:] = pl.neg(x)
        else:
            out[:] = x * (2.0 if WIDTH > 20 else 4.0)
        return out

    x = data(4, 4)
    assert "pl.neg" not in chosen.specialized_source(x, False, x.copy())
    assert "out[:] = x * 2.0" in chosen.specialized_source(x, False, x.copy())
    assert "if " not in chosen.specialized_source(x, True, x.copy())


def test_specialising_is_a_pure_function_of_its_inputs() -> None:
    x = data(5, 8)
    texts = {both_helpers.specialized_source(x, data(7, 8), x.copy(), data(7, 8)) for _ in range(3)}
    assert len(texts) == 1


HIDING = """
import tilejit.language as T
INFINITE = float("inf")
@T.jit.inline
def doubled(t): return t * 2.0
@T.jit
def kernel(x: T.Tensor, out: T.Out[T.Tensor]):
    self, float = 5.0, 3.0
    pl = T.exp(x * 0.0) * 4.0
    pld = [doubled(pl) for pl in (x, x)]
    for float in (float, float + 1.0):
        pl = T.minimum(doubled(pl) + self, INFINITE) + float
    out[:] = pl + pld[1]
"""


@pytest.mark.usefixtures("platform")
def test_locals_may_be_called_like_words_of_the_text(make_kernel: MakeKernel) -> None:
    x = data(1, 1)
    assert make_kernel(HIDING)(x)[0, 0] == ((4.0 * 2 + 5 + 3) * 2 + 5 + 4) + x[0, 0] * 2


@pytest.mark.parametrize("name", ["self", "pl"])
def test_a_parameter_that_hides_a_word_of_the_text_is_refused(name: str, make_kernel: MakeKernel) -> None:
    kernel = make_kernel(f"import tilejit.language as T\n@T.jit\ndef kernel({name}: T.Tensor, out: T.Out[T.Tensor]):\n    out[:] = {name} * 2.0")
    with pytest.raises(UnsupportedFeatureError, match=f"a parameter called `{name}` would hide"):
        kernel(data(1, 1))


@pl.jit.inline
def of_a_class(cls: pl.Tensor, by: float):
    return cls * by


@pl.jit
def scaled_by_class(cls: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = of_a_class(cls, 2.0)


def test_a_parameter_may_be_called_cls() -> None:
    np.testing.assert_array_equal(scaled_by_class(data(4, 4)), 2 * data(4, 4))
