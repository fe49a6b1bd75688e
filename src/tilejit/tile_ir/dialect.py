"""The `tile` dialect: value types, attributes and the structural ops. Operations of the table are all `tile.apply`.

The whole IR on one page (SSA throughout; tensors are handles to mutable buffers, everything else is an immutable value):

    module   ::= func*                                  one program; attribute `name`
    func     ::= tile.func @name kind directions {body}  ends in tile.return
    const    ::= tile.const value                        scalar
    apply    ::= tile.apply "op" (operands) {statics}     a pure op of the table
    create   ::= tile.create extents                      new buffer, contents undefined unless `init`
    window   ::= tile.window buffer offsets extents       a view of a buffer: a sub-box, dims of `drop` removed
    view     ::= tile.view buffer extents                 a view of a buffer with another shape or dtype
    strided  ::= tile.strided buffer start extents strides  a view of a one-dimensional buffer with any strides and dtype
    comm     ::= tile.comm window                         the group of a parameter that is a window, as an address
    peer     ::= tile.peer window comm rank               the same window, or part of one, in the memory of another rank
    load     ::= tile.load buffer offsets valid           tile snapshot of a window
    store    ::= tile.store value buffer offsets          writes the valid region; `atomic` adds
    read     ::= tile.read shaped indices                 one element → scalar
    write    ::= tile.write buffer indices scalar         one element of a buffer
    atomic   ::= tile.atomic buffer indices scalars       changes one element in a single step → what it was
    dim      ::= tile.dim shaped axis                     run-time extent
    valid    ::= tile.valid shaped axis                   run-time extent of the valid region
    for      ::= tile.for lb ub step inits {iv, carried}   ends in tile.yield; `kind`
    while    ::= tile.while inits {tile.condition} {tile.yield}
    if       ::= tile.if cond {tile.yield} {tile.yield}
    region   ::= tile.region [blocks] {…tile.yield}        an execution-plane region, before outlining; spmd has one block argument
    call     ::= tile.call @f (args)                       a function of the program
    group    ::= tile.group {…tile.yield}                  applies and stores that run as one loop nest, after fusion
    launch   ::= tile.launch @kernel (args) [blocks]        a kernel on the control plane, after outlining
    check    ::= tile.check left right                     two extents that must agree
    effect   ::= tile.effect "print" (operands)             print, breakpoint, device_assert, sync: ordered, no result

Every op may carry `span` (where it came from) and `hint` (the user's name of its result); equality ignores both.
"""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Dialect
from xdsl.irdl import (
    AttrSizedOperandSegments,
    attr_def,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import IsTerminator

from tilejit.tile_ir.attributes import IRType, SpanAttr, Static, TileOp, stated
from tilejit.tile_ir.attributes import buffer_type as buffer_type
from tilejit.tile_ir.attributes import enclosing as enclosing
from tilejit.tile_ir.attributes import end_of as end_of
from tilejit.tile_ir.attributes import ir_types as ir_types
from tilejit.tile_ir.attributes import shaped_type as shaped_type
from tilejit.tile_ir.attributes import statics as statics
from tilejit.tile_ir.attributes import type_of as type_of
from tilejit.tile_ir.function import FuncOp, ReturnOp


@irdl_op_definition
class ConstOp(TileOp):
    """A scalar constant; static `value`."""

    name = "tile.const"
    result = result_def()

    value = stated[int | float | bool]("value")


class RowOp(TileOp):
    """What a row of the table is applied by."""

    args = var_operand_def()

    op = stated[str]("op")
    groups = stated[tuple[tuple[str, int], ...]]("groups")
    statics = stated[dict[str, Any]]("statics", {})


@irdl_op_definition
class ApplyOp(RowOp):
    """A pure op of the table.

    Static `op`: the row's name. Static `groups`: per operand parameter (name, count), count -1 for a single operand,
    n for a list of n scalars; operands follow in that order. Static `statics`: dict of compile-time arguments.
    """

    name = "tile.apply"
    results_ = var_result_def()


@irdl_op_definition
class CreateOp(TileOp):
    """A new buffer; operands are its dynamic extents, in order. Static `init`: fill value or None."""

    name = "tile.create"
    extents = var_operand_def()
    result = result_def()


@irdl_op_definition
class WindowOp(TileOp):
    """A sub-box of a buffer: one offset and one extent per source dim; static `drop`: source dims removed (extent 1).

    Static `clamp`: shrink to the part inside instead of failing.
    """

    name = "tile.window"
    buffer = operand_def()
    offsets = var_operand_def()
    extents = var_operand_def()
    result = result_def()
    irdl_options = (AttrSizedOperandSegments(),)

    drop = stated[tuple[int, ...]]("drop", ())


@irdl_op_definition
class ViewOp(TileOp):
    """The whole buffer with another shape and/or dtype; operands are the dynamic extents of the result type, in order."""

    name = "tile.view"
    buffer = operand_def()
    extents = var_operand_def()
    result = result_def()
    irdl_options = (AttrSizedOperandSegments(),)


@irdl_op_definition
class StridedOp(TileOp):
    """A strided view of a one-dimensional buffer: one extent and one stride per dim; start and strides count elements of the result."""

    name = "tile.strided"
    buffer = operand_def()
    start = operand_def()
    extents = var_operand_def()
    strides = var_operand_def()
    result = result_def()
    irdl_options = (AttrSizedOperandSegments(),)


@irdl_op_definition
class CommOp(TileOp):
    """The address of what is known of a window's group (runtime/ranks/abi.py); the operand is a parameter of an entry."""

    name = "tile.comm"
    window = operand_def()
    result = result_def()


@irdl_op_definition
class PeerOp(TileOp):
    """A window, or a view of one, in the memory of another rank of its group: the same bytes there. A rank that the group does not have fails."""

    name = "tile.peer"
    buffer = operand_def()
    comm = operand_def()
    peer = operand_def()
    result = result_def()


@irdl_op_definition
class LoadOp(TileOp):
    """A tile snapshot of a buffer window: offsets per dim, valid extents per dim; shape is the result type's. Static `clamp`."""

    name = "tile.load"
    buffer = operand_def()
    offsets = var_operand_def()
    valid = var_operand_def()
    result = result_def()
    irdl_options = (AttrSizedOperandSegments(),)


@irdl_op_definition
class StoreOp(TileOp):
    """Writes the valid region of a value into a buffer at offsets (one per buffer dim).

    A value of lower rank is aligned to the trailing dims. Static `atomic`: add instead of overwrite.
    Float dtypes convert to nearest even, integers widen.
    """

    name = "tile.store"
    value = operand_def()
    buffer = operand_def()
    offsets = var_operand_def()


@irdl_op_definition
class ReadOp(TileOp):
    """One element of a buffer or tile; one index per dim."""

    name = "tile.read"
    source = operand_def()
    indices = var_operand_def()
    result = result_def()


class ElementWrite(TileOp):
    """What changes one element of a buffer; element writes into tiles are the pure op "write"."""

    buffer = operand_def()
    value = operand_def()
    indices = var_operand_def()


@irdl_op_definition
class WriteOp(ElementWrite):
    """One element of a buffer."""

    name = "tile.write"


@irdl_op_definition
class AtomicOp(ElementWrite):
    """A write that other blocks see as one step with the read of the old element, its result.

    Static `atomic`: the row of the table. `expected`: what the element must be for the write to happen.
    """

    name = "tile.atomic"
    expected = opt_operand_def()
    result = result_def()
    irdl_options = (AttrSizedOperandSegments(),)


class AxisOp(TileOp):
    """What asks for a run-time extent in dim `axis` (static)."""

    source = operand_def()
    result = result_def()

    axis = stated[int]("axis")


@irdl_op_definition
class DimOp(AxisOp):
    """The extent of the shape."""

    name = "tile.dim"


@irdl_op_definition
class ValidOp(AxisOp):
    """The extent of the valid region."""

    name = "tile.valid"


@irdl_op_definition
class ForOp(TileOp):
    """A counted loop; block arguments: induction variable, carried values. Static `kind` (ForKind value), `stage`."""

    name = "tile.for"
    lower = operand_def()
    upper = operand_def()
    step = operand_def()
    inits = var_operand_def()
    results_ = var_result_def()
    body = region_def("single_block")


@irdl_op_definition
class WhileOp(TileOp):
    """`before` computes the condition from the carried values and ends in tile.condition; `body` computes the next ones."""

    name = "tile.while"
    inits = var_operand_def()
    results_ = var_result_def()
    before = region_def("single_block")
    body = region_def("single_block")


@irdl_op_definition
class IfOp(TileOp):
    """A branch on a BOOL scalar; both regions end in tile.yield with the results."""

    name = "tile.if"
    condition = operand_def()
    results_ = var_result_def()
    then = region_def("single_block")
    orelse = region_def("single_block")


@irdl_op_definition
class RegionOp(TileOp):
    """An execution-plane region of the source. Static `kind`: "at" or "spmd"; `name_hint`; `options` (dict).

    With `blocks` it runs once per block; its only block argument is then the block index.
    """

    name = "tile.region"
    blocks = opt_operand_def()
    results_ = var_result_def()
    body = region_def("single_block")
    options = stated[dict[str, Any]]("options", {})


@irdl_op_definition
class GroupOp(TileOp):
    """Applies and stores over one iteration space that a backend may run as a single loop nest, made by the fuse pass.

    The body runs once, in order; what it yields is used outside, everything else in it need never reach memory.
    """

    name = "tile.group"
    results_ = var_result_def()
    body = region_def("single_block")


@irdl_op_definition
class YieldOp(TileOp):
    """Hands values to the enclosing for, while body, if, region or group."""

    name = "tile.yield"
    values = var_operand_def()
    traits = traits_def(IsTerminator())


@irdl_op_definition
class ConditionOp(TileOp):
    """Ends the `before` region of tile.while: go on if `condition`; `values` become body arguments and, in the end, results."""

    name = "tile.condition"
    condition = operand_def()
    values = var_operand_def()
    traits = traits_def(IsTerminator())


@irdl_op_definition
class CallOp(TileOp):
    """A call of a function of the program. Results are the returned values that are no parameters of the callee."""

    name = "tile.call"
    callee = attr_def(StringAttr)
    args = var_operand_def()
    results_ = var_result_def()


@irdl_op_definition
class LaunchOp(TileOp):
    """Runs a kernel function, once or once per block, after outlining; no results: kernels write buffers."""

    name = "tile.launch"
    callee = attr_def(StringAttr)
    blocks = opt_operand_def()
    args = var_operand_def()
    irdl_options = (AttrSizedOperandSegments(),)


@irdl_op_definition
class CheckOp(TileOp):
    """Two INDEX scalars that must be equal, else ShapeError. Static `message`: what they are."""

    name = "tile.check"
    left = operand_def()
    right = operand_def()


@irdl_op_definition
class EffectOp(RowOp):
    """An ordered statement without a result: static `op` ("print", "breakpoint", "device_assert", or a row of the table), `statics`.

    A row of the table also has `groups`, as in ApplyOp; it writes the operand that its fact "writes" names, if any.
    """

    name = "tile.effect"


TILE = Dialect(
    "tile",
    [
        FuncOp, ReturnOp, ConstOp, ApplyOp, CreateOp, WindowOp, ViewOp, StridedOp, CommOp, PeerOp, LoadOp, StoreOp, ReadOp, WriteOp, AtomicOp, DimOp, ValidOp,
        ForOp, WhileOp, IfOp, RegionOp, GroupOp, YieldOp, ConditionOp, CallOp, LaunchOp, CheckOp, EffectOp,
    ],
    [IRType, Static, SpanAttr],
)  # fmt: skip
