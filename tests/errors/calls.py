"""Wrong calls of compiled programs, by name. Upper-case arrays are the caller's: a call that fails must leave them alone."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np

import tilejit.language as pl
from tilejit import CompiledProgram, DeviceTensor, RunConfig, ir, runtime
from tilejit.dtypes import FP32

A = np.arange(32, dtype=np.float32).reshape(4, 8)
B = A[::-1].copy()
STATE = A + 5
OUT = np.full((4, 8), 7, np.float32)
MEMORY = np.arange(96, dtype=np.float32)
RAW = np.zeros(200, np.uint8)
INTEGERS = A.astype(np.int32)
FROZEN = OUT.copy()
FROZEN.flags.writeable = False

M, N = pl.dynamic("M"), pl.dynamic("N")


@pl.program
class Add:
    @pl.function
    def add(self, a: pl.Tensor[[4, 8], pl.FP32], b: pl.Tensor[[4, 8], pl.FP32], out: pl.Out[pl.Tensor[[4, 8], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.add(a, b)


@pl.program
class AddRows:
    @pl.function
    def add_rows(self, a: pl.Tensor[[M, 8], pl.FP32], b: pl.Tensor[[M, 8], pl.FP32], out: pl.Out[pl.Tensor[[M, 8], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.add(a, b)


@pl.program
class Update:
    @pl.function
    def update(
        self,
        x: pl.Tensor[[4, 8], pl.FP32],
        n: pl.Scalar[pl.INT8],
        k: pl.Scalar[pl.UINT16],
        flag: pl.Scalar[pl.BOOL],
        state: pl.InOut[pl.Tensor[[4, 8], pl.FP32]],
        out: pl.Out[pl.Tensor[[4, 8], pl.FP32]],
    ):
        with pl.at(level=pl.Level.CORE_GROUP):
            if flag:
                state[:] = pl.add(state, x)
            out[:] = pl.mul(pl.mul(state, pl.cast(n, pl.FP32)), pl.cast(k, pl.FP32))


@pl.program
class Fill:
    @pl.function
    def fill(self, s: pl.Scalar[pl.FP32], out: pl.Out[pl.Tensor[[N, 8], pl.FP32]]):
        for i in pl.range(pl.tensor.dim(out, 0)):
            for j in pl.range(8):
                pl.write(out, [i, j], s)


@pl.program
class Spread:
    @pl.function
    def spread(self, row: pl.Tensor[[8], pl.FP32], out: pl.Out[pl.Tensor[[N, 8], pl.FP32]]):
        for i in pl.range(pl.tensor.dim(out, 0)):
            for j in pl.range(8):
                pl.write(out, [i, j], pl.read(row, [j]))


@pl.program
class Two:
    @pl.function(type=pl.FunctionType.Orchestration)
    def double(self, x: pl.Tensor[[4, 8], pl.FP32], out: pl.Out[pl.Tensor[[4, 8], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.add(x, x)

    @pl.function(type=pl.FunctionType.Orchestration)
    def negate(self, x: pl.Tensor[[4, 8], pl.FP32], out: pl.Out[pl.Tensor[[4, 8], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.neg(x)


@cache
def compiled(program: ir.Program) -> CompiledProgram:
    return ir.compile(program, platform="cpu")


def add(*args: Any, **options: Any) -> object:
    return compiled(Add)(*args, **options)


def add_rows(*args: Any) -> object:
    return compiled(AddRows)(*args)


def update(*args: Any) -> object:
    return compiled(Update)(*args)


def _structured() -> np.ndarray:
    return np.zeros((4, 8), [("x", np.uint8), ("y", np.float32)])


CALLS: dict[str, Callable[[], object]] = {
    # how many
    "no_arguments": lambda: add(),
    "one_argument_too_few": lambda: add(A),
    "one_argument_too_many": lambda: add(A, B, OUT, OUT),
    "in_out_left_out": lambda: update(A, 1, 2, True),
    "scalars_left_out": lambda: update(A, STATE, OUT),
    "by_keyword": lambda: add(A, B, out=OUT),
    "config_of_another_type": lambda: add(A, B, OUT, config={"platform": "cpu"}),
    # scalars
    "scalar_given_a_tensor": lambda: update(A, STATE, OUT, A, 2, True),
    "scalar_given_text": lambda: update(A, STATE, OUT, "3", 2, True),
    "scalar_given_none": lambda: update(A, STATE, OUT, None, 2, True),
    "scalar_given_a_fraction": lambda: update(A, STATE, OUT, 2.5, 2, True),
    "scalar_too_large": lambda: update(A, STATE, OUT, 128, 2, True),
    "scalar_negative": lambda: update(A, STATE, OUT, 1, -1, True),
    "flag_out_of_range": lambda: update(A, STATE, OUT, 1, 2, 2),
    "scalar_given_nan": lambda: update(A, STATE, OUT, float("nan"), 2, True),
    "scalars_before_tensors": lambda: update(A, 1, 2, True, STATE, OUT),
    # kinds
    "tensor_given_a_list": lambda: add(A.tolist(), B, OUT),
    "tensor_given_a_number": lambda: add(A, 1.0, OUT),
    "tensor_given_a_numpy_number": lambda: add(A, np.float32(1), OUT),
    "tensor_given_none": lambda: add(A, None, OUT),
    "tensor_given_text": lambda: add("a.npy", B, OUT),
    # shapes
    "rank_too_small": lambda: add(A[0], B, OUT),
    "rank_too_large": lambda: add(A[None], B, OUT),
    "zero_rank": lambda: add(np.array(1, np.float32), B, OUT),
    "extent_of_an_input": lambda: add(A, B[:, :7], OUT),
    "extent_of_an_output": lambda: add(A, B, OUT[:3]),
    "extents_of_inputs_differ": lambda: add_rows(A, B[:3], OUT),
    "extents_of_output_differ": lambda: add_rows(A[:2], B[:2], OUT),
    "output_extent_unknown": lambda: compiled(Spread)(A[0]),
    "nothing_to_allocate_like": lambda: compiled(Fill)(1.5),
    # dtypes
    "integers_for_floats": lambda: add(INTEGERS, B, OUT),
    "integers_for_an_output": lambda: add(A, B, INTEGERS),
    "double_precision": lambda: add(A.astype(np.float64), B, OUT),
    "objects": lambda: add(A.astype(object), B, OUT),
    "other_byte_order": lambda: add(A.astype(">f4"), B, OUT),
    "records": lambda: add(_structured(), B, OUT),
    # memory
    "output_read_only": lambda: add(A, B, FROZEN),
    "output_strided": lambda: add(A, B, MEMORY[:64].reshape(4, 16)[:, ::2]),
    "output_transposed": lambda: add(A, B, MEMORY[:32].reshape(8, 4).T),
    "output_broadcast": lambda: add(A, B, np.broadcast_to(OUT[0], (4, 8))),
    "output_overlaps_an_input": lambda: add(MEMORY[:32].reshape(4, 8), B, MEMORY[8:40].reshape(4, 8)),
    "two_outputs_overlap": lambda: update(A, OUT, OUT, 1, 2, True),
    "input_with_split_elements": lambda: add(_structured()["y"], B, OUT),
    # where
    "unknown_platform": lambda: add(A, B, OUT, config=RunConfig(platform="gpu")),
    "another_platform": lambda: add(A, B, OUT, config=RunConfig(platform="reference")),
    "negative_device": lambda: add(A, B, OUT, config=RunConfig(device_id=-1)),
    "no_threads": lambda: add(A, B, OUT, config=RunConfig(num_threads=0)),
    "device_tensor_elsewhere": lambda: add(DeviceTensor(64, (4, 8), FP32, "cuda:0"), B, OUT),
    "device_tensor_at_zero": lambda: add(DeviceTensor(0, (4, 8), FP32), B, OUT),
    "device_tensor_dtype": lambda: add(DeviceTensor(A.ctypes.data, (4, 8), np.float32), B, OUT),  # type: ignore[arg-type]
    # which
    "several_entries": lambda: compiled(Two)(A, OUT),
    "unknown_entry": lambda: compiled(Two)["doubel"](A, OUT),
    "unknown_attribute": lambda: compiled(Two).triple(A, OUT),
    "unknown_stage": lambda: compiled(Add).stage("ptx"),
    "no_rounds": lambda: compiled(Add).benchmark(A, B, rounds=0),
    # compiling and loading
    "compile_what_is_no_program": lambda: ir.compile(add),  # type: ignore[arg-type]
    "compile_option_misspelt": lambda: ir.compile(Add, dump_pases=True),
    "compile_platform_unknown": lambda: ir.compile(Add, platform="a3"),
    "load_from_nowhere": lambda: CompiledProgram.from_dir("/no/such/directory"),
    "load_what_is_no_artifact": lambda: runtime.execute_compiled(tempfile.gettempdir(), (A, B)),
}


def caller_arrays() -> SimpleNamespace:
    """Copies of the caller's arrays, to compare with."""
    return SimpleNamespace(**{name: value.copy() for name, value in globals().items() if name.isupper() and isinstance(value, np.ndarray)})
