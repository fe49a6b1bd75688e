"""Rewrites expressions of a kernel body: compile-time values become literals, shapes numbers or dim reads, and types are followed."""

from __future__ import annotations

import ast
import copy
from dataclasses import replace
from typing import cast

from tilejit import ops
from tilejit.errors import ParserTypeError, ShapeError, TilejitError, UndefinedVariableError, did_you_mean, in_body
from tilejit.frontend import fold
from tilejit.jit.reads.handles import holds_handle, is_handle
from tilejit.jit.reads.questions import MISSING
from tilejit.jit.reads.typed import untyped
from tilejit.jit.specialize import infer
from tilejit.jit.specialize.comprehensions import comprehension, set_of
from tilejit.jit.specialize.iterate import bundle_node, check_order, known_key, member, part_of, spread_out, with_objects
from tilejit.jit.specialize.mappings import mapping
from tilejit.jit.specialize.meta import DynDim
from tilejit.jit.specialize.nodes import at, constant_difference, dotted, relocated
from tilejit.jit.specialize.owned import kind_of, taken_over
from tilejit.jit.specialize.symbols import Symbol
from tilejit.jit.specialize.values import UNKNOWN, Abstract, Extent, Items, RuntimeValue, Static, Unknown, holds_object, literal, number_node
from tilejit.jit.specialize.walk import Folded, NeedsTurns, Walk
from tilejit.jit.specialize.windows import window
from tilejit.types.annotations import DirectedAnnotation, DynVar, ScalarAnnotation, TensorAnnotation, TileAnnotation
from tilejit.types.python_text import expression
from tilejit.types.values import BufferType, TileType

_KINDS = (int, float, bool, str, list, tuple, dict)
"""Types of Python that annotate locals."""


