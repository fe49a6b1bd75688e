"""A function of a program as an op: parameters with their directions, one block, a return."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import StringAttr
from xdsl.irdl import (
    attr_def,
    irdl_op_definition,
    region_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import IsolatedFromAbove, IsTerminator, SymbolOpInterface

from tilejit.tile_ir.attributes import TileOp, end_of, stated, type_of
from tilejit.tile_ir.attributes import ir_types as ir_types
from tilejit.tile_ir.attributes import shaped_type as shaped_type
from tilejit.tile_ir.attributes import statics as statics
from tilejit.types.enums import FunctionType
from tilejit.types.values import ValueType


@dataclass(frozen=True, slots=True)
class Param:
    """A parameter of a function."""

    name: str
    type: ValueType
    direction: str


@irdl_op_definition
class FuncOp(TileOp):
    """A function: kernel, control-plane function or helper.

    Statics: `kind` (FunctionType value), `params` (names), `directions` ("In", "Out", "InOut" per parameter),
    `attrs` (dict of further facts: level, role, auto_scope, …).
    """

    name = "tile.func"
    sym_name = attr_def(StringAttr)
    body = region_def("single_block")
    traits = traits_def(IsolatedFromAbove(), SymbolOpInterface())

    @property
    def symbol(self) -> str:
        return self.sym_name.data

    @property
    def func_type(self) -> FunctionType:
        """What kind of function it is."""
        return FunctionType(self.static("kind"))

    names = stated[tuple[str, ...]]("params")
    """Of the parameters."""
    directions = stated[tuple[str, ...]]("directions")
    attrs = stated[dict[str, Any]]("attrs", {})
    @property
    def params(self) -> list[Param]:
        """Name, type and direction of each parameter."""
        return [Param(name, type_of(arg), direction) for name, arg, direction in zip(self.names, self.body.block.args, self.directions, strict=True)]

    @property
    def return_types(self) -> list[ValueType]:
        """The types of what it returns."""
        return [type_of(value) for value in end_of(self.body.block, ReturnOp).values]


@irdl_op_definition
class ReturnOp(TileOp):
    """Ends a function; buffers returned are handles of parameters or local tensors."""

    name = "tile.return"
    values = var_operand_def()
    traits = traits_def(IsTerminator())
