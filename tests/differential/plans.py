"""Which arguments to try for a row of the op table: derived from its family and parameters, filtered by its own type rule."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tests.differential.shapes import TILE_EXTENTS
from tilejit import ops
from tilejit.dtypes import (
    BF16,
    BOOL,
    COMPLEX64,
    FP4,
    FP8E4M3FN,
    FP8E5M2,
    FP8E8M0,
    FP16,
    FP32,
    FP64,
    INDEX,
    INT4,
    INT8,
    INT16,
    INT32,
    INT64,
    UINT4,
    UINT8,
    UINT16,
    UINT32,
    UINT64,
    DType,
)
from tilejit.errors import TilejitError
from tilejit.ops.matmul import accumulator
from tilejit.ops.spec import Call, OpSpec, Param, ParamKind, ScalarArg
from tilejit.types.enums import PadValue
from tilejit.types.values import ANY, TENSOR_SPACE, BufferType, Dim, ShapedType, TileType, ValueType

EXECUTABLE = (
    BOOL, INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, FP16, BF16, FP32, FP64, INDEX, INT4, UINT4, FP4, FP8E4M3FN, FP8E5M2, FP8E8M0, COMPLEX64,
)  # fmt: skip
"""Element types that arrays have; those of less than 8 bits and the 8-bit floats are moved, cast and multiplied with scales only."""



@dataclass(frozen=True)
class Array:
    """A tensor or tile operand; `shape` in symbols. `window`: a tile valid only in run-time extents."""

    shape: tuple[Dim, ...]
    dtype: DType
    role: str = "any"
    window: bool = False
    value: bool = False
    """At tensor level: an operator's result, not a buffer (rows that mean something else on buffers)."""

    def extents(self, level: str) -> tuple[Dim, ...]:
        return tuple(TILE_EXTENTS.get(d, d) if level == "tile" and isinstance(d, str) else d for d in self.shape)

    def type(self, level: str) -> ShapedType:
        shape = self.extents(level)
        if level != "tile":
            return TileType(shape, self.dtype, shape, TENSOR_SPACE) if self.value else BufferType(shape, self.dtype)
        valid = tuple(ANY if self.window and isinstance(d, str) else n for d, n in zip(self.shape, shape, strict=True))
        return TileType(shape, self.dtype, valid)


@dataclass(frozen=True)
class Number:
    """A scalar operand: a constant, or a run-time parameter."""

    dtype: DType
    const: int | float | bool | None = None
    role: str = "any"


@dataclass(frozen=True)
class Numbers:
    """A list of scalars, constant or not."""

    values: tuple[int | Number, ...]


@dataclass(frozen=True)
class Fixed:
    """A compile-time argument."""

    value: object


Argument = Array | Number | Numbers | Fixed
Arguments = Mapping[str, Argument]


@dataclass(frozen=True)
class Use:
    """One application of a row."""

    row: OpSpec
    level: str
    dtype: DType
    args: tuple[tuple[str, Argument], ...]
    results: tuple[ValueType, ...]

    def __str__(self) -> str:
        shown = ", ".join(f"{name}={_shown(arg)}" for name, arg in self.args)
        return f"{self.level}.{self.row.name}[{self.dtype}]({shown})"


def _shown(arg: Argument) -> str:
    if isinstance(arg, Array):
        return f"{arg.dtype}[{','.join(map(str, arg.shape))}]" + ("~" if arg.window else "")
    if isinstance(arg, Number):
        return f"{arg.dtype}({'run time' if arg.const is None else arg.const})"
    return str(arg.values if isinstance(arg, Numbers) else arg.value)


