"""What containers have in them while compiling: members of tuples, lists, dicts and arguments, of enumerate and zip, for loops and comprehensions."""

from __future__ import annotations

import ast
import copy
import operator
from collections.abc import Callable, ItemsView, Iterable, KeysView, Sequence, ValuesView
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

import numpy as np

from tilejit.errors import ParserTypeError, ShapeError, UnsupportedFeatureError, in_body
from tilejit.jit.reads.handles import holds_handle, is_handle
from tilejit.jit.reads.typed import untyped
from tilejit.jit.specialize.effects import acting_calls
from tilejit.jit.specialize.nodes import at, relocated
from tilejit.jit.specialize.order import Keep, as_it_stands
from tilejit.jit.specialize.values import Abstract, Items, Static, holds_object, literal, number_node, same

if TYPE_CHECKING:
    from tilejit.jit.specialize.expressions import Expressions
    from tilejit.jit.specialize.walk import Folded


def static_node(body: Expressions, value: object, place: ast.expr) -> ast.expr:
    """The text of a compile-time value."""
    short = literal(value)
    return relocated(short, place) if short is not None else body.placeholder(value, place)


def member_nodes(body: Expressions, node: ast.expr, value: Items, place: ast.expr) -> list[ast.expr] | None:
    """The text of each member of `node`; None where that would compute something again."""
    if value.names:
        return [_named(body, name, item, place) for name, item in zip(value.names, value.items, strict=True)]
    if isinstance(node, (ast.Tuple, ast.List)):
        return [copy.deepcopy(item) for item in node.elts]
    if isinstance(node, ast.Dict):
        rows = list(zip(node.keys, node.values, strict=True))
        return [copy.deepcopy(item) for _, item in rows] if len(rows) == len(value.items) else None
    root = node
    while isinstance(root, (ast.Attribute, ast.Subscript)):
        root = root.value
    if not isinstance(root, ast.Name):
        return None
    keys = [static_node(body, key, place) for key in (value.keys if value.is_dict else range(len(value.items)))]
    return [relocated(ast.Subscript(copy.deepcopy(node), key, ast.Load()), place) for key in keys]


def _named(body: Expressions, name: str, value: Abstract, place: ast.expr) -> ast.expr:
    """A member of an argument that was taken apart."""
    if isinstance(value, Static):
        return static_node(body, value.value, place)
    if isinstance(value, Items):
        return bundle_node(body, value, place)
    return at(ast.Name(name, ast.Load()), place)


def bundle_node(body: Expressions, value: Items, place: ast.expr) -> ast.expr:
    """An argument that was taken apart, as a whole."""
    nodes = [_named(body, name, item, place) for name, item in zip(value.names, value.items, strict=True)]
    if value.is_dict:
        return at(ast.Dict([static_node(body, key, place) for key in value.keys], nodes), place)
    return at(ast.Tuple(nodes, ast.Load()), place)


def with_objects(body: Expressions, node: ast.expr, value: Items) -> ast.expr:
    """A container whose text has None where objects of Python are, with what stands for them."""
    nodes = member_nodes(body, node, value, node) or []
    parts = [_object_or_text(body, part, item) for part, item in zip(nodes, value.items, strict=True)]
    if value.is_dict:
        return at(ast.Dict([static_node(body, key, node) for key in value.keys], parts), node)
    return at(ast.Tuple(parts, ast.Load()), node)


def _object_or_text(body: Expressions, node: ast.expr, value: Abstract) -> ast.expr:
    if isinstance(value, Static) and holds_handle(value.value):
        return body.placeholder(value.value, node)
    return with_objects(body, node, value) if isinstance(value, Items) and holds_object(value) else node


def without_objects(node: ast.expr, value: Abstract) -> ast.expr:
    """The other way round: the text of a container that gets a name. Whoever asks for the object is given it, and nobody reads the None."""
    if not isinstance(value, Items) or not isinstance(node, ast.Tuple | ast.List | ast.Dict):
        return node
    parts = node.values if isinstance(node, ast.Dict) else node.elts
    if len(parts) != len(value.items):
        return node
    rows = zip(parts, value.items, strict=True)
    left = [at(ast.Constant(None), part) if isinstance(item, Static) and holds_handle(item.value) else without_objects(part, item) for part, item in rows]
    return at(ast.Dict(node.keys, left) if isinstance(node, ast.Dict) else type(node)(left, ast.Load()), node)


