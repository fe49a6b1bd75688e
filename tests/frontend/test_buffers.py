"""Loads, stores, windows and views: their types, their meaning, and everything that is provably wrong."""

from __future__ import annotations

import numpy as np
import pytest

import tilejit.language as pl
from tests.frontend.kernels import data, kernel, ops, result, run
from tilejit.errors import ArgumentError, DTypeError, InvalidOperationError, OutOfBoundsError, ParserTypeError, ShapeError, TilejitError
from tilejit.runtime.config import RunConfig
from tilejit.tile_ir import dialect as d


def loaded(arguments: str) -> str:
    program = kernel(f"n = pl.cast(cfg[0], pl.INDEX)\nt = pl.load(x, {arguments})\nout[:] = x")
    return str(d.type_of(ops(program, d.LoadOp)[0].result))


@pytest.mark.parametrize(
    ("arguments", "type"),
    [
        ("[0, 0], [8, 16]", "Tile[[8, 16], FP32]"),
        ("[n, 0], [4, 16]", "Tile[[4, 16], FP32]"),
        ("[0, 0], [8, 32], valid_shape=[8, 16]", "Tile[[8, 32], FP32, valid=[8, 16]]"),
        ("[0, 0], [8, 32], valid_shape=[n, 16]", "Tile[[8, 32], FP32, valid=[?, 16]]"),
        ("[4, 8], [8, 16], clamp=True", "Tile[[8, 16], FP32, valid=[4, 8]]"),
        ("[n, 8], [8, 16], clamp=True", "Tile[[8, 16], FP32, valid=[?, 8]]"),
        ("[9, 0], [8, 16], clamp=True", "Tile[[8, 16], FP32, valid=[0, 16]]"),
        ("[4, 0], [8, 16], valid_shape=[2, 16], clamp=True", "Tile[[8, 16], FP32, valid=[2, 16]]"),
    ],
)
def test_the_valid_region_of_a_load(arguments: str, type: str) -> None:
    assert loaded(arguments) == type


