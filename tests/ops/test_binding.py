"""How calls of public names find their row, level and parameters, and what they say when they do not."""

from __future__ import annotations

from typing import Any

import pytest

from tilejit.dtypes import FP32, INDEX
from tilejit.errors import ArgumentError
from tilejit.ops import public, table
from tilejit.ops.binding import Bound, Kind, bind, canonical_names
from tilejit.ops.spec import ParamKind
from tilejit.types.enums import AtomicType, MemorySpace, PadValue

TENSOR, TILE, SCALAR = "a tensor", "a tile", "a scalar"


def kind_of(arg: object) -> Kind:
    kinds: dict[str, Kind] = {TENSOR: "tensor", TILE: "tile", SCALAR: "scalar"}
    if isinstance(arg, str) and arg in kinds:
        return kinds[arg]
    if arg is None:
        return "none"
    if isinstance(arg, list):
        return "list"
    return "number" if isinstance(arg, int | float) else "static"


def bound(path: str, *positional: object, **keywords: object) -> Bound:
    namespace, _, name = path.rpartition(".")
    function = public(namespace or "pl", name)
    assert function is not None, path
    return bind(function, positional, keywords, kind_of)


@pytest.mark.parametrize(
    ("path", "args", "row", "level"),
    [
        ("add", (TENSOR, TENSOR), "add", "tensor"),
        ("add", (TILE, TILE), "add", "tile"),
        ("add", (2.0, TILE), "add", "tile"),
        ("add", (SCALAR, 1), "add", "scalar"),
        ("tensor.add", (TENSOR, 1), "add", "tensor"),
        ("tile.adds", (TILE, SCALAR), "add", "tile"),
        ("max", (SCALAR, 32), "maximum", "scalar"),
        ("tile.min", (SCALAR, SCALAR), "minimum", "scalar"),
        ("cmp", (TILE, TILE), "cmp_mask", "tile"),
        ("cmp", (TENSOR, 0), "cmp", "tensor"),
        ("cmp", (SCALAR, 0), "cmp", "scalar"),
        ("full", ([2], FP32, 1.0), "full", "tensor"),
        ("tile.full", ([2], FP32, 1.0), "full", "tile"),
        ("create_tensor", ([2], FP32), "create_tensor", "tensor"),
        ("create_tile", ([2], FP32), "create_tile", "tile"),
        ("cast", (SCALAR, INDEX), "cast", "scalar"),
        ("load", (TENSOR, [0], [4]), "load", "tile"),
        ("store", (TILE, [0], TENSOR), "store", "tile"),
        ("assemble", (TENSOR, TILE, [0, 0]), "assemble", "tensor"),
        ("assemble", (TILE, TILE, [0, 0]), "assemble", "tile"),
        ("read", (TENSOR, 3), "read", "tensor"),
        ("write", (TILE, [0, SCALAR], 1.0), "write", "tile"),
        ("tile.arange", (0, [1, 8]), "arange", "tile"),
        ("max", (TILE, 1), "max_over", "tile"),
    ],
)
def test_operands_and_namespace_choose_row_and_level(path: str, args: tuple[object, ...], row: str, level: str) -> None:
    found = bound(path, *args)
    assert (found.row.name, found.level) == (row, level)


def test_positions_and_keywords_reach_canonical_parameters() -> None:
    found = bound("row_sum", TILE, tmp_tile=TILE)
    assert found.args == {"input": TILE, "tmp": TILE}
    found = bound("tile.row_expand_add", tile=TILE, row_vec=TILE)
    assert found.args == {"lhs": TILE, "rhs": TILE, "tmp": None}
    found = bound("tile.rsqrt", TILE, TILE)
    assert found.args == {"input": TILE, "high_precision": False, "tmp": TILE}


def test_what_is_left_out_gets_the_default_of_the_row() -> None:
    assert bound("fillpad", TILE).args["pad_value"] is PadValue.zero
    found = bound("load", TENSOR, [0, 0], [4, 4], valid_shape=None)
    assert found.args["valid_shape"] is None and found.args["target_memory"] is MemorySpace.Vec and found.args["clamp"] is False
    assert bound("store", TILE, [0], TENSOR).args["atomic"] is AtomicType.None_


def test_a_default_given_for_the_other_level_is_accepted() -> None:
    assert bound("rsqrt", TILE, high_precision=False).level == "tile"
    assert bound("row_sum", TENSOR, None).level == "tensor"
    assert bound("matmul", TILE, TILE, a_trans=False).level == "tile"


