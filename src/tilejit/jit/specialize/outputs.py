"""Shapes of outputs that a call leaves out and no annotation gives: found from what the kernel writes into them."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tilejit.dtypes import DType
from tilejit.errors import ShapeError
from tilejit.jit.definition import Definition
from tilejit.jit.specialize.dynamic import Symbol
from tilejit.jit.specialize.expressions import Expressions, Folded
from tilejit.jit.specialize.infer import items_of
from tilejit.jit.specialize.program import Specializer, bind_symbols
from tilejit.jit.specialize.signature import JitParam
from tilejit.jit.specialize.statements import Statements
from tilejit.jit.specialize.values import Abstract, RuntimeValue, Static, extent_of
from tilejit.ops.spec import OpFunction
from tilejit.types.values import BufferType, Dim, TileType


@dataclass(slots=True)
class _Writes:
    """What a kernel writes into one output."""

    whole: BufferType | TileType | None = None
    """The value of `out[:] = v`."""
    reach: list[tuple[int, ...] | None] = field(default_factory=list[tuple[int, ...] | None])
    """First cell past each write, per dimension; None where it is not constant."""
    dtype: DType | None = None

    def note(self, value: Abstract, offsets: Sequence[int | None] | None) -> None:
        """A write of `value` at `offsets`; None offsets: the whole output."""
        if not isinstance(value, BufferType | TileType):
            self.reach.append(None)
            return
        self.dtype = self.dtype or value.dtype
        if offsets is None:
            self.whole = self.whole or value
            return
        self.note_box(offsets, (1,) * (len(offsets) - len(value.valid)) + tuple(value.valid))

    def note_window(self, starts: Sequence[int | None], dropped: Sequence[bool], value: Abstract) -> None:
        """A write through a subscript: `dropped` says which of its parts are single indices; missing ones mean `:`."""
        if not isinstance(value, BufferType | TileType):
            self.note_box(starts, (1,) * len(starts) if all(dropped) else ())
            return
        self.dtype = self.dtype or value.dtype
        kept = len(dropped) - sum(dropped)
        if len(value.valid) < kept:
            self.reach.append(None)
            return
        extents = iter(value.valid)
        sizes = [1 if single else next(extents) for single in dropped]
        rest = tuple(extents)
        self.note_box((*starts, *(0 for _ in rest)), (*sizes, *rest))

    def note_box(self, offsets: Sequence[int | None], sizes: Sequence[Dim], dtype: DType | None = None) -> None:
        """A write of `sizes` cells at `offsets`."""
        self.dtype = self.dtype or dtype
        ends = [offset + size for offset, size in zip(offsets, sizes, strict=False) if offset is not None and offset >= 0 and isinstance(size, int)]
        self.reach.append(tuple(ends) if len(ends) == len(offsets) == len(sizes) else None)

    def shape(self) -> tuple[Dim, ...] | None:
        if self.whole is not None:
            return self.whole.shape
        known = [reach for reach in self.reach if reach is not None]
        if not known or len(known) != len(self.reach) or len({len(reach) for reach in known}) != 1:
            return None
        return tuple(max(ends) for ends in zip(*known, strict=True))


_ELEMENT = {"dst": "target", "tensor": "target", "offset": "offsets", "indices": "offsets", "value": "value"}


def roles_of_write(name: str) -> Mapping[str, str] | None:
    """What each parameter of an op that writes into a tensor is, in order."""
    match name:
        case "store":
            return {"tile": "value", "offsets": "offsets", "output_tensor": "target"}
        case "assemble":
            return {"target": "target", "source": "value", "offset": "offsets"}
        case "write":
            return _ELEMENT
        case _:
            return None


class _Watching(Statements):
    """A walk that takes note of writes into parameters without a type."""

    def watch(self, names: Sequence[str]) -> None:
        self.writes = {name: _Writes() for name in names}
        self.follows_types = True

    def _calls_what_runs_here(self, body: Sequence[ast.stmt]) -> bool:
        return True  # Every turn of a `pl.unroll` loop writes at a place of its own.

    def call(self, node: ast.expr) -> Folded:
        assert isinstance(node, ast.Call)
        folded = super().call(node)
        _, callee = self.fold(node.func)
        roles = roles_of_write(callee.value.name) if isinstance(callee, Static) and isinstance(callee.value, OpFunction) else None
        if roles is not None:
            self._note_op(roles, node)
        return folded

    def _note_op(self, roles: Mapping[str, str], node: ast.Call) -> None:
        given: dict[str, ast.expr] = dict(zip(dict.fromkeys(roles.values()), node.args, strict=False))
        given.update({roles.get(keyword.arg, keyword.arg): keyword.value for keyword in node.keywords if keyword.arg is not None})
        target, value, offsets = given.get("target"), given.get("value"), given.get("offsets")
        if isinstance(target, ast.Name) and target.id in self.writes and value is not None and offsets is not None:
            places = [extent_of(item) for item in items_of(self.fold(offsets)[1])]
            starts = [place if isinstance(place, int) else None for place in places]
            written = self.fold(value)[1]
            if roles is _ELEMENT:
                self.writes[target.id].note_box(starts, (1,) * len(starts), written.dtype if isinstance(written, RuntimeValue | Static) else None)
            else:
                self.writes[target.id].note(written, starts)

    def note_window_write(self, name: str, parts: Sequence[Abstract | slice], value: Abstract) -> None:
        if name not in self.writes:
            return
        if all(isinstance(part, slice) and part.start is None and part.stop is None for part in parts) and len(parts) == 1:
            self.writes[name].note(value, None)
            return
        starts = [(0 if part.start is None else extent_of(part.start)) if isinstance(part, slice) else extent_of(part) for part in parts]
        self.writes[name].note_window([start if isinstance(start, int) else None for start in starts], [not isinstance(part, slice) for part in parts], value)


@dataclass
class OutputFinder(Specializer):
    """A specialisation that is only made to see what is written."""

    def find(self, definition: Definition, types: Mapping[str, Abstract]) -> dict[str, _Writes]:
        """What the body writes into the parameters that `types` lacks."""
        body = _Watching(self, definition, self.dynamic(definition), types)
        body.watch([param.name for param in definition.params if param.name not in types])
        bind_symbols(body, types)
        body.block(definition.text.node.body)
        return body.writes

    def missing_type(self, caller: Expressions, helper: Definition, param: JitParam, held: Mapping[str, Abstract], place: ast.AST) -> BufferType | None:
        found = self.output_type(helper, param, held)
        if found is not None and isinstance(place, ast.Name):
            caller.env[place.id] = found
            if isinstance(caller, _Watching) and place.id in caller.writes:
                caller.writes[place.id].note(found, None)
        return found

    def output_type(self, helper: Definition, param: JitParam, held: Mapping[str, Abstract]) -> BufferType | None:
        """The type of an output of `helper` as its annotation or what it writes tell; `held`: its other arguments."""
        return self._from_annotation(helper, param, held) or self._from_writes(helper, param, held)

    def _from_writes(self, helper: Definition, param: JitParam, held: Mapping[str, Abstract]) -> BufferType | None:
        known = {name: value for name, value in held.items() if isinstance(value, BufferType | TileType | Static)}
        writes = self.find(helper, known).get(param.name)
        return _type_of(writes) if writes is not None else None

    def _from_annotation(self, helper: Definition, param: JitParam, held: Mapping[str, Abstract]) -> BufferType | None:
        """The annotated shape, with symbols replaced by the extents of the other arguments."""
        annotation = param.tensor
        if annotation is None or annotation.shape is None or annotation.dtype is None:
            return None
        extents: dict[Symbol, Dim] = {}
        for name, axes in self.dynamic(helper).dims.items():
            value = held.get(name)
            if isinstance(value, BufferType | TileType):
                extents.update({symbol.root(): value.shape[axis] for axis, symbol in axes.items() if -value.rank <= axis < value.rank})
        own = self.dynamic(helper).dims.get(param.name, {})
        shape = tuple(dim if isinstance(dim, int) else extents.get(own[axis].root()) for axis, dim in enumerate(annotation.shape))
        known = tuple(dim for dim in shape if dim is not None)
        return BufferType(known, annotation.dtype) if len(known) == len(shape) else None


def left_out_type(specializer: Specializer, helper: Definition, param: JitParam, held: Mapping[str, Abstract]) -> BufferType | None:
    """The type of an output that a submitted call of `helper` leaves out."""
    return OutputFinder(helper, specializer.known, specializer.trace).output_type(helper, param, held)


def _type_of(writes: _Writes, dtype: DType | None = None) -> BufferType | None:
    shape = writes.shape()
    dtype = dtype or writes.dtype
    return BufferType(shape, dtype) if shape is not None and dtype is not None else None


def output_types(finder: OutputFinder, types: Mapping[str, Abstract], omitted: Sequence[str]) -> dict[str, BufferType]:
    """The types of the outputs that a return-style call leaves out; one that cannot be told is an error."""
    entry = finder.entry
    writes = finder.find(entry, types)
    out: dict[str, BufferType] = {}
    for name in omitted:
        annotation = entry.param(name).tensor
        found = _type_of(writes[name], annotation.dtype if annotation is not None else None)
        if found is None:
            raise ShapeError(
                f"the shape of output `{name}` of `{entry.name}` cannot be told: it is not annotated, and not everything written into it"
                " has a known shape and place",
                span=entry.span(entry.node_of(entry.param(name))),
                help=f"pass `{name}`, or annotate it: {name}: pl.Out[pl.Tensor[[rows, columns], dtype]]",
            )
        out[name] = found
    return out
