"""Constants, made once per block."""

from __future__ import annotations

from xdsl.ir import Block, SSAValue

from tilejit.dtypes import DType
from tilejit.tile_ir.build import Builder


class PoolingBuilder(Builder):
    """A builder that makes each constant once per block."""

    def __init__(self, block: Block) -> None:
        super().__init__(block)
        self._pools: dict[Block, dict[object, SSAValue]] = {}

    def const(self, value: int | float | bool, dtype: DType | None = None) -> SSAValue:
        pool = self._pools.setdefault(self.block, {})
        key = (type(value), repr(value), dtype)
        found = pool.get(key)
        if found is None:
            found = pool[key] = super().const(value, dtype)
        return found
