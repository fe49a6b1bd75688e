"""Arguments of the rows that pick, put and sort by index: sources of constant shape, so that every index can be inside."""

from __future__ import annotations

from collections.abc import Iterator

from tests.differential.movement import OFFSET, Plan
from tests.differential.plans import Argument, Arguments, Array, Fixed, Number, Numbers
from tests.differential.shapes import TABLE_COLUMNS, TABLE_ROWS
from tilejit.dtypes import FP8E8M0, FP32, INDEX, INT16, INT32, INT64, UINT32, DType
from tilejit.ops.gather import CMP_MODES
from tilejit.ops.memory import POLICIES
from tilejit.ops.spec import OpSpec

ROWS, COLUMNS = TABLE_ROWS, TABLE_COLUMNS


def source(dtype: DType, *shape: int, level: str = "tile") -> Array:
    """An operand that is valid everywhere; at tensor level the result of an operator."""
    return Array(shape or (ROWS, COLUMNS), dtype, value=level == "tensor")


def gather(row: OpSpec, level: str, dtype: DType) -> Iterator[Arguments]:
    for index in (INT32, INT16):
        for dim, extent in ((0, ROWS), (1, COLUMNS), (-1, COLUMNS)):
            yield {"input": Array((ROWS, COLUMNS), dtype), "dim": Fixed(dim), "index": Array((5, 7), index, f"below {extent}")}
        yield {"input": source(dtype, 3, 4, 5), "dim": Fixed(1), "index": Array((2, 9, 5), index, "below 4")}
        yield {"input": source(dtype, 2, 3, 2, 4, 3), "dim": Fixed(-2), "index": Array((2, 3, 1, 6, 2), index, "below 4")}
    for pattern in range(1, 8):
        yield {"input": Array((ROWS, COLUMNS), dtype), "mask_pattern": Fixed(pattern)}
    for mode in CMP_MODES:
        yield {"input": Array((ROWS, COLUMNS), dtype, "small"), "kvalue": Number(INDEX, 1), "cmp_mode": Fixed(mode), "out_cols": Fixed(1)}
    yield compared("input", dtype, 9)


def compared(name: str, dtype: DType, out_cols: int) -> Arguments:
    """Everything matches, so that no cell of the result is undefined."""
    return {name: Array((ROWS, COLUMNS), dtype, "small"), "kvalue": Number(INDEX, 9), "cmp_mode": Fixed("lt"), "out_cols": Fixed(out_cols), "offset": Fixed(3)}


def gather_flat(row: OpSpec, level: str, dtype: DType) -> Iterator[Arguments]:
    for index in (INT32, INT16):
        for window in (False, True):
            yield {"src": source(dtype), "indices": Array(("M", "K"), index, f"below {ROWS * COLUMNS}", window)}


def gather_mask(row: OpSpec, level: str, dtype: DType) -> Iterator[Arguments]:
    for pattern in range(1, 8):
        yield {"src": Array(("M", COLUMNS), dtype, "any", True), "mask_pattern": Fixed(pattern)}
    yield {"src": Array((2, 3, 4, COLUMNS), dtype), "mask_pattern": Fixed(2)}


def gather_compare(row: OpSpec, level: str, dtype: DType) -> Iterator[Arguments]:
    for out_cols in (1, 9, COLUMNS):
        yield compared("src", dtype, out_cols)


def gatherb(row: OpSpec, level: str, dtype: DType) -> Iterator[Arguments]:
    for window in (False, True):
        yield {"src": source(dtype), "offset": Array(("M", "B"), UINT32, f"below {ROWS * COLUMNS * dtype.get_byte() - 31}", window)}


def mgather(row: OpSpec, level: str, dtype: DType) -> Iterator[Arguments]:
    for policy in POLICIES:
        role = f"below {ROWS}" if policy == "undefined" else "bits"
        for shape in ((1, "K"), ("K", 1)):
            yield {"mem": Array((ROWS, 17), dtype), "idx": Array(shape, INT32, role, True), "gather_oob": Fixed(policy)}
        elements: dict[str, Argument] = {"mem": Array((3, 2, 17), dtype), "coalesce": Fixed("elem"), "gather_oob": Fixed(policy)}
        yield elements | {"idx": Array(("M", "K"), INT32, "below 102" if policy == "undefined" else "bits", True)}
    yield {"mem": Array((2, 3, 17), dtype), "idx": Array((1, 9), UINT32, "below 6"), "valid_shape": Numbers((4, 11))}


def paged_gather(row: OpSpec, level: str, dtype: DType) -> Iterator[Arguments]:
    args: dict[str, Argument] = {"src": Array((40, 9), dtype), "block_size": Fixed(4), "max_indices": Fixed(8)}
    for index in (INT32, UINT32, INT64):
        for turned in (False, True):
            indices, pages = Array((5,), index, "below 12"), Array((1, 3), index, "below 10")
            yield args | {"indices": indices, "block_table": pages, "size": Fixed(6), "col_off": Fixed(2), "is_trans": Fixed(turned)}
    yield args | {"indices": Array((2, 4), INT32, "below 12"), "block_table": Array((3,), INT32, "below 10"), "size": Fixed(9)}


