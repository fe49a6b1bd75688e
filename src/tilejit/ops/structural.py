"""Public names of the structural ops: what the front end builds itself (loads, stores, allocation)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NoReturn

from tilejit.dtypes import DTYPES, DType
from tilejit.errors import InternalError
from tilejit.ops.facts import PLAIN, Facts
from tilejit.ops.spec import Call, OpSpec, Scalar, Scalars, Spelling, Static, Stub, Value, declarator, declare, spell
from tilejit.types.enums import AtomicType, MemorySpace, TensorLayout


def _infer(call: Call) -> NoReturn:
    raise InternalError(f"{call.row.name} is built by the front end, not applied")


def _reference(**_: object) -> NoReturn:
    raise InternalError("structural ops have no reference of their own")


@declarator
def structural(stub: Stub, *spellings: Spelling, facts: Facts = PLAIN, dtypes: Iterable[DType] = DTYPES.values(), **attrs: object) -> OpSpec:
    """Declare the public name of an op that the front end builds."""
    return declare(
        stub, family="structural", infer=_infer, reference=_reference, dtypes=frozenset(dtypes), spellings=spellings, attrs=attrs, facts=facts
    )  # fmt: skip


@structural(
    *spell("load", pl="=tile", tile="(tensor, offsets, shapes, valid_shape=None, target_memory=Vec, clamp=False, pad=None)"), mixed=True
)
def load(
    tensor: Value, offsets: Scalars, shapes: Scalars, valid_shape: Scalars = None, target_memory: Static = MemorySpace.Vec, clamp: Static = False,
    pad: Scalar = None,
) -> object:  # fmt: skip
    """A tile snapshot of the window of a tensor at `offsets`; `valid_shape` narrows it, `clamp` shrinks it to the part inside, with `pad` it may
    begin before the tensor and end behind it, and what lies outside is `pad`."""


@structural(*spell("store", pl="=tile", tile="(tile, offsets, output_tensor, shapes=None, *, atomic=None_, clamp=False)"), facts=Facts(writes="output_tensor"), mixed=True)
def store(tile: Value, offsets: Scalars, output_tensor: Value, shapes: Scalars = None, atomic: Static = AtomicType.None_, clamp: Static = False) -> object:
    """Write the valid region of a tile into a tensor at `offsets`; evaluates to that tensor. `atomic` adds instead, `clamp` leaves out what lies
    outside the tensor."""


_CREATE = "(shape, dtype, layout=ND, manual_dep=False, init_value=None)"


@structural(*spell("create", tensor=_CREATE), Spelling("pl", "create_tensor", _CREATE, same_as="tensor"))
def create_tensor(
    shape: Scalars, dtype: Static, layout: Static = TensorLayout.ND, manual_dep: Static = False, init_value: Static = None
) -> object:
    """A new tensor, uninitialised unless `init_value` is given."""


@structural(*spell("create_l1", pl="=tensor", tensor="(shape, dtype, transpose=False)"))
def create_l1(shape: Scalars, dtype: Static, transpose: Static = False) -> object:
    """A new tensor that lives in on-chip memory on Ascend; otherwise as create_tensor."""


@structural(*spell("alloc", tensor="(memory_space, size)", tile="(memory_space, size, *, pinned=False)"))
def alloc(memory_space: Static, size: Static, pinned: Static = False) -> object:
    """An allocation token in printed programs."""


@structural(*spell("dim", pl="=tensor", tensor="(tensor, axis)"), facts=Facts(of_bytes=True))
def dim(tensor: Value, axis: Static) -> object:
    """The extent of an axis, as an INDEX scalar."""


@structural(*spell("read", pl="(src, offset)", tensor="(tensor, indices)", tile="(tile, indices)"), flat_index=True)
def read(src: Value, offset: Scalars) -> object:
    """One element as a scalar, by one index per dim or one flat index."""


@structural(*spell("view", tensor="(tensor, shape=None, valid_shape=None, *, layout=None)"), facts=Facts(view_of="tensor", of_bytes=True))
def view(tensor: Value, shape: Scalars = None, valid_shape: Scalars = None, layout: Static = None) -> object:
    """The same memory with another shape or layout."""

