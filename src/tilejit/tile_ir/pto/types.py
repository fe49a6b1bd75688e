"""The types of the pto dialect."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import cast

from xdsl.ir import Attribute, Data, SSAValue, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from tilejit.tile_ir.pto.elements import ELEMENTS
from tilejit.tile_ir.pto.spec import A5
from tilejit.tile_ir.pto.specs import MAX_RANK, SPACES, PtrSpec, TileSpec, ViewSpec
from tilejit.tile_ir.pto.type_text import Body, read_choice, read_dims, read_element, read_extent, read_tile_compact, read_tile_long

_tile_cache: dict[tuple[str, str], TileSpec] = {}


@irdl_attr_definition
class TileBufType(Data[TileSpec], TypeAttribute):
    """A tile in one of the local memories."""

    name = "pto.tile_buf"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> TileSpec:
        arch = getattr(parser, "arch", "a3")
        token = parser._current_token
        content = parser.lexer.input.content
        end = content.find(">", token.span.end)
        known = _tile_cache.get((arch, content[token.span.end : end])) if token.text == "<" else None
        if known is not None:
            parser.lexer.pos = end + 1
            parser._parser_state.current_token = parser.lexer.lex()
            return known
        body = Body(parser)
        spec = read_tile_long(body) if body.tokens[:1] and body.tokens[0][0] == "loc" else read_tile_compact(body)
        body.leave()
        if spec.loc == "left":
            # Which way the blocks of left tiles run is a fact of the machine, whatever the text says.
            spec = replace(spec, blayout="col_major" if arch == A5 else "row_major")
        if len(_tile_cache) > 4096:
            _tile_cache.clear()
        _tile_cache[arch, body.text] = spec
        return spec

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{self.data.text(bool(getattr(printer, 'long_tiles', False)))}>")


@irdl_attr_definition
class PtrType(Data[PtrSpec], TypeAttribute):
    """A pointer to elements; without a space it points into global memory."""

    name = "pto.ptr"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> PtrSpec:
        body = Body(parser)
        element = read_element(body, body.take("an element type"))
        space = "gm"
        if not body.done():
            body.mark(",", "before the memory space")
            token = body.take("a memory space")
            name = (token[0].lower(), *token[1:])
            space = read_choice(body, "memory space", name, SPACES)
        body.leave()
        return PtrSpec(element, space)

    def print_parameter(self, printer: Printer) -> None:
        space = "" if self.data.space == "gm" else f", {self.data.space}"
        printer.print_string(f"<{self.data.element.text}{space}>")


class _ViewType(Data[ViewSpec]):
    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> ViewSpec:
        body = Body(parser)
        token = body.take("extents and an element type")
        shape, element = read_dims(body, token)
        if not 1 <= len(shape) <= MAX_RANK:
            body.fail(f"a view has 1 to {MAX_RANK} dims, got {len(shape)}", token)
        body.leave()
        return ViewSpec(shape, element)

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{self.data}>")


@irdl_attr_definition
class TensorViewType(_ViewType, TypeAttribute):
    """A strided tensor in global memory."""

    name = "pto.tensor_view"


@irdl_attr_definition
class PartitionViewType(_ViewType, TypeAttribute):
    """A rectangular slice of a tensor view."""

    name = "pto.partition_tensor_view"


@irdl_attr_definition
class ValueTileType(_ViewType, TypeAttribute):
    """A tile as a value (registered; no op takes it)."""

    name = "pto.tile"


@irdl_attr_definition
class EventArrayType(Data[int], TypeAttribute):
    """A local array of event ids."""

    name = "pto.eventid_array"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> int:
        body = Body(parser)
        token = body.take("a size")
        size = read_extent(body, token[0], token)
        if not size or size > 4096:
            body.fail("the size of an array of event ids is between 1 and 4096", token)
        body.leave()
        return size

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{self.data}>")


class _OpaqueType(Data[str]):
    """A type whose body this reader keeps as text."""

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> str:
        if parser._current_token.text != "<":
            return ""
        body = Body(parser)
        body.next = len(body.tokens)
        body.leave()
        return " ".join(body.text.split())

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{self.data}>" if self.data else "")


def _opaque(name: str) -> type[TypeAttribute]:
    made = type(f"{name.title().replace('_', '')}Type", (_OpaqueType, TypeAttribute), {"name": f"pto.{name}", "__doc__": f"!pto.{name}"})
    return cast("type[TypeAttribute]", irdl_attr_definition(made))


OPAQUE_NAMES = (
    "pipe", "async_session", "async_event", "multi_tile_buf", "local_array", "struct", "vreg", "mask", *(e.name for e in ELEMENTS.values() if e.extended),
)  # fmt: skip
OPAQUE: dict[str, type[Attribute]] = {name: _opaque(name) for name in OPAQUE_NAMES}



@cache
def vmi_type(name: str) -> type[TypeAttribute]:
    """A type of the virtual micro instructions, `!pto.vmi.name<…>`: read and kept as text, whatever its name."""
    return _opaque(name.removeprefix("pto."))


TYPES: list[type[Attribute]] = [TileBufType, PtrType, TensorViewType, PartitionViewType, ValueTileType, EventArrayType, *OPAQUE.values()]


def tile_of(value: SSAValue | None) -> TileSpec | None:
    """What the tile type of a value says, or None when it is no tile."""
    return value.type.data if value is not None and isinstance(value.type, TileBufType) else None


def canonical(type: Attribute) -> str:
    """The text by which two signatures are compared: pointers spell their space."""
    if isinstance(type, PtrType):
        return f"!pto.ptr<{type.data.element.text}, {type.data.space}>"
    return str(type)
