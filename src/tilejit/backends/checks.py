"""The run-time failures each op can have, as rows of the failure table: every backend raises the same words.

The rules behind them (all integers; a box with an empty side touches nothing and never fails):

    load     size = clamp(requested, 0, shape); 0 <= offset and offset + size <= extent.
             With `clamp`: 0 <= offset, and size becomes clamp(extent - offset, 0, size).
    store    size = valid extent of the value (1 in the dims it lacks); 0 <= offset and offset + size <= extent.
    window   0 <= size; 0 <= offset and offset + size <= extent; with `clamp` as for load.
    read, write   0 <= index < extent.
"""

from __future__ import annotations

from xdsl.ir import BlockArgument, SSAValue

from tilejit.runtime.call.failures import Failure
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir import names
from tilejit.tile_ir.transfers import Transfer

_WINDOW_HELP = "keep 0 <= offset and offset + size <= extent; for a ragged edge narrow the valid region or pass clamp=True"


def name_of(value: SSAValue) -> str:
    """The user's name of a value, or what it is when it has none."""
    if isinstance(value, BlockArgument):
        return f"`{names.name_of(value)}`" if value.name_hint else "a carried value"
    owner = value.owner
    if isinstance(owner, d.TileOp) and owner.hint:
        return f"`{owner.hint}`"
    if isinstance(owner, d.WindowOp | d.ViewOp | d.StridedOp | d.PeerOp):
        return f"a view of {name_of(owner.buffer)}"
    return f"the result of {owner.op}" if isinstance(owner, d.ApplyOp) else "a tensor"


def box_failure(op: d.LoadOp | d.StoreOp | d.WindowOp, axis: int) -> Failure:
    """A window that leaves its buffer in dim `axis`; integers: offset, size, extent."""
    verb = {d.LoadOp: "load reads", d.StoreOp: "store writes", d.WindowOp: "slice reaches"}[type(op)]
    text = f"{verb} outside {_plain(name_of(op.buffer))} in dim {axis}: offset {{0}}, size {{1}}, extent {{2}}"
    return Failure("bounds", text, op.span, str(op.static("help", _WINDOW_HELP)))


def element_failure(op: d.ReadOp | d.ElementWrite, axis: int) -> Failure:
    """An element index outside its tensor in dim `axis`; integers: index, extent."""
    array = op.source if isinstance(op, d.ReadOp) else op.buffer
    verb = "read of an element" if isinstance(op, d.ReadOp) else "write of an element"
    text = f"{verb} outside {_plain(name_of(array))} in dim {axis}: index {{0}}, extent {{1}}"
    return Failure("bounds", text, op.span, "keep 0 <= index < extent")


def extent_failure(op: d.CheckOp) -> Failure:
    """Two extents that differ; integers: both."""
    return Failure("shape", f"extents differ: {_plain(str(op.static('message', '')))}: {{0}} and {{1}}", op.span)


def view_failure(op: d.ViewOp) -> Failure:
    """A view of a buffer that is not contiguous, or of another size; integers: elements of the buffer, elements of the view."""
    text = f"{_plain(name_of(op.buffer))} with {{0}} elements has no view with {{1}} elements in that shape"
    return Failure(
        "shape", text, op.span, "a view needs as many elements as its tensor, and a tensor without gaps: copy a strided slice into a tensor of its own first"
    )


def reach_failure(op: d.StridedOp) -> Failure:
    """A strided view that leaves its buffer; integers: the first and the last element it touches, the elements there are."""
    return Failure("bounds", f"the view reaches from element {{0}} to {{1}} of {_plain(name_of(op.buffer))}, which has {{2}}", op.span)


def assertion_failure(op: d.EffectOp) -> Failure:
    """A device_assert that does not hold; no integers. What a frontend asserts by itself says which kind of failure it is."""
    given = op.statics
    return Failure(str(given.get("kind", "assert")), _plain(str(given.get("message") or "device_assert failed")), op.span)


def step_failure(op: d.ForOp) -> Failure:
    """A loop with step 0; no integers."""
    return Failure("arithmetic", "the step of a loop is 0", op.span, "use a positive or negative step")


def create_failure(op: d.CreateOp | d.ViewOp | d.StridedOp, axis: int) -> Failure:
    """A negative extent of a new tensor or view; integers: the extent."""
    return Failure("shape", f"extent {{0}} in dim {axis} of a tensor is negative", op.span, "extents are 0 or more")


def _plain(text: str) -> str:
    """`text` as a literal part of a format string."""
    return text.replace("{", "{{").replace("}", "}}")


def pop_failure(pop: Transfer) -> Failure:
    """A pop that waits for ever; integers: the row of another place that waits, or -1."""
    text = f"deadlock: {_plain(pop.title)} waits for a tile that nobody sends"
    return Failure("deadlock", text, pop.op.span, "every kernel that runs beside it has ended or waits too: push as many tiles as are popped", related=True)


def sync_failure(op: d.EffectOp) -> Failure:
    """A barrier that is never complete; integers: the row of another place that waits, or -1, and how many are missing."""
    help = "every block must reach the same number of syncalls; in soft mode `used_cores` says how many cores take part"
    return Failure("deadlock", "deadlock: syncall waits for {1} more that never come", op.span, help, related=True)


def push_site(push: Transfer) -> Failure:
    """Not a failure: where a tile was sent from, for those that do not want it."""
    return Failure("shape", f"{_plain(push.title)} sends {_plain(str(push.type))}", push.op.span)


def tile_failure(pop: Transfer) -> Failure:
    """A tile of another shape or data type arrives; integers: the row of the push."""
    return Failure("shape", f"{_plain(pop.title)} takes {_plain(str(pop.type))}, another tile arrives", pop.op.span, related=True)
