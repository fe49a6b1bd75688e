"""Arguments of the rows that move data or make it from scalars: extents are constants here, offsets also come at run time."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.differential.plans import EXECUTABLE, STATICS, Argument, Arguments, Array, Fixed, Number, Numbers
from tests.differential.shapes import TILE_EXTENTS
from tilejit.dtypes import FP32, INDEX, INT32, UINT32, DType
from tilejit.ops.spec import OpSpec
from tilejit.types.enums import MemorySpace

ROWS, COLUMNS = TILE_EXTENTS["M"], TILE_EXTENTS["N"]
Plan = Callable[[OpSpec, str, DType], Iterator[Arguments]]
OFFSET = Number(INDEX, None, "offset")


def matrix(level: str, dtype: DType, window: bool = False, value: bool = True) -> Array:
    """A tile with symbols in its shape, which windows narrow; or a tensor-level value of the same constant shape."""
    if level == "tile":
        return Array(("M", "N"), dtype, "any", window)
    return Array((ROWS, COLUMNS), dtype, value=value)


def same(name: str, **statics: object) -> Plan:
    """Rows that take one array and leave its shape alone."""

    def plan(row: OpSpec, level: str, dtype: DType) -> Iterator[Arguments]:
        for window in (False, True):
            yield {name: matrix(level, dtype, window)} | {key: Fixed(value) for key, value in statics.items()}

    return plan


def fillpad(row: OpSpec, level: str, dtype: DType) -> Iterator[Arguments]:
    for pad in STATICS["pad_value"]:
        args: dict[str, Argument] = {"input": matrix(level, dtype, True), "pad_value": Fixed(pad)}
        if row.name == "fillpad_expand":
            args["shape"] = Numbers((ROWS + 2, COLUMNS + 11))
        yield args


def transpose(row: OpSpec, level: str, dtype: DType) -> Iterator[Arguments]:
    for axes in ((0, 1), (-1, -2)):
        yield {"input": Array(("M", "N"), dtype, window=level == "tile"), "axis1": Fixed(axes[0]), "axis2": Fixed(axes[1])}
    for axes in ((0, 3), (1, -1), (0, 1)):
        yield {"input": Array(("B", 2, "M", "N"), dtype, window=level == "tile"), "axis1": Fixed(axes[0]), "axis2": Fixed(axes[1])}
    yield {"input": Array(("B", 1, 2, "M", "N"), dtype, window=level == "tile"), "axis1": Fixed(4), "axis2": Fixed(0)}
    for axes in ((0, 2), (0, 1), (1, 2)):
        yield {"input": Array(("B", "M", "N"), dtype, window=level == "tile"), "axis1": Fixed(axes[0]), "axis2": Fixed(axes[1])}


def every(row: OpSpec, level: str, dtype: DType) -> Iterator[Arguments]:
    # At tensor level an extent that a step divides is known to the run only: there such axes have constant ones.
    rows, columns = ("M", "N") if level == "tile" else (9, 13)
    for steps in ((1, 2), (3, 1), (2, 3)):
        yield {"input": Array((rows, columns), dtype, window=level == "tile"), "steps": Fixed(steps)}
    for steps in ((-1, 2), (2, -2), (-3, 1)):
        yield {"input": Array((rows, columns), dtype), "steps": Fixed(steps)}
    yield {"input": Array(("M", "N"), dtype), "steps": Fixed((-1, -1))}
    yield {"input": Array(("B", 2, rows, columns), dtype), "steps": Fixed((1, -1, 2, -3))}


def scanned(row: OpSpec, level: str, dtype: DType) -> Iterator[Arguments]:
    role = "near one" if row.attrs["combine"] == "prod" else "finite"
    for shape, axes in ((("M", "N"), (0, 1)), (("N",), (-1,)), (("B", "M", "N"), (0, 1, 2)), (("B", 2, "M", "N"), (1, -2))):
        for axis in axes:
            yield {"input": Array(shape, dtype, role, window=level == "tile"), "axis": Fixed(axis)}


def ordered(row: OpSpec, level: str, dtype: DType) -> Iterator[Arguments]:
    flag, extra = ("largest", {"k": Fixed(3)}) if row.name == "topk_rows" else ("descending", {})
    last = 13 if row.name == "topk_rows" and level != "tile" else "N"
    for shape in (("M", last), (last,), ("B", 2, last)):
        for value in (False, True):
            yield {"input": Array(shape, dtype), flag: Fixed(value), **extra}
    for columns, k in ((200, 3), (70, 40)) if row.name == "topk_rows" else ():
        yield {"input": Array((2, columns), dtype), "k": Fixed(k)}


def counted(row: OpSpec, level: str, dtype: DType) -> Iterator[Arguments]:
    for shape in (("M", "N"), ("N",), ("B", "M", "N")):
        yield {"input": Array(shape, dtype, "small"), "length": Fixed(130)}
    for weights in (FP32, INT32):
        yield {"input": Array(("M", "N"), dtype, "small"), "length": Fixed(130), "weights": Array(("M", "N"), weights, "finite")}


def concat(row: OpSpec, level: str, dtype: DType) -> Iterator[Arguments]:
    other = Array(("M", "K") if level == "tile" else (ROWS, 12), dtype, value=True)
    yield {"src0": matrix(level, dtype), "src1": other}
    yield {"src0": other, "src1": matrix(level, dtype, True)}


def reshape(row: OpSpec, level: str, dtype: DType) -> Iterator[Arguments]:
    for shape in ((COLUMNS, ROWS), (1, ROWS * COLUMNS), (ROWS * COLUMNS,), (2, 3, COLUMNS)):
        yield {"input": matrix(level, dtype), "shape": Numbers(shape)}


def set_validshape(row: OpSpec, level: str, dtype: DType) -> Iterator[Arguments]:
    yield {"input": matrix(level, dtype), "valid_rows": Number(INDEX, 4), "valid_cols": Number(INDEX, 19)}
    yield {"input": matrix(level, dtype), "valid_rows": Number(INDEX, None, "rows"), "valid_cols": Number(INDEX, None, "columns")}


def reinterpret(row: OpSpec, level: str, dtype: DType) -> Iterator[Arguments]:
    for target in EXECUTABLE:
        data = Array((ROWS, 40), dtype, value=True)
        yield {"data": data, "dtype": Fixed(target)}


def cut(row: OpSpec, level: str, dtype: DType) -> Iterator[Arguments]:
    for offset in ((2, 5), (OFFSET, OFFSET), (0, 0)):
        yield {"input": matrix(level, dtype), "shape": Numbers((3, 10)), "offset": Numbers(offset)}
    yield {"input": matrix(level, dtype), "shape": Numbers((3, 10)), "offset": Numbers((1, 2)), "valid_shape": Numbers((2, 7))}
    yield {"input": matrix(level, dtype, True), "shape": Numbers((ROWS, 10)), "offset": Numbers((0, 0))}


def extract(row: OpSpec, level: str, dtype: DType) -> Iterator[Arguments]:
    for place in (Number(INDEX, 2), OFFSET):
        yield {"src": matrix(level, dtype), "index_row": place, "index_col": place, "shape": Numbers((3, 10)), "target_memory": Fixed(MemorySpace.Left)}


def assemble(row: OpSpec, level: str, dtype: DType) -> Iterator[Arguments]:
    for offset in ((2, 5), (OFFSET, OFFSET)):
        yield {"target": matrix(level, dtype), "source": Array((3, 10), dtype, value=True), "offset": Numbers(offset)}


def write(row: OpSpec, level: str, dtype: DType) -> Iterator[Arguments]:
    for offset in ((2, 5), (OFFSET, OFFSET)):
        yield {"dst": matrix(level, dtype), "offset": Numbers(offset), "value": Number(dtype)}


def full(row: OpSpec, level: str, dtype: DType) -> Iterator[Arguments]:
    for number in (Number(dtype), Number(FP32, 2.5) if dtype.is_float else Number(INDEX, 3)):
        yield {"shape": Numbers((ROWS, COLUMNS)), "dtype": Fixed(dtype), "value": number}


def arange(row: OpSpec, level: str, dtype: DType) -> Iterator[Arguments]:
    for start in (Number(INDEX, 5), Number(INT32, None, "offset")):
        for descending in (False, True):
            yield {"start": start, "shape": Numbers((1, COLUMNS)), "dtype": Fixed(dtype), "descending": Fixed(descending)}


def triangle(row: OpSpec, level: str, dtype: DType) -> Iterator[Arguments]:
    for diagonal in (Number(INDEX, 0), Number(INDEX, -2), OFFSET):
        for upper in (False, True):
            yield {"diagonal": diagonal, "shape": Numbers((ROWS, COLUMNS)), "dtype": Fixed(dtype), "upper": Fixed(upper)}
    yield {"diagonal": OFFSET, "shape": Numbers((ROWS, COLUMNS)), "valid_shape": Numbers((4, 9)), "dtype": Fixed(dtype)}


def random(row: OpSpec, level: str, dtype: DType) -> Iterator[Arguments]:
    words = ("key0", "key1", "counter0", "counter1", "counter2", "counter3")
    for rounds in STATICS["rounds"]:
        for kind in (Number(UINT32), Number(INDEX, 7)):
            yield dict.fromkeys(words, kind) | {"shape": Numbers((ROWS, COLUMNS)), "dtype": Fixed(dtype), "rounds": Fixed(rounds)}


def part(row: OpSpec, level: str, dtype: DType) -> Iterator[Arguments]:
    for left, right in ((False, True), (True, False), (True, True), (False, False)):
        yield {"lhs": matrix(level, dtype, left), "rhs": matrix(level, dtype, right)}


MOVEMENT: dict[str, Plan] = {
    "fillpad": fillpad,
    "fillpad_expand": fillpad,
    "transpose": transpose,
    "every": every,
    "cumsum": scanned,
    "cumprod": scanned,
    "cummax": scanned,
    "cummin": scanned,
    "sort_rows": ordered,
    "topk_rows": ordered,
    "bincount": counted,
    "transpose_view": same("input"),
    "concat": concat,
    "move": same("input", target_memory=MemorySpace.Left),
    "aiv_shard": same("x"),
    "aic_gather": same("x"),
    "reshape": reshape,
    "set_validshape": set_validshape,
    "reinterpret_view": reinterpret,
    "slice": cut,
    "extract": extract,
    "assemble": assemble,
    "write": write,
    "full": full,
    "ci": arange,
    "tri": triangle,
    "random": random,
    **{f"part_{op}": part for op in ("add", "mul", "max", "min")},
}
