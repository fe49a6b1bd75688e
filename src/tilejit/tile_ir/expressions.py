"""Values as Python expressions: literals, infix scalars with the parentheses they need, calls."""

from __future__ import annotations

import re
from collections.abc import Callable

from xdsl.ir import Operation, SSAValue

from tilejit import ops
from tilejit.dtypes import BOOL, FP32, INDEX
from tilejit.errors import InternalError
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import apply_args, constant_of
from tilejit.tile_ir.equal import asks_place
from tilejit.tile_ir.spelling import argument_text, call_text, static_text
from tilejit.types.values import BufferType, ScalarType, TileType

# Binding strength of Python's operators.
_OR, _AND, _NOT, _COMPARE, _BITOR, _XOR, _BITAND, _SHIFT, _SUM, _PRODUCT, _UNARY, _POWER, _ATOM = range(13)

_BINARY: dict[str, tuple[str, int]] = {
    "Add": ("+", _SUM),
    "Sub": ("-", _SUM),
    "Mult": ("*", _PRODUCT),
    "Div": ("/", _PRODUCT),
    "FloorDiv": ("//", _PRODUCT),
    "Mod": ("%", _PRODUCT),
    "Pow": ("**", _POWER),
    "LShift": ("<<", _SHIFT),
    "RShift": (">>", _SHIFT),
    "BitAnd": ("&", _BITAND),
    "BitOr": ("|", _BITOR),
    "BitXor": ("^", _XOR),
}
"""Sign and strength of the operators between two operands, by the class of Python's `ast`."""
_WORDS = {"&": ("and", _AND), "|": ("or", _OR)}
"""The same between flags, where the second one cannot fail: a word would keep it from being computed."""
_MAY_FAIL = re.compile(r"[/%\[]|\w\(")
"""A text with a division, a subscript or a call in it."""
_COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")
_DEEPEST = 12
"""Operators nested in one expression before one of them gets a name of its own."""


def inline_ops(function: d.FuncOp) -> set[Operation]:
    """Ops that are written where they are used: constants, extents, and scalars used once in the same block."""
    depth: dict[Operation, int] = {}
    for op in function.walk():
        below = max((depth.get(operand.owner, 0) for operand in op.operands if isinstance(operand.owner, Operation)), default=0)
        if _in_condition(op):
            depth[op] = below + 1  # The condition of a while loop is one expression, however deep.
        elif isinstance(op, d.ConstOp | d.DimOp | d.ValidOp):
            depth[op] = 0
        elif _is_scalar(op) and below < _DEEPEST:
            uses = list(op.results[0].uses)
            if len(uses) == 1 and uses[0].operation.parent is op.parent:
                depth[op] = below + 1
    return set(depth)


def _in_condition(op: Operation) -> bool:
    parent = op.parent_op()
    return isinstance(parent, d.WhileOp) and op.parent is parent.before.block and not isinstance(op, d.ConditionOp)


def _is_scalar(op: Operation) -> bool:
    if not isinstance(op, d.ApplyOp) or len(op.results) != 1:
        return False
    scalars = all(isinstance(d.type_of(value), ScalarType) for value in [*op.operands, *op.results])
    return scalars and not asks_place(op)


def _truncates(op: d.ApplyOp) -> bool:
    """Whether a division is one of integers, for which `/` stands between tensors and tiles only."""
    return op.op == "div" and d.type_of(op.results[0]).dtype.is_integer


