"""Which neighbouring nests run as one kernel: work on the same rows, with nothing between that another program would have to see."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue

from tilejit.backends.cuda.control_plane.frame import Frame
from tilejit.backends.cuda.control_plane.host import Memory
from tilejit.backends.cuda.nests.members import Member, folds, is_member, members_of, space_of
from tilejit.passes.rewriting import root
from tilejit.tile_ir import dialect as d
from tilejit.types.values import ANY, BufferType, Shape, ShapedType

MOST_MEMBERS = 64
"""Ops in one nest: more would only spill registers."""


def inner_of(work: Sequence[Operation]) -> list[Member]:
    """The members of several groups and operators, in order."""
    return [member for op in work for member in members_of(op)]


def joins(frame: Frame, work: Sequence[Operation], op: Operation) -> bool:
    """Whether an op may join the nest of those before it."""
    before, new = inner_of(work), members_of(op)
    if _only_stores(before, new):
        return not _meets(frame, before, new)
    if len(before) + len(new) > MOST_MEMBERS or not all(is_member(member) and folds(member) in (None, "row") for member in [*before, *new]):
        return False
    if any(isinstance(member, d.StoreOp) and member.static("atomic") for member in [*before, *new]):
        return False
    return _same_rows(before, new, op) and (_related(work, new) or _is_vector(new)) and not _meets(frame, before, new)


def _only_stores(before: Sequence[Member], new: Sequence[Member]) -> bool:
    """Whether the new member stores what a reduction over rows made, and nobody else uses that."""
    last, store = before[-1], new[0]
    if not isinstance(last, d.ApplyOp) or folds(last) != "col" or not isinstance(store, d.StoreOp) or store.static("atomic"):
        return False
    return store.value is last.results[0] and len(list(store.value.uses)) == 1


def _is_vector(members: Sequence[Member]) -> bool:
    """Whether members only make something that is the same for every row."""
    return all(isinstance(member, d.ApplyOp) for member in members) and all(extent == 1 for extent in _shape(members)[:-1])


def _shape(members: Sequence[Member]) -> Shape:
    shape = d.shaped_type(space_of(members)).shape
    return shape if len(shape) > 1 else (1, *shape)


def _same_rows(before: Sequence[Member], new: Sequence[Member], op: Operation) -> bool:
    first, second = _shape(before), _shape(new)
    if ANY in first or ANY in second or len(first) != len(second):
        return False
    rows_only = first[:-1] == second[:-1] and (first[-1] == second[-1] or 1 in (first[-1], second[-1]))
    # A vector along the columns is cheap enough to be made by every program, unless it is used elsewhere.
    for shape, members in ((first, before), (second, new)):
        other = second if shape is first else first
        if all(extent == 1 for extent in shape[:-1]) and shape[-1] == other[-1] and all(isinstance(m, d.ApplyOp) and folds(m) is None for m in members):
            return _stays(members, [*before, *new], op)
    # Ranks differ where a vector of rank 1 meets one cell of rank 2: the space of both must be the wider one.
    fitting = rows_only and _shape([*before, *new]) == (second if first[-1] == 1 else first)
    return fitting and all(_fits(value, first[:-1]) for member in new for value in member.operands if _made_by(value, before))


def _stays(members: Sequence[Member], everything: Sequence[Member], op: Operation) -> bool:
    """Whether results of members are used by neighbours in the same block only, so that they can be merged as soon as those come."""
    return all(isinstance(use.operation, d.ApplyOp | d.StoreOp) for member in members for result in member.results for use in result.uses)


def _made_by(value: SSAValue, members: Sequence[Member]) -> bool:
    owner = value.owner
    if isinstance(owner, d.GroupOp):
        return any(member.parent_op() is owner for member in members)
    return owner in members


def _fits(value: SSAValue, rows: Shape) -> bool:
    shape = d.shaped_type(value).shape
    return shape[:-1] == rows or all(extent == 1 for extent in shape[:-1])


def _related(work: Sequence[Operation], new: Sequence[Member]) -> bool:
    """Whether the new members use what the nest makes, or read what it reads."""
    made = {result for op in work for result in op.results} | {member.results[0] for member in inner_of(work) if isinstance(member, d.ApplyOp)}
    read = {root(value) for member in inner_of(work) for value in member.operands if _is_buffer(value)}
    return any(value in made or (_is_buffer(value) and root(value) in read) for member in new for value in member.operands)


def _is_buffer(value: SSAValue) -> bool:
    return isinstance(d.type_of(value), BufferType)


def _roots(frame: Frame, members: Sequence[Member], stored: bool) -> dict[object, list[SSAValue]]:
    """Memory that members store to, or read."""
    found: dict[object, list[SSAValue]] = {}
    for member in members:
        if isinstance(member, d.StoreOp):
            values = [member.buffer] if stored else [member.value]
        else:
            values = [] if stored else list(member.args)
        for value in values:
            if isinstance(d.type_of(value), ShapedType) and (stored or _is_buffer(value)):
                base = root(value)
                known = frame.values.get(base)
                found.setdefault(known.root if isinstance(known, Memory) else base, []).append(value)
    return found


def _meets(frame: Frame, before: Sequence[Member], new: Sequence[Member]) -> bool:
    """Whether the new members read or overwrite what the others store, or store where the others read other cells."""
    stored, read = _roots(frame, before, True), _roots(frame, before, False)
    storing, reading = _roots(frame, new, True), _roots(frame, new, False)
    if stored.keys() & (reading.keys() | storing.keys()):
        return True
    return any(any(value is not target for value in read[key] for target in storing[key]) for key in storing.keys() & read.keys())
