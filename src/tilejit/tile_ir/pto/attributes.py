"""The enumerations of the pto dialect, one row each, in both families of spelling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.ir import Attribute, Data, SpacedOpaqueSyntaxAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from tilejit.errors import did_you_mean
from tilejit.ops.gather import CMP_MODES
from tilejit.tile_ir.pto.meaning import MASK_PATTERNS
from tilejit.tile_ir.pto.specs import BLAYOUTS, COMPACTS, PADS, SLAYOUTS
from tilejit.tile_ir.pto.type_text import Body

_PIPES = ("S", "V", "M", "MTE1", "MTE2", "MTE3", "ALL", "MTE4", "MTE5", "V2", "FIX", "UNASSIGNED")
_STAGES = "TLOAD TSTORE_ACC TSTORE_VEC TMOV_M2L TMOV_M2S TMOV_M2B TMOV_M2V TMOV_V2M TMATMUL TVEC TVECWAIT_EVENT"


@dataclass(frozen=True, slots=True)
class Enumeration:
    """One kind of enum attribute; `spaced`: written `#pto<name value>` instead of `#pto.name<value>`."""

    name: str
    values: tuple[str, ...]
    spaced: bool = False


def _dot(name: str, values: str) -> Enumeration:
    return Enumeration(name, tuple(values.split()))


def _space(name: str, values: str) -> Enumeration:
    return Enumeration(name, tuple(values.split()), True)


_ROWS = (
    _dot("address_space", "zero gm mat left right acc vec bias scaling"),
    Enumeration("pipe", tuple(f"PIPE_{name}" for name in _PIPES)),
    Enumeration("event", tuple(f"EVENT_ID{i}" for i in range(8))),
    _dot("layout", "nd dn nz"),
    _dot("kernel_kind", "cube vector"),
    _dot("pipe_event_type", _STAGES),
    _dot("sync_op_type", _STAGES),
    _dot("padmode", "PadNull PadFirstElem PadValue null zero max min"),
    Enumeration("mask_pattern", MASK_PATTERNS),
    _dot("acc_to_vec_mode", "single_mode_vec0 single_mode_vec1 dual_mode_split_m dual_mode_split_n"),
    _dot("blayout", " ".join(BLAYOUTS)),
    _dot("slayout", " ".join(SLAYOUTS)),
    _dot("pad_value", " ".join(PADS)),
    _dot("compact_mode", " ".join(COMPACTS)),
    _dot("func_core_type", "AIC AIV MIX"),
    _dot("module_core_type", "AIC AIV MIX"),
    _space("round_mode", "NONE RINT ROUND FLOOR CEIL TRUNC ODD CAST_RINT"),
    _space("saturation_mode", "ON OFF"),
    Enumeration("cmp", CMP_MODES, True),
    _space("st_phase", "unspecified partial final"),
    _space("atomic_type", "atomic_none atomic_add"),
    _space("relu_pre_mode", "no_relu normal_relu"),
    _space("gather_oob", "undefined clamp wrap zero"),
    _space("scatter_atomic_op", "none add max min"),
    _space("scatter_oob", "undefined skip clamp wrap"),
    _space("quant_type", "INT8_SYM INT8_ASYM"),
)

ENUMERATIONS: dict[str, Enumeration] = {row.name: row for row in _ROWS}


class EnumAttr(Data[str]):
    """A value of an enumeration."""

    enumeration: ClassVar[Enumeration]

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> str:
        """`<value>` (dot form and stripped form) or `value` (space form: the brackets belong to the dialect)."""
        bracketed = parser.parse_optional_punctuation("<") is not None
        token = parser._current_token
        value = parser.parse_optional_identifier()
        if value not in cls.enumeration.values:
            shown = token.text if value is None else value
            hint = did_you_mean(shown, cls.enumeration.values)
            parser.raise_error(f"unknown {cls.enumeration.name} `{shown}`: {hint or 'it is one of ' + ', '.join(cls.enumeration.values)}", token.span)
        if bracketed:
            parser.parse_punctuation(">", f" after the {cls.enumeration.name}")
        assert value is not None
        return value

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(self.data if self.enumeration.spaced else f"<{self.data}>")


def _class(row: Enumeration) -> type[EnumAttr]:
    bases = (EnumAttr, SpacedOpaqueSyntaxAttribute) if row.spaced else (EnumAttr,)
    made = type(row.name.title().replace("_", "") + "Attr", bases, {"name": f"pto.{row.name}", "enumeration": row, "__doc__": f"#pto.{row.name}"})
    return irdl_attr_definition(made)


ENUM_CLASSES: dict[str, type[EnumAttr]] = {name: _class(row) for name, row in ENUMERATIONS.items()}


@irdl_attr_definition
class TileBufConfigAttr(Data[str]):
    """The layout part of a tile type as an attribute; kept as text."""

    name = "pto.tile_buf_config"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> str:
        body = Body(parser)
        body.next = len(body.tokens)
        body.leave()
        return " ".join(body.text.split())

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{self.data}>")


ATTRIBUTES: list[type[Attribute]] = [*ENUM_CLASSES.values(), TileBufConfigAttr]
