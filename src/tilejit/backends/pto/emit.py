"""Tile IR → PTO text: one function per kernel, level 2, in the subset that both generations of the format read.

Every value gets a tile of its own; rows are padded to 32 bytes, and the valid region says what counts. Dynamic extents and what a kernel
asks about its place become arguments and queries. What PTO has no op for is an error that names the op and its line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.ir import Block, Operation, SSAValue

from tilejit.backends.pto.emit_tiles import TileName, TileWriter, Window, element_name, op_name
from tilejit.dtypes import BOOL, FP32, INDEX, INT32, INT64, DType
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import apply_args, constant_of
from tilejit.tile_ir.program import Program
from tilejit.tile_ir.pto.elements import ELEMENTS
from tilejit.tile_ir.pto.specs import TileSpec
from tilejit.types.values import BufferType, ScalarType, TileType

_BINARY = {"add": "tadd", "sub": "tsub", "mul": "tmul", "div": "tdiv", "maximum": "tmax", "minimum": "tmin", "and_": "tand", "or_": "tor"}
_UNARY = {"exp": "texp", "log": "tlog", "sqrt": "tsqrt", "rsqrt": "trsqrt", "recip": "trecip", "neg": "tneg", "abs": "tabs", "relu": "trelu"}
_ROW = {f"row_{name}": f"trow{name}" for name in ("sum", "max", "min", "prod")}
_COLUMN = {f"col_{name}": f"tcol{name}" for name in ("sum", "max", "min", "prod")}
_SUFFIXES = ("add", "sub", "mul", "div", "max", "min", "expdif")
_EXPAND = {f"{axis}_expand_{name}": f"t{axis}expand{name}" for axis in ("row", "col") for name in _SUFFIXES}
_SCALAR = {"add": "add", "sub": "sub", "mul": "mul"}
_COMPARE = ("eq", "ne", "slt", "sle", "sgt", "sge")
_MODES = {"none": "RINT", "rint": "RINT", "round": "ROUND", "floor": "FLOOR", "ceil": "CEIL", "trunc": "TRUNC"}
"""Rounding modes; `odd` means another rounding in PTO, whose conversions between floats only round to nearest."""


def emit_program(program: Program, arch: str) -> dict[str, str]:
    """The text of every kernel of a lowered program, by name."""
    kernels = [function for function in program.functions.values() if function.static("kind") == "incore"]
    return {function.symbol: KernelWriter(function, arch).text() for function in kernels}


class KernelWriter(TileWriter):
    """Writes one kernel function."""

    def text(self) -> str:
        """The whole module."""
        arguments = self._parameters()
        self._block(self.function.body.block)
        self.line("return")
        head = f'module attributes {{pto.target_arch = "{"a5" if self.arch == "a5" else "a3"}"}} {{\n  func.func @{self.function.symbol}({arguments}) {{\n'
        return head + "\n".join(self.lines) + "\n  }\n}\n"

    # ops ------------------------------------------------------------------------------------------------------------------------

    def _block(self, block: Block) -> list[SSAValue]:
        for op in block.ops:
            if isinstance(op, d.YieldOp | d.ReturnOp):
                return list(op.operands)
            writer = _WRITERS.get(type(op))
            if writer is None:
                raise self.refuse(op, op_name(op))
            writer(self, op)
        return []

    def const(self, op: d.ConstOp) -> None:
        type, value = d.type_of(op.result), op.static("value")
        assert isinstance(type, ScalarType)
        written = f"{float(value):.9e}" if type.dtype.is_float else ("true" if value else "false") if type.dtype is BOOL else str(value)  # type: ignore[arg-type]
        suffix = "" if type.dtype is BOOL else f" : {element_name(type.dtype)}"
        self.values[op.result] = self.define(f"arith.constant {written}{suffix}")

    def _slice(self, op: d.LoadOp | d.StoreOp, shape: Sequence[int]) -> tuple[str, str]:
        window = self.values.get(op.buffer)
        if not isinstance(window, Window):
            raise self.refuse(op, "a tensor that is no parameter")
        return self._part(window, [self.scalar(value, op) for value in op.offsets], shape)

    def load(self, op: d.LoadOp, loc: str = "vec") -> TileName:
        type = d.type_of(op.result)
        assert isinstance(type, TileType)
        if op.static("clamp") or any(constant_of(value) != size for value, size in zip(op.valid, type.shape)):
            raise self.refuse(op, "a load of a part of a tile")
        target = self.tile(type, op, loc)
        self.dest("tload", [self._slice(op, [dim for dim in type.shape if isinstance(dim, int)])], target)
        self.values[op.result] = target
        return target

    def store(self, op: d.StoreOp) -> None:
        tile = self.values.get(op.value)
        type = d.type_of(op.value)
        window = self.values.get(op.buffer)
        if not isinstance(tile, TileName) or not isinstance(type, TileType) or not isinstance(window, Window):
            raise self.refuse(op, "a store of this value")
        if tile.spec.loc == "vec" and window.dtype is not type.dtype:
            raise self.refuse(op, "a store that converts")
        slice, slice_type = self._slice(op, [dim for dim in type.shape if isinstance(dim, int)])
        tail = " {atomicType = #pto<atomic_type atomic_add>}" if op.static("atomic") else ""
        self.line(f"pto.tstore ins({tile.name} : {tile.type}) outs({slice} : {slice_type}){tail}")

    def apply(self, op: d.ApplyOp) -> None:
        result = d.type_of(op.results[0])
        if isinstance(result, ScalarType):
            self.values[op.results[0]] = self._scalar_op(op, result.dtype)
            return
        assert isinstance(result, TileType)
        args = apply_args(op)
        if op.op in ("matmul", "matmul_acc"):
            self._matmul(op, args, result)
        elif op.op in _BINARY:
            self._binary(op, args, result)
        elif op.op in _UNARY:
            source = self.vec(args["input"], op)  # type: ignore[arg-type]
            self._into(op, result, lambda out: self.dest(_UNARY[op.op], [source], out), source)
        elif op.op in _EXPAND:
            operands = [self.vec(args["lhs"], op), self.vec(args["rhs"], op)]  # type: ignore[arg-type]
            self._into(op, result, lambda out: self.dest(_EXPAND[op.op], operands, out), operands[0])
        elif op.op in _ROW or op.op in _COLUMN:
            source = self.vec(args["input"], op)  # type: ignore[arg-type]
            scratch = [self.alloc(source.spec)] if op.op in _ROW else []
            self._into(op, result, lambda out: self.dest((_ROW | _COLUMN)[op.op], [source, *scratch], out))
        elif op.op == "cast":
            source = self.vec(args["input"], op)  # type: ignore[arg-type]
            mode = _MODES.get(str(args["mode"]), "")
            if not mode or (source.spec.element.is_float and result.dtype.is_float and mode not in ("RINT", "ROUND")):
                raise self.refuse(op, f"a cast with mode {args['mode']!r}")
            if source.spec.element.bytes != ELEMENTS[element_name(result.dtype)].bytes:
                out = self.alloc(TileSpec("vec", ELEMENTS[element_name(result.dtype)], *source.spec.shape, source.spec.valid, source.spec.blayout))
                self.values[op.results[0]] = out
            else:
                out = self.tile(result, op)
                self.values[op.results[0]] = out
            self.dest("tcvt", [source], out, f" {{rmode = #pto<round_mode {mode}>}}")
        elif op.op == "full" and isinstance(args["value"], SSAValue):
            value = self.scalar(args["value"], op)
            self._into(op, result, lambda out: self.dest("texpands", [(value, element_name(result.dtype))], out))
        elif op.op == "tanh" and result.dtype is FP32:
            self._tanh(op, self.vec(args["input"], op), result)  # type: ignore[arg-type]
        elif op.op == "transpose" and len(result.shape) == 2:
            source = self.vec(args["input"], op)  # type: ignore[arg-type]
            self._into(op, result, lambda out: self.dest("ttrans", [source, self.alloc(source.spec)], out))
        elif op.op == "create_tile":
            self.values[op.results[0]] = self.tile(result, op)
        else:
            raise self.refuse(op, op_name(op))

    def _into(self, op: d.ApplyOp, type: TileType, write: Callable[[TileName], None], like: TileName | None = None) -> None:
        """A new tile for the result; padded like an operand, because some ops want one shape."""
        if like is not None and like.spec.valid == ((1, *type.shape) if len(type.shape) == 1 else type.shape):
            out = self.alloc(TileSpec("vec", ELEMENTS[element_name(type.dtype)], *like.spec.shape, like.spec.valid, like.spec.blayout))
        else:
            out = self.tile(type, op)
        self.values[op.results[0]] = out
        write(out)

    def _binary(self, op: d.ApplyOp, args: dict[str, object], result: TileType) -> None:
        sides = [args["lhs"], args["rhs"]]
        tiles = [isinstance(self.values.get(side), TileName | Window) for side in sides]  # type: ignore[arg-type]
        for side in sides:
            type = d.type_of(side)  # type: ignore[arg-type]
            if isinstance(type, TileType | BufferType) and (type.shape != result.shape or type.dtype is not result.dtype):
                raise self.refuse(op, f"{op_name(op)} of different shapes or types")
        if all(tiles):
            operands: list[TileName | tuple[str, str]] = [self.vec(side, op) for side in sides]  # type: ignore[arg-type]
            name = _BINARY[op.op]
        else:
            if not tiles[0] and op.op in ("sub", "and_", "or_"):
                raise self.refuse(op, f"{op_name(op)} with a scalar on the left")
            element = element_name(result.dtype)
            operands = [self.vec(side, op) if is_tile else (self._as(side, result.dtype, op), element) for side, is_tile in zip(sides, tiles)]  # type: ignore[arg-type]
            if not tiles[0] and op.op != "div":
                operands.reverse()
            name = _BINARY[op.op] + "s"
        self._into(op, result, lambda out: self.dest(name, operands, out), next(item for item in operands if isinstance(item, TileName)))

    def _as(self, value: SSAValue, dtype: DType, op: Operation) -> str:
        """A scalar operand in the element type of the tile."""
        type = d.type_of(value)
        assert isinstance(type, ScalarType)
        known = constant_of(value)
        if type.dtype is dtype:
            return self.scalar(value, op)
        if known is not None:
            written = f"{float(known):.9e}" if dtype.is_float else str(int(known))
            return self.define(f"arith.constant {written} : {element_name(dtype)}")
        raise self.refuse(op, f"a scalar of type {type.dtype} with a tile of {dtype}")

    def _matmul(self, op: d.ApplyOp, args: dict[str, object], result: TileType) -> None:
        """Operands are loaded anew into the memories of the cube core; only loaded tiles can get there."""
        if args.get("init_cond") is not None:
            raise self.refuse(op, "a product with a condition")
        parts: list[TileName] = []
        for name, loc, turn in (("lhs", "left", args.get("a_trans")), ("rhs", "right", args.get("b_trans"))):
            value = args[name]
            assert isinstance(value, SSAValue)
            shape = d.shaped_type(value).shape
            type = TileType(shape[::-1] if turn else shape, d.shaped_type(value).dtype, shape[::-1] if turn else shape)
            staged = self._staged(value, type, bool(turn), op)
            moved = self.tile(type, op, loc)
            self.dest("tmov", [staged], moved)
            parts.append(moved)
        out = self.tile(result, op, "acc")
        base = self.values.get(args["acc"]) if op.op == "matmul_acc" else None  # type: ignore[arg-type]
        self.values[op.results[0]] = out
        if isinstance(base, TileName) and base.spec.loc == "acc":
            self.dest("tmatmul.acc", [base, *parts], out)
            return
        self.dest("tmatmul", parts, out)
        if base is not None:
            # Nothing leads back into the accumulator: the vector core adds.
            first, second = self.vec(args["acc"], op), self.vec(op.results[0], op)  # type: ignore[arg-type]
            self._into(op, result, lambda total: self.dest("tadd", [first, second], total), first)

    def _staged(self, value: SSAValue, type: TileType, turn: bool, op: Operation) -> TileName:
        """An operand of a product in the mat memory: a loaded tile loaded once more, or a whole tensor."""
        known = self.values.get(value)
        if isinstance(known, Window):
            window = self._turned(known, op) if turn else known
            target = self.tile(type, op, "mat")
            sizes = [dim for dim in type.shape if isinstance(dim, int)]
            self.dest("tload", [self._part(window, [self.index(0) for _ in sizes], sizes)], target)
            return target
        if not isinstance(value.owner, d.LoadOp) or turn:
            raise self.refuse(op, "a product of computed tiles")
        staged = self.load(value.owner, "mat")
        if known is not None:
            self.values[value] = known
        return staged

    def _tanh(self, op: d.ApplyOp, source: TileName, result: TileType) -> None:
        """1 - 2 / (exp(2 x) + 1): PTO has no op of its own."""
        element = element_name(result.dtype)
        one, two, minus = (self.define(f"arith.constant {value} : {element}") for value in ("1.000000e+00", "2.000000e+00", "-1.000000e+00"))
        out = self.tile(result, op)
        self.values[op.results[0]] = out
        self.dest("tmuls", [source, (two, element)], out)
        self.dest("texp", [out], out)
        self.dest("tadds", [out, (one, element)], out)
        self.dest("tdivs", [(two, element), out], out)
        self.dest("tmuls", [out, (minus, element)], out)
        self.dest("tadds", [out, (one, element)], out)

    def _scalar_op(self, op: d.ApplyOp, dtype: DType) -> str:
        if op.op in ("get_block_idx", "get_block_num"):
            place = self.define(f"pto.{op.op}")
            return self.define(f"arith.index_cast {place} : i64 to index") if dtype is INDEX else place
        args = apply_args(op)
        operands = [value for value in args.values() if isinstance(value, SSAValue)]
        names = [self.scalar(value, op) for value in operands]
        types = [t.dtype for value in operands if isinstance(t := d.type_of(value), ScalarType)]
        if op.op in _SCALAR and all(t is dtype for t in types):
            return self.define(f"arith.{_SCALAR[op.op]}{'f' if dtype.is_float else 'i'} {', '.join(names)} : {element_name(dtype)}")
        if op.op == "floordiv" and all(t is dtype and not t.is_float for t in types):
            return self.define(f"arith.floordivsi {', '.join(names)} : {element_name(dtype)}")
        if op.op in ("minimum", "maximum") and all(t is dtype and not t.is_float for t in types):
            return self.define(f"arith.{op.op[:3]}si {', '.join(names)} : {element_name(dtype)}")
        if op.op == "cmp" and isinstance(kind := args["cmp_type"], int) and all(t in (INDEX, INT32, INT64) and t is types[0] for t in types):
            return self.define(f"arith.cmpi {_COMPARE[kind]}, {', '.join(names)} : {element_name(types[0])}")
        if op.op == "cast" and {types[0], dtype} <= {INDEX, INT32, INT64} and INDEX in (types[0], dtype):
            return self.define(f"arith.index_cast {names[0]} : {element_name(types[0])} to {element_name(dtype)}")
        if op.op == "cast" and types[0] in (INT32, INT64) and dtype is FP32:
            return self.define(f"arith.sitofp {names[0]} : {element_name(types[0])} to f32")
        raise self.refuse(op, f"the scalar op {op_name(op)}")

    # control flow ---------------------------------------------------------------------------------------------------------------

    def _slots(self, op: Operation, results: Sequence[SSAValue]) -> list[TileName]:
        """A tile for every value that crosses the border of a loop or branch."""
        out: list[TileName] = []
        for result in results:
            type = d.type_of(result)
            if not isinstance(type, TileType):
                raise self.refuse(op, "a scalar or tensor carried by a loop or branch")
            out.append(self.tile(type, op))
        return out

    def _settle(self, op: Operation, values: Sequence[SSAValue], slots: Sequence[TileName]) -> None:
        """Move values into the slots; copies first, because a slot may be a source too."""
        copies: list[TileName] = []
        for value, slot in zip(values, slots):
            copy = self.alloc(slot.spec) if len(slots) > 1 else slot
            source = self.vec(value, op)
            if source.name != copy.name:
                self.dest("tmov", [source], copy)
            copies.append(copy)
        for copy, slot in zip(copies, slots):
            if copy.name != slot.name:
                self.dest("tmov", [copy], slot)

    def for_(self, op: d.ForOp) -> None:
        slots = self._slots(op, op.results)
        self._settle(op, op.inits, slots)
        bounds = [self.scalar(value, op) for value in (op.lower, op.upper, op.step)]
        variable = self.fresh()
        self.line(f"scf.for {variable} = {bounds[0]} to {bounds[1]} step {bounds[2]} {{")
        self.values[op.body.block.args[0]] = variable
        self.values.update(zip(op.body.block.args[1:], slots))
        self.indent += 1
        self._settle(op, self._block(op.body.block), slots)
        self.indent -= 1
        self.line("}")
        self.values.update(zip(op.results, slots))

    def if_(self, op: d.IfOp) -> None:
        slots = self._slots(op, op.results)
        self.line(f"scf.if {self.scalar(op.condition, op)} {{")
        for number, region in enumerate((op.then, op.orelse)):
            self.indent += 1
            self._settle(op, self._block(region.block), slots)
            self.indent -= 1
            self.line("} else {" if number == 0 else "}")
        self.values.update(zip(op.results, slots))

    def window(self, op: d.WindowOp) -> None:
        source = self.values.get(op.buffer)
        if not isinstance(source, Window) or op.static("drop") or op.static("clamp") or len(op.offsets) != 2:
            raise self.refuse(op, "this part of a tensor")
        offsets = [self.scalar(value, op) for value in op.offsets]
        origin = tuple(self.define(f"arith.addi {a}, {b} : index") for a, b in zip(source.origin, offsets)) if source.origin else tuple(offsets)
        shape = tuple(self.scalar(value, op) for value in op.extents)
        self.values[op.result] = Window(source.pointer, source.view, shape, source.dtype, origin)

    def dim(self, op: d.DimOp) -> None:
        window, axis = self.values.get(op.source), op.static("axis")
        if not isinstance(window, Window) or not isinstance(axis, int):
            raise self.refuse(op, "the extent of this value")
        self.values[op.result] = window.shape[axis - len(d.shaped_type(op.source).shape)]


_WRITERS: dict[type, Callable[..., object]] = {
    d.ConstOp: KernelWriter.const,
    d.LoadOp: KernelWriter.load,
    d.StoreOp: KernelWriter.store,
    d.ApplyOp: KernelWriter.apply,
    d.ForOp: KernelWriter.for_,
    d.IfOp: KernelWriter.if_,
    d.DimOp: KernelWriter.dim,
    d.WindowOp: KernelWriter.window,
}
