"""Rows about where code runs and when: block indices, dependency hints."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from tilejit.dtypes import INDEX
from tilejit.errors import InternalError
from tilejit.ops.rules import Custom
from tilejit.ops.spec import Call, OpSpec, Value, declare, spell
from tilejit.ops.structural import structural
from tilejit.types.values import ScalarType, ValueType


def _infer(call: Call) -> tuple[ValueType, ...]:
    return (ScalarType(INDEX),)


def _reference(**_: object) -> NoReturn:
    raise InternalError("where code runs is known to the backend only")


def place(stub: Callable[..., object]) -> OpSpec:
    """Declare a row that asks where the code runs: an INDEX that the backend knows."""
    spellings = spell(stub.__name__, pl="=tensor", tensor="()", tile="()")
    return declare(stub, family="place", infer=_infer, reference=_reference, cpu=Custom(), dtypes=(), spellings=spellings)


@place
def get_block_idx() -> object:
    """The index of the running block, 0 outside pl.spmd."""


@place
def get_block_num() -> object:
    """The number of blocks that run this kernel, 1 outside pl.spmd."""


@place
def get_subblock_idx() -> object:
    """The vector lane of pl.split_aiv, else 0."""


@structural(*spell("no_dep", pl="=tensor", tensor="(tensor)"))
def no_dep(tensor: Value) -> object:
    """The same tensor, left out of automatic dependency tracking."""


@structural(*spell("dump_tag", pl="=tensor", tensor="(tensor)"))
def dump_tag(tensor: Value) -> object:
    """Marks a tensor for a run-time dump."""
