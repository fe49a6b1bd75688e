"""A program that applies rows to its parameters and stores the results: one compile for many sizes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Block, SSAValue

from tests.differential.data import NDArray, cells
from tests.differential.plans import Argument, Array, Fixed, Number, Numbers, Use
from tests.differential.shapes import SCALARS, TILE_EXTENTS
from tests.hardware import PLATFORM
from tilejit import ops
from tilejit.dtypes import BOOL, FP64, INDEX, DType
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import Builder, function
from tilejit.tile_ir.program import Program
from tilejit.types.values import BufferType, ScalarType, TileType, ValueType


@dataclass(frozen=True)
class Parameter:
    """A parameter of the built program and the data it gets."""

    name: str
    type: ValueType
    direction: str
    op: str = ""
    role: str = "any"
    symbol: str = ""
    """For a valid extent: which symbol's."""

    def value(self, rng: np.random.Generator, sizes: dict[str, int]) -> Any:
        if self.symbol:
            return min(sizes[self.symbol], TILE_EXTENTS[self.symbol])
        if isinstance(self.type, ScalarType):
            return cells(rng, self.op, self.role, self.type.dtype, (1,))[0]
        assert isinstance(self.type, BufferType)
        shape = tuple(sizes[extent] if isinstance(extent, str) else extent for extent in self.type.shape)
        return cells(rng, self.op, self.role, self.type.dtype, shape)


@dataclass
class Bench:
    """Uses gathered into one program."""

    uses: Sequence[Use]
    params: list[Parameter] = field(default_factory=list[Parameter])
    outputs: dict[str, Use] = field(default_factory=dict[str, Use])

    def __post_init__(self) -> None:
        self._plan: list[tuple[Use, dict[str, Any], list[str]]] = []
        windows: set[str] = set()
        for number, use in enumerate(self.uses):
            names: dict[str, Any] = {}
            for name, arg in use.args:
                if isinstance(arg, Array) or (isinstance(arg, Number) and arg.const is None):
                    names[name] = self._input(f"x{number}_{name}", use, arg)
                if isinstance(arg, Numbers):
                    names[name] = [self._input(f"x{number}_{name}{i}", use, item) for i, item in enumerate(arg.values) if isinstance(item, Number)]
                if isinstance(arg, Array) and arg.window and use.level == "tile":
                    windows |= {extent for extent in arg.shape if isinstance(extent, str)}
            outs = [self._output(f"out{number}_{i}", use, result) for i, result in enumerate(use.results)]
            self._plan.append((use, names, outs))
        for symbol in sorted(windows):
            self.params.append(Parameter(f"valid{symbol}", ScalarType(INDEX), "In", symbol=symbol))
        # A compiled program takes its scalars after its tensors.
        self.params.sort(key=lambda param: isinstance(param.type, ScalarType))

    def _input(self, name: str, use: Use, arg: Array | Number) -> str:
        if isinstance(arg, Array):
            type: ValueType = BufferType(arg.extents(use.level), arg.dtype)
        else:
            type = BufferType((SCALARS,), arg.dtype) if use.level == "scalar" else ScalarType(arg.dtype)
        self.params.append(Parameter(name, type, "In", use.row.name, arg.role))
        return name

    def _output(self, name: str, use: Use, result: ValueType) -> str:
        type = BufferType((SCALARS,), result.dtype) if isinstance(result, ScalarType) else BufferType(result.shape, result.dtype)  # type: ignore[union-attr]
        self.params.append(Parameter(name, type, "Out"))
        self.outputs[name] = use
        return name

    # building -------------------------------------------------------------------------------------------------------------

    def program(self) -> Program:
        op, args = function("main", "incore", [(p.name, p.type, p.direction) for p in self.params])
        self.values = {param.name: arg for param, arg in zip(self.params, args, strict=True)}
        self.builder = Builder(op.body.block)
        for use, names, outs in self._plan:
            if use.level == "scalar":
                self._scalar_loop(use, names, outs)
            else:
                self._apply(use, names, outs)
        self.builder.return_([])
        return Program(ModuleOp([op], {"name": StringAttr("differential")}))

    def _apply(self, use: Use, names: dict[str, Any], outs: list[str]) -> None:
        b = self.builder
        given = {name: self._argument(use, arg, names.get(name)) for name, arg in use.args}
        results = b.apply_typed(use.row, given, use.results)
        for result, out in zip(results, outs, strict=True):
            type = d.type_of(result)
            if isinstance(type, TileType):
                b.store(result, self.values[out], [b.const(0) for _ in type.shape])

    def _argument(self, use: Use, arg: Argument, name: Any) -> Any:
        b = self.builder
        if isinstance(arg, Fixed):
            return arg.value
        if isinstance(arg, Numbers):
            run_time = iter(name or ())
            return [self.values[next(run_time)] if isinstance(value, Number) else b.const(value) for value in arg.values]
        if isinstance(arg, Number):
            return b.const(arg.const, arg.dtype) if arg.const is not None else self.values[name]
        buffer = self.values[name]
        if use.level != "tile":
            return self._value(buffer) if arg.value else buffer
        type = arg.type("tile")
        assert isinstance(type, TileType)
        valid = [
            self.values[f"valid{symbol}"] if arg.window and isinstance(symbol, str) else b.const(int(extent))
            for symbol, extent in zip(arg.shape, type.shape, strict=True)
        ]
        return b.load(buffer, [b.const(0) for _ in type.shape], valid, type)

    def _value(self, buffer: SSAValue) -> SSAValue:
        """The cells of a buffer as an operator's result."""
        table = ops.table()
        dtype = d.shaped_type(buffer).dtype
        if dtype is BOOL:
            return self.builder.apply(table["where"], "tensor", {"condition": buffer, "lhs": buffer, "rhs": buffer})[0]
        if dtype not in table["maximum"].dtypes:
            return self.builder.apply(table["fillpad"], "tensor", {"input": buffer})[0]
        return self.builder.apply(table["maximum"], "tensor", {"lhs": buffer, "rhs": buffer})[0]

    def _scalar_loop(self, use: Use, names: dict[str, Any], outs: list[str]) -> None:
        """Scalars come from arrays, one cell per trip."""
        b = self.builder
        first = next(iter(names.values()))
        body = Block(arg_types=d.ir_types([ScalarType(INDEX)]))
        with b.at(body):
            index: SSAValue = body.args[0]
            given = {name: b.read(self.values[names[name]], [index]) if name in names else self._argument(use, arg, None) for name, arg in use.args}
            for result, out in zip(b.apply_typed(use.row, given, use.results), outs, strict=True):
                b.write(self.values[out], [index], result)
            b.yield_([])
        zero, one = b.const(0), b.const(1)
        b.for_(zero, b.dim(self.values[first], 0), one, [], body, [])

    # data -----------------------------------------------------------------------------------------------------------------

    def arguments(self, seed: int, sizes: dict[str, int]) -> list[Any]:
        rng = np.random.default_rng(seed)
        return [param.value(rng, sizes) for param in self.params]


