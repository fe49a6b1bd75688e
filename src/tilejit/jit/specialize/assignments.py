"""Assignments of a kernel body: what the names hold from then on, and which of them vanish from the text."""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence, Set
from typing import cast

from tilejit.errors import ShapeError, UnsupportedFeatureError, in_body
from tilejit.frontend.fold import BINARY
from tilejit.jit.reads.handles import holds_handle, is_handle
from tilejit.jit.reads.natures import ITERATOR
from tilejit.jit.reads.questions import refusal
from tilejit.jit.specialize.calls import Calls
from tilejit.jit.specialize.dynamic import symbols_of
from tilejit.jit.specialize.growing import has_no_other_name, makes_container
from tilejit.jit.specialize.infer import operator
from tilejit.jit.specialize.iterate import dealt, is_iterable, keys_of, member_nodes, members_in_order, static_node, without_objects
from tilejit.jit.specialize.nodes import at, is_index_expression, relocated
from tilejit.jit.specialize.stores import added_to, is_member, put
from tilejit.jit.specialize.values import UNKNOWN, Abstract, Items, Static, as_local, holds_object, literal, members_of
from tilejit.jit.specialize.walk import Binding, Folded, NeedsTurns
from tilejit.types.values import BufferType, TileType


class Assignments(Calls):
    """Expressions and assignments of one function."""

    def assign(self, node: ast.stmt) -> list[ast.stmt]:
        assert isinstance(node, ast.Assign)
        if all(symbols_of(target, node.value, self.reads) for target in node.targets):
            return []
        self._refuse_swap(node)
        vanished = self._shape_assignment(node)
        if vanished is not None:
            return vanished
        value_node, value = self.fold(node.value)
        self._name_made(node.value, value)
        self._list_made(node.targets, node.value)
        apart = any(isinstance(target, ast.Tuple | ast.List) and (holds_object(value) or _is_taken_apart(target, value)) for target in node.targets)
        if apart or any(isinstance(part, ast.Starred) or is_member(self, part) for target in node.targets for part in ast.walk(target)):
            if len(node.targets) > 1 and not isinstance(value, Static) and not isinstance(value_node, ast.Name):
                value_node = self.named_first(value_node, value)  # computed once, for all targets
            return [new for target in node.targets for new in self._given(target, (value_node, value), node)]
        if self._names_an_object(node.targets, value):
            return []
        if isinstance(value, Static) and holds_handle(value.value) and any(isinstance(target, (ast.Tuple, ast.List)) for target in node.targets):
            return [new for target in node.targets for new in self._unpacked(target, value, node)]
        targets = [self.target(target, value) for target in node.targets]
        number = value.value if isinstance(value, Static) and type(value.value) is int else None
        self._note_spelling(node.targets, value_node if number is None else at(ast.Constant(number), node.value))
        return [at(ast.Assign(targets, without_objects(value_node, value)), node)]

    def _name_made(self, node: ast.expr, value: Abstract) -> None:
        """Take note of a list or dict that gets a name. Iterators get none: the same question has one answer, and what they give next is another one."""
        if not isinstance(value, Static):
            return
        if isinstance(node, ast.GeneratorExp) or self._holds_iterator(value.value):
            what = f"`{ast.unparse(node)}` is an iterator: what it gives depends on who asked before, which a kernel cannot keep"
            raise in_body(UnsupportedFeatureError)(what, span=self.definition.span(node), help="make a list of it, [*…], and give that a name")
        if isinstance(value.value, list | dict | set):
            self.made.setdefault(id(cast("object", value.value)), (cast("object", value.value), self.undecided))

    def _list_made(self, targets: Sequence[ast.expr], value: ast.expr) -> None:
        if len(targets) == 1 and isinstance(targets[0], ast.Name) and makes_container(value):
            self.fresh_lists.add(targets[0].id)
            self.listed.add(targets[0].id)

    def _holds_iterator(self, value: object) -> bool:
        if isinstance(value, tuple | list):
            return any(map(self._holds_iterator, cast("Sequence[object]", value)))
        return is_handle(value) and ITERATOR in self.specializer.trace.nature(value)

    def _parts(self, text: ast.expr, value: Abstract, node: ast.expr) -> list[Folded] | None:
        """The members of what is taken apart, with their text; None where they are not known."""
        if isinstance(value, Items) and value.is_dict:
            return [(static_node(self, key, node), Static(key)) for key in keys_of(self, value, node)]
        if isinstance(value, Items):
            nodes = member_nodes(self, text, value, node)
            if nodes is None and id(node) in self.first:
                nodes = member_nodes(self, self.named_first(text, value), value, node)
            return list(zip(nodes, value.items, strict=True)) if nodes is not None else None
        if isinstance(value, Static) and (is_handle(value.value) or isinstance(value.value, tuple | list) or is_iterable(value)):
            return members_in_order(self, value, node)
        return None

    def _spread_out(self, target: ast.expr, parts: list[Folded], node: ast.Assign) -> list[ast.stmt]:
        """`a, *b, c = …`: one assignment per name; the one with the star gets a list."""
        assert isinstance(target, (ast.Tuple, ast.List))
        named = dealt(target.elts, parts, node.value)
        if named is None:
            starred = any(isinstance(part, ast.Starred) for part in target.elts)
            wanted = f"{len(target.elts) - 1} or more" if starred else f"{len(target.elts)}"
            message = f"`{ast.unparse(node.value)}` has {len(parts)} members, this names {wanted}"
            raise in_body(ShapeError)(message, span=self.definition.span(target))
        for _, (_, part) in named:
            self._name_made(node.value, part)
        before, named = self._read_first(named, node)
        return [*before, *(new for name, item in named for new in self._given(name, item, node))]

    def _read_first(self, named: list[tuple[ast.expr, Folded]], node: ast.Assign) -> tuple[list[ast.stmt], list[tuple[ast.expr, Folded]]]:
        """`a, *b = b, a`: all is read before anything is bound. What an earlier name of them would change gets a name of its own."""
        bound = [{part.id for part in ast.walk(target) if isinstance(part, ast.Name)} for target, _ in named]
        read = [{part.id for part in ast.walk(text) if isinstance(part, ast.Name)} for _, (text, _) in named]
        if not any(bound[first] & read[second] for second in range(len(named)) for first in range(second)):
            return [], named
        before: list[ast.stmt] = []
        out: list[tuple[ast.expr, Folded]] = []
        for target, (text, value) in named:
            if isinstance(value, Static):
                short = literal(value.value)
                text = relocated(short, node) if short is not None else text
            else:
                name = self.free_name("part")
                before.append(at(ast.Assign([at(ast.Name(name, ast.Store()), node)], without_objects(copy.deepcopy(text), value)), node))
                text = at(ast.Name(name, ast.Load()), node)
            out.append((target, (text, value)))
        return before, out

    def _given(self, target: ast.expr, item: Folded, node: ast.Assign) -> list[ast.stmt]:
        if isinstance(target, (ast.Tuple, ast.List)):
            parts = self._parts(*item, node.value)
            return self._spread_out(target, parts, node) if parts is not None else [at(ast.Assign([self.target(target, item[1])], item[0]), node)]
        if isinstance(target, ast.Subscript) and is_member(self, target):
            return put(self, target, item, node)
        if self._names_an_object([target], item[1]):
            return []
        return [at(ast.Assign([self.target(target, item[1])], without_objects(copy.deepcopy(item[0]), item[1])), node)]

    def _refuse_swap(self, node: ast.Assign) -> None:
        """`u, w = w, u` of the caller's tensors: after an odd number of steps the result would be in the other one, without a word."""
        target, value = node.targets[0], node.value
        if self.definition is not self.specializer.entry or not (isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple)):
            return
        names, values = ([item.id if isinstance(item, ast.Name) else "" for item in side.elts] for side in (target, value))
        outputs = {param.name for param in self.definition.params if param.direction != "In"}
        given = all(isinstance(self.params.get(name), BufferType) for name in names)
        if given and sorted(names) == sorted(values) and names != values and set(names) & outputs:
            first, second = next((a, b) for a, b in zip(names, values, strict=True) if a != b and {a, b} & outputs)
            raise in_body(UnsupportedFeatureError)(
                f"`{first}` and `{second}` are tensors of the caller: swapping their names leaves the result in one or the other",
                span=self.definition.span(node),
                help=f"swap local names, `a, b = {first}, {second}` before the loop, and write `{first}[:] = a` after it",
            )

    def _unpacked(self, target: ast.expr, value: Abstract, node: ast.Assign) -> list[ast.stmt]:
        """`a, (b, c) = SIZES`: one assignment per name, as some may be of objects."""
        if isinstance(target, (ast.Tuple, ast.List)):
            items = self.members(value, node.value)
            if len(target.elts) != len(items):
                message = f"`{ast.unparse(node.value)}` has {len(items)} members, this names {len(target.elts)}"
                raise in_body(ShapeError)(message, span=self.definition.span(target))
            return [new for name, item in zip(target.elts, items, strict=True) for new in self._unpacked(name, item, node)]
        if self._names_an_object([target], value):
            return []
        short = self.placeholder(value.value, node.value) if isinstance(value, Static) and holds_handle(value.value) else self._literal(value, node)
        return [at(ast.Assign([self.target(target, value)], short), node)]

    def _literal(self, value: Abstract, node: ast.Assign) -> ast.expr:
        short = literal(value.value) if isinstance(value, Static) else None
        if short is None:
            raise self.located(refusal(ast.unparse(node.value), "with members that have no literal"), node)
        return relocated(short, node.value)

    def _note_spelling(self, targets: Sequence[ast.expr], value: ast.expr) -> None:
        """`hi = lo + 16`: the width of `x[lo:hi]` can be told."""
        if self.follows_types and is_index_expression(value) and all(isinstance(target, ast.Name) for target in targets):
            names = {node.id for item in (*targets, value) for node in ast.walk(item) if isinstance(node, ast.Name)}
            if all(self.bindings_of(name) <= 1 for name in names):
                self.spelled.update({target.id: value for target in targets if isinstance(target, ast.Name)})

    def forget_spellings(self, names: Set[str]) -> None:
        """These names hold something else: so does what was spelled with them."""
        self.spelled = {
            name: text
            for name, text in self.spelled.items()
            if name not in names and not any(isinstance(part, ast.Name) and part.id in names for part in ast.walk(text))
        }

    def _names_an_object(self, targets: Sequence[ast.expr], value: Abstract) -> bool:
        """`c = CONFIGS[i]`: what the name stands for is read where it is used, as it has no literal."""
        if not isinstance(value, Static) or literal(value.value) is not None:
            return False
        if (holds_handle(value.value) or type(value.value) is set) and all(isinstance(target, ast.Name) for target in targets):
            for target in targets:
                self.bind(cast("ast.Name", target), value)
            return True
        if len(targets) != 1:
            return False
        target = targets[0]
        if not isinstance(target, ast.Name) or self.bindings_of(target.id) != 1:
            return False
        self.inlined[target.id] = value.value
        return True

    def _shape_assignment(self, node: ast.Assign) -> list[ast.stmt] | None:
        """`K = a.shape[1]` and `M, N = a.shape`: constant extents become literals at their uses, dynamic ones dim reads."""
        source = node.value.value if isinstance(node.value, ast.Subscript) else node.value
        if not (isinstance(source, ast.Attribute) and source.attr == "shape" and isinstance(source.value, ast.Name) and source.value.id in self.params):
            return None
        value_node, value = self.fold(node.value)
        if len(node.targets) != 1:
            return None
        target = node.targets[0]
        if isinstance(target, ast.Name):
            return self._extent_assignment(target, value_node, value, node)
        items = members_of(value)
        if not isinstance(target, (ast.Tuple, ast.List)) or not all(isinstance(item, ast.Name) for item in target.elts):
            return None
        if len(items) != len(target.elts):
            names, owner = len(target.elts), source.value.id
            help = f"its shape is {owner}.shape[0]" + (f" to {owner}.shape[{len(items) - 1}]" if len(items) > 1 else "")
            raise in_body(ShapeError)(f"`{owner}` has rank {len(items)}, this names {names} extents", span=self.definition.span(target), help=help)
        nodes = value_node.elts if isinstance(value_node, ast.Tuple) else [_member(value_node, axis) for axis in range(len(items))]
        out: list[ast.stmt] = []
        for name, item_node, item in zip(target.elts, nodes, items, strict=True):
            assert isinstance(name, ast.Name)
            out += self._extent_assignment(name, item_node, item, node) or []
        return out

    def _extent_assignment(self, target: ast.Name, value_node: ast.expr, value: Abstract, node: ast.Assign) -> list[ast.stmt]:
        if isinstance(value, Static) and not value.local and self.bindings_of(target.id) == 1 and not isinstance(value.value, tuple):
            self.inlined[target.id] = value.value
            return []
        return [at(ast.Assign([self.target(target, value)], value_node), node)]

    def bindings_of(self, name: str) -> int:
        """How often the function binds a name, as a parameter too."""
        return self.definition.stores.get(name, 0) + (name in self.params)

    def bind(self, target: ast.Name, value: Abstract) -> None:
        """Let a name hold `value`. An object has no text, so a name cannot be one on some ways of the run and something else on others."""
        name, bare = target.id, holds_object(value) or (isinstance(value, Static) and (holds_handle(value.value) or type(value.value) is set))
        before = self.bound_in.get(name, Binding((), False, True) if name in self.params else None)
        if before is not None and before.blocks[: len(self.blocks)] != self.blocks and before.texted and (bare or before.bare):
            what = f"`{name}` stands for an object of Python on some ways of the run and for something else on others"
            raise self.located(NeedsTurns(what, help="give it a name of its own there, or decide while compiling"), target)
        self.bound_in[name] = Binding(self.blocks, bare, not bare or (before is not None and before.texted))
        self.forget_spellings({name})
        self.env[name] = value

    def target(self, target: ast.expr, value: Abstract) -> ast.expr:
        """An assignment target, which from now on holds `value`."""
        if isinstance(target, ast.Name):
            self.bind(target, as_local(value))
            return at(ast.Name(target.id, ast.Store()), target)
        if isinstance(target, (ast.Tuple, ast.List)):
            items = members_of(value)
            if len(target.elts) == 2 < len(items):  # `(a, b), tid = pl.submit(…)`: the results as one
                items = (Items(items[:-1]), items[-1])
            matched = items if len(items) == len(target.elts) else (UNKNOWN,) * len(target.elts)
            new = [self.target(item, part) for item, part in zip(target.elts, matched, strict=True)]
            return at(type(target)(new, ast.Store()), target)
        if isinstance(target, ast.Subscript):
            base = self.rewrite(target.value)
            index, _ = self.indices(target.slice)
            self.note_window_write(target, value)
            return at(ast.Subscript(base, index, ast.Store()), target)
        return copy.deepcopy(target)

    def annotated(self, node: ast.stmt) -> list[ast.stmt]:
        assert isinstance(node, ast.AnnAssign)
        annotation = self.annotation(node.annotation)
        value_node, value = self.fold(node.value) if node.value is not None else (None, UNKNOWN)
        if node.value is not None:
            self._name_made(node.value, value)
            self._list_made([node.target], node.value)
        target = self.target(node.target, value)
        assert isinstance(target, (ast.Name, ast.Attribute, ast.Subscript))
        if isinstance(annotation, ast.Name) and annotation.id in self.objects:  # of Python's types or the user's own: it says nothing
            return [] if value_node is None else [at(ast.Assign([target], value_node), node)]
        return [at(ast.AnnAssign(target, annotation, value_node, node.simple), node)]

    def augmented(self, node: ast.stmt) -> list[ast.stmt]:
        assert isinstance(node, ast.AugAssign)
        if isinstance(node.target, ast.Subscript) and is_member(self, node.target):
            return added_to(self, node.target, node)
        before = self.env.get(node.target.id, UNKNOWN) if isinstance(node.target, ast.Name) else UNKNOWN
        if isinstance(node.target, ast.Name):
            of_tiles = node.target.id in self.listed and (isinstance(before, Items) or has_no_other_name(self, node.target.id))
            held = self.inlined.get(node.target.id, before.value if isinstance(before, Static) else [] if of_tiles else None)
            if isinstance(held, list | dict | set):
                return self.extended(node, cast("list[object] | dict[object, object]", held))
        place = self.target(node.target, UNKNOWN) if not isinstance(node.target, ast.Name) else None  # before the value, as in Python
        value_node, value = self.fold(node.value)
        if isinstance(node.target, ast.Name):
            if isinstance(before, Static) and holds_handle(before.value):
                name = node.target.id
                raise in_body(UnsupportedFeatureError)(
                    f"`{name}` stands for an object of Python, which a kernel cannot change", span=self.definition.span(node), help=f"write {name} = {name} …"
                )
            if isinstance(before, Static) and isinstance(value, Static):
                return self._counted(node, before, value, value_node)
            self.acts |= isinstance(before, (BufferType, TileType)) or before is UNKNOWN
            if not isinstance(before, BufferType):  # which is changed in place
                self.env[node.target.id] = operator(type(node.op).__name__, before, value, self.specializer.fresh)
        target = copy.deepcopy(node.target) if place is None else place
        assert isinstance(target, (ast.Name, ast.Attribute, ast.Subscript))
        return [at(ast.AugAssign(target, node.op, value_node), node)]

    def _counted(self, node: ast.AugAssign, before: Static, value: Static, value_node: ast.expr) -> list[ast.stmt]:
        """`count += 1` of a number or text that is known."""
        result = self.computed(node.value, node.op, BINARY[type(node.op)], before, value)
        if self._names_an_object([node.target], result):
            return []
        return [at(ast.AugAssign(cast("ast.Name", self.target(node.target, result)), node.op, value_node), node)]

    def expression(self, node: ast.stmt) -> list[ast.stmt]:
        """An expression that is a statement: where statements are rewritten."""
        raise NotImplementedError

    def note_window_write(self, target: ast.Subscript, value: Abstract) -> None:
        """Overridden where output shapes are looked for."""

    def extended(self, node: ast.AugAssign, held: list[object] | dict[object, object]) -> list[ast.stmt]:
        """`values += more` of a list or dict changes it, under all its names."""
        method = _IN_PLACE.get(f"{type(held).__name__} {type(node.op).__name__}")
        name = ast.unparse(node.target)
        if isinstance(held, list) and isinstance(node.op, ast.Mult) and (name in self.inlined or isinstance(self.env.get(name), Static)):
            times = self.fold(node.value)[1]
            if isinstance(times, Static) and isinstance(times.value, int):
                self.refuse_change(node, held)
                held *= times.value
                self.note_change(held)
                return []
        if method is None:
            sign = ast.unparse(node)[len(name) :].split("=")[0].strip()
            what = f"`{ast.unparse(node)}` changes a {type(held).__name__} in place"
            raise self.located((NeedsTurns if self.undecided else UnsupportedFeatureError)(what, help=f"write {name} = {name} {sign} …"), node)
        owner = copy.deepcopy(node.target)
        owner.ctx = ast.Load()
        target = at(ast.Attribute(owner, method, ast.Load()), node.target)
        call = at(ast.Call(target, [node.value], []), node)
        return self.expression(at(ast.Expr(ast.fix_missing_locations(call)), node))


_IN_PLACE = {
    "list Add": "extend", "dict BitOr": "update", "set BitOr": "update",
    "set BitAnd": "intersection_update", "set Sub": "difference_update", "set BitXor": "symmetric_difference_update",
}  # fmt: skip
"""The method that an operator with `=` stands for."""


def _is_taken_apart(target: ast.expr, value: Abstract) -> bool:
    """Whether names are given the members of what is no tuple or list: a range, a text, a set, the keys of a dict."""
    if not isinstance(target, ast.Tuple | ast.List):
        return False
    if is_iterable(value) or (isinstance(value, Items) and value.is_dict):
        return True
    return any(_is_taken_apart(part, member) for part, member in zip(target.elts, members_of(value), strict=False))


def _member(node: ast.expr, axis: int) -> ast.expr:
    return relocated(ast.Subscript(copy.deepcopy(node), ast.Constant(axis), ast.Load()), node)
