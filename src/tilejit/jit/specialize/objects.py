"""Objects of the user in a kernel body: handles while it is walked, literals of their content where they become part of the program."""

from __future__ import annotations

import ast
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar, cast

import numpy as np

from tilejit.dtypes import dtype_elsewhere
from tilejit.errors import TilejitError, UnsupportedFeatureError, in_body
from tilejit.jit.definition import Definition
from tilejit.jit.reads.handles import holds_handle, is_handle
from tilejit.jit.reads.plain import is_settled
from tilejit.jit.reads.questions import MISSING, refusal
from tilejit.jit.specialize.nodes import at, evaluated, relocated
from tilejit.jit.specialize.values import Abstract, Items, Static, literal
from tilejit.kinds import class_name, defining_module, is_a

if TYPE_CHECKING:
    from tilejit.jit.specialize.program import Specializer

_Node = TypeVar("_Node", bound=ast.AST)


class _Closing(ast.NodeTransformer):
    """Puts literals in the place of objects."""

    def __init__(self, body: Objects) -> None:
        self._body = body

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return self._body.content_node(node) if node.id in self._body.objects else node


class Objects:
    """What a body holds of Python besides plain values."""

    def __init__(self, specializer: Specializer, definition: Definition) -> None:
        self.specializer = specializer
        self.definition = definition
        self.reads = specializer.reads(definition)
        self.objects: dict[str, object] = {}
        """What the placeholders in the text stand for: objects that have no literal until somebody asks for their content."""

    def located(self, error: TilejitError, node: ast.AST) -> TilejitError:
        if error.span is not None:
            return error
        return in_body(type(error))(error.message, span=self.definition.span(node), where=error.where, help=error.hint, note=error.note)

    def placeholder(self, value: object, node: ast.expr) -> ast.expr:
        name = f"object {len(self.objects)}"
        self.objects[name] = value
        return at(ast.Name(name, ast.Load()), node)

    def opened(self, value: Abstract) -> Abstract:
        """A value with its objects by content, where they have one: what becomes part of the program."""
        if not isinstance(value, Static) or not holds_handle(value.value):
            return value
        found = self._content(value.value)
        return value if found is MISSING else Static(found, value.local)

    def _content(self, value: object) -> object:
        if is_handle(value):
            return self.specializer.trace.ask("content", value)
        if isinstance(value, tuple | list):
            items = [self._content(item) for item in cast("Sequence[object]", value)]
            return MISSING if any(item is MISSING for item in items) else type(value)(items)
        if isinstance(value, dict):
            pairs = [(self._content(key), self._content(item)) for key, item in cast("dict[object, object]", value).items()]
            return MISSING if any(part is MISSING for pair in pairs for part in pair) else dict(pairs)
        return value

    def closed(self, node: _Node) -> _Node:
        """The text without placeholders. An object that has no literal cannot become part of the program."""
        if not self.objects:
            return node
        return cast("_Node", _Closing(self).visit(node))

    def content_node(self, name: ast.Name) -> ast.expr:
        """The literal in the place of a placeholder."""
        value = self.objects[name.id]
        found = self._content(value)
        short = literal(found) if found is not MISSING else None
        if short is None:
            raise self._refused(value, name)
        return relocated(short, name)

    def _refused(self, value: object, node: ast.AST) -> TilejitError:
        trace = self.specializer.trace
        inner = value
        while isinstance(inner, tuple | list):
            inner = next(item for item in cast("Sequence[object]", inner) if holds_handle(item))
        raw = trace.in_message(inner)
        if type(raw) in (set, frozenset) and not is_handle(inner):
            help = "write a tuple, or ask it what it is for: `x in {…}`, `len({…})`"
            return self.located(UnsupportedFeatureError("a kernel cannot contain a set other than while compiling", help=help), node)
        error = refusal(trace.path_of(inner), f"a {defining_module(raw)}.{class_name(type(raw))}")
        of_arrays = (is_a(raw, type) and issubclass(raw, np.generic)) or is_a(raw, np.dtype) or class_name(type(raw)) == "dtype"
        if of_arrays and (dtype := dtype_elsewhere(raw)) is not None:
            error.hint = f"the language has data types of its own: pl.{dtype.name}"
        return self.located(error, node)

    def truth(self, value: Static, node: ast.expr) -> bool:
        """Whether a compile-time value is true, as Python sees it."""
        if holds_handle(value.value):
            return bool(self.specializer.trace.ask("truth", value.value, path=f"`{ast.unparse(node)}`")) if is_handle(value.value) else bool(value.value)
        return bool(evaluated(node, bool, value.value))

    def members(self, value: Abstract, node: ast.expr) -> tuple[Abstract, ...]:
        """The members of a value that is unpacked; none where that is not known."""
        if isinstance(value, Items):
            return value.items
        if isinstance(value, Static) and is_handle(value.value):
            trace = self.specializer.trace
            found = trace.ask("items", value.value, path=f"unpacking `{ast.unparse(node)}`")
            if not is_handle(found):
                return tuple(map(Static, found))
            return tuple(Static(trace.ask("item", found, index)) for index in range(trace.ask("call", len, (found,), {})))
        if isinstance(value, Static) and isinstance(value.value, tuple | list):
            return tuple(Static(item, value.local) for item in cast("Sequence[object]", value.value))
        return ()

    def item(self, node: ast.expr, owner: object, key: object) -> object:
        """`owner[key]`."""
        if is_handle(owner) or holds_handle(key):
            return self.specializer.trace.ask("item", owner, key, path=f"`{ast.unparse(node)}`")
        return evaluated(node, operator.getitem, owner, key)

    def formatted(self, value: object, conversion: int, spec: str) -> str | None:
        """An object as an f-string shows it; None for a plain value whose text follows from it. A spec that ends in `n` follows the locale."""
        if holds_handle(value) or not is_settled(value) or spec.endswith("n"):
            return cast("str", self.specializer.trace.ask("text", value, conversion, spec))
        return None