EXACT = frozenset(
    "add sub mul div sqrt neg abs maximum minimum relu where cast floor ceil round fmod sel sels movement max min copy part_max part_min".split()
)
"""Rows, families and combiners that give every cell bit for bit: nothing rounds, or IEEE says how."""
PRODUCTS = frozenset({"matmul", "mx"})
LOST = {"gelu": lambda info: 2 * float(info.eps), "silu": lambda info: float(info.smallest_subnormal)}
"""What a term loses for each unit of its argument: where 1 + erf(x) cancels, a part of 1; where sigmoid(x) is subnormal, its last bits."""


def tolerance(use: Use, dtype: DType, arguments: dict[str, Any], expected: NDArray) -> NDArray | float:
    """How far two correct backends may differ, absolutely: reordered sums, else units in the last place."""
    weighed = use.row.name == "bincount" and dtype.is_float  # its weights are summed in any order
    if not weighed and (use.row.facts.exact or use.row.name in EXACT or use.row.family in EXACT or use.row.attrs.get("combine") in EXACT):
        return 0.0
    step = ulp(expected, dtype)
    if use.row.family in PRODUCTS or use.row.attrs.get("combine") in ("sum", "prod") or weighed:
        counts = [max(array.shape) for array in arguments.values() if isinstance(array, np.ndarray)]
        count = max(counts, default=1)
        largest = max((float(np.abs(a.astype(np.float64)).max(initial=0)) for a in arguments.values() if isinstance(a, np.ndarray)), default=1.0)
        scale = count * largest * (largest if use.row.family in PRODUCTS else 1.0)
        if use.row.attrs.get("combine") == "prod":
            # Cells that nobody wrote hold anything.
            scale = float(np.abs(np.where(np.isfinite(expected), expected, 0).astype(np.float64)).max(initial=1.0))
        return step + count * _lost_per_term(use, dtype) * scale
    if use.row.name in LOST:
        (cells,) = (array for array in arguments.values() if isinstance(array, np.ndarray | np.generic))
        step = step + LOST[use.row.name](np.finfo(np.float64 if dtype is FP64 else np.float32)) * np.abs(cells.astype(np.float64))
    return step * (4 if dtype.bits >= 32 else 1)


def _lost_per_term(use: Use, dtype: DType) -> float:
    """The part of the sum of its terms' sizes that each term of a sum may cost."""
    if PLATFORM == "cuda" and use.row.family in PRODUCTS and use.dtype.name.startswith("FP8"):
        return 2.0**-15  # what the accumulator of the tensor cores keeps, as docs/cuda.md says
    return 2.0**-53 if dtype is FP64 else 2.0**-24


def ulp(values: NDArray, dtype: DType) -> NDArray:
    """One unit in the last place of each value."""
    import ml_dtypes

    info = ml_dtypes.finfo(dtype.numpy)
    magnitude = np.abs(values.astype(np.float64))
    exponent = np.floor(np.log2(np.where((magnitude > 0) & np.isfinite(magnitude), magnitude, 1.0)))
    smallest = math.log2(float(info.tiny))
    return np.exp2(np.maximum(exponent, smallest) - info.nmant)