def test_a_load_keeps_the_requested_space() -> None:
    program = kernel("t = pl.load(x, [0, 0], [8, 16], target_memory=pl.Mem.Mat)\nout[:] = x")
    assert d.shaped_type(ops(program, d.LoadOp)[0].result).space == "Mat"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("body", "error", "message"),
    [
        ("pl.load(x, [0], [8, 16])", ShapeError, "`offsets` has 1 entry, the tensor has 2 dimensions"),
        ("pl.load(x, [0, 0], [8])", ShapeError, "`shapes` has 1 entr"),
        ("pl.load(x, [0, 0], [n, 16])", ShapeError, "the extents of a tile must be known while compiling"),
        ("pl.load(x, [0, 0], [8, 0])", ShapeError, "an extent of a tile must be positive, got 0"),
        ("pl.load(x, [0, 0], [9, 16])", OutOfBoundsError, "the load reaches 0 \\+ 9 in dim 0, the tensor has extent 8"),
        ("pl.load(x, [0, n], [8, 17])", OutOfBoundsError, "in dim 1"),
        ("pl.load(x, [-1, 0], [2, 16])", OutOfBoundsError, "the load starts at -1 in dim 0"),
        ("pl.load(x, [0, 0], [8, 16], valid_shape=[9, 16])", ShapeError, "valid_shape is 9 in dim 0, the tile has extent 8"),
        ("pl.load(x, [0, 0.5], [8, 8])", DTypeError, "an offset must be an integer, got 0.5"),
        ("pl.load(x, [0, x[0, 0]], [8, 8])", DTypeError, "an offset must be an integer, got a FP32 scalar"),
        ("pl.load(x, 0, [8, 8])", ArgumentError, "takes a list of scalars as `offsets`, got a number"),
        ("pl.load(t, [0, 0], [8, 16])", ParserTypeError, "pl.load reads a tensor, got Tile"),
        ("pl.load(x, [0, 0], [8, 16], target_memory=pl.Mem.Left)", ArgumentError, "pl.load brings a tile into Vec or Mat"),
        ("pl.store(t, [1, 0], out)", OutOfBoundsError, "the write reaches 1 \\+ 8 in dim 0, the tensor has extent 8"),
        ("pl.store(t, [0], out)", ShapeError, "`offsets` has 1 entr"),
        ("pl.store(t, [0, 0], cfg)", ShapeError, "`offsets` has 2 entries, the tensor has 1 dimension"),
        ("pl.store(t, [0, 0], t)", ParserTypeError, "pl.store writes into a tensor in global memory"),
        ("pl.store(out, [0, 0], t)", ArgumentError, "pl.store got its arguments in another order"),
        ("pl.store(t, out, [0, 0])", ArgumentError, "pl.store got its arguments in another order"),
        ("pl.store([0, 0], t, out)", ArgumentError, "pl.store got its arguments in another order"),
        ("pl.store(pl.cast(t, pl.INT32), [0, 0], out)", DTypeError, "INT32 data cannot be written into a tensor of FP32"),
        ("pl.store(t, [0, 0], out, atomic=True)", ArgumentError, "`atomic` takes a pl.AtomicType"),
        ("pl.read(x, [8, 0])", OutOfBoundsError, "index 8 is outside dim 0"),
        ("pl.read(x, 128)", OutOfBoundsError, "the flat index 128 is outside"),
        ("pl.write(out, [0, 0], 1.0, 2.0)", ArgumentError, "pl.write takes 3 arguments, got 4"),
        ("pl.write(out, [0, 0], cfg[0])", DTypeError, "takes a FP32 scalar, got INT32"),
        ("pl.write(cfg, [0], 1.5)", DTypeError, "expected an integer \\(INT32\\), got 1.5"),
        ("pl.write(cfg, [0], 3000000000)", DTypeError, "3000000000 does not fit into INT32"),
        ("pl.tensor.dim(x, 2)", ShapeError, "axis 2 of a tensor with 2 dimensions"),
        ("pl.tensor.dim(x, n)", TilejitError, "axis"),
        ("pl.create_tensor([0, 4], dtype=pl.FP32)", ShapeError, "must be positive"),
        ("pl.create_tensor([4, 4], dtype=4)", DTypeError, "takes a data type"),
        ("pl.create_tensor(4, dtype=pl.FP32)", ArgumentError, "list"),
        ("pl.reshape(x, [3, 5])", ShapeError, "a reshape keeps the number of elements"),
        ("pl.exp(pl.slice(x, [4, 16], [6, 0]))", OutOfBoundsError, "the window reaches 6 \\+ 4 in dim 0"),
        ("pl.slice(x, [4, 16], [0, 0], drop_dims=[0])", ShapeError, "only axes of extent 1 can be dropped"),
        ("pl.assemble(out, t, [0, 4])", OutOfBoundsError, "the write reaches 4 \\+ 16 in dim 1"),
        ("x[0:9]", OutOfBoundsError, "the slice ends at 9, dim 0 has extent 8"),
        ("x[9:]", OutOfBoundsError, "the slice starts at 9"),
        ("x[8]", OutOfBoundsError, "index 8 is outside dim 0 of extent 8"),
        ("x[-9]", OutOfBoundsError, "index -9 is outside dim 0"),
        ("x[4:4]", ShapeError, "the slice 4:4 is empty"),
        ("x[0, 0, 0]", ShapeError, "3 indices for Tensor"),
        ("x[cfg]", TilejitError, "cannot index with Tensor"),
        ("x[0.5]", DTypeError, "integer"),
        ("n[0]", ParserTypeError, "Scalar\\[INDEX\\] cannot be indexed"),
    ],
)
def test_what_is_provably_wrong_is_refused(body: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as caught:
        kernel(f"n = pl.cast(cfg[0], pl.INDEX)\nt = pl.load(x, [0, 0], [8, 16])\nr = {body}\nout[:] = x")
    assert isinstance(caught.value, TilejitError)
    assert caught.value.span is not None
    assert caught.value.span.line == 6
    assert caught.value.span.column >= 9


def test_errors_of_ops_in_a_body_are_also_invalid_operations() -> None:
    with pytest.raises(InvalidOperationError) as caught:
        kernel("t = pl.load(x, [0, 0], [9, 16])\nout[:] = x")
    assert isinstance(caught.value, OutOfBoundsError)
    assert caught.value.where == ("x: Tensor[[8, 16], FP32]",)


@pytest.mark.parametrize(
    ("target", "value", "fine"),
    [("FP16", "FP32", True), ("FP32", "BF16", True), ("INT64", "INT32", True), ("INT16", "INT32", False), ("UINT64", "INT32", False), ("FP32", "INT32", False)],
)
def test_stores_convert_floats_and_widen_integers(target: str, value: str, fine: bool) -> None:
    params = f"a: pl.Tensor[[4, 8], pl.{value}], out: pl.Out[pl.Tensor[[4, 8], pl.{target}]]"
    if fine:
        kernel("out[:] = a", params)
    else:
        with pytest.raises(DTypeError, match=f"{value} data cannot be written into a tensor of {target}"):
            kernel("out[:] = a", params)


def test_reshapes_of_a_buffer_are_views() -> None:
    x, out = result(
        "flat = pl.reshape(out, [128])\n"
        "flat[0:64] = pl.reshape(x[0:4, :], [64])\n"
        "square = pl.reshape(out, [2, -1])\n"
        "square[1] = pl.neg(pl.reshape(x, [2, 64])[0])"
    )
    np.testing.assert_array_equal(out, np.concatenate([x[:4], -x[:4]]))


def test_reshapes_with_run_time_extents_are_checked_when_they_run() -> None:
    params = "x: pl.Tensor[[8, 16], pl.FP32], n: pl.Scalar[pl.INDEX], out: pl.Out[pl.Tensor[[8, 16], pl.FP32]]"
    program = kernel("v = pl.reshape(x, [n, 128 // 4])\nout[:] = pl.reshape(v, [8, 16])", params)
    x, out = data(8, 16), np.empty((8, 16), np.float32)
    run(program, x, 4, out)
    np.testing.assert_array_equal(out, x)
    with pytest.raises(ShapeError):
        run(program, x, 5, out)


def test_bytes_are_reinterpreted() -> None:
    params = "x: pl.Tensor[[4, 8], pl.FP32], out: pl.Out[pl.Tensor[[4, 16], pl.UINT16]]"
    x, out = data(4, 8), np.zeros((4, 16), np.uint16)
    run(kernel("out[:] = pl.reinterpret_view(x, pl.UINT16)", params), x, out)
    np.testing.assert_array_equal(out, x.view(np.uint16))


def test_flat_and_dimensional_element_access_agree() -> None:
    program = kernel("n = pl.cast(cfg[0], pl.INDEX)\nout[:] = x\npl.write(out, n, pl.read(x, n + 1))\npl.write(out, [0, n], pl.read(x, [1, n]))")
    x, out = data(8, 16), np.empty((8, 16), np.float32)
    run(program, x, np.array([7, 0, 0, 0], np.int32), out)
    expected = x.copy()
    expected.flat[7] = x.flat[8]
    expected[0, 7] = x[1, 7]
    np.testing.assert_array_equal(out, expected)


def test_an_atomic_store_adds() -> None:
    x, out = result("out[:] = x\npl.store(pl.load(x, [0, 0], [8, 16]), [0, 0], out, atomic=pl.AtomicType.Add)")
    np.testing.assert_array_equal(out, x + x)


def test_a_tile_of_one_row_fits_into_a_vector() -> None:
    params = "x: pl.Tensor[[8, 16], pl.FP32], out: pl.Out[pl.Tensor[[16], pl.FP32]]"
    x, out = data(8, 16), np.empty(16, np.float32)
    run(kernel("pl.store(pl.load(x, [3, 0], [1, 16]), [0], out)", params), x, out)
    np.testing.assert_array_equal(out, x[3])


def test_a_slice_with_a_valid_region_is_a_snapshot() -> None:
    body = (
        "n = pl.cast(cfg[0], pl.INDEX)\n"
        "out[:] = pl.tensor.full([8, 16], dtype=pl.FP32, value=5.0)\n"
        "s = pl.slice(x, [8, 16], [0, 0], valid_shape=[n, 16])\n"
        "pl.assemble(out, s, [0, 0])"
    )
    x, out = result(body, 3)
    np.testing.assert_array_equal(out[:3], x[:3])
    assert (out[3:] == 5).all()


def test_new_tensors_may_be_filled() -> None:
    _, out = result("t = pl.create_tensor([8, 16], dtype=pl.FP32, init_value=1.5)\nout[:] = t")
    assert (out == 1.5).all()


def test_window_sizes_that_only_the_run_knows_are_checked_when_it_runs() -> None:
    program = kernel("n = pl.cast(cfg[0], pl.INDEX)\nout[:] = x\nout[0:n, :] = pl.neg(x[0:4, :])")
    x, out = data(8, 16), np.empty((8, 16), np.float32)
    run(program, x, np.array([4, 0, 0, 0], np.int32), out)
    np.testing.assert_array_equal(out[:4], -x[:4])
    with pytest.raises(ShapeError):
        run(program, x, np.array([5, 0, 0, 0], np.int32), out)


@pytest.mark.parametrize(
    ("body", "note"),
    [
        ("for i in pl.range(5):\n    t = pl.load(x, [i * 2, 0], [2, 16])", "when i = 4"),
        ("for i in pl.range(4, -1, -1):\n    t = pl.load(x, [i * 2, 0], [2, 16])", "when i = 4"),
        ("for i in pl.range(4):\n    for j in pl.parallel(3):\n        t = pl.load(x, [i, j * 8], [2, 8])", "when j = 2"),
        ("for i in pl.range(4):\n    pl.store(pl.load(x, [0, 0], [2, 16]), [6 - i * 3, 0], out)", "when i = 3"),
        ("for i in pl.range(4):\n    t = pl.exp(x[i * 2 : i * 2 + 3, :])", "when i = 3"),
    ],
)
def test_a_window_that_leaves_its_tensor_in_some_round_is_refused(body: str, note: str) -> None:
    with pytest.raises(OutOfBoundsError) as caught:
        kernel(body + "\nout[:] = x")
    assert caught.value.note == note


@pytest.mark.parametrize(
    "body",
    [
        "for i in pl.range(4):\n    t = pl.load(x, [i * 2, 0], [2, 16])",
        "for i in pl.range(cfg[0]):\n    t = pl.load(x, [i * 2, 0], [2, 16])",
        "for i in pl.range(5):\n    if i < 4:\n        t = pl.load(x, [i * 2, 0], [2, 16])",
        "for i in pl.range(5):\n    if i == 4:\n        break\n    t = pl.load(x, [i * 2, 0], [2, 16])",
        "for i in pl.range(5):\n    t = pl.load(x, [i * 2, 0], [2, 16], clamp=True)",
        "for j in pl.range(0):\n    for i in pl.range(5):\n        t = pl.load(x, [i * 2, 0], [2, 16])",
    ],
)
def test_what_may_stay_inside_is_left_to_the_run(body: str) -> None:
    kernel(body + "\nout[:] = x")


def test_a_counter_is_an_element_of_64_bits() -> None:
    @pl.jit
    def counted(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            for i in pl.range(x.shape[0]):
                out[i] = i * i
            pl.atomic_add(out, [0], out[3] + x.shape[0])

    x = np.zeros(4, np.float32)
    for platform in ("cpu", "reference"):
        out = np.full(4, -7, np.int64)
        counted(x, out, config=RunConfig(platform=platform))
        np.testing.assert_array_equal(out, [13, 1, 4, 9])
        np.testing.assert_array_equal(counted(x, config=RunConfig(platform=platform))[1:], out[1:])
    with pytest.raises(DTypeError, match="takes a INT32 scalar, got INDEX"):
        counted(x, np.zeros(4, np.int32))
