"""On-core arrays: values that are copied when an element changes."""

from __future__ import annotations

import numpy as np
import pytest

from tilejit.dtypes import BOOL, FP32, INDEX, INT32, TASK_ID
from tilejit.errors import ArgumentError, DTypeError, OutOfBoundsError
from tilejit.ops import table
from tilejit.ops.evaluate import evaluate
from tilejit.ops.spec import Call, ScalarArg
from tilejit.types.values import ArrayType, ScalarType

CREATE, GET, UPDATE = (table()[f"array_{name}"] for name in ("create", "get_element", "update_element"))
FIVE = ArrayType(5, INT32)


def test_an_update_copies() -> None:
    (type,) = CREATE.infer(Call(CREATE, "array", {"extent": 5, "dtype": INT32}))
    assert type == FIVE
    (array,) = evaluate(CREATE, {"extent": 5, "dtype": INT32}, (type,))
    (changed,) = evaluate(UPDATE, {"array": array, "index": np.int64(3), "value": np.int64(9)}, (FIVE,))
    assert array.tolist() == [0] * 5 and changed.tolist() == [0, 0, 0, 9, 0] and changed.dtype == np.int32
    (element,) = evaluate(GET, {"array": changed, "index": np.int64(3)}, (ScalarType(INT32),))
    assert element == 9


def test_task_ids_start_without_a_producer() -> None:
    (array,) = evaluate(CREATE, {"extent": 2, "dtype": TASK_ID}, (ArrayType(2, TASK_ID),))
    assert array.tolist() == [-1, -1]


def test_indices_are_checked_while_compiling_and_while_running() -> None:
    with pytest.raises(OutOfBoundsError, match="index 5 of an array with 5 elements"):
        GET.infer(Call(GET, "array", {"array": FIVE, "index": ScalarArg(INDEX, 5)}))
    with pytest.raises(OutOfBoundsError, match="index -1 of an array with 5 elements"):
        evaluate(GET, {"array": np.zeros(5, np.int32), "index": np.int64(-1)}, (ScalarType(INT32),))


def test_elements_keep_their_dtype() -> None:
    index = ScalarArg(INDEX, 0)
    assert UPDATE.infer(Call(UPDATE, "array", {"array": FIVE, "index": index, "value": ScalarArg(INDEX, 7)})) == (FIVE,)
    with pytest.raises(DTypeError, match="cannot hold a FP32 scalar"):
        UPDATE.infer(Call(UPDATE, "array", {"array": FIVE, "index": index, "value": ScalarArg(FP32, 1.0)}))
    with pytest.raises(DTypeError, match="cannot hold a INDEX scalar"):
        UPDATE.infer(Call(UPDATE, "array", {"array": ArrayType(2, BOOL), "index": index, "value": ScalarArg(INDEX, 1)}))
    with pytest.raises(DTypeError, match="takes an integer as index"):
        GET.infer(Call(GET, "array", {"array": FIVE, "index": ScalarArg(FP32, 1.0)}))


def test_extent_and_element_type_must_be_known_and_small() -> None:
    with pytest.raises(ArgumentError, match="positive constant"):
        CREATE.infer(Call(CREATE, "array", {"extent": 0, "dtype": INT32}))
    with pytest.raises(DTypeError, match="makes arrays of BOOL"):
        CREATE.infer(Call(CREATE, "array", {"extent": 2, "dtype": FP32}))
