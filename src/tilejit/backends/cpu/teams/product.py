"""A matrix product as the team shares it out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilejit.backends.cpu.llvm.text import Index, Value
from tilejit.backends.cpu.memory.storage import Array
from tilejit.backends.cpu.teams.team import Captures
from tilejit.dtypes import DType
from tilejit.errors import Span


@dataclass(frozen=True, slots=True)
class Product:
    """C (+)= A @ B, for every index of the leading dims."""

    operand: DType
    c: Array
    a: Array
    b: Array
    batch: Sequence[Index]
    sizes: tuple[Index, Index, Index]
    accumulate: Value | bool
    span: Span | None
    rounded: Array | None = None
    """What C is converted to in the end, where that is another array."""


def captured(product: Product, captures: Captures) -> Product:
    """The product as a task sees it."""
    c, a, b = (captures.array(array) for array in (product.c, product.a, product.b))
    flag = product.accumulate
    m, n, k = (captures.index(size) for size in product.sizes)
    batch = [captures.index(extent) for extent in product.batch]
    return Product(product.operand, c, a, b, batch, (m, n, k), captures.value(flag) if isinstance(flag, Value) else flag, product.span)