def member(body: Expressions, node: ast.expr, value: Items, key: object, place: ast.expr) -> Folded | None:
    """`value[key]` of a container, or `value.key` of a named tuple; None: it has no such member that is known here."""
    if value.is_dict:
        index = place_of(body, value, key, place)
        if index is None:
            known = ", ".join(map(repr, value.keys))
            raise in_body(ParserTypeError)(f"{ast.unparse(place)}: there is no {key!r}", span=body.definition.span(place), help=f"its keys are {known}")
    else:
        index = key if isinstance(key, int) and not isinstance(key, bool) else value.keys.index(key) if key in value.keys else None
    if index is None or not -len(value.items) <= index < len(value.items):
        return None
    nodes = member_nodes(body, node, value, place)
    if nodes is None:
        return None
    index %= len(nodes)
    acts = any(any(acting_calls(other, body.specializer.acting)) for position, other in enumerate(nodes) if position != index)
    text = at(ast.Subscript(at(ast.Tuple(nodes, ast.Load()), place), at(ast.Constant(index), place), ast.Load()), place) if acts else nodes[index]
    return text, value.items[index]


def place_of(body: Expressions, value: Items, key: object, place: ast.AST) -> int | None:
    """Where in a dict a key is, as Python looks for it; None: nowhere."""
    try:
        return {known: index for index, known in enumerate(value.keys)}.get(untyped(key))
    except TypeError as error:
        help = "numbers, texts and tuples of them can be keys"
        raise in_body(ParserTypeError)(f"`{ast.unparse(place)}` looks for {key!r} in a dict: {error}", span=body.definition.span(place), help=help) from None


def known_key(body: Expressions, key: object) -> object:
    """A key as it is looked up in a dict that was taken apart: of a text or number of a class of its own what it says, if it is equal to that; else the key."""
    if not is_handle(key):
        return key
    trace = body.specializer.trace
    said = trace.ask("content", key)
    return said if type(said) in (int, str) and trace.ask("operator", "Eq", key, said) is True else key


def keys_of(body: Expressions, value: Items, place: ast.AST) -> tuple[object, ...]:
    """The keys of a dict that was taken apart, as the kernel may have them."""
    if value.key_class:
        what = f"the keys of a dict with tensors in it are of the class {value.key_class}, whose members a kernel gets from no such dict"
        help = "go through the class and look each member up, or pass a dict with plain texts or numbers as keys"
        raise in_body(UnsupportedFeatureError)(what, span=body.definition.span(place), help=help)
    return value.keys


def part_of(body: Expressions, node: ast.expr, value: Items, index: ast.Slice, place: ast.expr) -> Folded | None:
    """`value[1:]` of a container."""
    ends = [body.fold(end)[1] if end is not None else Static(None) for end in (index.lower, index.upper, index.step)]
    nodes = member_nodes(body, node, value, place) if not value.is_dict else None
    if nodes is None or not all(isinstance(end, Static) and (end.value is None or isinstance(end.value, int)) for end in ends):
        return None
    cut = slice(*(cast("int | None", cast("Static", end).value) for end in ends))
    items = Items(value.items[cut], value.names[cut])
    if value.names or isinstance(node, ast.Tuple | ast.List):
        kind = ast.List if isinstance(node, ast.List) else ast.Tuple
        return at(kind(nodes[cut], ast.Load()), place), items
    numbers = [None if end is None else number_node(end) for end in (cut.start, cut.stop, cut.step)]
    return relocated(ast.Subscript(copy.deepcopy(node), ast.Slice(*numbers), ast.Load()), place), items  # of a list it is a list


# iterating ------------------------------------------------------------------------------------------------------------

_LIVE = (list, dict, set, KeysView, ValuesView, ItemsView)
"""What the kernel makes and can change."""


