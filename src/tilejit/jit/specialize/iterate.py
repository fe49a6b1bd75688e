"""What runs over containers while compiling: loops over tuples, lists, dicts, enumerate and zip, comprehensions, members of arguments."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, ItemsView, Iterator, KeysView, Sequence, ValuesView
from typing import TYPE_CHECKING, cast

from tilejit.errors import ParserTypeError, ShapeError, UnsupportedFeatureError, in_body
from tilejit.jit.reads.handles import is_handle
from tilejit.jit.specialize.nodes import at, relocated
from tilejit.jit.specialize.values import Abstract, Items, Static, literal, same

if TYPE_CHECKING:
    from tilejit.jit.specialize.expressions import Expressions
    from tilejit.jit.specialize.statements import Statements
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


def member(body: Expressions, node: ast.expr, value: Items, key: object, place: ast.expr) -> Folded | None:
    """`value[key]` of a container, or `value.key` of a named tuple; None: it has no such member that is known here."""
    if value.is_dict:
        index = next((index for index, known in enumerate(value.keys) if type(known) is type(key) and known == key), None)
        if index is None:
            known = ", ".join(map(repr, value.keys))
            raise in_body(ParserTypeError)(f"{ast.unparse(place)}: there is no {key!r}", span=body.definition.span(place), help=f"its keys are {known}")
    else:
        index = key if isinstance(key, int) and not isinstance(key, bool) else value.keys.index(key) if key in value.keys else None
    if index is None or not -len(value.items) <= index < len(value.items):
        return None
    nodes = member_nodes(body, node, value, place)
    return (nodes[index], value.items[index]) if nodes is not None else None


def part_of(body: Expressions, node: ast.expr, value: Items, index: ast.Slice, place: ast.expr) -> Folded | None:
    """`value[1:]` of a container."""
    ends = [body.fold(end)[1] if end is not None else Static(None) for end in (index.lower, index.upper, index.step)]
    nodes = member_nodes(body, node, value, place) if not value.is_dict else None
    if nodes is None or not all(isinstance(end, Static) and (end.value is None or isinstance(end.value, int)) for end in ends):
        return None
    cut = slice(*(cast("int | None", cast("Static", end).value) for end in ends))
    return at(ast.Tuple(nodes[cut], ast.Load()), place), Items(value.items[cut], value.names[cut])


# iterating ------------------------------------------------------------------------------------------------------------


def iterated(body: Expressions, node: ast.expr) -> list[Folded] | None:
    """The members of what is looped over while compiling, in order; None: it is nothing that is known then."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        callee = body.fold(node.func)[1]
        form = _FORMS.get(callee.value) if isinstance(callee, Static) and not is_handle(callee.value) and callable(callee.value) else None
        if form is not None:
            return form(body, node)
    return _members(body, *body.fold(node), node)


def _members(body: Expressions, text: ast.expr, value: Abstract, node: ast.expr) -> list[Folded] | None:
    if isinstance(value, Static):
        return [(static_node(body, item, node), Static(item)) for item in _static_members(body, value, node)]
    if isinstance(value, Items):
        if value.is_dict:
            return [(static_node(body, key, node), Static(key)) for key in value.keys]
        if (nodes := member_nodes(body, text, value, node)) is None and id(node) in body.first:
            nodes = member_nodes(body, body.named_first(text), value, node)
        return list(zip(nodes, value.items, strict=True)) if nodes is not None else None
    return None


def computed_first(node: ast.expr) -> Iterator[ast.expr]:
    """What an expression computes before all else, from outside in."""
    yield node
    if isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
        yield from computed_first(node.generators[0].iter)
    elif isinstance(node, ast.List | ast.Tuple) and node.elts and isinstance(first := node.elts[0], ast.Starred):
        yield from computed_first(first.value)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("enumerate", "zip", "reversed", "list", "tuple"):
        for argument in node.args:
            yield from computed_first(argument)
            if not isinstance(argument, ast.Name | ast.Call):
                break  # which is computed where it stands, before the next