class Expressions:
    """Writes values as expressions; `named` gives the name of those that have one."""

    def __init__(self, prefix: str, named: Callable[[SSAValue], str | None]) -> None:
        self.prefix = prefix
        self.named = named

    def text(self, value: SSAValue, strength: int = 0) -> str:
        """The value as an expression that binds at least as strongly as `strength`."""
        name = self.named(value)
        if name is not None:
            return name
        if not isinstance(value.owner, Operation):
            raise InternalError("a block argument was used outside its block")
        text, own = self._operation(value.owner)
        return f"({text})" if own < strength else text

    def of(self, op: Operation) -> str:
        """The right-hand side of the statement that makes the results of `op`."""
        return self._operation(op)[0]

    def _operation(self, op: Operation) -> tuple[str, int]:
        if isinstance(op, d.ApplyOp):
            return self._apply(op)
        text = _FORMS[type(op)](self, op)
        return text, _UNARY if text.startswith("-") else _ATOM

    def _list(self, values: object) -> str:
        return argument_text(list(values), self.prefix, self.text)  # type: ignore[call-overload]

    # ops of the table -------------------------------------------------------------------------------------------------------

    def _apply(self, op: d.ApplyOp) -> tuple[str, int]:
        args = apply_args(op)
        scalars = all(isinstance(d.type_of(operand), ScalarType) for operand in op.operands)
        row = ops.table()[op.op]
        infix = (scalars and not _truncates(op)) or not row.spellings  # some rows only operators spell
        if infix and row.facts.operator in _BINARY and not any(isinstance(value, bool) and value for value in args.values()):
            return self._binary(op, *_BINARY[row.facts.operator])
        if scalars and op.op == "cmp":
            sign = _COMPARISONS[int(args["cmp_type"])]  # type: ignore[call-overload]
            left, right = op.operands
            return f"{self.text(left, _COMPARE + 1)} {sign} {self.text(right, _COMPARE + 1)}", _COMPARE
        if scalars and op.op == "neg":
            return f"-{self.text(op.operands[0], _UNARY)}", _UNARY
        if scalars and op.op == "not_":
            flag = d.type_of(op.results[0]) == ScalarType(BOOL)
            return (f"not {self.text(op.operands[0], _NOT)}", _NOT) if flag else (f"~{self.text(op.operands[0], _UNARY)}", _UNARY)
        short = next((spelling.name for spelling in row.spellings if spelling.scalar_only == row.operands), None) if row.operands else None
        if scalars and short is not None:
            return f"{self.prefix}.{short}({', '.join(self.text(operand) for operand in op.operands)})", _ATOM
        return call_text(op, self.prefix, self.text), _ATOM

    def _binary(self, op: d.ApplyOp, sign: str, strength: int) -> tuple[str, int]:
        left, right = op.operands
        flags = d.type_of(op.results[0]) == ScalarType(BOOL)
        if flags and sign in _WORDS and constant_of(left) is None and constant_of(right) is None and not _MAY_FAIL.search(self.text(right)):
            sign, strength = _WORDS[sign]
        if sign == "**":
            return f"{self.text(left, _POWER + 1)} ** {self.text(right, _UNARY)}", strength
        return f"{self.text(left, strength)} {sign} {self.text(right, strength + 1)}", strength

    # structural ops ---------------------------------------------------------------------------------------------------------

    def const(self, op: d.ConstOp) -> str:
        value, dtype = op.value, d.type_of(op.result).dtype
        natural = BOOL if isinstance(value, bool) else INDEX if isinstance(value, int) else FP32
        text = static_text(value, self.prefix)
        return text if dtype is natural else f"{self.prefix}.const({text}, {self.prefix}.{dtype.name})"

    def dim(self, op: d.DimOp) -> str:
        return f"{self.text(op.source, _ATOM)}.shape[{op.static('axis')}]"

    def valid(self, op: d.ValidOp) -> str:
        return f"{self.text(op.source, _ATOM)}.valid_shape[{op.static('axis')}]"

    def read(self, op: d.ReadOp) -> str:
        return f"{self.prefix}.read({self.text(op.source)}, {self._list(op.indices)})"

    def atomic(self, op: d.AtomicOp) -> str:
        scalars = [op.value] if op.expected is None else [op.expected, op.value]
        return f"{self.prefix}.{op.static('atomic')}({', '.join([self.text(op.buffer), self._list(op.indices), *map(self.text, scalars)])})"

    def create(self, op: d.CreateOp) -> str:
        type = d.buffer_type(op.result)
        init = op.static("init")
        extra = f", init_value={static_text(init, self.prefix)}" if init is not None else ""
        extra += f", layout={self.prefix}.TensorLayout.{type.layout}" if type.layout != "ND" else ""
        return f"{self.prefix}.create_tensor({self._shape(type, op.extents)}, dtype={self.prefix}.{type.dtype.name}{extra})"

    def _shape(self, type: BufferType, extents: object) -> str:
        dynamic = iter(list(extents))  # type: ignore[call-overload]
        return "[" + ", ".join(str(dim) if isinstance(dim, int) else self.text(next(dynamic)) for dim in type.shape) + "]"

    def window(self, op: d.WindowOp) -> str:
        drop = op.drop
        extra = f", drop_dims={static_text(drop, self.prefix)}" if drop else ""
        extra += ", clamp=True" if op.static("clamp") else ""
        return f"{self.prefix}.slice({self.text(op.buffer)}, {self._list(op.extents)}, {self._list(op.offsets)}{extra})"

    def view(self, op: d.ViewOp) -> str:
        source, type = d.shaped_type(op.buffer), d.shaped_type(op.result)
        assert isinstance(type, BufferType) and isinstance(source, BufferType)
        shape = self._shape(type, op.extents)
        if source.dtype is not type.dtype:
            return f"{self.prefix}.reinterpret_view({self.text(op.buffer)}, {self.prefix}.{type.dtype.name}, shape={shape})"
        if source.layout != type.layout:
            return f"{self.prefix}.tensor.view({self.text(op.buffer)}, {shape}, layout={self.prefix}.TensorLayout.{type.layout})"
        return f"{self.prefix}.reshape({self.text(op.buffer)}, {shape})"

    def comm(self, op: d.CommOp) -> str:
        return f"pld.system.comm({self.text(op.window)})"

    def peer(self, op: d.PeerOp) -> str:
        return f"pld.tensor.peer_view({self.text(op.buffer)}, {self.text(op.peer)}, comm={self.text(op.comm)})"

    def load(self, op: d.LoadOp) -> str:
        type = d.type_of(op.result)
        assert isinstance(type, TileType)
        shape = static_text(type.shape, self.prefix)
        whole = all(constant_of(size) == extent for size, extent in zip(op.valid, type.shape, strict=True))
        extra = "" if whole else f", valid_shape={self._list(op.valid)}"
        extra += ", clamp=True" if op.static("clamp") else ""
        if type.level == "tensor":
            return f"{self.prefix}.slice({self.text(op.buffer)}, {shape}, {self._list(op.offsets)}{extra or ', valid_shape=' + shape})"
        extra += f", target_memory={self.prefix}.Mem.{type.space}" if type.space != "Vec" else ""
        return f"{self.prefix}.load({self.text(op.buffer)}, {self._list(op.offsets)}, {shape}{extra})"


_FORMS: dict[type[Operation], Callable[..., str]] = {
    d.ConstOp: Expressions.const,
    d.DimOp: Expressions.dim,
    d.ValidOp: Expressions.valid,
    d.ReadOp: Expressions.read,
    d.AtomicOp: Expressions.atomic,
    d.CreateOp: Expressions.create,
    d.WindowOp: Expressions.window,
    d.ViewOp: Expressions.view,
    d.CommOp: Expressions.comm,
    d.PeerOp: Expressions.peer,
    d.LoadOp: Expressions.load,
}