@dataclass(frozen=True, slots=True)
class Source:
    """A list, dict or set whose members a loop goes through, as they are by then and not as they were before its first turn."""

    before: Sequence[Folded]
    now: Callable[[], Sequence[Folded]]
    sized: bool
    """Whether Python too refuses it with more or fewer members: all but lists."""
    backwards: bool = False
    whole: bool = False
    """Whether nobody knows how many of them were asked for."""

    def goes_on(self, turns: int) -> bool:
        """Whether the members that come after so many turns are those that were to come."""
        done = 0 if self.whole else turns
        left = slice(0, len(self.before) - done) if self.backwards else slice(done, None)
        members = self.now()
        if members is self.before:
            return True
        one, other = self.before[left], members[left]
        if len(one) != len(other) or (self.sized and len(members) != len(self.before)):
            return False
        return all(same(a, b) and (isinstance(a, Static) or ast.dump(text) == ast.dump(now)) for (text, a), (now, b) in zip(one, other, strict=True))


def _source(body: Expressions, node: ast.expr, found: Folded, members: Sequence[Folded], live: bool) -> Source:
    text, value = found
    held = cast("Sequence[object]", value.value) if isinstance(value, Static) and isinstance(value.value, _LIVE) else ()
    first = list(held)
    names = {part.id: body.env.get(part.id) for part in ast.walk(node) if isinstance(part, ast.Name)} if live else {}

    def now() -> Sequence[Folded]:
        again = body.fold(node)[1] if any(body.env.get(name) is not known for name, known in names.items()) else value
        if isinstance(value, Static) and isinstance(again, Static):
            if first and len(held) == len(first) and all(map(operator.is_, held, first)):
                return members  # as it is in most turns: another list has changed
            return _members(body, text, value, node) or []  # its own, whatever the name was given since
        return iterated(body, node) or []  # the name was bound anew, in place of a change

    sized = isinstance(value.value, _LIVE[1:]) if isinstance(value, Static) else isinstance(node, ast.Call) or (isinstance(value, Items) and value.is_dict)
    return Source(members, now, sized)


def check_unchanged(body: Expressions, sources: Sequence[Source], turns: int, node: ast.expr, place: ast.AST) -> None:
    """Refuse a loop over what has changed by now, after so many turns."""
    if not all(source.goes_on(turns) for source in sources):
        what = f"`{ast.unparse(node)}` changes while it is looped over"
        raise in_body(UnsupportedFeatureError)(what, span=body.definition.span(place), help=f"loop over a copy: [*{ast.unparse(node)}]")


def iterated(body: Expressions, node: ast.expr, keep: Keep = as_it_stands, sources: list[Source] | None = None) -> list[Folded] | None:
    """The members of what is looped over while compiling, in order; None: it is nothing that is known then. `keep`: what becomes of each, where it is made.

    Into `sources` goes whose members they are, whatever it is called there.
    """
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        callee = body.fold(node.func)[1]
        form = _FORMS.get(callee.value) if isinstance(callee, Static) and not is_handle(callee.value) and callable(callee.value) else None
        if form is not None:
            return form(body, node, keep, sources)
    if isinstance(node, ast.Tuple | ast.List):
        parts = [keep(part, False) if not isinstance(part[0], ast.Starred) else part for item in node.elts for part in spread_out(body, item)]
        return parts if not any(isinstance(text, ast.Starred) for text, _ in parts) else None
    text, value = body.fold(node)
    members, live = _members(body, text, value, node), bool(live_parts(body, node))
    if members is None:
        return None
    if sources is not None and isinstance(node, ast.GeneratorExp):
        lazily: list[Source] = []
        iterated(body, node.generators[0].iter, as_it_stands, lazily)
        sources += [replace(source, whole=source.whole or len(node.generators) > 1) for source in lazily]  # Python asks for its members one by one
    elif sources is not None:
        sources += [_source(body, node, (text, value), members, live)] if live or (isinstance(value, Static) and isinstance(value.value, _LIVE)) else []
    return [keep(item, live) for item in members]


def _members(body: Expressions, text: ast.expr, value: Abstract, node: ast.expr) -> list[Folded] | None:
    if isinstance(value, Static):
        return members_in_order(body, value, node)
    if isinstance(value, Items):
        if value.is_dict:
            return [(static_node(body, key, node), Static(key)) for key in keys_of(body, value, node)]
        if (nodes := member_nodes(body, text, value, node)) is None and id(node) in body.first:
            nodes = member_nodes(body, body.named_first(text, value), value, node)
        return list(zip(nodes, value.items, strict=True)) if nodes is not None else None
    return None