MISTAKES: list[tuple[str, tuple[object, ...], dict[str, Any], str]] = [
    ("add", (TILE,), {}, "pl.add needs `rhs`"),
    ("add", (TILE, TILE, TILE), {}, "pl.add takes 2 arguments, got 3"),
    ("store", (TILE, [0], TENSOR, None, AtomicType.Add), {}, "takes 4 positional arguments, got 5"),
    ("div", (TILE, TILE), {"highprecision": True}, "did you mean `high_precision`"),
    ("div", (TILE, TILE), {"lhs": TILE}, "got `lhs` twice"),
    ("add", (TENSOR, TILE), {}, "`rhs` is a tile, `lhs` is a tensor"),
    ("tensor.add", (TILE, TILE), {}, "pl.tensor.add works on tensors, got a tile"),
    ("tile.exp", (TENSOR,), {}, "use pl.tensor.exp"),
    ("tile.adds", (TILE, TILE), {}, "takes a scalar as `rhs`, got a tile"),
    ("max", (SCALAR, 1, 2), {}, "pl.max takes 2 arguments, got 3"),
    ("xor", (TENSOR, TENSOR, TENSOR), {}, "pl.xor on tensors has no `tmp`"),
    ("row_sum", (TENSOR, TILE), {}, "pl.row_sum on tensors has no `tmp_tile`"),
    ("rsqrt", (TILE,), {"high_precision": True}, "pl.rsqrt on tiles has no `high_precision`"),
    ("matmul", (TILE, TILE), {"b_trans": True}, "pl.matmul on tiles has no `b_trans`"),
    ("row_sum", (SCALAR,), {}, "takes a tensor or tile as `input`, got a run-time scalar"),
    ("load", (TENSOR, 0, [4]), {}, "takes a list of scalars as `offsets`, got a number"),
    ("cmp", (TILE, TILE, SCALAR), {}, "takes a compile-time value as `cmp_type`, got a run-time scalar"),
    ("batch_matmul", (TENSOR, TENSOR), {}, "pl.batch_matmul works on tiles, not on tensors"),
    ("rem", (SCALAR, 2.0, TENSOR), {}, "pl.rem works on tiles, got scalars"),
    ("rems", (SCALAR, SCALAR, TILE), {}, "pl.rems works on tiles, got scalars"),
    ("xor", (SCALAR, 3, TENSOR), {}, "pl.xor on scalars has no `tmp`"),
    ("add", (TENSOR, None), {}, "needs `rhs`"),
    ("add", (TENSOR, [1, 2]), {}, "as `rhs`, got a list"),
]


@pytest.mark.parametrize(("path", "positional", "keywords", "text"), MISTAKES, ids=[f"{m[0]}-{i}" for i, m in enumerate(MISTAKES)])
def test_mistakes_name_the_function_and_the_parameter(path: str, positional: tuple[object, ...], keywords: dict[str, Any], text: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        bound(path, *positional, **keywords)
    assert text in str(caught.value)
    assert isinstance(caught.value, TypeError)


SOME: dict[ParamKind, object] = {ParamKind.Value: TENSOR, ParamKind.Operand: TENSOR, ParamKind.Scalar: SCALAR, ParamKind.Scalars: [4], ParamKind.Static: FP32}


@pytest.mark.parametrize("wrong", [1, [True], None, "yes"], ids=repr)
def test_every_flag_of_the_table_is_true_or_false(wrong: object) -> None:
    seen = 0
    for row in table().values():
        for spelling in row.spellings:
            params = {written: row.param(name) for written, name in canonical_names(spelling, row).items()}
            flags = [written for written, param in params.items() if param.is_flag]
            if not flags or (spelling.namespace == "pl" and spelling.same_as is None):
                continue  # the latter stands for the names of both levels
            given = {written: SOME[params[written].kind] for written in spelling.required}
            if spelling.namespace == "tile" or spelling.same_as == "tile":
                given = {written: TILE if value == TENSOR else value for written, value in given.items()}
            for flag in flags:
                seen += 1
                with pytest.raises(ArgumentError, match=f"takes True or False as `{flag}`"):
                    bound(f"{spelling.namespace}.{spelling.name}", **given, **{flag: wrong})
    assert seen > 40