class Expressions(Walk):
    """Expressions of one function under one set of argument types."""

    def _rewritten(self, node: ast.expr) -> ast.expr:
        """An expression of which nothing is known but what its parts say."""
        new = copy.copy(node)
        for name, part in ast.iter_fields(node):
            if isinstance(part, ast.expr) and isinstance(getattr(part, "ctx", None), ast.Load | None):
                setattr(new, name, self.rewrite(part))
            elif isinstance(part, list):
                setattr(new, name, [self.rewrite(item) if isinstance(item, ast.expr) else copy.deepcopy(item) for item in cast("list[ast.AST]", part)])
            elif isinstance(part, ast.AST):
                setattr(new, name, copy.deepcopy(part))
        return new

    def rewrite(self, node: ast.expr) -> ast.expr:
        return self.fold(node)[0]

    def constant(self, node: ast.expr) -> Folded:
        assert isinstance(node, ast.Constant)
        return at(ast.Constant(node.value, node.kind), node), Static(node.value)

    def name(self, node: ast.expr) -> Folded:
        assert isinstance(node, ast.Name)
        same = at(ast.Name(node.id, ast.Load()), node)
        if node.id in self.substituted:
            return self._substituted(node, self.substituted[node.id])
        if node.id in self.objects:
            return same, Static(self.objects[node.id])
        if node.id in self.inlined:
            return same, Static(self.inlined[node.id])
        if node.id in self.dynamic.names:
            return self.extent(self.dynamic.names[node.id], node)
        if node.id in self.definition.local_names or node.id in self.params or node.id in self.named:
            held = self.env.get(node.id, UNKNOWN)
            if isinstance(held, Items) and held.names:
                return bundle_node(self, held, node), held
            if isinstance(held, Items) and holds_object(held):
                return with_objects(self, same, held), held
            if isinstance(held, Unknown) and (binding := self.bound_in.get(node.id)) is not None and binding.bare and not binding.texted:
                what = f"`{node.id}` stands for an object of Python, and which one it is here is known only at run time"
                raise self.located(NeedsTurns(what, help="give it another name there, or decide while compiling"), node)
            return self._typed_scalar(node) or (same, held)
        value = self.reads.around(node.id) if self.in_annotation and node.id in self.definition.around else self.reads.name(node.id)
        if value is MISSING:
            inner = next((part for part in self.definition.tree.nodes[1:] if isinstance(part, ast.FunctionDef) and part.name == node.id), None)
            if inner is not None:
                raise self.not_of_kernels(inner)
            help = did_you_mean(node.id, [*self.definition.local_names, *self.definition.visible_names()])
            raise UndefinedVariableError(f"`{node.id}` is not defined", span=self.definition.span(node), help=help) from None
        return self._captured(same, value, node)

    def _substituted(self, node: ast.Name, found: Folded | None) -> Folded:
        if found is None:
            what = f"`{node.id}` is not bound yet: it is a name of the comprehension, whose `for` has not begun here"
            help = f"move that `for` to the left, or let it bind another name if the `{node.id}` around the comprehension is meant"
            raise UndefinedVariableError(what, span=self.definition.span(node), help=help)
        text, value = found
        return relocated(copy.deepcopy(text), node), value

    def not_of_kernels(self, node: ast.stmt) -> TilejitError:
        """The refusal of a statement that kernels do not have."""
        from tilejit.frontend.statements import unsupported  # what compiles; a cache hit does not come here

        error = unsupported(node)
        return in_body(type(error))(error.message, span=self.definition.span(node), help=error.hint)

    def _typed_scalar(self, node: ast.Name) -> Folded | None:
        """A specialised scalar of a float type other than FP32, which a bare literal would lose."""
        value = self.env.get(node.id)
        if not isinstance(value, Static) or value.local or value.dtype is None:
            return None
        return relocated(cast("ast.expr", literal(value.value)), node), replace(value, local=True)

    def place_around(self, name: str) -> None:
        """Let a name stand for what it is around the definition, as it does in an annotation in quotes."""
        self.substituted[name] = self._captured(ast.Name(name, ast.Load()), self.reads.around(name), ast.Name(name, ast.Load()))

    def _captured(self, same: ast.expr, value: object, node: ast.expr) -> Folded:
        if isinstance(value, DynVar):
            self.reads.symbol(value)
            symbol = self.dynamic.objects.get(id(value))
            return self.extent(symbol or Symbol(value.name), node)
        return same, Static(value)

    def extent(self, symbol: Symbol, node: ast.expr) -> Folded:
        """A dynamic symbol as a value: a read of a dimension of a parameter that carries it."""
        dim = self.dims.get(symbol.root())
        if self.in_annotation:
            return at(ast.Name(self.symbol_text(symbol), ast.Load()), node), UNKNOWN
        if dim is None:
            raise in_body(ShapeError)(
                f"no parameter of `{self.definition.name}` has the dynamic extent `{symbol.literal}`",
                span=self.definition.span(node),
                help=f"use `{symbol.literal}` in the annotation of a parameter, or bind it with x.bind_dynamic(axis, {symbol.literal})",
            )
        return self.dim_read(dim, node), Extent(dim)

    def symbol_text(self, symbol: Symbol) -> str:
        """The name of a dynamic symbol in annotations of the program."""
        dim = self.dims.get(symbol.root())
        return self.specializer.symbol_name(self.params, dim) if dim is not None else symbol.literal

    def dim_read(self, dim: DynDim, node: ast.expr) -> ast.expr:
        """`pl.tensor.dim(p, k)` of the first parameter with that extent."""
        carriers = [(name, type.shape.index(dim)) for name, type in self.params.items() if isinstance(type, BufferType) and dim in type.shape]
        assert carriers, dim
        name, axis = next((carrier for carrier in carriers if carrier[0] not in self.definition.stores), carriers[0])
        if name in self.definition.stores:  # it may hold another tensor by now
            self.extents.setdefault(dim, (self.free_name("extent"), name, axis))
            return at(ast.Name(self.extents[dim][0], ast.Load()), node)
        return relocated(expression(f"pl.tensor.dim({name}, {axis})"), node)

    # attributes and subscripts --------------------------------------------------------------------------------------------

    def attribute(self, node: ast.expr) -> Folded:
        assert isinstance(node, ast.Attribute)
        base, value = self.fold(node.value)
        same = at(ast.Attribute(base, node.attr, ast.Load()), node)
        if isinstance(value, Static):
            path = dotted(node)
            found = self.reads.attribute(value.value, node.attr, path)
            if value.local and (not self.reads.is_language_of(value.value) or self.reads.is_language_of(found)):
                return same, Static(found, local=True)
            return self._captured(same, found, node)
        if isinstance(value, Items) and value.keys and not value.is_dict:
            if (found := member(self, base, value, node.attr, node)) is not None:
                return found
            if not hasattr(tuple, node.attr):
                what = f"`{dotted(node)}`: of a named tuple with tensors in it a kernel knows the fields {', '.join(map(str, value.keys))}, no `{node.attr}`"
                help = did_you_mean(node.attr, map(str, value.keys)) or "compute it from the fields, in a @pl.jit.inline helper"
                raise in_body(ParserTypeError)(what, span=self.definition.span(node), help=help)
        if isinstance(value, Items) and not (value.keys or value.is_dict or hasattr(tuple, node.attr) or hasattr(list, node.attr)):
            what = f"`{dotted(node)}`: a tuple or list has no `{node.attr}`"
            help = f"read its members by number: {dotted(node.value)}[0], or use a named tuple that has the field `{node.attr}`"
            raise in_body(ParserTypeError)(what, span=self.definition.span(node), help=help)
        if isinstance(value, (BufferType, TileType)):
            owner = node.value.id if isinstance(node.value, ast.Name) else ""
            if node.attr == "shape":
                return self._shape(same, value, node, known=owner in self.params and owner not in self.definition.stores and isinstance(value, BufferType))
            if node.attr == "dtype":
                return same, Static(value.dtype, local=owner not in self.params)
            if node.attr in ("ndim", "rank"):
                return same, Static(len(value.shape), local=owner not in self.params or owner in self.definition.stores)
            if node.attr == "T":
                return same, infer.method(value, "permute", [], {}, self.specializer.fresh)
            if node.attr in ops.spelled("attribute"):
                return same, infer.method(value, node.attr, [], {}, self.specializer.fresh)
        return same, UNKNOWN

    def _shape(self, same: ast.expr, type: BufferType | TileType, node: ast.expr, known: bool) -> Folded:
        if all(isinstance(dim, int) for dim in type.shape):
            return same, Static(type.shape, local=not known)
        items = Items(tuple(self._dim_value(dim) for dim in type.shape))
        if not known:
            return same, items
        reads = [self.dim_read(dim, node) if isinstance(dim, DynDim) else relocated(number_node(cast("int", dim)), node) for dim in type.shape]
        return at(ast.Tuple(reads, ast.Load()), node), items

    def _dim_value(self, dim: int | str) -> Abstract:
        return Static(dim) if isinstance(dim, int) else Extent(dim) if isinstance(dim, DynDim) else RuntimeValue()

    def subscript(self, node: ast.expr) -> Folded:
        assert isinstance(node, ast.Subscript)
        base, value = self.fold(node.value)
        if isinstance(value, (BufferType, TileType)):
            index, parts = self.indices(node.slice)
            return at(ast.Subscript(base, index, ast.Load()), node), window(value, parts, self.specializer.fresh)
        if isinstance(value, Items) and isinstance(node.slice, ast.Slice) and (part := part_of(self, base, value, node.slice, node)) is not None:
            return part
        index, place = self._cut(node.slice) if isinstance(value, Static) and isinstance(node.slice, ast.Slice) else self.fold(node.slice)
        same = at(ast.Subscript(base, index, ast.Load()), node)
        if isinstance(value, Items) and isinstance(place, Static):
            key = known_key(self, place.value) if value.is_dict else place.value
            if not holds_handle(key) and (found := member(self, base, value, untyped(key), node)) is not None:
                return found
        if isinstance(value, Items) and isinstance(place, Static) and isinstance(place.value, int):
            self._check_shape_index(node, place.value, len(value.items))
            if -len(value.items) <= place.value < len(value.items):
                return same, value.items[place.value]
        if isinstance(value, Static) and isinstance(place, Static):
            if isinstance(value.value, tuple) and isinstance(place.value, int):
                self._check_shape_index(node, place.value, len(cast("tuple[object, ...]", value.value)))
            found = self.item(node, value.value, place.value)
            if type(place.value) is slice and is_handle(found) and kind_of(self, value.value) is list:
                found = taken_over(self, found, node)
            return same, Static(found, local=value.local or place.local)
        return same, UNKNOWN

    def index(self, node: ast.expr) -> Abstract:
        """What a subscript of a compile-time container asks for."""
        return (self._cut(node) if isinstance(node, ast.Slice) else self.fold(node))[1]

    def _cut(self, node: ast.Slice) -> Folded:
        """`[1:]` of a compile-time container."""
        ends = [self.fold(end) if end is not None else None for end in (node.lower, node.upper, node.step)]
        text = at(ast.Slice(*(end[0] if end is not None else None for end in ends)), node)
        values = [end[1] if end is not None else Static(None) for end in ends]
        known = [value.value for value in values if isinstance(value, Static)]
        return text, Static(slice(*known)) if len(known) == len(values) else UNKNOWN

    def _check_shape_index(self, node: ast.Subscript, index: int, rank: int) -> None:
        if isinstance(node.value, ast.Attribute) and node.value.attr == "shape" and not -rank <= index < rank:
            owner = ast.unparse(node.value.value)
            raise in_body(ShapeError)(
                f"`{owner}` has rank {rank}: `{owner}.shape[{index}]` does not exist",
                span=self.definition.span(node),
                help=f"the last dimension is {owner}.shape[{rank - 1}]" if rank else None,
            )

    def indices(self, node: ast.expr) -> tuple[ast.expr, list[Abstract | slice]]:
        """The index of a tensor subscript, and its parts as types; the step of a slice without one is its width, where that is constant."""
        items = node.elts if isinstance(node, ast.Tuple) else [node]
        nodes: list[ast.expr] = []
        parts: list[Abstract | slice] = []
        for item in items:
            if isinstance(item, ast.Slice):
                ends = [self.fold(end) if end is not None else None for end in (item.lower, item.upper, item.step)]
                new = ast.Slice(*(end[0] if end is not None else None for end in ends))
                nodes.append(at(new, item))
                start, stop, step = (end[1] if end is not None else None for end in ends)
                width = None
                if new.lower is not None and new.upper is not None and step is None and not (isinstance(start, Static) and isinstance(stop, Static)):
                    width = constant_difference(new.upper, new.lower, self.spelled)
                parts.append(slice(start, stop, step if width is None else width))
            else:
                new_index, value = self.fold(item)
                written = written_index(value, item) if isinstance(value, Static) and (items == [node] or type(value.value) is slice) else None
                for text, part in written or [(new_index, value)]:
                    nodes.append(text)
                    parts.append(part)
        index = at(ast.Tuple(nodes, ast.Load()), node) if isinstance(node, ast.Tuple) or len(nodes) > 1 else nodes[0]
        return index, parts

    def slice(self, node: ast.expr) -> Folded:
        return self.indices(node)[0], UNKNOWN

    # collections ------------------------------------------------------------------------------------------------------------

    def sequence(self, node: ast.expr) -> Folded:
        assert isinstance(node, (ast.Tuple, ast.List))
        folded = [part for item in node.elts for part in spread_out(self, item)]
        new = at(type(node)([item for item, _ in folded], ast.Load()), node)
        values = [value for _, value in folded]
        if any(isinstance(item, ast.Starred) for item, _ in folded):
            return new, UNKNOWN
        statics = [value for value in values if isinstance(value, Static)]
        if len(statics) == len(values):
            plain = [value.value for value in statics]
            return new, Static(tuple(plain) if isinstance(node, ast.Tuple) else plain, local=any(value.local for value in statics))
        return new, Items(tuple(values))

    def mapping(self, node: ast.expr) -> Folded:
        assert isinstance(node, ast.Dict)
        return mapping(self, node)

    def set_display(self, node: ast.expr) -> Folded:
        assert isinstance(node, ast.Set)
        return set_of(self, [part for item in node.elts for part in spread_out(self, item)], node)

    def starred(self, node: ast.expr) -> Folded:
        assert isinstance(node, ast.Starred)
        return at(ast.Starred(self.rewrite(node.value), ast.Load()), node), UNKNOWN

    def f_string(self, node: ast.expr) -> Folded:
        assert isinstance(node, ast.JoinedStr)
        values = [self.fold(part.value)[1] for part in ast.walk(node) if isinstance(part, ast.FormattedValue)]  # those in widths too
        if all(isinstance(value, Static) for value in values):
            check_order(self, [cast("Static", value).value for value in values], node)
            text = fold.format_string(node, lambda part: cast("Static", self.fold(part)[1]).value, self.formatted)
            return copy.deepcopy(node), Static(text, local=any(isinstance(value, Static) and value.local for value in values))
        return at(ast.JoinedStr([self._text_part(part) for part in node.values]), node), UNKNOWN

    def _text_part(self, part: ast.expr) -> ast.expr:
        """A part of an f-string with values of the run: what is known while compiling is a text, as Python writes it here."""
        if not isinstance(part, ast.FormattedValue):
            return copy.deepcopy(part)
        value_node, value = self.fold(part.value)
        form, spec = self.fold(part.format_spec) if part.format_spec is not None else (None, UNKNOWN)
        if isinstance(value, Static) and (form is None or isinstance(spec, Static)):  # else this part is as unknown alone as it is here
            text = self.f_string(at(ast.JoinedStr([part]), part))[1]
            if isinstance(text, Static):
                return at(ast.Constant(cast("str", text.value)), part)
        if isinstance(spec, Static):
            form = at(ast.JoinedStr([at(ast.Constant(cast("str", spec.value)), part)]), part)
        return at(ast.FormattedValue(value_node, part.conversion, form), part)

    def comprehension(self, node: ast.expr) -> Folded:
        return comprehension(self, node)

    # annotations ------------------------------------------------------------------------------------------------------------

    def annotation(self, node: ast.expr) -> ast.expr:
        """A local annotation with its compile-time values filled in; symbols stay symbols."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            try:
                node = relocated(expression(node.value), node)
            except SyntaxError:
                raise ParserTypeError("this annotation is not an expression", span=self.definition.span(node)) from None
        self.in_annotation = True
        try:
            text, value = self.fold(node)
        finally:
            self.in_annotation = False
        alias = value.value if isinstance(value, Static) and isinstance(node, ast.Name | ast.Attribute) else None
        if isinstance(alias, TensorAnnotation | TileAnnotation | ScalarAnnotation | DirectedAnnotation):
            return relocated(expression(repr(alias)), node)
        return at(ast.Name(cast("type", alias).__name__, ast.Load()), node) if any(alias is kind for kind in _KINDS) else text


def written_index(value: Static, place: ast.expr) -> list[tuple[ast.expr, Abstract | slice]] | None:
    """A slice object, or a tuple with some, as a subscript would write it; None: it is something else."""
    members = cast("tuple[object, ...]", value.value if type(value.value) is tuple else (value.value,))
    out: list[tuple[ast.expr, Abstract | slice]] = []
    for item in members:
        if isinstance(item, slice):
            ends = [None if end is None else Static(end) for end in (item.start, item.stop, item.step)]
            texts = [None if end is None else literal(end.value) for end in ends]
            if all((text is None) == (end is None) for text, end in zip(texts, ends, strict=True)):
                out.append((relocated(ast.Slice(*texts), place), slice(*ends)))
        elif (text := literal(item)) is not None:
            out.append((relocated(text, place), Static(item)))
    return out if len(out) == len(members) and any(isinstance(item, slice) for item in members) else None
