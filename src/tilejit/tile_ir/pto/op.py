"""The base of all ops of the dialect: operands by name, attributes from the table, text through the row's format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Self, cast

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, StringAttr, SymbolRefAttr, i32
from xdsl.ir import Attribute, Operation, OpTraits, Region, SSAValue
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import NoTerminator

from tilejit.tile_ir.pto import format
from tilejit.tile_ir.pto.attributes import EnumAttr
from tilejit.tile_ir.pto.format_print import print_op
from tilejit.tile_ir.pto.spec import Row
from tilejit.tile_ir.pto.specs import TileSpec
from tilejit.tile_ir.pto.types import tile_of

SEGMENTS = "operandSegmentSizes"


class PtoOp(Operation):
    """An op of the table."""

    row: ClassVar[Row]
    traits: ClassVar[OpTraits] = OpTraits(tuple)

    @property
    def groups(self) -> dict[str, list[SSAValue]]:
        """The operands of every slot."""
        sizes = [1] * len(self.row.slots)
        if self.row.segmented:
            written = self.properties.get(SEGMENTS)
            assert isinstance(written, DenseArrayBase)
            sizes = [int(size) for size in written.get_values()]
        out: dict[str, list[SSAValue]] = {}
        start = 0
        for slot, size in zip(self.row.slots, sizes):
            out[slot.name] = list(self.operands[start : start + size])
            start += size
        return out

    def operand(self, name: str) -> SSAValue | None:
        """The operand of a slot, or None when it is left out."""
        found = self.groups.get(name, ())
        return found[0] if found else None

    def tile(self, name: str) -> TileSpec | None:
        """The type of a tile operand, or None when the operand is left out or is no tile."""
        return tile_of(self.operand(name))

    @property
    def result_tile(self) -> TileSpec:
        """The type of the tile that it makes."""
        found = tile_of(self.results[0])
        assert found is not None
        return found

    def attribute(self, name: str) -> Attribute | None:
        return self.attributes.get(name)

    def enum(self, name: str, default: str = "") -> str:
        """The value of an enum attribute."""
        found = self.attributes.get(name)
        return found.data if isinstance(found, EnumAttr) else default

    def integer(self, name: str, default: int = 0) -> int:
        """The value of an integer or Boolean attribute."""
        found = self.attributes.get(name)
        return int(found.value.data) if isinstance(found, IntegerAttr) else default

    def flag(self, name: str) -> bool:
        found = self.attributes.get(name)
        return bool(found.value.data) if isinstance(found, IntegerAttr) else False

    def string(self, name: str) -> str:
        """The text of a string or symbol attribute."""
        found = self.attributes.get(name)
        if isinstance(found, SymbolRefAttr):
            return found.root_reference.data
        return found.data if isinstance(found, StringAttr) else ""

    def integers(self, name: str) -> tuple[int, ...]:
        """The numbers of an array attribute."""
        found = self.attributes.get(name)
        return tuple(int(value) for value in found.get_values()) if isinstance(found, DenseArrayBase) else ()

    @classmethod
    def made(
        cls, groups: Mapping[str, Sequence[SSAValue]], results: Sequence[Attribute], attributes: dict[str, Attribute], regions: Sequence[Region] = ()
    ) -> Self:
        """An op from operands by slot."""
        operands = [value for slot in cls.row.slots for value in groups.get(slot.name, ())]
        properties: dict[str, Attribute] = {}
        if cls.row.segmented:
            properties[SEGMENTS] = DenseArrayBase.from_list(i32, [len(groups.get(slot.name, ())) for slot in cls.row.slots])
        return cls.create(operands=operands, result_types=results, attributes=attributes, properties=properties, regions=regions)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        return cls.made(*format.parse(parser, cls.row))

    def print(self, printer: Printer) -> None:
        print_op(printer, self)


class SectionOp(PtoOp):
    """An op with a body that has no terminator."""

    traits: ClassVar[OpTraits] = OpTraits(lambda: (NoTerminator(),))


def operation_class(row: Row) -> type[PtoOp]:
    """The op class of a row."""
    base = SectionOp if row.format == "region" else PtoOp
    name = "".join(part.title() for part in row.name.replace(".", "_").split("_")) + "Op"
    return cast("type[PtoOp]", type(name, (base,), {"name": f"pto.{row.name}", "row": row, "__doc__": row.meaning}))