def _static_members(body: Expressions, value: Static, node: ast.expr) -> list[object]:
    if is_handle(value.value):
        return [cast("Static", item).value for item in body.members(value, node)]
    if isinstance(value.value, tuple | list | range | str | dict | KeysView | ValuesView | ItemsView):
        return list(cast("Sequence[object]", value.value))
    shown = ast.unparse(node)
    if isinstance(value.value, set):
        check_order(body, value.value, node)
        return list(cast("set[object]", value.value))
    raise in_body(ParserTypeError)(
        f"`{shown}` is {value.value!r}, which has no members to loop over",
        span=body.definition.span(node),
        help=f"write pl.range({shown}) for a loop at run time, or pl.unroll({shown}) to expand it while compiling" if isinstance(value.value, int) else None,
    )


def check_order(body: Expressions, value: object, node: ast.expr) -> None:
    """Refuse to go through a set whose order is another one in each process."""
    if isinstance(value, set) and not all(type(item) in (int, float, bool) for item in cast("set[object]", value)):
        what = f"the order of `{ast.unparse(node)}`, a set, is another one in each process"
        raise in_body(UnsupportedFeatureError)(what, span=body.definition.span(node), help="go through it sorted: sorted(…)")


def _enumerate(body: Expressions, node: ast.Call) -> list[Folded] | None:
    given = {keyword.arg: keyword.value for keyword in node.keywords}
    start = given.get("start", node.args[1] if len(node.args) > 1 else None)
    first = body.fold(start)[1] if start is not None else Static(0)
    members = iterated(body, node.args[0]) if node.args else None
    if members is None or not isinstance(first, Static) or not isinstance(first.value, int):
        return None
    return [together([(relocated(ast.Constant(number), node), Static(number)), item], node) for number, item in enumerate(members, first.value)]


def _zip(body: Expressions, node: ast.Call) -> list[Folded] | None:
    columns = [iterated(body, argument) for argument in node.args]
    known = [column for column in columns if column is not None]
    if len(known) != len(columns):
        return None
    strict = next((body.fold(keyword.value)[1] for keyword in node.keywords if keyword.arg == "strict"), Static(False))
    if isinstance(strict, Static) and strict.value is True and len({len(column) for column in known}) > 1:
        sizes = ", ".join(str(len(column)) for column in known)
        raise in_body(ShapeError)(f"zip(…, strict=True) of containers of {sizes} members", span=body.definition.span(node), help="pass as many of each")
    return [together(row, node) for row in zip(*known, strict=False)]


def _reversed(body: Expressions, node: ast.Call) -> list[Folded] | None:
    members = iterated(body, node.args[0]) if len(node.args) == 1 else None
    return members[::-1] if members is not None else None


_FORMS: dict[object, Callable[[Expressions, ast.Call], list[Folded] | None]] = {enumerate: _enumerate, zip: _zip, reversed: _reversed}
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


# loops ----------------------------------------------------------------------------------------------------------------


def unrolled(body: Statements, node: ast.For) -> list[ast.stmt] | None:
    """The turns of a loop over what is known while compiling; None: it is another loop."""
    if isinstance(node.iter, ast.Call) and isinstance(callee := body.fold(node.iter.func)[1], Static) and callee.value is range:
        return None  # refused: whether it should run or be expanded is for the author to say
    if isinstance(node.iter, ast.Call) and body.is_marker(node.iter.func):
        return None
    members = iterated(body, node.iter)
    if members is None:
        return None
    _refuse_rebound(body, node, members[1:])
    out: list[ast.stmt] = []
    for position, item in enumerate(members, 1):
        changes = body.changes
        out += body.bind_member(node.target, item)
        turn, end = _turn(body, node.body)
        out += turn
        if end is ast.Break:
            return out
        if body.changes != changes and _is_live(body, node.iter) and not _alike(members[position:], (iterated(body, node.iter) or [])[position:]):
            what = f"`{ast.unparse(node.iter)}` changes while it is looped over"
            raise in_body(UnsupportedFeatureError)(what, span=body.definition.span(node), help=f"loop over a copy: [*{ast.unparse(node.iter)}]")
    return out + [new for statement in node.orelse for new in body.statement(statement)]


