"""Padding, axes, shapes, windows and generators, against plain loops and slices."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ops.harness import infer, partial, random_array, run, tensor, tile, value
from tilejit.dtypes import BF16, BOOL, COMPLEX64, FP16, FP32, INDEX, INT8, INT16, INT32, UINT8, UINT32, DType
from tilejit.errors import ArgumentError, DTypeError, OutOfBoundsError, ShapeError
from tilejit.ops.evaluate import ArrayValue
from tilejit.ops.reshaping import moved_region
from tilejit.ops.shape_rules import union_box
from tilejit.ops.spec import ScalarArg
from tilejit.types.enums import AtomicType, MemorySpace, PadValue
from tilejit.types.values import ANY, TileType

# padding --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "pad", "cell"),
    [
        (FP32, PadValue.zero, 0), (FP32, PadValue.max, math.inf), (FP16, PadValue.min, -math.inf), (INT8, PadValue.max, 127),
        (INT8, PadValue.min, -128), (UINT8, PadValue.min, 0), (UINT8, PadValue.max, 255), (FP32, -math.inf, -math.inf), (INT32, math.inf, 2**31 - 1),
        (INT32, 0, 0), (BF16, 0.0, 0), (BOOL, PadValue.max, True),
    ],
)  # fmt: skip
def test_fillpad_fills_outside_the_valid_region(dtype: DType, pad: Any, cell: Any) -> None:
    x = random_array((4, 6), dtype)
    out = value("fillpad", input=partial(x, 3, 4), pad_value=pad)
    np.testing.assert_array_equal(out[:3, :4].astype(np.float64), x[:3, :4].astype(np.float64))
    outside = np.ones((4, 6), bool)
    outside[:3, :4] = False
    assert set(out[outside].tolist()) == {cell}


def test_fillpad_expand_puts_the_valid_region_in_the_corner() -> None:
    x = random_array((4, 6), FP32)
    out = value("fillpad_expand", input=partial(x, 3, 4), shape=[5, 9], pad_value=PadValue.zero)
    assert out.shape == (5, 9)
    np.testing.assert_array_equal(out[:3, :4], x[:3, :4])
    assert out.sum() == pytest.approx(x[:3, :4].sum(), rel=1e-5)


@pytest.mark.parametrize("pad", [PadValue.min, PadValue.max, math.inf])
def test_complex_numbers_have_no_largest_or_smallest_to_pad_with(pad: Any) -> None:
    with pytest.raises(ArgumentError, match="fillpad pads complex numbers with zero"):
        infer("fillpad", "tile", input=tile((4, 6), COMPLEX64), pad_value=pad)
    with pytest.raises(ArgumentError, match="fillpad_expand pads complex numbers with zero"):
        infer("fillpad_expand", "tile", input=tile((4, 6), COMPLEX64), shape=(ScalarArg(INDEX, 5), ScalarArg(INDEX, 9)), pad_value=pad)


# axes -----------------------------------------------------------------------------------------------------------------


def test_transposition_swaps_data_and_valid_region() -> None:
    x = random_array((2, 3, 5), INT16)
    np.testing.assert_array_equal(value("transpose", input=x, axis1=0, axis2=-1), x.transpose(2, 1, 0))
    out = value("transpose", input=partial(x[0], 2, 4), axis1=0, axis2=1)
    assert out.valid == (4, 2)
    np.testing.assert_array_equal(out.box, x[0, :2, :4].T)
    np.testing.assert_array_equal(value("transpose_view", input=x), x.transpose(0, 2, 1))
    assert infer("transpose", "tensor", input=tensor(("M", 4)), axis1=0, axis2=1)[0].shape == (4, "M")


def test_concat_joins_valid_columns() -> None:
    a, b = random_array((3, 4), FP32), random_array((3, 5), FP32)
    np.testing.assert_array_equal(value("concat", src0=a, src1=b), np.hstack([a, b]))
    np.testing.assert_array_equal(value("concat", "tensor", src0=a, src1=b), np.hstack([a, b]))
    out = value("concat", src0=partial(a, 3, 2), src1=partial(b, 3, 3))
    assert out.data.shape == (3, 9) and out.valid == (3, 5)
    np.testing.assert_array_equal(out.box, np.hstack([a[:, :2], b[:, :3]]))
    assert infer("concat", "tensor", src0=tensor(("M", 4)), src1=tensor(("M", "N")))[0].shape == ("M", ANY)
    assert infer("concat", "tile", src0=tile((3, 4)), src1=tile((3, 5), valid=(3, ANY)))[0].valid == (3, ANY)


def test_move_changes_nothing_but_the_space() -> None:
    x = random_array((3, 4), FP16)
    (type,), (out,) = run("move", input=partial(x, 2, 4), target_memory=MemorySpace.Left)
    assert isinstance(type, TileType) and type.space == "Left" and type.valid == out.valid == (2, 4)
    assert out.data is x


# shapes ---------------------------------------------------------------------------------------------------------------


def test_reshape_keeps_row_major_order() -> None:
    x = random_array((4, 6), FP32)
    np.testing.assert_array_equal(value("reshape", input=x, shape=[2, 3, 4]), x.ravel().reshape(2, 3, 4))
    np.testing.assert_array_equal(value("reshape", "tensor", input=x.T.copy().T, shape=[24]), x.ravel())


@pytest.mark.parametrize(
    ("shape", "valid", "target", "result"),
    [
        ((8, 1), (5, 1), (1, 8), (1, 5)),
        ((1, 8), (1, 5), (8, 1), (5, 1)),
        ((4, 6), (2, 6), (24,), (12,)),
        ((24,), (12,), (4, 6), (2, 6)),
        ((24,), (5,), (4, 6), (1, 5)),
        ((4, 6), (2, 6), (8, 3), (4, 3)),
        ((2, 3, 4), (1, 2, 4), (6, 4), (2, 4)),
    ],
)
def test_a_prefix_of_the_elements_stays_valid(shape: tuple[int, ...], valid: tuple[int, ...], target: tuple[int, ...], result: tuple[int, ...]) -> None:
    x = random_array(shape, FP32)
    out = value("reshape", input=partial(x, *valid), shape=list(target))
    assert out.valid == result
    np.testing.assert_array_equal(out.box, x.reshape(target)[tuple(slice(0, n) for n in result)])


def _marked(shape: Sequence[int], box: Sequence[int]) -> list[int]:
    """Flat positions of the cells of an origin box."""
    cells = np.zeros(shape, bool)
    cells[tuple(slice(0, n) for n in box)] = True
    return np.flatnonzero(cells).tolist()


def _factors(count: int) -> st.SearchStrategy[list[int]]:
    return st.sampled_from([list(shape) for rank in (1, 2, 3) for shape in itertools.product(range(1, count + 1), repeat=rank) if math.prod(shape) == count])


@given(st.sampled_from([6, 8, 12, 24]), st.data())
@settings(max_examples=200, deadline=None)
def test_a_region_moves_exactly_where_flat_positions_are_a_box(count: int, data: st.DataObject) -> None:
    old, new = data.draw(_factors(count)), data.draw(_factors(count))
    valid = [data.draw(st.integers(0, n)) for n in old]
    wanted = _marked(old, valid)
    moved = moved_region(old, valid, new)
    if moved is None:
        assert not any(_marked(new, box) == wanted for box in itertools.product(*(range(n + 1) for n in new)))
    else:
        assert _marked(new, [n for n in moved if isinstance(n, int)]) == wanted


@given(st.sampled_from([6, 8, 12, 24]), st.data())
@settings(max_examples=200, deadline=None)
def test_a_region_of_the_run_moves_where_it_does_for_every_extent(count: int, data: st.DataObject) -> None:
    old, new = data.draw(_factors(count)), data.draw(_factors(count))
    axis = data.draw(st.integers(0, len(old) - 1))
    valid: list[int | str] = [data.draw(st.integers(1, n)) for n in old]
    valid[axis] = ANY
    moved = moved_region(old, valid, new)
    for n in range(old[axis] + 1):
        known = [n if i == axis else int(v) for i, v in enumerate(valid)]
        if moved is not None:
            box = [extent if isinstance(extent, int) else extent.factor * known[extent.axis] for extent in moved]
            assert _marked(new, box) == _marked(old, known)
            assert box == moved_region(old, known, new)  # What the reference does with the numbers of the run.


def test_one_run_time_valid_extent_survives_where_its_rows_do() -> None:
    source = tile((8, 4), valid=(ANY, 4))
    shape = tuple(ScalarArg(INDEX, n) for n in (1, 8, 4))
    assert infer("reshape", "tile", input=source, shape=shape)[0].valid == (1, ANY, 4)
    with pytest.raises(ShapeError, match="scattered"):
        infer("reshape", "tile", input=source, shape=tuple(ScalarArg(INDEX, n) for n in (4, 8)))


def test_set_validshape_narrows_and_checks_when_it_runs() -> None:
    x = random_array((4, 6), FP32)
    out = value("set_validshape", input=x, valid_rows=np.int64(3), valid_cols=2)
    assert out.valid == (3, 2)
    np.testing.assert_array_equal(out.box, x[:3, :2])
    with pytest.raises(OutOfBoundsError, match="valid_rows is 5, the extent is 4"):
        value("set_validshape", input=x, valid_rows=np.int64(5), valid_cols=2)


def test_bytes_read_as_another_dtype() -> None:
    x = random_array((3, 8), FP32)
    np.testing.assert_array_equal(value("reinterpret_view", data=x, dtype=INT32), x.view(np.int32))
    np.testing.assert_array_equal(value("reinterpret_view", data=x, dtype=UINT8), x.view(np.uint8))
    np.testing.assert_array_equal(value("reinterpret_view", data=x, dtype=FP16, shape=[6, 8]), x.reshape(-1).view(np.float16).reshape(6, 8))
    out = value("reinterpret_view", data=partial(x, 2, 4), dtype=INT16)
    assert out.valid == (2, 8)


# windows --------------------------------------------------------------------------------------------------------------


def test_a_slice_is_a_window() -> None:
    x = random_array((6, 9), FP32)
    np.testing.assert_array_equal(value("slice", input=x, shape=[2, 5], offset=[3, np.int64(4)]), x[3:5, 4:9])
    np.testing.assert_array_equal(value("slice", "tensor", input=x, shape=[1, np.int64(4)], offset=[3, 2], drop_dims=(0,)), x[3, 2:6])
    with pytest.raises(OutOfBoundsError, match=r"reads \[3, 8\) of dim 0, which has extent 6"):
        value("slice", input=x, shape=[5, 5], offset=[np.int64(3), 0])


def test_windows_narrow_the_valid_region() -> None:
    x = random_array((6, 9), FP32)
    out = value("slice", input=partial(x, 4, 9), shape=[4, 5], offset=[2, 0], valid_shape=[3, 4])
    assert out.valid == (2, 4)
    np.testing.assert_array_equal(out.box, x[2:4, :4])
    out = value("slice", input=partial(x, 2, 9), shape=[2, 5], offset=[3, 0])
    assert out.valid == (0, 5)
    padded = value("slice", input=partial(x, 4, 9), shape=[4, 5], offset=[2, 0], pad_value=PadValue.min)
    assert padded.valid == (2, 5) and np.isneginf(padded.data[2:]).all()


def test_tensor_slices_may_overhang_what_they_do_not_read_and_clamp() -> None:
    x = random_array((6, 9), FP32)
    out = value("slice", "tensor", input=x, shape=[4, 9], offset=[4, 0], valid_shape=[2, 9])
    assert out.data.shape == (4, 9) and out.valid == (2, 9)
    np.testing.assert_array_equal(out.box, x[4:])
    clamped = value("slice", "tensor", input=x, shape=[4, 9], offset=[5, 0], clamp=True)
    assert clamped.valid == (1, 9)
    outside = value("slice", "tensor", input=x, shape=[4, 9], offset=[np.int64(8), 0], clamp=True)
    assert outside.valid == (0, 9)


def test_extract_copies_into_another_space() -> None:
    x = random_array((6, 8), FP16)
    (type,), (out,) = run("extract", src=partial(x, 4, 8), index_row=np.int64(2), index_col=1, shape=[3, 4], target_memory=MemorySpace.Left)
    assert isinstance(type, TileType) and type.space == "Left" and type.valid == (ANY, 4)
    assert out.valid == (2, 4)
    np.testing.assert_array_equal(out.box, x[2:4, 1:5])


def test_assemble_replaces_a_window_and_leaves_its_operand_alone() -> None:
    target, source = random_array((6, 9), FP32), random_array((2, 3), FP32)
    before = target.copy()
    out = value("assemble", target=target, source=source, offset=[1, np.int64(4)])
    expected = target.copy()
    expected[1:3, 4:7] = source
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(target, before)
    added = value("assemble", "tensor", target=target, source=source, offset=[1, 4], atomic=AtomicType.Add)
    np.testing.assert_allclose(added[1:3, 4:7], target[1:3, 4:7] + source, rtol=1e-6)


def test_assemble_of_a_tensor_writes_only_what_is_valid_and_rounds() -> None:
    target, source = random_array((6, 9), FP16), random_array((2, 3), FP32)
    out = value("assemble", "tensor", target=target, source=partial(source, 1, 3), offset=[5, 0])
    np.testing.assert_array_equal(out[5, :3], source[0].astype(np.float16))
    np.testing.assert_array_equal(out[:5], target[:5])
    with pytest.raises(OutOfBoundsError, match="dim 0"):
        value("assemble", target=target, source=source, offset=[np.int64(5), 0])


def test_a_write_next_to_the_valid_region_extends_it() -> None:
    target, source = random_array((6, 9), FP32), random_array((2, 9), FP32)
    out = value("assemble", target=partial(target, 3, 9), source=source, offset=[3, 0])
    assert out.valid == (5, 9)
    with pytest.raises(ShapeError, match="no box"):
        value("assemble", target=partial(target, 3, 9), source=source, offset=[np.int64(4), 0])


@given(st.data())
@settings(max_examples=80, deadline=None)
def test_unions_are_boxes_exactly_when_the_cells_are(data: st.DataObject) -> None:
    shape = (5, 4)
    valid = [data.draw(st.integers(0, n)) for n in shape]
    offset = [data.draw(st.integers(0, n - 1)) for n in shape]
    extent = [data.draw(st.integers(0, n - o)) for n, o in zip(shape, offset, strict=True)]
    cells = np.zeros(shape, bool)
    cells[: valid[0], : valid[1]] = True
    cells[offset[0] : offset[0] + extent[0], offset[1] : offset[1] + extent[1]] = True
    box = union_box(valid, offset, extent)
    sides = (int(cells.any(1).sum()), int(cells.any(0).sum()))
    is_box = bool(cells[: sides[0], : sides[1]].all())
    assert (box is not None) == is_box
    if box is not None and cells.any():
        assert box == sides


@pytest.mark.parametrize(("dtype", "number"), [(FP32, 0.5), (FP16, 0.25), (INT32, 7), (FP32, np.float32(1.5))])
def test_write_replaces_one_element(dtype: DType, number: Any) -> None:
    x = random_array((3, 4), dtype)
    out = value("write", dst=x, offset=[np.int64(2), 1], value=number)
    expected = x.copy()
    expected[2, 1] = number
    np.testing.assert_array_equal(out, expected)
    with pytest.raises(OutOfBoundsError, match=r"writes \[3, 4\) of dim 0"):
        value("write", dst=x, offset=[np.int64(3), 1], value=number)


# generators -----------------------------------------------------------------------------------------------------------


def test_fills_and_new_tiles() -> None:
    assert value("full", shape=[2, 3], dtype=BF16, value=1.1).tolist() == [[ml_dtypes.bfloat16(1.1)] * 3] * 2
    assert value("full", "tensor", shape=[np.int64(2)], dtype=INT8, value=-56).tolist() == [-56, -56]
    with pytest.raises(DTypeError, match="200 does not fit INT8"):
        value("full", "tensor", shape=[2], dtype=INT8, value=200)
    assert value("full", shape=[2], dtype=INT32, value=np.float32(2.7)).tolist() == [2, 2]
    assert np.isnan(value("create_tile", shape=[2, 2], dtype=FP32)).all()
    assert infer("full", "tensor", shape=(ScalarArg(INDEX), ScalarArg(INDEX, 4)), dtype=FP32, value=ScalarArg(FP32, 0.0))[0].shape == (ANY, 4)


def test_ranges_count_up_and_down_and_wrap() -> None:
    assert value("ci", start=5, shape=[1, 4]).tolist() == [[5, 6, 7, 8]]
    assert value("ci", start=np.int32(2), shape=[1, 4], descending=True).tolist() == [[2, 1, 0, -1]]
    assert value("ci", start=32766, shape=[3], dtype=INT16).tolist() == [32766, 32767, -32768]
    assert value("ci", "tensor", start=0, shape=[2], dtype=UINT32).dtype == np.uint32


@pytest.mark.parametrize("diagonal", [-2, 0, 3])
@pytest.mark.parametrize("upper", [False, True])
def test_triangles(diagonal: int, upper: bool) -> None:
    out = value("tri", diagonal=diagonal, shape=[4, 6], upper=upper, dtype=FP32)
    expected = [[float(j >= i + diagonal if upper else j <= i + diagonal) for j in range(6)] for i in range(4)]
    assert out.tolist() == expected
    part = value("tri", diagonal=diagonal, shape=[4, 6], valid_shape=[2, 3])
    assert isinstance(part, ArrayValue) and part.valid == (2, 3)


def test_random_bits_are_philox() -> None:
    zero = dict.fromkeys(("key0", "key1", "counter0", "counter1", "counter2", "counter3"), 0)
    words = value("random", "tensor", **zero, shape=[4])
    assert [hex(w) for w in words] == ["0x6627e8d5", "0xe169c58d", "0xbc57ac4c", "0x9b00dbd8"]
    ones = dict.fromkeys(zero, 0xFFFFFFFF)
    assert hex(value("random", "tensor", **ones, shape=[4])[0]) == "0x408f276d"
    pi = dict(zip(zero, (0xA4093822, 0x299F31D0, 0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), strict=True))
    assert [hex(w) for w in value("random", **pi, shape=[2, 2]).ravel()] == ["0xd16cfe09", "0x94fdcceb", "0x5001e420", "0x24126ea1"]


def test_random_blocks_continue_the_counter() -> None:
    seed = {"key0": 1, "key1": 2, "counter0": 0xFFFFFFFF, "counter1": 0, "counter2": 3, "counter3": 4}
    many = value("random", "tensor", **seed, shape=[3, 5], dtype=INT32).ravel()
    later = value("random", "tensor", **{**seed, "counter0": 0, "counter1": 1}, shape=[4], dtype=INT32)
    np.testing.assert_array_equal(many[4:8], later)
    assert len(set(many.tolist())) == 15
    assert value("random", "tensor", **seed, shape=[4], rounds=7).tolist() != value("random", "tensor", **seed, shape=[4]).tolist()