_ITERABLE = (range, str, dict, set, KeysView, ValuesView, ItemsView)


def is_iterable(value: Abstract) -> bool:
    """Whether it is known and has members, but is no tuple or list, whose members are taken where they stand."""
    return isinstance(value, Static) and isinstance(value.value, _ITERABLE)


def members_in_order(body: Expressions, value: Static, node: ast.expr) -> list[Folded]:
    """The members of what is known, with their text."""
    return [(static_node(body, item, node), Static(item)) for item in _static_members(body, value, node)]


def _static_members(body: Expressions, value: Static, node: ast.expr) -> list[object]:
    if is_handle(value.value):
        return [cast("Static", item).value for item in body.members(value, node)]
    if isinstance(value.value, (tuple, list, *_ITERABLE)):
        check_order(body, value.value if isinstance(value.value, set) else None, node)
        return list(cast("Sequence[object]", value.value))
    shown = ast.unparse(node)
    raise in_body(ParserTypeError)(
        f"`{shown}` is {value.value!r}, which has no members to loop over",
        span=body.definition.span(node),
        help=f"write pl.range({shown}) for a loop at run time, or pl.unroll({shown}) to expand it while compiling" if isinstance(value.value, int) else None,
    )


def check_order(body: Expressions, value: object, node: ast.expr) -> None:
    """Refuse to go through a set whose order is another one in each process, or to show it; also where it is a member."""
    if isinstance(value, tuple | list | dict):
        members = (part for pair in cast("dict[object, object]", value).items() for part in pair) if isinstance(value, dict) else cast("list[object]", value)
        for item in members:
            check_order(body, item, node)
    if isinstance(value, set | frozenset) and not all(type(item) in (int, float, bool) and item == item for item in cast("set[object]", value)):
        what = f"the order of `{ast.unparse(node)}`, a set, is another one in each process"
        help = "leave NaNs out of it, or write a tuple: a NaN is sorted nowhere" if holds_nan(value) else "go through it sorted: sorted(…)"
        raise in_body(UnsupportedFeatureError)(what, span=body.definition.span(node), help=help)


def holds_nan(value: object) -> bool:
    """Whether there is a NaN in it: its place in a set follows from where it lies in memory, and that of others in order from what they are compared with."""
    if isinstance(value, tuple | list | set | frozenset | dict):
        return any(map(holds_nan, cast("Iterable[object]", value)))
    return isinstance(value, float | complex | np.generic) and bool(value != value)


def _enumerate(body: Expressions, node: ast.Call, keep: Keep, sources: list[Source] | None) -> list[Folded] | None:
    given = {keyword.arg: keyword.value for keyword in node.keywords}
    start = given.get("start", node.args[1] if len(node.args) > 1 else None)
    first = body.fold(start)[1] if start is not None else Static(0)
    members = iterated(body, node.args[0], keep, sources) if node.args else None
    if members is None or not isinstance(first, Static) or not isinstance(first.value, int):
        return None
    return [together([(relocated(ast.Constant(number), node), Static(number)), item], node) for number, item in enumerate(members, first.value)]


def _zip(body: Expressions, node: ast.Call, keep: Keep, sources: list[Source] | None) -> list[Folded] | None:
    columns = [iterated(body, argument, keep, sources) for argument in node.args]
    known = [column for column in columns if column is not None]
    if len(known) != len(columns):
        return None
    strict = next((body.fold(keyword.value)[1] for keyword in node.keywords if keyword.arg == "strict"), Static(False))
    if isinstance(strict, Static) and strict.value is True and len({len(column) for column in known}) > 1:
        sizes = ", ".join(str(len(column)) for column in known)
        raise in_body(ShapeError)(f"zip(…, strict=True) of containers of {sizes} members", span=body.definition.span(node), help="pass as many of each")
    return [together(row, node) for row in zip(*known, strict=False)]