def _is_live(body: Expressions, node: ast.expr) -> bool:
    """Whether a loop sees what becomes of a list or dict while it runs: it goes through the thing itself, not through something made of it."""
    if not isinstance(node, ast.Call):
        return isinstance(node, ast.Name | ast.Attribute | ast.Subscript)
    if isinstance(node.func, ast.Attribute):
        return node.func.attr in ("items", "keys", "values") and _is_live(body, node.func.value)
    callee = body.fold(node.func)[1]
    through = isinstance(callee, Static) and not is_handle(callee.value) and callable(callee.value) and callee.value in _FORMS
    return through and any(_is_live(body, argument) for argument in node.args)


def _alike(one: Sequence[Folded], other: Sequence[Folded]) -> bool:
    """Whether members are the same as before."""
    return len(one) == len(other) and all(
        same(a, b) and (isinstance(a, Static) or ast.dump(text) == ast.dump(now)) for (text, a), (now, b) in zip(one, other, strict=True)
    )


def _refuse_rebound(body: Statements, node: ast.For, later: Sequence[Folded]) -> None:
    """The text of a member is read when its turn comes, but Python looked at all of them before the first one."""
    read = {part.id for text, value in later if not isinstance(value, Static) for part in ast.walk(text) if isinstance(part, ast.Name)}
    stores = [part for inner in (node.target, *node.body) for part in ast.walk(inner) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)]
    bound = {part.id: part for part in stores}
    if not _is_live(body, node.iter):
        inner = [part for statement in node.body for part in ast.walk(statement)]
        bound |= {part.id: part for part in filter(None, map(_changed_in_place, inner))}
    name = next((name for name in bound if name in read), None)
    if name is not None:
        what = f"`{name}` is bound anew in a loop over `{ast.unparse(node.iter)}`, whose members are read turn by turn"
        help = "give the new value a name of its own, or loop over other names"
        raise in_body(UnsupportedFeatureError)(what, span=body.definition.span(bound[name]), help=help)


def _changed_in_place(node: ast.AST) -> ast.Name | None:
    """The name of a list or dict that gets other members: it is bound anew."""
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name):
        return node.value
    called = node.func if isinstance(node, ast.Call) else None
    return called.value if isinstance(called, ast.Attribute) and called.attr == "insert" and isinstance(called.value, ast.Name) else None


def _turn(body: Statements, statements: Sequence[ast.stmt]) -> tuple[list[ast.stmt], type[ast.stmt] | None]:
    """One turn, up to a `break` or `continue` that is decided while compiling; at run time there is nothing left to jump out of."""
    out: list[ast.stmt] = []
    for statement in statements:
        for new in body.statement(statement):
            if isinstance(new, ast.Break | ast.Continue):
                return out, type(new)
            jump = _jump(new)
            if jump is not None:
                word = "break" if isinstance(jump, ast.Break) else "continue"
                raise in_body(UnsupportedFeatureError)(
                    f"{word} in a loop that is expanded while compiling, under a condition known only at run time",
                    span=body.definition.span(jump),
                    help="put the rest of the turn into the other branch of the `if`",
                )
            out.append(new)
    return out, None


def _jump(node: ast.stmt) -> ast.stmt | None:
    """A `break` or `continue` that belongs to the loop around a statement."""
    if isinstance(node, ast.Break | ast.Continue):
        return node
    if not isinstance(node, ast.If | ast.With):
        return None
    inner = [*node.body, *(node.orelse if isinstance(node, ast.If) else [])]
    return next((found for child in inner if (found := _jump(child)) is not None), None)