def gather_row(row: OpSpec, level: str, dtype: DType) -> Iterator[Arguments]:
    into = source(dtype, 8, 12, level=level)
    for place in ((2, 1), (OFFSET, OFFSET)):
        for turned in (False, True):
            args: dict[str, Argument] = {"dst": into, "src": Array((9, 12), dtype), "transpose": Fixed(turned)}
            yield args | {"dst_offset": Numbers(place), "src_offset": Numbers((OFFSET, 0)), "shapes": Numbers((1, 5))}
    yield {"dst": into, "src": Array((3, 9, 12), dtype), "dst_offset": Numbers((0, 0)), "src_offset": Numbers((OFFSET, 2, 3)), "shapes": Numbers((1, 2, 8))} | {
        "valid_shape": Numbers((1, 2, 7))
    }


def scatter(row: OpSpec, level: str, dtype: DType) -> Iterator[Arguments]:
    for index in (INT32, INT16):
        yield {"input": source(dtype, level=level), "dim": Fixed(-1), "index": Array((2, 7), index, f"below {COLUMNS}"), "src": Array((2, 7), dtype)}
    for pattern, step in ((1, 2), (4, 4), (7, 1)):
        yield {"input": Array((ROWS, COLUMNS // step), dtype), "mask_pattern": Fixed(pattern), "dst": source(dtype, level=level)}


def scatter_flat(row: OpSpec, level: str, dtype: DType) -> Iterator[Arguments]:
    for index in (INT32, INT16):
        for window in (False, True):
            shape = ("M", "K")
            yield {"dst": source(dtype), "src": Array(shape, dtype, "any", window), "indexes": Array(shape, index, f"below {ROWS * COLUMNS}", window)}


def scatter_mask(row: OpSpec, level: str, dtype: DType) -> Iterator[Arguments]:
    for pattern, step in ((1, 2), (2, 2), (6, 4), (7, 1)):
        yield {"dst": source(dtype), "src": source(dtype, ROWS, COLUMNS // step), "mask_pattern": Fixed(pattern)}


def scatter_update(row: OpSpec, level: str, dtype: DType) -> Iterator[Arguments]:
    for index in (INT32, INT64):
        for dim in (-2, 0):
            yield {"input": source(dtype, 20, 9, level=level), "dim": Fixed(dim), "index": Array((2, 3), index, "below 20"), "src": Array((6, 9), dtype)}
        yield {"input": source(dtype, 5, 4, 1, 9, level=level), "dim": Fixed(-2), "index": Array((2, 3), index, "below 20"), "src": Array((2, 3, 1, 9), dtype)}


def sort32(row: OpSpec, level: str, dtype: DType) -> Iterator[Arguments]:
    for shape in ((3, 64), (1, 32), (2, 3, 96)):
        yield {"src": Array(shape, dtype), "idx": Array(shape, UINT32, "bits")}


def mrgsort(row: OpSpec, level: str, dtype: DType) -> Iterator[Arguments]:
    for columns, block in ((512, 64), (384, 64), (1024, 128), (64, 64)):
        yield {"src0": Array((2, columns), dtype, f"runs {block}"), "block_len": Number(INDEX, block)}
    yield {"src0": Array((2, 384), dtype, "finite"), "block_len": Number(INDEX, 64)}
    for lists in (2, 3, 4):
        widths = (64, 10, 128, 64)[:lists]
        args: dict[str, Argument] = {f"src{i}": Array((2, width), dtype, f"runs {width}") for i, width in enumerate(widths)}
        unsorted: dict[str, Argument] = {f"src{i}": Array((2, width), dtype, "finite") for i, width in enumerate(widths)}
        for found in (args, unsorted):
            yield found | ({"tmp": Array((2, sum(widths)), dtype)} if level == "tile" else {})


def scaled(row: OpSpec, level: str, dtype: DType) -> Iterator[Arguments]:
    for m, k, n in ((3, 64, 5), (16, 96, 33), (1, 32, 1)):
        args: dict[str, Argument] = {"lhs": Array((m, k), dtype, "finite"), "rhs": Array((k, n), dtype, "finite")}
        args |= {"lhs_scale": Array((m, k // 32), FP8E8M0, "powers"), "rhs_scale": Array((k // 32, n), FP8E8M0, "powers")}
        if "acc" in row.param_names:
            args["acc"] = Array((m, n), FP32, "finite")
        if "bias" in row.param_names:
            args["bias"] = Array((1, n), FP32, "finite")
        yield args


INDEXED: dict[str, Plan] = {
    "gather": gather,
    "gather_flat": gather_flat,
    "gather_mask": gather_mask,
    "gather_compare": gather_compare,
    "gatherb": gatherb,
    "mgather": mgather,
    "paged_gather": paged_gather,
    "gather_row": gather_row,
    "scatter": scatter,
    "scatter_flat": scatter_flat,
    "scatter_mask": scatter_mask,
    "scatter_update": scatter_update,
    "sort32": sort32,
    "mrgsort": mrgsort,
    **dict.fromkeys(("matmul_mx", "matmul_mx_acc", "matmul_mx_bias"), scaled),
}
