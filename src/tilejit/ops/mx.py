"""Rows of the block-scaled products: 8- and 4-bit floats with one power of two for every 32 elements along K."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilejit.dtypes import FP4, FP8E4M3FN, FP8E5M2, FP8E8M0, FP32
from tilejit.errors import DTypeError, ShapeError
from tilejit.ops.dtype_rules import require
from tilejit.ops.evaluate import ArrayValue, placed
from tilejit.ops.facts import Facts, Fails
from tilejit.ops.shape_rules import require_rank, require_static, result_type
from tilejit.ops.spec import Call, OpSpec, Stub, Value, declarator, declare, spell
from tilejit.types.values import TileType, ValueType, shape_text

BLOCK = 32
ELEMENTS = frozenset({FP4, FP8E4M3FN, FP8E5M2})


def _infer(call: Call) -> tuple[ValueType, ...]:
    names = ("lhs", "lhs_scale", "rhs", "rhs_scale")
    shapes: dict[str, tuple[int, ...]] = {}
    for name in names:
        type = call.shaped(name)
        wanted = {FP8E8M0} if name.endswith("scale") else ELEMENTS
        require(call, name, type.dtype, wanted, help=f"convert it first: pl.cast({name}, pl.{FP8E8M0 if name.endswith('scale') else FP8E4M3FN})")
        require_rank(call, name, type, 2)
        shapes[name] = require_static(call, name, type.shape)
        if type.valid != type.shape:
            raise ShapeError(f"{call.row.name} takes tiles that are valid everywhere, got {type} as `{name}`", help="fill it first: pl.fillpad(…)")
    (m, k), (inner, n) = shapes["lhs"], shapes["rhs"]
    if k != inner or k % BLOCK:
        raise ShapeError(f"{call.row.name} needs equal inner sizes divisible by {BLOCK}, got {shape_text(shapes['lhs'])} and {shape_text(shapes['rhs'])}", help="pad K with pl.fillpad_expand")
    for name, wanted in (("lhs_scale", (m, k // BLOCK)), ("rhs_scale", (k // BLOCK, n))):
        if shapes[name] != wanted:
            raise ShapeError(f"{call.row.name} takes a `{name}` {shape_text(wanted)}, got {shape_text(shapes[name])}", help=f"one scale for every {BLOCK} elements along K")
    for name, wanted in (("bias", (1, n)), ("acc", (m, n))):
        if name in call.row.param_names:
            extra = call.shaped(name)
            if extra.shape != wanted:
                raise ShapeError(f"{call.row.name} takes a `{name}` {shape_text(wanted)}, got {shape_text(extra.shape)}", help="it has the shape of the product, or one row of it for a bias")
            if extra.dtype is not FP32:
                raise DTypeError(f"{call.row.name} takes a `{name}` of FP32, got {extra.dtype}", help=f"convert it first: pl.cast({name}, pl.FP32)")
    return (result_type(call, (m, n), FP32, (m, n), "Acc"),)


def _reference(
    results: tuple[TileType, ...], lhs: ArrayValue, lhs_scale: ArrayValue, rhs: ArrayValue, rhs_scale: ArrayValue, acc: Any = None, bias: Any = None
) -> ArrayValue:
    left = lhs.data.astype(np.float32) * np.repeat(lhs_scale.data.astype(np.float32), BLOCK, axis=1)
    right = rhs.data.astype(np.float32) * np.repeat(rhs_scale.data.astype(np.float32), BLOCK, axis=0)
    out = left @ right
    for extra in (acc, bias):
        out = out if extra is None else out + extra.data
    return placed(out, out.shape, FP32)


@declarator
def scaled_product(stub: Stub, signature: str) -> OpSpec:
    """Declare a block-scaled product of tiles."""
    return declare(
        stub,
        family="mx",
        infer=_infer,
        reference=_reference,
        dtypes=ELEMENTS,
        spellings=spell(stub.__name__, pl="=tile", tile=signature),
        facts=Facts(fails=Fails.Region),
    )


@scaled_product("(lhs, lhs_scale, rhs, rhs_scale)")
def matmul_mx(lhs: Value, lhs_scale: Value, rhs: Value, rhs_scale: Value) -> object:
    """lhs @ rhs in FP32, with lhs_scale [M, K/32] and rhs_scale [K/32, N]."""


@scaled_product("(acc, lhs, lhs_scale, rhs, rhs_scale)")
def matmul_mx_acc(acc: Value, lhs: Value, lhs_scale: Value, rhs: Value, rhs_scale: Value) -> object:
    """acc + lhs @ rhs in FP32, with lhs_scale [M, K/32] and rhs_scale [K/32, N]."""


@scaled_product("(lhs, lhs_scale, rhs, rhs_scale, bias)")
def matmul_mx_bias(lhs: Value, lhs_scale: Value, rhs: Value, rhs_scale: Value, bias: Value) -> object:
    """lhs @ rhs + bias [1, N] in FP32, with lhs_scale [M, K/32] and rhs_scale [K/32, N]."""
