"""Invariants of the op table, and its agreement with the specification's tables."""

from __future__ import annotations

import inspect

import pytest

from tests.ops.spec_tables import COLUMNS, SpecRow, spec_rows
from tilejit.dtypes import DType
from tilejit.ops import NAMESPACES, operators, public, public_names, table
from tilejit.ops.binding import canonical_names
from tilejit.ops.spec import OpSpec, Spelling
from tilejit.types.annotations import AUTO

ROWS = list(table().values())
SPELLINGS = [(spelling, row) for row in ROWS for spelling in row.spellings]
OPERATORS_ONLY = {"floordiv", "mod", "logical_and", "logical_or", "logical_not"}
RENAMED = {("pl", "create"): ("create_tensor", "create_tile")}
TWO_MEANINGS = {"max", "min"}
"""Names of a function of two scalars and of a reduction."""
NUMPY = "names of NumPy and torch"
"""The group of the specification with the ops beyond Ascend's."""
EXTRA = {"tanh", "erf", "sigmoid", "softplus", "silu", "gelu", "clamp", "pow", "floor", "ceil", "round", "where", "isnan"}


def row_id(row: OpSpec) -> str:
    return row.name


@pytest.mark.parametrize("row", ROWS, ids=row_id)
def test_every_row_is_documented_and_spelled(row: OpSpec) -> None:
    assert row.doc.endswith(".")
    assert bool(row.spellings) != (row.name in OPERATORS_ONLY)
    assert row.dtypes or row.family == "place"
    assert row.levels


def spelled_default(value: object) -> object:
    """A default as signature texts write it."""
    if value == AUTO and not isinstance(value, bool):
        return "AUTO"
    if isinstance(value, DType):
        return value.name
    return getattr(value, "name", value)


@pytest.mark.parametrize(("spelling", "row"), SPELLINGS, ids=[f"{s.namespace}.{s.name}" for s, _ in SPELLINGS])
def test_signatures_stand_for_canonical_parameters_with_the_same_defaults(spelling: Spelling, row: OpSpec) -> None:
    names = canonical_names(spelling, row)
    assert len(set(names.values())) == len(names)
    for parameter in spelling.signature.parameters.values():
        if parameter.default is inspect.Parameter.empty:
            continue
        default = row.param(names[parameter.name]).default
        assert parameter.default in (default, spelled_default(default)), parameter
    assert set(spelling.scalar_only) <= set(row.param_names)


def test_a_dispatcher_has_one_signature_for_all_its_rows() -> None:
    for namespace in NAMESPACES:
        for name in public_names(namespace):
            function = public(namespace, name)
            assert function is not None
            if name in TWO_MEANINGS:
                continue
            assert len({spelling.signature_text for spelling, _ in function.rows}) == 1, function
            served = [level for _, row in function.rows for level in row.levels]
            assert len(served) == len(set(served)), f"{function} has two rows for one level"


def expected(row: SpecRow, namespace: str) -> tuple[tuple[str, ...], str | None]:
    """Public names of a table line in a namespace, and their signature."""
    cell = row.cells[namespace]
    if cell in ("–", "-"):
        return (), None
    if row.op.startswith("prefetch."):
        return (), None
    names = RENAMED.get((namespace, row.op), (row.op,))
    if cell.startswith("="):
        return names, row.signature(cell.removeprefix("= ").strip())
    return names, row.signature(namespace)


@pytest.mark.parametrize("row", spec_rows(), ids=lambda r: r.op)
def test_the_specification_and_the_table_agree_on_names_and_signatures(row: SpecRow) -> None:
    for namespace in COLUMNS:
        names, signature = expected(row, namespace)
        if not names:
            assert public(namespace, row.op) is None, f"{namespace}.{row.op} is not in the specification"
        for name in names:
            function = public(namespace, name)
            assert function is not None, f"{namespace}.{name} is missing"
            if signature is not None:
                written = {spelling.signature_text for spelling, _ in function.rows}
                assert written == {signature} or (row.op in TWO_MEANINGS and signature in written)


def test_prefetches_have_their_own_namespace() -> None:
    for row in spec_rows():
        if row.op.startswith("prefetch."):
            function = public("prefetch", row.op.removeprefix("prefetch."))
            assert function is not None
            assert f"`{function!r}{function.rows[0][0].signature_text}`" == row.cells["system"]


def test_the_specification_has_as_many_names_as_it_says() -> None:
    # 196 names, 23 of them distributed; the three of arrays have a table of another form
    assert len([row for row in spec_rows() if row.group != NUMPY]) + 3 == 173


def test_arrays_have_their_own_namespace() -> None:
    assert public_names("array") == ("create", "get_element", "update_element")


def test_the_additional_ops_exist_in_all_three_namespaces() -> None:
    for name in EXTRA:
        assert all(public(namespace, name) is not None for namespace in ("pl", "tensor", "tile"))


def test_every_python_operator_has_a_row() -> None:
    for operator, row in operators().items():
        assert ("scalar" in table()[row].levels) == (operator != "MatMult")


def test_unknown_names_are_not_found() -> None:
    assert public("pl", "bogus") is None
    assert public("tensor", "load") is None


def test_help_shows_signature_and_meaning() -> None:
    function = public("pl", "add")
    assert function is not None
    assert repr(function) == "pl.add"
    assert "(lhs, rhs)" in (function.__doc__ or "") and "every element" in (function.__doc__ or "")
    assert list(inspect.signature(function).parameters) == ["lhs", "rhs"]


def test_calling_an_op_outside_a_kernel_explains_itself() -> None:
    from tilejit.errors import InvalidOperationError

    function = public("tile", "exp")
    assert function is not None
    with pytest.raises(InvalidOperationError, match="outside a kernel"):
        function(1)
