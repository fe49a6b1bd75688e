"""What the values of a PTO kernel become while it is raised: variables, windows of memory, pointers, views and slices of views."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from xdsl.ir import SSAValue

from tilejit.dtypes import DType
from tilejit.tile_ir.pto.elements import Element
from tilejit.tile_ir.pto.specs import TileSpec
from tilejit.types.values import TileType, full_tile

Num = int | SSAValue
"""An integer: known now, or an INDEX of the program."""
Region = tuple[Num, Num]
"""Rows and columns at the origin of a tile."""


def known_region(region: Region) -> tuple[int, int] | None:
    """Rows and columns, if both are numbers now."""
    rows, cols = region
    return (rows, cols) if isinstance(rows, int) and isinstance(cols, int) else None


class NotRaisable(Exception):
    """Why a kernel stays with the interpreter."""


class Demoted(Exception):
    """A tile that cannot be a variable: it needs memory; `flat`: as bytes that several types look into."""

    def __init__(self, key: object, flat: bool = False) -> None:
        super().__init__()
        self.key = key
        self.flat = flat


@dataclass(eq=False)
class Cell:
    """A tile as a variable: ops overwrite its valid region, which never changes, with values of that shape."""

    spec: TileSpec
    dtype: DType
    key: object
    """What the storage plan knows it by."""

    @property
    def type(self) -> TileType:
        return full_tile(self.shape, self.dtype)

    @property
    def shape(self) -> tuple[int, int]:
        rows, cols = self.spec.valid
        assert rows is not None and cols is not None
        return rows, cols


@dataclass(frozen=True, eq=False)
class Memory:
    """A tile in memory. `buffer` has its cells as [rows, cols], as [cols, rows] (`layout` "col") or in boxes
    [outer rows, inner rows, outer cols, inner cols] ("boxed")."""

    spec: TileSpec
    dtype: DType
    buffer: SSAValue
    layout: str = "row"
    valid: Region = (0, 0)
    slot: SSAValue | None = None
    """Memory of the valid extents, where the kernel changes them."""
    flat: SSAValue | None = None
    """The bytes the tile lies in, and where it begins."""
    start: Num = 0
    key: object = None

    @property
    def template(self) -> tuple[object, ...]:
        """What has to agree where two handles meet."""
        return ("tile", replace(self.spec), self.layout, self.slot is None)


@dataclass(frozen=True, eq=False)
class Pointer:
    """A place in global memory: a parameter, moved by an offset in elements."""

    buffer: SSAValue
    offset: Num
    element: Element

    @property
    def template(self) -> tuple[object, ...]:
        return ("pointer", self.element)


@dataclass(frozen=True, eq=False)
class View:
    """A strided tensor; `turned`: the buffer has its last two dims swapped, so that the last one is contiguous."""

    buffer: SSAValue
    rank: int
    turned: bool
    layout: str
    base: Pointer
    extents: tuple[int | None, ...]
    """Those of the buffer that are known."""
    strides: tuple[Num, ...]

    @property
    def template(self) -> tuple[object, ...]:
        return ("view", self.rank, self.turned, self.layout, self.base.element)


@dataclass(frozen=True, eq=False)
class Slice:
    """A box of a view: dims of one element are gone, `roles` says which of the others run along rows ("r") and columns ("c")."""

    buffer: SSAValue
    roles: tuple[str, ...]
    sizes: tuple[Num, ...]
    element: Element
    shape: tuple[Num, ...] = ()
    """The extents of all dims, as the text has them."""
    layout: str = "nd"

    @property
    def template(self) -> tuple[object, ...]:
        return ("slice", self.roles, self.element, len(self.shape), self.layout)


@dataclass(frozen=True, eq=False)
class Events:
    """A local array of event ids."""

    buffer: SSAValue

    @property
    def template(self) -> tuple[object, ...]:
        return ("events",)


@dataclass
class Core:
    """Where code runs: the memories at fixed addresses, and the number of the sub-core."""

    sub: int | SSAValue = 0
    subs: int = 1
    placed: dict[object, object] = field(default_factory=dict[object, object])
    """Tiles at fixed addresses by component."""