STATICS: dict[str, tuple[object, ...]] = {
    "cmp_type": tuple(range(6)),
    "mode": ("round", "rint", "floor", "ceil", "trunc", "odd", "none"),
    "pad_value": (PadValue.zero, PadValue.max, PadValue.min),
    "out_dtype": (None, FP32, INT32, FP16, FP64),
    "descending": (False, True),
    "upper": (False, True),
    "rounds": (10, 7),
    "axis1": (0, -1),
    "axis2": (1, -2),
    "high_precision": (False, True),
}
"""Values worth trying for compile-time parameters; the rest keep their default."""


def uses(row: OpSpec, level: str, dtype: DType) -> list[Use]:
    """All applications of a row to try at a level with a dtype; those its type rule refuses are left out."""
    found: dict[str, Use] = {}
    for args in candidates(row, level, dtype):
        try:
            results = typed(row, level, args)
        except TilejitError:
            continue
        if results is not None:
            if has_complex_number(args) or (row.facts.of_bytes and COMPLEX64 in _dtypes(dtype, results)):
                continue  # Pairs have no bytes of their own.
            use = Use(row, level, dtype, tuple(args.items()), results)
            found[str(use)] = use
    return list(found.values())


def has_complex_number(args: Arguments) -> bool:
    """Whether a use would need a complex number as an argument of the call: there are arrays of them only."""
    return any(isinstance(arg, Number) and arg.dtype is COMPLEX64 for arg in args.values())


def _dtypes(dtype: DType, types: tuple[ValueType, ...]) -> list[DType]:
    return [dtype, *(type.dtype for type in types)]


def typed(row: OpSpec, level: str, args: Arguments) -> tuple[ValueType, ...] | None:
    """The result types by the row's own rule; None where operands would have to agree by chance."""
    seen = {name: _seen(arg, level) for name, arg in args.items()}
    for param in row.params:
        if param.name not in seen:
            seen[param.name] = None if param.required else param.default
    call = Call(row, level, seen)
    results = row.infer(call)
    # Extents that only the run could find equal are not: all operands share their symbols.
    return None if call.checks else results


def _seen(arg: Argument, level: str) -> object:
    if isinstance(arg, Array):
        return arg.type(level)
    if isinstance(arg, Number):
        return ScalarArg(arg.dtype, arg.const)
    if isinstance(arg, Numbers):
        return tuple(ScalarArg(INDEX, None if isinstance(value, Number) else value) for value in arg.values)
    return arg.value


def candidates(row: OpSpec, level: str, dtype: DType) -> Iterator[Arguments]:
    """Arguments that the row might take, before its type rule has its say."""
    from tests.differential.indexed import INDEXED
    from tests.differential.movement import MOVEMENT

    custom = CUSTOM.get(row.name) or MOVEMENT.get(row.name) or INDEXED.get(row.name) or FAMILIES.get(row.family)
    if custom is not None:
        yield from custom(row, level, dtype)


def statics(row: OpSpec) -> Iterator[dict[str, Argument]]:
    """Combinations of the compile-time arguments: all values of one at a time, the others at their default."""
    tried = {param.name: STATICS[param.name] for param in row.params if param.kind is ParamKind.Static and param.name in STATICS}
    yield {}
    for name, values in tried.items():
        for value in values:
            yield {name: Fixed(value)}


def shaped_params(row: OpSpec) -> list[Param]:
    return [param for param in row.params if param.kind in (ParamKind.Value, ParamKind.Operand, ParamKind.Scalar)]


# families -------------------------------------------------------------------------------------------------------------


RANKS: tuple[tuple[Dim, ...], ...] = (("N",), ("B", "M", "N"), ("B", 2, "M", "N"), ("B", 1, 2, "M", "N"))
"""Shapes of other ranks than 2."""
BROADCASTS: tuple[tuple[tuple[Dim, ...], tuple[Dim, ...]], ...] = (
    (("B", "M", "N"), ("M", "N")),
    (("B", "M", "N"), ("B", 1, "N")),
    (("B", "M", 1), (1, "M", "N")),
    (("N",), ("M", "N")),
    (("B", 2, 1, "N"), ("M", 1)),
    (("B", 1, 2, "M", "N"), ("B", 1, 1, 1, 1)),
)