def _reversed(body: Expressions, node: ast.Call, keep: Keep, sources: list[Source] | None) -> list[Folded] | None:
    forwards: list[Source] = []
    members = iterated(body, node.args[0], keep, forwards) if len(node.args) == 1 else None
    if sources is not None:
        sources += [replace(source, backwards=not source.backwards) for source in forwards]
    return members[::-1] if members is not None else None


_Form = Callable[["Expressions", ast.Call, Keep, list[Source] | None], "list[Folded] | None"]
_FORMS: dict[object, _Form] = {enumerate: _enumerate, zip: _zip, reversed: _reversed}
"""Functions of Python that a loop of the compiler goes through."""


def together(parts: Sequence[Folded], place: ast.expr, listed: bool = False) -> Folded:
    """A tuple of parts, or a list."""
    values = [value for _, value in parts]
    node = at((ast.List if listed else ast.Tuple)([copy.deepcopy(item) for item, _ in parts], ast.Load()), place)
    if all(isinstance(value, Static) for value in values):
        return node, Static((list if listed else tuple)(cast("Static", value).value for value in values))
    return node, Items(tuple(values))


def spread_out(body: Expressions, item: ast.expr) -> list[Folded]:
    """What a member of a tuple or list in the text stands for: the members of `*SIZES`, where they are known."""
    if not isinstance(item, ast.Starred):
        return [body.fold(item)]
    text, value = body.fold(item.value)
    members = _members(body, text, value, item.value)
    return members if members is not None else [(at(ast.Starred(text, ast.Load()), item), value)]


def copied(body: Expressions, text: ast.expr, value: Items, node: ast.Call, listed: bool) -> Folded | None:
    """`list(pair)` of values of the run; None: its members have no text of their own."""
    members = _members(body, text, value, node.args[0])
    return together(members, node, listed) if members is not None else None


def dealt(targets: Sequence[ast.expr], parts: Sequence[Folded], place: ast.expr) -> list[tuple[ast.expr, Folded]] | None:
    """`a, *b, c`: each name with its part, the one with a star with a list of them; None: the parts are too many or too few."""
    star = next((position for position, target in enumerate(targets) if isinstance(target, ast.Starred)), None)
    rest = len(parts) - len(targets) + 1
    if rest != 1 if star is None else rest < 0:
        return None
    taken = list(parts)
    if star is not None:
        taken[star : star + rest] = [together(parts[star : star + rest], place, listed=True)]
    return [(target.value if isinstance(target, ast.Starred) else target, part) for target, part in zip(targets, taken, strict=True)]


def live_parts(body: Expressions, node: ast.expr) -> list[ast.expr]:
    """The lists and dicts that a loop goes through as they are by then, not as they were before its first turn."""
    if not isinstance(node, ast.Call):
        return [node] if isinstance(node, ast.Name | ast.Attribute | ast.Subscript) else []
    if isinstance(node.func, ast.Attribute):
        return [node] if node.func.attr in ("items", "keys", "values") and live_parts(body, node.func.value) else []
    callee = body.fold(node.func)[1]
    through = isinstance(callee, Static) and not is_handle(callee.value) and callable(callee.value) and callee.value in _FORMS
    return [part for argument in node.args for part in live_parts(body, argument)] if through else []


def taken_apart(body: Expressions, target: ast.Tuple | ast.List, item: Folded) -> list[tuple[ast.expr, Folded]]:
    """The parts of a member with the names that they get."""
    node, value = item
    count = len(target.elts)
    if isinstance(value, Static):
        parts: list[Folded] = [(static_node(body, part, target), Static(part)) for part in _static_members(body, value, target)]
    else:
        nodes = member_nodes(body, node, value, target) if isinstance(value, Items) else None
        if nodes is None or not isinstance(value, Items):
            raise in_body(ParserTypeError)(f"what this loops over has no {count} parts", span=body.definition.span(target), help="loop with one name")
        parts = list(zip(nodes, value.items, strict=True))
    named = dealt(target.elts, parts, target)
    if named is None:
        message = f"{len(parts)} values for {count} names"
        raise in_body(ParserTypeError)(message, span=body.definition.span(target), help="name as many as each member has, or take the member by one name")
    return named
