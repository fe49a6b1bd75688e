"""Shapes of outputs that a call leaves out: as an annotation says in terms of other parameters, else found from what the kernel writes into them."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field

from tilejit.dtypes import INDEX, DType
from tilejit.errors import ShapeError, in_body
from tilejit.jit.definition import Definition
from tilejit.jit.specialize.counters import Counters, bounds_of
from tilejit.jit.specialize.declared import form_of_extent
from tilejit.jit.specialize.dependencies import resolve
from tilejit.jit.specialize.described import Description, described, referred_to, whole_type
from tilejit.jit.specialize.edges import Edges
from tilejit.jit.specialize.effects import Write, write_of
from tilejit.jit.specialize.expressions import Expressions, written_index
from tilejit.jit.specialize.forms import Form, form_of, is_told
from tilejit.jit.specialize.nodes import at
from tilejit.jit.specialize.program import Specializer, bind_symbols
from tilejit.jit.specialize.reach import called, upper
from tilejit.jit.specialize.signature import JitParam
from tilejit.jit.specialize.statements import Statements
from tilejit.jit.specialize.symbols import Symbol
from tilejit.jit.specialize.values import UNKNOWN, Abstract, Extent, Items, RuntimeValue, Static, items_of, number_of
from tilejit.jit.specialize.walk import Folded
from tilejit.jit.specialize.writes import End, Inside, Writes, end_of_steps
from tilejit.ops.spec import OpFunction
from tilejit.types.annotations import DimSpec, DynExpr
from tilejit.types.scopes import MARKERS
from tilejit.types.values import ANY, BufferType, Dim, TileType


class _Watching(Statements):
    """A walk that takes note of writes into parameters without a type."""

    def watch(self, names: Sequence[str]) -> None:
        self.writes = {name: Writes() for name in names}
        self.follows_types = True
        self.edges = Edges(lambda node: self.fold(node)[0], self._upper)
        self.counters = Counters(lambda node: form_of(self._told(node)), self._upper, self.edges.folded, self.edges.meanings)

    def _calls_what_runs_here(self, body: Sequence[ast.stmt]) -> bool:
        return True  # Every turn of a `pl.unroll` loop writes at a place of its own.

    # indices --------------------------------------------------------------------------------------------------------------

    def _upper(self, node: ast.expr | None) -> Form | None:
        if node is None:
            return None
        found = form_of(self._told(node))
        if found is None and self.counters.are_tangled(node):
            found = self.counters.tried(node)
        return found or upper(node, self.counters.largest, self._told) or self.counters.tried(node)

    def _told(self, node: ast.expr) -> Abstract:
        """What is known of an expression, extents that no parameter has left out."""
        value = self.fold(node)[1]
        return value if not isinstance(value, Extent) or is_told(value.dim, self.params) else RuntimeValue(INDEX)

    def assign(self, node: ast.stmt) -> list[ast.stmt]:
        assert isinstance(node, ast.Assign)
        out = super().assign(node)
        target = node.targets[0]
        named = isinstance(target, ast.Name) and target.id not in self.writes and self.bindings_of(target.id) == 1
        if isinstance(target, ast.Name) and named and isinstance(node.value, ast.BinOp | ast.Name | ast.Call):
            self.edges.meanings[target.id] = node.value
            found = self._upper(node.value)
            if found is not None:
                self.counters.largest[target.id] = found
        return out

    def _rolled(self, node: ast.For) -> list[ast.stmt]:
        around, hidden = list(self.counters.open), dict[str, Form]()
        for name, bounds in self._loop_counters(node):
            hidden |= self.counters.enter(name, bounds)
        try:
            return super()._rolled(node)
        finally:
            self.counters.open = around
            self.counters.largest.update(hidden)

    def _loop_counters(self, node: ast.For) -> Sequence[tuple[str, Sequence[ast.expr]]]:
        """The counters of a loop with their bounds: one for each direction of a grid."""
        if not isinstance(node.iter, ast.Call):
            return []
        names = [target.id for target in (node.target.elts if isinstance(node.target, ast.Tuple) else [node.target]) if isinstance(target, ast.Name)]
        if resolve(node.iter.func, self.reads) is not MARKERS["spmd"]:
            bounds = bounds_of(node.iter)
            return [(names[0], bounds)] if names and bounds else []
        grid = node.iter.args[0] if node.iter.args else next((keyword.value for keyword in node.iter.keywords if keyword.arg == "core_num"), None)
        if grid is None:
            return []
        held = self.fold(grid)[1]
        if not (isinstance(held, Items) or (isinstance(held, Static) and isinstance(held.value, tuple | list))):
            return [(names[0], [grid])] if names else []
        extents = [at(ast.Subscript(grid, at(ast.Constant(axis), grid), ast.Load()), grid) for axis in range(len(items_of(held)))]
        return [(name, [extent]) for name, extent in zip(names, extents, strict=True)] if len(names) == len(extents) else []

    # writes ---------------------------------------------------------------------------------------------------------------

    def call(self, node: ast.expr) -> Folded:
        assert isinstance(node, ast.Call)
        folded = super().call(node)
        _, callee = self.fold(node.func)
        if not isinstance(callee, Static):
            return folded
        if not isinstance(folded[1], Static) and not node.keywords and (found := called(callee.value, [self._told(part) for part in node.args])) is not None:
            dim = found.dim()
            return folded[0], Static(dim, local=True) if isinstance(dim, int) else Extent(dim)
        if not isinstance(callee.value, OpFunction):
            return folded
        write = write_of(callee.value.name)
        if write is not None:
            self._note_op(write, node)
        if isinstance(folded[1], TileType):
            return folded[0], self.edges.narrowed(callee.value.rows[-1][1], node, folded[1], lambda part: self.fold(part)[1])
        return folded

    def _note_op(self, write: Write, node: ast.Call) -> None:
        given = write.given(node)
        target, value, offsets = given.get("target"), given.get("value"), given.get("offsets")
        if not (isinstance(target, ast.Name) and target.id in self.writes and value is not None and offsets is not None):
            return
        places: Sequence[ast.expr | None] = offsets.elts if isinstance(offsets, ast.List | ast.Tuple) else ()
        if places:
            starts = [self._upper(item) for item in places]
        else:
            starts = [form_of(item) for item in items_of(self.fold(offsets)[1])]
        written = self.fold(value)[1]
        if write.element:
            ends = [_ends(start, Form(1)) for start in starts]
        elif isinstance(written, BufferType | TileType) and len(written.valid) <= len(starts):
            lead = (1,) * (len(starts) - len(written.valid))
            rows = zip(places or [None] * len(starts), starts, lead + tuple(written.valid), lead + tuple(written.shape), strict=True)
            ends = [self._end(*row) for row in rows]
        else:
            ends = [None] * len(starts)
        clamp = given.get("clamp")
        if clamp is not None and self.fold(clamp)[1] not in (Static(False), Static(False, local=True)):
            shape = (1,) * (len(starts) - len(written.shape)) + tuple(written.shape) if isinstance(written, BufferType | TileType) else ()
            rows = zip(places or [None] * len(starts), ends, shape, strict=False)
            ends = [end if end is None or self.edges.holds(place, size, end) else Inside(end) for place, end, size in rows] or [None] * len(starts)
        self.writes[target.id].note(node, ends, written)

    def note_window_write(self, target: ast.Subscript, value: Abstract) -> None:
        if not isinstance(target.value, ast.Name) or target.value.id not in self.writes:
            return
        writes = self.writes[target.value.id]
        shaped = isinstance(value, BufferType | TileType)
        parts = self._index_parts(target, value)
        if parts is None:
            return writes.note(target, (), value)
        if all(map(_is_everything, parts)) and (not shaped or len(parts) in (1, len(value.shape))):
            writes.note_dtype(value)
            if shaped and writes.whole is None:
                writes.whole, writes.whole_place = value, target
                self._now_known(target.value.id, value)
            elif not shaped and not isinstance(value, Static | RuntimeValue):
                writes.note(target, (), value)
            return  # a number says nothing of the shape
        writes.note(target, self._window_ends(parts, value), value)

    def _index_parts(self, target: ast.Subscript, value: Abstract) -> Sequence[ast.expr] | None:
        """The index of a write, part by part, with whole axes in place of `...`; None: how many those are is not known."""
        parts = target.slice.elts if isinstance(target.slice, ast.Tuple) else [target.slice]
        parts = [part for item in parts for part in self._written_out(item, alone=len(parts) == 1)]
        dots = [part for part in parts if not isinstance(part, ast.Slice) and isinstance(found := self.fold(part)[1], Static) and found.value is ...]
        if not dots:
            return parts
        name = target.value.id if isinstance(target.value, ast.Name) else ""
        others = [part for part in parts if part is not dots[0]]
        if isinstance(held := self.env.get(name), BufferType):
            count = len(held.shape) - len(others)
        elif isinstance(value, BufferType | TileType):
            count = len(value.shape) - sum(isinstance(part, ast.Slice) for part in others)
        elif all(map(_is_everything, others)):
            count = 1  # a number, or what nothing is known of, for all of it
        else:
            return None
        place = parts.index(dots[0])
        return [*parts[:place], *(at(ast.Slice(), dots[0]) for _ in range(count)), *parts[place + 1 :]]

    def _written_out(self, part: ast.expr, alone: bool) -> Sequence[ast.expr]:
        """A part of an index as a subscript would write it, if it is a slice object, or alone a tuple with some."""
        found = self.fold(part)[1] if isinstance(part, ast.Name | ast.Attribute | ast.Call) else UNKNOWN
        known = written_index(found, part) if isinstance(found, Static) and (alone or type(found.value) is slice) else None
        return [text for text, _ in known] if known is not None else [part]

    def _now_known(self, name: str, written: BufferType | TileType) -> None:
        """`p[:] = x * 2.0; out[:] = p + 1.0`: an output has the shape of what was written into it from then on."""
        annotation = self.definition.param(name).tensor
        self.env[name] = BufferType(written.shape, (annotation.dtype if annotation is not None else None) or written.dtype)

    def _window_ends(self, parts: Sequence[ast.expr], value: Abstract) -> list[End]:
        sizes: list[tuple[Dim, Dim] | None] = list(zip(value.valid, value.shape, strict=True)) if isinstance(value, BufferType | TileType) else []
        kept = sum(isinstance(part, ast.Slice) for part in parts)
        sizes = sizes[len(sizes) - max(kept, len(sizes)) :] if len(sizes) >= kept else [None] * kept
        ends: list[End] = []
        for part in parts:
            if not isinstance(part, ast.Slice):
                ends.append(Inside() if self._behind(part) else _ends(self._upper(part), Form(1)))
            else:
                ends.append(self._slice_end(part, sizes.pop(0) if sizes else None, isinstance(value, Static | RuntimeValue)))
        return [*ends, *(form_of(size[0]) if size is not None and is_told(size[0], self.params) else None for size in sizes)]

    def _slice_end(self, part: ast.Slice, size: tuple[Dim, Dim] | None, number: bool) -> End:
        """Where a write into a slice ends: of a value with that valid and whole extent there, or of a number."""
        step = number_of(self.fold(part.step)[1]) if part.step is not None else 1
        if self._behind(part.lower) or self._behind(part.upper) or step != 1:
            last = form_of(size[0]) if size is not None and size[0] == size[1] and is_told(size[0], self.params) else None
            return end_of_steps(part, step, last, self._upper, self._behind) if isinstance(step, int) and step else None
        lower = part.lower or at(ast.Constant(0), part)
        start = self._upper(part.lower) if part.lower is not None else Form()
        end = self._end(lower, start, *size) if size is not None else None
        if size == (1, 1) and part.upper is not None and self.counters.distance(part.upper, lower) != 1:
            end = self._upper(part.upper)  # one cell, or row, for all of the window
        told = form_of(self.fold(part.upper)[1]) if part.upper is not None and size is not None and size[0] != size[1] else None
        end = told if told is not None and not told.terms else end  # a number that is written there is an end of the tensor's
        if end is None and part.upper is not None:
            end = self._upper(part.upper)
        return Form() if end is None and part.upper is None and part.lower is None and number else end

    def _behind(self, place: ast.expr | None) -> int:
        """How many cells before the end of the output a place is that is counted from there, else 0."""
        found = form_of(self._told(place)) if place is not None else None
        return -found.constant if found is not None and not found.terms and found.constant < 0 else 0

    def _end(self, place: ast.expr | None, start: Form | None, size: Dim, extent: Dim) -> Form | None:
        """Where a write of `size` cells of `extent` ends that starts at `place`, `start` at most; one of a tile cut at an edge ends there."""
        if size != ANY:
            return _ends(start, form_of(size) if is_told(size, self.params) else None)
        edge = self.edges.of(place, extent) if place is not None else None
        whole = _ends(start, form_of(extent))
        return whole if whole is not None and edge is not None and edge.covers(whole) else edge


def _is_everything(part: ast.expr) -> bool:
    """Whether a part of an index is `:`."""
    return isinstance(part, ast.Slice) and part.lower is None and part.upper is None and part.step is None


def _ends(start: Form | None, size: Form | None) -> Form | None:
    return start.plus(size) if start is not None and size is not None and (start.terms or start.constant >= 0) else None


@dataclass
class OutputFinder(Specializer):
    """A specialisation that is only made to see what is written."""

    sought: set[tuple[Definition, str]] = field(default_factory=set[tuple[Definition, str]])
    """Outputs whose annotations are being looked at: they speak of others."""

    def description(self, param: JitParam, types: Mapping[str, Abstract]) -> Description | None:
        """What the annotation of a parameter of the entry says in terms of others."""
        return described(self._watching(self.entry, types), param)

    def find(self, definition: Definition, types: Mapping[str, Abstract]) -> dict[str, Writes]:
        """What the body writes into the parameters that `types` lacks."""
        body = self._watching(definition, types)
        body.whole(definition.text.node.body)
        return body.writes

    def _watching(self, definition: Definition, types: Mapping[str, Abstract]) -> _Watching:
        body = _Watching(self, definition, self.dynamic(definition), types)
        body.watch([param.name for param in definition.params if param.name not in types])
        bind_symbols(body, types)
        return body

    def declared_axes(self, definition: Definition, name: str, rank: int, types: Mapping[str, Abstract]) -> Mapping[int, Dim]:
        """Extents of an output that the body makes dynamic, as other parameters have them."""
        body, declared = self._watching(definition, types), self.dynamic(definition)
        declared.axes(name, {name: rank})  # says which of them it does not have
        return {axis % rank: body.dims[symbol.root()] for axis, symbol in declared.dims.get(name, {}).items() if symbol.root() in body.dims}

    def missing_type(self, caller: Expressions, helper: Definition, param: JitParam, held: Mapping[str, Abstract], place: ast.AST) -> BufferType | None:
        found = self.output_type(helper, param, held)
        if found is not None and isinstance(place, ast.Name):
            caller.env[place.id] = found
            if isinstance(caller, _Watching) and place.id in caller.writes:
                caller.writes[place.id].whole = caller.writes[place.id].whole or found
                caller.writes[place.id].note_dtype(found)
        return found

    def output_type(self, helper: Definition, param: JitParam, held: Mapping[str, Abstract]) -> BufferType | None:
        """The type of an output of `helper` as its annotation or what it writes tell; `held`: its other arguments."""
        known = {name: value for name, value in held.items() if isinstance(value, BufferType | TileType | Static | Items)}
        if referred_to(helper, param):
            return self.described_type(helper, param, known)
        return self.described_type(helper, param, known) or self._from_annotation(helper, param, held) or self._from_writes(helper, param, known)

    def _from_writes(self, helper: Definition, param: JitParam, known: Mapping[str, Abstract]) -> BufferType | None:
        writes = self.find(helper, known).get(param.name)
        return self._type_of(helper, param.name, writes, known) if writes is not None else None

    def _type_of(self, definition: Definition, name: str, writes: Writes, types: Mapping[str, Abstract], dtype: DType | None = None) -> BufferType | None:
        rank = len(writes.ends[0]) if writes.ends else 0
        shape = writes.shape(self.declared_axes(definition, name, rank, types) if rank and writes.whole is None else {})
        dtype = dtype or writes.dtype
        return BufferType(shape, dtype) if shape is not None and dtype is not None else None

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

    # annotations in terms of other parameters -----------------------------------------------------------------------------

    def described_type(self, definition: Definition, param: JitParam, types: Mapping[str, Abstract]) -> BufferType | None:
        """`pl.Out[pl.like("x")]`, `pl.Out[pl.Tensor[[x.shape[0], M * 2], x.dtype]]`; None: the annotation is none of these, or of tensors not known here."""
        tensor = param.tensor
        if tensor is not None and tensor.shape is not None and tensor.dtype is not None:
            return self._computed_type(definition, tensor.shape, tensor.dtype, types)
        names = referred_to(definition, param)
        types = self._with_other_outputs(definition, param, names, types)
        if not names or any(other.name in names and other.name not in types for other in definition.params):
            return None
        found = described(self._watching(definition, types), param)
        return whole_type(definition, param, found, types) if found is not None else None

    def _with_other_outputs(self, definition: Definition, param: JitParam, names: Set[str], types: Mapping[str, Abstract]) -> Mapping[str, Abstract]:
        """`types`, and those of outputs that are left out too and that the annotation of `param` speaks of."""
        others = [other for other in definition.params if other.name in names and other.name not in types and other.direction == "Out"]
        if any((definition, other.name) in self.sought or other is param for other in others):
            what = f"the shape of output `{param.name}` of `{definition.name}` is declared by itself"
            raise in_body(ShapeError)(what, span=definition.span(definition.node_of(param)), help=f"pass `{param.name}`, or declare it by an input")
        self.sought.add((definition, param.name))
        found = {other.name: self.output_type(definition, other, types) for other in others}
        self.sought.discard((definition, param.name))
        return {**types, **{name: type for name, type in found.items() if type is not None}}

    def _computed_type(self, definition: Definition, shape: Sequence[DimSpec], dtype: DType, types: Mapping[str, Abstract]) -> BufferType | None:
        """`pl.Tensor[[M * 2, 4], pl.FP32]`, as Python evaluated it; None: nothing is computed there, or the symbols do not tell."""
        if not any(isinstance(dim, DynExpr) for dim in shape):
            return None
        body = self._watching(definition, types)
        forms = [form for dim in shape if (form := form_of_extent(dim, body)) is not None]
        return BufferType(tuple(form.dim() for form in forms), dtype) if len(forms) == len(shape) else None


def left_out_type(specializer: Specializer, helper: Definition, param: JitParam, held: Mapping[str, Abstract]) -> BufferType | None:
    """The type of an output that a submitted call of `helper` leaves out."""
    return OutputFinder(helper, specializer.known, specializer.trace).output_type(helper, param, held)


def output_types(finder: OutputFinder, types: Mapping[str, Abstract], omitted: Sequence[str]) -> dict[str, BufferType | ShapeError]:
    """The types of the outputs that a return-style call leaves out; of one that cannot be told the error at the write that hides it."""
    entry = finder.entry
    writes = finder.find(entry, types)
    out: dict[str, BufferType | ShapeError] = {}
    for name in omitted:
        annotation = entry.param(name).tensor
        found = finder._type_of(entry, name, writes[name], types, annotation.dtype if annotation is not None else None)  # pyright: ignore[reportPrivateUsage]
        is_whole = found is not None and all(dim != 0 and is_told(dim, types) for dim in found.shape)
        out[name] = found if found is not None and is_whole else _untold(entry, name, writes[name])
    return out


def _untold(entry: Definition, name: str, writes: Writes) -> ShapeError:
    first = next((param.name for param in entry.params if param.kind == "tensor" and param.direction == "In"), "x")
    help = f'pass `{name}`, or annotate it: {name}: pl.Out[pl.like("{first}")], or {name}: pl.Out[pl.Tensor[[rows, columns], dtype]]'
    place, by_output = writes.culprit() or (writes.whole_place, False)
    what = f"the shape of output `{name}` of `{entry.name}` cannot be told"
    if place is None:
        return ShapeError(f"{what}: nothing that is written into it says how large it is", span=entry.span(entry.node_of(entry.param(name))), help=help)
    why = "where it ends follows from the output's own shape" if by_output else "where it ends is known only at run time"
    return ShapeError(f"{what} from this write: {why}", span=entry.span(place), help=help)