def elementwise(row: OpSpec, level: str, dtype: DType) -> Iterator[Arguments]:
    """All arrays; a scalar on either side, constant or not; broadcasting; two dtypes; every static."""
    params = shaped_params(row)
    keep = row.attrs["keep"]
    assert isinstance(keep, tuple)
    if level == "scalar":
        for extra in statics(row):
            yield {p.name: Number(BOOL if p.name in keep else dtype, None, p.name) for p in params} | extra
        return
    window = level == "tile"
    whole: dict[str, Argument] = {p.name: Array(("M", "N"), BOOL if p.name in keep else dtype, p.name, window) for p in params}
    for extra in statics(row):
        yield whole | extra
    for shape in RANKS:
        yield {p.name: Array(shape, BOOL if p.name in keep else dtype, p.name, window) for p in params}
    if len(params) == 2 and not keep:
        for first, second in BROADCASTS:
            yield {params[0].name: Array(first, dtype, params[0].name, window), params[1].name: Array(second, dtype, params[1].name)}
    for param in params:
        if param.kind is ParamKind.Operand and len(params) > 1 and param.name not in keep:
            yield whole | {param.name: Number(dtype, None, param.name)}
            yield whole | {param.name: Number(FP32, 1.5) if dtype.is_float else Number(INDEX, 3)}
            for shape in (("M", 1), (1, "N")):
                yield whole | {param.name: Array(shape, dtype, param.name)}
            yield whole | {param.name: Array(("M", "N"), FP32 if dtype is not FP32 else INT32, param.name, window)}
            yield whole | {param.name: Array(("M", "N"), dtype, param.name)}


def cast(row: OpSpec, level: str, dtype: DType) -> Iterator[Arguments]:
    for target in EXECUTABLE:
        modes = STATICS["mode"] if dtype.is_float else ("round",)
        for mode in modes if level != "scalar" else ("round",):
            source = Number(dtype) if level == "scalar" else Array(("M", "N"), dtype, window=level == "tile")
            yield {"input": source, "target_type": Fixed(target), "mode": Fixed(mode)}


def reduction(row: OpSpec, level: str, dtype: DType) -> Iterator[Arguments]:
    role = "near one" if row.attrs["combine"] == "prod" else "finite" if row.attrs["combine"] == "sum" else "any"
    for shape in (("M", "N"), *RANKS):
        for window in (True, False) if level == "tile" else (False,):
            yield {"input": Array(shape, dtype, role, window)}


def expand(row: OpSpec, level: str, dtype: DType) -> Iterator[Arguments]:
    vector = ("M", 1) if row.attrs["axis"] == "row" else (1, "N")
    divisor = "rhs" if row.attrs["combine"] == "div" else "any"
    for window in (True, False) if level == "tile" else (False,):
        yield {"lhs": Array(("M", "N"), dtype, "any", window), "rhs": Array(vector, dtype, divisor)}
    yield {"lhs": Array(("M", "N"), dtype), "rhs": Array(vector, FP32 if dtype is not FP32 else INT32, divisor)}
    yield {"lhs": Array(("B", "M", "N"), dtype), "rhs": Array(("B", *vector), dtype, divisor)}
    yield {"lhs": Array(("B", 2, "M", "N"), dtype), "rhs": Array(("B", 2, *vector), dtype, divisor)}


def whole_expand(row: OpSpec, level: str, dtype: DType) -> Iterator[Arguments]:
    target = Array(("M", "N"), dtype, window=level == "tile")
    if row.name == "expands":
        yield {"target": target, "scalar": Number(dtype)}
        yield {"target": target, "scalar": Number(FP32, 2.5) if dtype.is_float else Number(INDEX, 3)}
        return
    for shape in (("M", "N"), ("M", 1), (1, "N"), ("N",)):
        yield {"src": Array(shape, dtype), "target": target}


