"""What ops of the `tile` dialect carry: types, compile-time values, spans; and the base of the ops."""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, Block, Data, Operation, SSAValue, TypeAttribute
from xdsl.irdl import (
    IRDLOperation,
    irdl_attr_definition,
)
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from tilejit.errors import Span
from tilejit.tile_ir.literal import read_literal, read_type, write_literal, write_type
from tilejit.types.values import BufferType, ShapedType, ValueType


class _TypeText(Data[ValueType]):
    """Shared text form of the value types: the plain type, as a quoted string."""

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> ValueType:
        with parser.in_angle_brackets():
            return read_type(parser.parse_str_literal())

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string_literal(write_type(self.data))


@irdl_attr_definition
class IRType(_TypeText, TypeAttribute):
    """The one type of the dialect: wraps a ScalarType, BufferType, TileType or ArrayType."""

    name = "tile.type"


@irdl_attr_definition
class Static(Data[object]):
    """A compile-time value: number, string, dtype, enum member, None, or a tuple or dict of those."""

    name = "tile.static"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> object:
        with parser.in_angle_brackets():
            return read_literal(parser.parse_str_literal())

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string_literal(write_literal(self.data))


@irdl_attr_definition
class SpanAttr(Data[Span | None]):
    """Where an op came from. Text forms leave it out."""

    name = "tile.span"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Span | None:
        return None

    def print_parameter(self, printer: Printer) -> None:
        if self.data is not None:
            with printer.in_angle_brackets():
                printer.print_string_literal(str(self.data))


_T = TypeVar("_T")


class stated(property, Generic[_T]):
    """What an op states: a compile-time attribute by its name, with its type."""

    def __init__(self, name: str, default: object = None) -> None:
        super().__init__(lambda op: op.static(name, default))

    if TYPE_CHECKING:  # It is asked of ops only, never of their class.

        def __get__(self, instance: TileOp, owner: type | None = None) -> _T: ...  # pyright: ignore[reportIncompatibleMethodOverride]


class _Plain(ABCMeta):
    """Classes without virtual subclasses: passes ask millions of times what an op is, and an abstract class takes four times as long to answer."""

    __instancecheck__ = type.__instancecheck__


class TileOp(IRDLOperation, metaclass=_Plain):
    """Base of the dialect's ops."""

    name = "tile.op"

    def walk(self, *, reverse: bool = False, region_first: bool = False) -> Iterator[Operation]:
        """The op and all ops nested in it, in their order: as any op does, without a generator for each of them."""
        if reverse or region_first:
            yield from super().walk(reverse=reverse, region_first=region_first)
            return
        yield self
        for region in self.regions:
            for block in region.blocks:
                following = block.first_op
                while (op := following) is not None:
                    following = op.next_op  # known before the op is seen, which may be moved then
                    if op.regions:
                        yield from op.walk()
                    else:
                        yield op

    @property
    def span(self) -> Span | None:
        attr = self.attributes.get("span")
        return attr.data if isinstance(attr, SpanAttr) else None

    @property
    def hint(self) -> str | None:
        """The user's name of the (first) result."""
        attr = self.attributes.get("hint")
        return attr.data if isinstance(attr, StringAttr) else None

    def static(self, name: str, default: object = None) -> object:
        """A compile-time attribute by name."""
        attr = self.attributes.get(name)
        return attr.data if isinstance(attr, Static) else default


def type_of(value: SSAValue) -> ValueType:
    """The plain type of an SSA value of this dialect."""
    type = value.type
    assert isinstance(type, IRType), value
    return type.data


def shaped_type(value: SSAValue) -> ShapedType:
    """The plain type of a value known to be a buffer, tile or tensor-level value."""
    type = type_of(value)
    assert isinstance(type, ShapedType), value
    return type


def buffer_type(value: SSAValue) -> BufferType:
    """The plain type of a value known to be a buffer."""
    type = type_of(value)
    assert isinstance(type, BufferType), value
    return type


_Op = TypeVar("_Op", bound=Operation)


def end_of(block: Block, kind: type[_Op]) -> _Op:
    """The op that ends a block, which is known to be of a kind."""
    last = block.last_op
    assert isinstance(last, kind), block
    return last


def enclosing(op: Operation | Block, kind: type[_Op]) -> _Op | None:
    """The op itself, or the innermost one around it, of a kind."""
    current = op if isinstance(op, Operation) else op.parent_op()
    while current is not None and not isinstance(current, kind):
        current = current.parent_op()
    return current


def ir_types(types: Sequence[ValueType]) -> list[Attribute]:
    return [IRType(type) for type in types]


def statics(values: Mapping[str, object]) -> dict[str, Attribute]:
    return {name: Static(value) for name, value in values.items()}
