"""Complex values as pairs of real ones, so that a target has COMPLEX64 as soon as it has FP32.

A buffer of complex elements stays a handle. Where its elements are read or written it is seen as FP32 with one more dim of extent 2, and
its real and imaginary parts are windows of that. A value becomes two values, an operator on it the operators of its formula.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace as with_fields

from xdsl.ir import Block, Operation, SSAValue

from tilejit.dtypes import COMPLEX64, FP32
from tilejit.errors import UnsupportedFeatureError
from tilejit.ops import table
from tilejit.ops.complex import FORMULAS
from tilejit.ops.spec import OpSpec
from tilejit.passes.rewriting import Before, remove, replace
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import Builder, apply_args
from tilejit.tile_ir.program import Program
from tilejit.types.values import BufferType, ScalarType, ShapedType, TileType, ValueType

Pair = tuple[SSAValue, SSAValue]
_REGIONS = (d.ForOp, d.WhileOp, d.IfOp, d.RegionOp, d.GroupOp)
_HANDLES = (d.CreateOp, d.WindowOp, d.ViewOp, d.StridedOp, d.PeerOp, d.CommOp, d.DimOp, d.CallOp, d.LaunchOp, d.ReturnOp)
"""Ops that say where elements are, or hand them on, and look at none."""


def split_complex(program: Program) -> None:
    """Take the complex values of a program apart."""
    for function in program.functions.values():
        if any(_is_complex(value) for op in function.walk() for value in (*op.results, *op.operands)):
            splitter = _Splitter()
            splitter.parameters(function)
            splitter.block(function.body.block)


def _is_complex(value: SSAValue) -> bool:
    type = d.type_of(value)
    return isinstance(type, ScalarType | ShapedType) and type.dtype is COMPLEX64


def _is_handle(value: SSAValue) -> bool:
    return isinstance(d.type_of(value), BufferType)


def _real(type: ValueType) -> ValueType:
    """The type of one part."""
    assert isinstance(type, ScalarType | BufferType | TileType)
    return with_fields(type, dtype=FP32)


class _Splitter:
    """One function: which pair stands for each complex value."""

    def __init__(self) -> None:
        self.pairs: dict[SSAValue, Pair] = {}
        self.parts: dict[tuple[Block | None, SSAValue, int | None], SSAValue] = {}
        """The parts of buffers that ops of a block have asked for, and the buffers as FP32: once each, so that others see what lies side by side."""
        self.within: Block | None = None

    def block(self, block: Block) -> None:
        gone: list[Operation] = []
        for op in list(block.ops):
            for region in op.regions:
                for inner in region.blocks:
                    self.arguments(inner)
                    self.block(inner)
            if self.op(op):
                gone.append(op)
        for op in reversed(gone):
            remove(op)
        for argument in [argument for argument in block.args if argument in self.pairs]:
            block.erase_arg(argument)

    def parameters(self, function: d.FuncOp) -> None:
        """Two parameters for each complex number that a kernel is given."""
        names: list[str] = []
        directions: list[str] = []
        for param, argument in zip(function.params, list(function.body.block.args), strict=True):
            split = _is_complex(argument) and not _is_handle(argument)
            names += [f"{param.name}_re", f"{param.name}_im"] if split else [param.name]
            directions += [param.direction] * (1 + split)
        self.arguments(function.body.block)
        function.attributes.update(d.statics({"params": tuple(names), "directions": tuple(directions)}))

    def arguments(self, block: Block) -> None:
        """Two arguments in the place of each complex one, which goes when the block is done."""
        for argument in list(block.args):
            if _is_complex(argument) and not _is_handle(argument):
                type = d.IRType(_real(d.type_of(argument)))
                made = [block.insert_arg(type, argument.index + 1 + part) for part in range(2)]
                for part in made:
                    part.name_hint = argument.name_hint
                self.pairs[argument] = (made[0], made[1])

    def op(self, op: Operation) -> bool:
        """Rewrite an op; whether it is to be removed."""
        if not any(_is_complex(value) for value in (*op.operands, *op.results)) or (isinstance(op, _HANDLES) and all(map(_is_handle, _complex_ones(op)))):
            return False
        b, self.within = Before(op), op.parent
        if isinstance(op, d.DimOp | d.ValidOp):
            op.operands[0] = self.pairs[op.operands[0]][0]
            return False
        if isinstance(op, d.LaunchOp):
            b.launch(op.callee.data, self.flat(op.args), op.blocks)
            return True
        if isinstance(op, d.YieldOp | d.ConditionOp):
            op.operands = self.flat(op.operands)
            return False
        if isinstance(op, _REGIONS):
            return self.around(b, op)
        if isinstance(op, d.ApplyOp):
            return self.apply(b, op)
        if isinstance(op, d.LoadOp):
            type = _real(d.type_of(op.result))
            assert isinstance(type, TileType)
            offsets, valid, clamp = list(op.offsets), list(op.valid), bool(op.static("clamp"))
            self.pairs[op.result] = both(lambda part: b.load(self.part(b, op.buffer, part), offsets, valid, type, clamp))
        elif isinstance(op, d.StoreOp):
            for part, value in enumerate(self.pair(b, op.value)):
                b.store(value, self.part(b, op.buffer, part), list(op.offsets), bool(op.static("atomic")))
        elif isinstance(op, d.ReadOp):
            source = self.pair(b, op.source)
            self.pairs[op.result] = both(lambda part: b.read(source[part], list(op.indices)))
        elif isinstance(op, d.WriteOp):
            for part, value in enumerate(self.pair(b, op.value)):
                b.write(self.part(b, op.buffer, part), list(op.indices), value)
        elif isinstance(op, d.EffectOp) and op.op in table() and table()[op.op].facts.writes is not None:
            args = apply_args(op)
            for part in range(2):
                b.perform(table()[op.op], "tensor", self.of_part(b, table()[op.op], args, part))
        else:
            raise _refused(b, op.op if isinstance(op, d.EffectOp) else op.name.removeprefix("tile."))
        return True

    def flat(self, values: Sequence[SSAValue]) -> list[SSAValue]:
        return [part for value in values for part in self.pairs.get(value, (value,))]

    def around(self, b: Before, op: Operation) -> bool:
        """A loop, branch or region that carries complex values or hands them out."""
        types = [(d.type_of(result), not _is_handle(result) and _is_complex(result)) for result in op.results]
        flat = [part for type, split in types for part in ((_real(type), _real(type)) if split else (type,))]
        regions = [op.detach_region(region) for region in list(op.regions)]
        new = op.__class__.create(operands=self.flat(op.operands), result_types=d.ir_types(flat), attributes=dict(op.attributes), regions=regions)
        b.insert(new)
        made = iter(new.results)
        for result, (_, split) in zip(op.results, types, strict=True):
            if split:
                self.pairs[result] = (next(made), next(made))
            else:
                result.replace_all_uses_with(next(made))
        return True

    # memory ---------------------------------------------------------------------------------------------------------------

    def once(self, buffer: SSAValue, part: int | None, make: Callable[[], SSAValue]) -> SSAValue:
        key = (self.within, buffer, part)
        if key not in self.parts:
            self.parts[key] = make()
        return self.parts[key]

    def whole(self, b: Builder, buffer: SSAValue) -> SSAValue:
        """A complex buffer as one of FP32, with one more dim."""
        return self.once(buffer, None, lambda: self.seen_whole(b, buffer))

    def seen_whole(self, b: Builder, buffer: SSAValue) -> SSAValue:
        type, owner = d.shaped_type(buffer), buffer.owner
        wide = BufferType((*type.shape, 2), FP32)
        if isinstance(owner, d.WindowOp):
            drop, clamp = owner.drop, bool(owner.static("clamp"))
            return b.window(self.whole(b, owner.buffer), [*owner.offsets, b.const(0)], [*owner.extents, b.const(2)], wide, drop, clamp)
        if isinstance(owner, d.ViewOp) and d.shaped_type(owner.buffer).dtype is COMPLEX64:
            return b.view(self.whole(b, owner.buffer), list(owner.extents), wide)
        dynamic = [b.dim(buffer, axis) for axis, extent in enumerate(type.shape) if not isinstance(extent, int)]
        return b.view(buffer, dynamic, wide)

    def part(self, b: Builder, buffer: SSAValue, part: int) -> SSAValue:
        """The real or imaginary parts of a buffer, as a buffer."""
        type = d.shaped_type(buffer)

        def window() -> SSAValue:
            extents = [b.dim(buffer, axis) for axis in range(type.rank)]
            offsets = [b.const(0) for _ in extents]
            return b.window(self.whole(b, buffer), [*offsets, b.const(part)], [*extents, b.const(1)], BufferType(type.shape, FP32), (type.rank,))

        return self.once(buffer, part, window)

    # values ---------------------------------------------------------------------------------------------------------------

    def pair(self, b: Builder, value: SSAValue) -> Pair:
        """The parts of a value; of a real one the imaginary part is 0."""
        if value in self.pairs:
            return self.pairs[value]
        if _is_complex(value):
            return both(lambda part: self.part(b, value, part))
        return as_float(b, value), zero_like(b, value)

    def of_part(self, b: Builder, row: OpSpec, args: Mapping[str, object], part: int) -> dict[str, object]:
        """Arguments with one part in the place of each complex one, and of each real one that becomes an element."""

        def chosen(name: str, arg: object) -> object:
            if isinstance(arg, SSAValue):
                return self.pair(b, arg)[part] if _is_complex(arg) or _becomes_elements(row, name) else arg
            return FP32 if arg is COMPLEX64 else arg

        return {name: chosen(name, arg) for name, arg in args.items()}

    def apply(self, b: Before, op: d.ApplyOp) -> bool:
        args, row, result = apply_args(op), table()[op.op], op.results[0]
        hint, b.hint = op.hint, None
        formula = FORMULAS.get(op.op)
        if formula is not None:
            values = [self.pair(b, arg) for arg in args.values() if isinstance(arg, SSAValue)]
            made = formula(_Parts(b, {name: arg for name, arg in args.items() if not isinstance(arg, SSAValue)}), *values)
        elif len(op.results) == 1 and not row.facts.of_bytes and row.facts.fifo is None:
            level = _level(op)
            made = both(lambda part: b.apply(row, level, self.of_part(b, row, args, part))[0])
        else:
            raise _refused(b, row.title)
        b.hint = hint
        if isinstance(made, SSAValue):
            replace(op, [made])
            return False
        self.pairs[result] = made
        return True


def _refused(b: Builder, what: str) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(f"{what} of complex numbers is not compiled", span=b.span, help="use pl.real(x) and pl.imag(x), or platform='reference'")


def _complex_ones(op: Operation) -> list[SSAValue]:
    return [value for value in (*op.operands, *op.results) if _is_complex(value)]


def _becomes_elements(row: OpSpec, name: str) -> bool:
    """Whether a number or array becomes elements of the result, and does not only say which."""
    keep = row.attrs.get("keep", ())
    return name not in keep if row.family == "elementwise" else name in ("value", "scalar")


def _level(op: d.ApplyOp) -> str:
    type = d.type_of(op.results[0])
    return type.level if isinstance(type, ShapedType) else "scalar"


# the kit of formulas --------------------------------------------------------------------------------------------------


def both(make: Callable[[int], SSAValue]) -> Pair:
    return make(0), make(1)


class _Parts:
    """What formulas of complex rows are written with (ops/complex.py)."""

    def __init__(self, builder: Builder, statics: Mapping[str, object]) -> None:
        self.b, self.statics = builder, statics

    def __call__(self, name: str, *args: SSAValue | float | int, **statics: object) -> SSAValue:
        row = table()[name]
        values = [self.b.const(arg) if isinstance(arg, float) else arg for arg in args]
        types = [d.type_of(value) for value in values if isinstance(value, SSAValue)]
        levels = {type.level for type in types if isinstance(type, ShapedType)}
        level = "tile" if "tile" in levels else "tensor" if levels else "scalar"
        return self.b.apply(row, level, {**dict(zip(row.param_names, values, strict=False)), **statics})[0]

    def product(self, name: str, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        """A matrix product with the options of the complex one."""
        return self(name, lhs, rhs, **{key: FP32 if value is COMPLEX64 else value for key, value in self.statics.items()})

    def same(self, lhs: SSAValue, rhs: SSAValue | float) -> SSAValue:
        """Whether two values are equal, for every element."""
        return self("compare" if isinstance(d.type_of(lhs), ShapedType) else "cmp", lhs, rhs, cmp_type=0)

    def kept(self, value: SSAValue) -> SSAValue:
        """A value of its own: what is in memory may change."""
        return self.b.copy(value) if _is_handle(value) else value

    def spread(self, value: SSAValue, over: SSAValue) -> SSAValue:
        """A value with the shape that it has next to another one."""
        other, own = d.type_of(over), d.type_of(value)
        if not isinstance(other, ShapedType) or (isinstance(own, ShapedType) and own.shape == other.shape and own.valid == other.valid == own.shape):
            return self.kept(value)
        return self("add", value, zero_like(self.b, over))


def as_float(b: Builder, value: SSAValue) -> SSAValue:
    """A real value as FP32."""
    type = d.type_of(value)
    assert isinstance(type, ScalarType | BufferType | TileType)
    return value if type.dtype is FP32 else _Parts(b, {})("cast", value, target_type=FP32, mode="rint" if isinstance(type, ShapedType) else "round")


def zero_like(b: Builder, value: SSAValue) -> SSAValue:
    """0 for every element of a value, valid where it is."""
    if not isinstance(type := d.type_of(value), ShapedType):
        return b.const(0.0)
    return b.apply(table()["expands"], type.level, {"target": as_float(b, value), "scalar": b.const(0.0)})[0]