def matmul(row: OpSpec, level: str, dtype: DType) -> Iterator[Arguments]:
    """Products in all transpositions and ranks that the row has parameters for."""
    names = set(row.param_names)
    rows = 1 if row.attrs["one_row"] else "M"
    wide = accumulator(dtype)
    for a_trans, b_trans, out_dtype, batch, window in itertools.product(
        (False, True) if "a_trans" in names else (False,),
        (False, True) if "b_trans" in names else (False,),
        STATICS["out_dtype"] if "out_dtype" in names else (None,),
        ((), ("B",), (2, "B")),
        (False, True) if level == "tile" else (False,),
    ):
        left, right = (("K", rows) if a_trans else (rows, "K")), (("N", "K") if b_trans else ("K", "N"))
        args: dict[str, Argument] = {}
        if "acc" in names:
            args["acc"] = Array((*batch, rows, "N"), wide, "finite", window)
        args |= {"lhs": Array((*batch, *left), dtype, "finite", window), "rhs": Array((*batch, *right), dtype, "finite")}
        if "bias" in names:
            args["bias"] = Array((1, "N"), wide, "finite")
        args |= {name: Fixed(value) for name, value in (("a_trans", a_trans), ("b_trans", b_trans), ("out_dtype", out_dtype)) if name in names}
        yield args
        if "init_cond" in names and not batch:
            yield args | {"init_cond": Number(BOOL)}


def mask(row: OpSpec, level: str, dtype: DType) -> Iterator[Arguments]:
    data = Array(("M", "N"), dtype, "any", True)
    if row.name == "cmp_mask":
        for extra in statics(row):
            yield {"lhs": data, "rhs": data} | extra
            yield {"lhs": data, "rhs": Number(dtype)} | extra
        return
    for carrier in (UINT8, INT16, UINT32):
        bits: Argument = Array(("M", 32), carrier, "bits")
        if row.name == "sel":
            yield {"mask": bits, "lhs": data, "rhs": data}
        else:
            yield {"mask": bits, "src": data, "scalar": Number(dtype)}
            yield {"mask": bits, "src": data, "scalar": Number(INDEX, 3)}


FAMILIES = {"elementwise": elementwise, "reduction": reduction, "expand": expand, "matmul": matmul, "mask": mask}
CUSTOM = {"cast": cast, "expand_clone": whole_expand, "expands": whole_expand}
"""Rows whose arguments do not follow from their family."""


UNREACHED = {
    "array": "an on-core array has no boundary to cross: the random programs of tests/fuzz create, write and read them",
    "place": "the block index is a fact about the launch: the random programs of tests/fuzz run several blocks",
    "create_tile": "its content is undefined: there is nothing to compare",
    "effect": "statements that give nothing: tests/frontend/test_effects.py",
    "fifo": "what comes out is what another kernel sent: tests/language/test_fifos.py, tests/ops/small_kernels.py",
    "machine": "facts about the machine without operands: tests/frontend/test_effects.py",
    "address": "numbers that only Ascend looks at: tests/frontend/test_effects.py",
    "mscatter": "it changes a tensor in memory: tests/backends/cpu/test_index.py",
    "composed": "calls of other rows, which are tried: tests/ops/test_composed.py tries every one against NumPy, and the random programs of tests/fuzz",
    "rank": "facts about the group of a rank: tests/ranks runs programs of several ranks on the CPU and the reference",
    "structural": "built by the front end as ops of the dialect; the random programs of tests/fuzz use them",
}
"""Rows, families or `level.row` without a use, and why."""


def all_uses(levels: tuple[str, ...] = ("tensor", "tile", "scalar")) -> Iterator[Use]:
    """The full product: every row, level and dtype that can be tried."""
    for row in ops.table().values():
        for level in levels:
            if level in row.levels:
                for dtype in EXECUTABLE:
                    if dtype in row.dtypes:
                        yield from uses(row, level, dtype)
