"""Rules of single ops: what they refuse, in words that name the op, the operand and the way out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.ops.harness import infer, tensor, tile
from tilejit.dtypes import BF16, BOOL, FP16, FP32, INDEX, INT8, INT16, INT32, INT64, UINT8
from tilejit.errors import ArgumentError, DTypeError, KernelArithmeticError, OutOfBoundsError, ShapeError, TilejitError
from tilejit.ops.spec import ScalarArg
from tilejit.types.enums import MemorySpace, PadValue

T, I = tile((8, 16)), tile((8, 16), INT32)
ONE, ZERO, HALF, RUNTIME = ScalarArg(INDEX, 1), ScalarArg(INDEX, 0), ScalarArg(FP32, 0.5), ScalarArg(INDEX)


def ints(*values: int | None) -> tuple[ScalarArg, ...]:
    return tuple(ScalarArg(INDEX, n) for n in values)


MISTAKES: list[tuple[str, str, dict[str, Any], type[TilejitError], str]] = [
    ("div", "tile", {"lhs": T, "rhs": HALF, "high_precision": True}, ArgumentError, "two shaped float operands"),
    ("div", "tile", {"lhs": I, "rhs": ZERO}, KernelArithmeticError, "integer division by zero"),
    ("mod", "scalar", {"lhs": RUNTIME, "rhs": ZERO}, KernelArithmeticError, "integer division by zero"),
    ("sub", "tensor", {"lhs": tensor((4,), INT64), "rhs": ONE}, DTypeError, "FP64, COMPLEX64 as `lhs`, got INT64"),
    ("log", "tile", {"input": tile((4, 4), BF16)}, DTypeError, "pl.cast(input, pl.FP32)"),
    ("sin", "tile", {"input": tile((4, 4), FP16)}, DTypeError, "sin takes"),
    ("recip", "tile", {"input": tile((4, 4), BF16), "high_precision": True}, DTypeError, "takes FP16, FP32"),
    ("rsqrt", "tile", {"input": T, "tmp": tile((8, 8))}, ShapeError, "rsqrt takes a `tmp` of [8, 16] FP32"),
    ("and_", "tile", {"lhs": T, "rhs": T}, DTypeError, "and_ takes"),
    ("and_", "tile", {"lhs": I, "rhs": HALF}, DTypeError, "bit operations are for integers"),
    ("shl", "tile", {"lhs": I, "rhs": ScalarArg(INDEX, -1)}, ArgumentError, "shift of 0 or more, got -1"),
    ("shr", "tile", {"lhs": I, "rhs": HALF}, DTypeError, "takes an integer as `rhs`"),
    ("prelu", "tile", {"input": T, "slope": tile((1, 16))}, ShapeError, "`slope` of [8, 16]"),
    ("prelu", "tile", {"input": tile((4,)), "slope": tile((4,))}, ShapeError, "rank-2 tile"),
    ("add", "tensor", {"lhs": tensor((4,), BOOL), "rhs": tensor((4,), BOOL)}, DTypeError, "got BOOL"),
    ("cast", "tile", {"input": T, "target_type": "FP16"}, ArgumentError, "takes a data type as `target_type`"),
    ("cast", "tile", {"input": T, "target_type": FP16, "mode": "up"}, ArgumentError, "no mode 'up'"),
    ("cast", "scalar", {"input": HALF, "target_type": INT32, "mode": "floor"}, ArgumentError, "only the default mode"),
    ("cmp", "tensor", {"lhs": tensor((4,)), "rhs": HALF, "cmp_type": 6}, ArgumentError, "0 eq, 1 ne"),
    ("cmp_mask", "tile", {"lhs": T, "rhs": RUNTIME}, DTypeError, "INDEX scalar known only at run time"),
    ("sel", "tile", {"mask": tile((8, 32), UINT8), "lhs": T, "rhs": I}, DTypeError, "of one dtype, got FP32 and INT32"),
    ("sel", "tile", {"mask": tile((8, 1), UINT8), "lhs": T, "rhs": T}, ShapeError, "a bit for each of its 16 columns"),
    ("sel", "tile", {"mask": T, "lhs": T, "rhs": T}, DTypeError, "a mask comes from pl.cmp"),
    ("sels", "tile", {"mask": tile((8, 32), UINT8), "src": tile((8, 16), BF16), "scalar": ONE}, DTypeError, "sels takes"),
    ("where", "tile", {"condition": tile((8, 32), UINT8), "lhs": T, "rhs": T}, DTypeError, "compare it: pl.where(c != 0"),
    ("where", "scalar", {"condition": RUNTIME, "lhs": ONE, "rhs": ONE}, DTypeError, "takes a BOOL scalar"),
    ("row_sum", "tile", {"input": tile((8, 16), valid=(8, 0))}, ShapeError, "empty region"),
    ("col_sum", "tensor", {"input": tensor((8,))}, ShapeError, "at least 2 dims"),
    ("row_argmax", "tile", {"input": T, "tmp": tile((8, 1))}, ShapeError, "`tmp_tile` of [8, 16] FP32"),
    ("row_expand_sub", "tile", {"lhs": T, "rhs": tile((1, 16))}, ShapeError, "pl.col_expand_sub"),
    ("row_expand_sub", "tile", {"lhs": T, "rhs": tile((4, 1))}, ShapeError, "one element for each row"),
    ("col_expand_add", "tile", {"lhs": T, "rhs": tile((16,))}, ShapeError, "give the vector two dims"),
    ("row_expand_add", "tile", {"lhs": T, "rhs": tile((8, 4))}, ShapeError, "one block of 8 FP32"),
    ("row_expand_add", "tile", {"lhs": T, "rhs": tile((8, 1), valid=(4, 1))}, ShapeError, "valid for 4 of 8"),
    ("row_expand_expdif", "tile", {"lhs": I, "rhs": tile((8, 1), INT32)}, DTypeError, "row_expand_expdif takes"),
    ("expand_clone", "tensor", {"src": tensor((3, 4)), "target": tensor((1, 4))}, ShapeError, "cannot spread [3, 4] over [1, 4]"),
    ("matmul", "tile", {"lhs": tile((32, 64)), "rhs": tile((32, 64))}, ShapeError, "needs the inner sizes to agree, got [32, 64] and [32, 64]"),
    ("matmul", "tile", {"lhs": tile((4, 8)), "rhs": tile((4, 8))}, ShapeError, "transpose the second operand"),
    ("matmul", "tile", {"lhs": tile((4, 8), FP16), "rhs": tile((8, 4))}, DTypeError, "of one dtype, got FP16 and FP32"),
    ("matmul", "tile", {"lhs": tile((4, 8), INT64), "rhs": tile((8, 4), INT64)}, DTypeError, "got INT64"),
    ("matmul", "tile", {"lhs": tile((2, 4, 8)), "rhs": tile((2, 8, 4))}, ShapeError, "rank-2 tile"),
    ("matmul", "tile", {"lhs": tile((4, 8)), "rhs": tile((8, 4), valid=(5, 4))}, ShapeError, "of which `rhs` covers 5"),
    ("matmul", "tensor", {"lhs": tensor((3, 4, 8)), "rhs": tensor((2, 8, 4))}, ShapeError, "batch extents must be equal or 1"),
    ("matmul", "tensor", {"lhs": tensor((4, 8)), "rhs": tensor((8, 4)), "out_dtype": BOOL}, DTypeError, "`out_dtype`"),
    ("matmul_acc", "tile", {"acc": tile((4, 4), FP16), "lhs": tile((4, 8), FP16), "rhs": tile((8, 4), FP16)}, DTypeError, "accumulates in FP32"),
    ("matmul_acc", "tile", {"acc": tile((4, 5)), "lhs": tile((4, 8)), "rhs": tile((8, 4))}, ShapeError, "acc of the product's shape [4, 4]"),
    ("matmul_acc", "tile", {"acc": tile((4, 4)), "lhs": tile((4, 8)), "rhs": tile((8, 4)), "init_cond": ONE}, DTypeError, "BOOL scalar"),
    ("matmul_bias", "tile", {"lhs": tile((4, 8)), "rhs": tile((8, 4)), "bias": tile((1, 5))}, ShapeError, "bias [1, 4]"),
    ("matmul_bias", "tile", {"lhs": tile((4, 8), FP16), "rhs": tile((8, 4), FP16), "bias": tile((1, 4), FP16)}, DTypeError, "accumulator's FP32"),
    ("gemv", "tile", {"lhs": tile((2, 8)), "rhs": tile((8, 4))}, ShapeError, "[1, K]"),
    ("gemv", "tile", {"lhs": tile((1, 8), INT16), "rhs": tile((8, 4), INT16)}, DTypeError, "gemv takes INT8, FP16, BF16, FP32"),
    ("gemv", "tile", {"lhs": tile((1, 8)), "rhs": tile((8, 4)), "acc_phase": "half"}, ArgumentError, "unspecified, partial, final"),
    ("fillpad", "tile", {"input": T, "pad_value": 3}, ArgumentError, "no pad value 3"),
    ("fillpad", "tile", {"input": T, "pad_value": PadValue.null}, ArgumentError, "no pad value"),
    ("fillpad_expand", "tile", {"input": T, "shape": ints(8, 8)}, ShapeError, "at least as large as [8, 16]"),
    ("transpose", "tile", {"input": T, "axis1": 0, "axis2": 2}, ShapeError, "from -2 to 1"),
    ("transpose", "tile", {"input": T, "axis1": 1, "axis2": -1}, ShapeError, "two different axes"),
    ("concat", "tile", {"src0": T, "src1": I}, DTypeError, "one dtype"),
    ("concat", "tile", {"src0": T, "src1": tile((4, 16))}, ShapeError, "equal rows"),
    ("concat", "tile", {"src0": tile((8, 16), valid=(8, "?")), "src1": T}, ShapeError, "pl.fillpad(src0)"),
    ("move", "tile", {"input": T, "target_memory": MemorySpace.DDR}, ArgumentError, "on-chip memory space"),
    ("reshape", "tile", {"input": T, "shape": ints(8, 8)}, ShapeError, "[8, 16] has 128, [8, 8] has 64"),
    ("reshape", "tile", {"input": T, "shape": ints(None, 8)}, ShapeError, "known while compiling"),
    ("reshape", "tile", {"input": tile((8, 16), valid=(8, 5)), "shape": ints(16, 8)}, ShapeError, "scattered"),
    ("reshape", "tile", {"input": T, "shape": ints(1, 1, 1, 1, 8, 16)}, ShapeError, "rank 1 to 5"),
    ("set_validshape", "tile", {"input": T, "valid_rows": ScalarArg(INDEX, 9), "valid_cols": ONE}, OutOfBoundsError, "valid_rows is 9, the extent is 8"),
    ("set_validshape", "tile", {"input": tile((4,)), "valid_rows": ONE, "valid_cols": ONE}, ShapeError, "rank-2"),
    ("reinterpret_view", "tile", {"data": tile((4, 3), INT8), "dtype": INT16}, ShapeError, "no whole number"),
    ("slice", "tile", {"input": T, "shape": ints(4, 8), "offset": ints(6, 0)}, OutOfBoundsError, "reads [6, 10) of dim 0, which has extent 8"),
    ("slice", "tile", {"input": T, "shape": ints(4, 8), "offset": ints(-1, 0)}, OutOfBoundsError, "reads [-1, 3) of dim 0"),
    ("slice", "tile", {"input": T, "shape": ints(4), "offset": ints(0, 0)}, ShapeError, "one extent per dim"),
    ("slice", "tile", {"input": T, "shape": ints(4, 8), "offset": ints(0, 0), "valid_shape": ints(5, 8)}, ShapeError, "`valid_shape` inside [4, 8]"),
    ("slice", "tile", {"input": T, "shape": ints(4, 8), "offset": ints(0, 0), "drop_dims": (0,)}, ShapeError, "drops dims of extent 1"),
    ("slice", "tile", {"input": T, "shape": (HALF, ONE), "offset": ints(0, 0)}, DTypeError, "takes integers in `shape`, got FP32"),
    ("extract", "tile", {"src": T, "index_row": ONE, "index_col": ZERO, "shape": ints(8, 8)}, OutOfBoundsError, "reads [1, 9)"),
    ("assemble", "tile", {"target": T, "source": I, "offset": ints(0, 0)}, DTypeError, "cannot write INT32 into FP32"),
    ("assemble", "tile", {"target": T, "source": tile((8, 8)), "offset": ints(0, 9)}, OutOfBoundsError, "dim 1"),
    ("assemble", "tile", {"target": tile((8, 16), valid=(2, 2)), "source": tile((2, 2)), "offset": ints(4, 4)}, ShapeError, "no box"),
    ("write", "tile", {"dst": T, "offset": ints(0, 16), "value": HALF}, OutOfBoundsError, "dim 1"),
    ("write", "tile", {"dst": T, "offset": ints(0, 1), "value": ScalarArg(INT32)}, DTypeError, "takes a FP32 scalar as `value`, got INT32"),
    ("full", "tile", {"shape": ints(8, None), "dtype": FP32, "value": HALF}, ShapeError, "known while compiling"),
    ("full", "tile", {"shape": ints(8, 0), "dtype": FP32, "value": HALF}, ShapeError, "positive extents"),
    ("full", "tensor", {"shape": ints(8), "dtype": "FP32", "value": HALF}, DTypeError, "full makes"),
    ("ci", "tile", {"start": ZERO, "shape": ints(2, 8)}, ShapeError, "leading extents must be 1"),
    ("ci", "tile", {"start": ZERO, "shape": ints(1, 8), "dtype": FP32}, DTypeError, "ci makes INT16, INT32"),
    ("tri", "tile", {"diagonal": HALF, "shape": ints(4, 8)}, DTypeError, "integer as `diagonal`"),
    ("create_tile", "tile", {"shape": ints(4), "dtype": FP32, "target_memory": MemorySpace.DDR}, ArgumentError, "pl.create_tensor"),
]


@pytest.mark.parametrize(("name", "level", "args", "kind", "text"), MISTAKES, ids=[f"{m[0]}-{i}" for i, m in enumerate(MISTAKES)])
def test_a_broken_rule_is_named(name: str, level: str, args: dict[str, Any], kind: type[TilejitError], text: str) -> None:
    with pytest.raises(kind) as caught:
        infer(name, level, **args)
    assert text in str(caught.value)
    assert caught.value.message.startswith(name.removesuffix("_mask")), "the message names the op"


def test_the_seeds_of_random_take_only_two_round_counts() -> None:
    seed = dict.fromkeys(("key0", "key1", "counter0", "counter1", "counter2", "counter3"), ONE)
    with pytest.raises(ArgumentError, match="7 or 10 rounds, got 8"):
        infer("random", "tensor", **seed, shape=ints(4), rounds=8)
    assert np.dtype(np.uint32) == infer("random", "tensor", **seed, shape=ints(4))[0].dtype.numpy
