"""The pto dialect: all rows of the table as op classes, with the types and attributes."""

from __future__ import annotations

from functools import cache

from xdsl.ir import Dialect

from tilejit.tile_ir.pto import table_cube, table_index, table_memory, table_system, table_vector
from tilejit.tile_ir.pto.attributes import ATTRIBUTES
from tilejit.tile_ir.pto.op import PtoOp, operation_class
from tilejit.tile_ir.pto.spec import Row
from tilejit.tile_ir.pto.types import TYPES

TABLE: dict[str, Row] = {
    row.name: row for module in (table_memory, table_cube, table_vector, table_index, table_system) for row in module.TABLE
}
"""Every op by its name without `pto.`."""

OPS: dict[str, type[PtoOp]] = {name: operation_class(row) for name, row in TABLE.items()}


@cache
def dialect() -> Dialect:
    return Dialect("pto", list(OPS.values()), [*ATTRIBUTES, *TYPES])
