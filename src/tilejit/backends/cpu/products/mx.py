"""Block-scaled products: both sides brought to FP32 with their scales, then one ordinary product."""

from __future__ import annotations

from dataclasses import replace

from xdsl.ir import SSAValue

from tilejit.backends.cpu.function import FunctionWriter
from tilejit.backends.cpu.indexed.cells import given
from tilejit.backends.cpu.llvm.text import Index, Value
from tilejit.backends.cpu.llvm.vector import binary
from tilejit.backends.cpu.memory.movement import operand, result_of
from tilejit.backends.cpu.memory.storage import Array, permuted, sub_box
from tilejit.backends.cpu.memory.window import rewritten
from tilejit.backends.cpu.nests.nest import convert_box, copy_box, each
from tilejit.backends.cpu.products.gemm import Gemm, call_gemm, scratch_bytes
from tilejit.dtypes import FP32
from tilejit.ops.mx import BLOCK
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import apply_args


def _scaled(f: FunctionWriter, op: d.ApplyOp, side: Array, scale: Array) -> Array:
    """The side in FP32: [rows, K / 32, 32] times scales that are the same along the last dim."""
    e = f.e
    out = f.new_array(FP32, side.shape, side.shape, op.span)
    shape: tuple[Index, ...] = (side.shape[0], scale.shape[1], BLOCK)

    def blocks(array: Array) -> Array:
        row, column = array.strides
        return replace(array, shape=shape, strides=(row, e.mul(column, BLOCK), column), valid=shape, owned=False)

    scales = replace(scale, shape=shape, strides=(*scale.strides, 0), valid=shape, owned=False)
    each(e, blocks(out), [blocks(side), scales], shape, lambda values, _: binary(e, "fmul", values[0], values[1]))
    return out


def write_matmul_mx(f: FunctionWriter, op: d.ApplyOp) -> None:
    e = f.e
    lhs, lhs_scale, rhs, rhs_scale = (operand(f, op, name) for name in ("lhs", "lhs_scale", "rhs", "rhs_scale"))
    acc, bias = apply_args(op).get("acc"), given(f, op, "bias")
    shape = [lhs.shape[0], rhs.shape[1]]
    target = rewritten(f, op, acc) if isinstance(acc, SSAValue) else result_of(f, op, shape, shape)
    with f.scope():
        left = _scaled(f, op, lhs, lhs_scale)
        turned = _scaled(f, op, permuted(rhs, [1, 0]), permuted(rhs_scale, [1, 0]))
        right = permuted(turned, [1, 0])
        work = target if target.strides[-1] == 1 else f.new_array(FP32, shape, shape, op.span)
        if bias is not None:
            row = sub_box(e, bias, [0, 0], [1, shape[1]])
            convert_box(e, work, Array(row.pointer, bias.dtype, tuple(shape), (0, row.strides[1]), tuple(shape), bias.tokens), shape)
        elif acc is not None and work is not target:
            copy_box(e, work, target, shape)
        sizes = (shape[0], shape[1], lhs.shape[1])
        need = scratch_bytes(e.module, FP32, None, *[size if isinstance(size, int) else None for size in sizes])
        scratch = f.allocate(need, op.span) if need else Value("null", "ptr")
        sides = [(side.pointer, side.strides[0], side.strides[1]) for side in (left, right)]
        call_gemm(e, FP32, Gemm(sides[0], sides[1], (work.pointer, work.strides[0]), sizes, acc is not None or bias is not None, scratch))
        if work is not target:
            copy_box(e, target, work, shape)
