"""What a kernel that is an operator of torch returns, by name, as its return statements say it: gradients are matched by these names."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from tilejit.errors import ArgumentError
from tilejit.jit.definition import Definition
from tilejit.jit.specialize.effects import write_of


def results_of(definition: Definition, outputs: Sequence[str], of_ranks: bool) -> tuple[str, ...]:
    """Names of what a call returns, in order, by the last return statement; `outputs` are those that it allocates."""
    value = definition.returns[-1].value if definition.returns else None
    return _in_order(outputs, _named(definition, _alternatives(definition, value)[-1]), of_ranks)


def check_one_order(definition: Definition, outputs: Sequence[str], results: Sequence[str], of_ranks: bool) -> None:
    """Refuse a kernel of which only the run tells what it returns where."""
    for statement in definition.returns:
        for value in _alternatives(definition, statement.value):
            named = _named(definition, value)
            found = _in_order(outputs, named, of_ranks)
            if of_ranks and len(results) > 1 and not all(is_param for _, is_param in named):
                what = f"`{definition.name}` returns what has no name of an output: only the run knows which one it is, and gradients go by names"
                help = f"return the outputs themselves, `return {', '.join(results)}`, or nothing"
                raise ArgumentError(what, span=definition.span(statement), help=help)
            if len(found) == len(results) > 1 and found != tuple(results):  # another number of them is refused when it comes
                what = f"`{definition.name}` returns {', '.join(found)} here and {', '.join(results)} elsewhere: gradients go by the names of results"
                help = f"return the same names in the same order everywhere, such as `return {', '.join(results)}`"
                raise ArgumentError(what, span=definition.span(statement), help=help)
            swapped = next((name for name, is_param in named if is_param and _is_unpacked(definition, name)), None)
            if len(results) > 1 and swapped is not None:
                what = f"`{definition.name}` returns `{swapped}`, which an unpacking binds: whether it is still that output is not looked into"
                raise ArgumentError(what, span=definition.span(statement), help=f"leave `{swapped}` what it is, and give the other tensor a name of its own")
            call = _call_behind(definition, value) if len(results) > 1 else None
            if call is not None and found[0] not in outputs and any(isinstance(node, ast.Name) and node.id in outputs for node in ast.walk(call)):
                what = f"`{definition.name}` returns what a call gives that takes its output: only the call knows in which order, and gradients go by names"
                help = f"return names, of which outputs have their own: `return {outputs[0]}`, or `return new, {outputs[0]}`"
                raise ArgumentError(what, span=definition.span(statement), help=help)


def _in_order(outputs: Sequence[str], returned: Sequence[tuple[str, bool]], of_ranks: bool) -> tuple[str, ...]:
    """Names of what a call returns: as a return statement with new tensors has them, else outputs as declared; a host function's as it returns them."""
    if of_ranks:
        return tuple(dict.fromkeys((*(name for name, _ in returned if name in outputs), *outputs)))
    if all(is_param for _, is_param in returned):
        return tuple(outputs)
    first = [name for name, is_param in returned if not is_param or name in outputs]
    return tuple(dict.fromkeys((*first, *outputs)))


def _named(definition: Definition, value: ast.expr | None) -> list[tuple[str, bool]]:
    """What a return statement hands out: names, and whether each is a parameter."""
    if value is None:
        return []
    parts = value.elts if isinstance(value, ast.Tuple) else [value]
    params = {param.name for param in definition.params}
    found = [_root(definition, part, params) for part in parts if not (isinstance(part, ast.Constant) and part.value is None)]
    unnamed = iter(("result", *(f"result_{number}" for number in range(1, len(found)))))
    return [(name if name is not None else next(unnamed), name in params) for name in found]


def _alternatives(definition: Definition, value: ast.expr | None, seen: frozenset[str] = frozenset()) -> list[ast.expr | None]:
    """The tuples that a returned expression may stand for, if it does for any; else itself."""
    if isinstance(value, ast.IfExp):
        found = [each for part in (value.body, value.orelse) for each in _alternatives(definition, part, seen)]
    elif isinstance(value, ast.Name) and value.id not in seen:
        found = [each for part in _assigned(definition, value.id) for each in _alternatives(definition, part, seen | {value.id})]
    else:
        return [value]
    return found if any(isinstance(each, ast.Tuple) for each in found) else [value]


def _call_behind(definition: Definition, value: ast.expr | None) -> ast.Call | None:
    """The call whose result is returned as it is, if one is."""
    seen: set[str] = set()
    while isinstance(value, ast.Name) and value.id not in seen:
        seen.add(value.id)
        value = _last_assigned(definition, value.id)
    return value if isinstance(value, ast.Call) else None


def _root(definition: Definition, part: ast.expr, params: set[str]) -> str | None:
    """The name of what is returned: a parameter where a chain of stores leads to one."""
    seen: set[str] = set()
    node: ast.expr | None = part
    while isinstance(node, ast.Name) and node.id not in params and node.id not in seen:
        seen.add(node.id)
        node = _written_by(definition, node.id)
    if isinstance(node, ast.Name) and node.id in params:
        return node.id
    return part.id if isinstance(part, ast.Name) else None


def _written_by(definition: Definition, name: str) -> ast.expr | None:
    """What `name` is another name of: the tensor that a store in its last assignment writes."""
    value = _last_assigned(definition, name)
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Attribute):
        return value if isinstance(value, ast.Name) else None
    write = write_of(value.func.attr)
    return write.given(value).get("target") if write is not None else None


def _assigned(definition: Definition, name: str) -> list[ast.expr]:
    """What is assigned to a name."""
    return [node.value for node in definition.tree.nodes if isinstance(node, ast.Assign) and any(_binds(target, name) for target in node.targets)]


def _last_assigned(definition: Definition, name: str) -> ast.expr | None:
    return next(reversed(_assigned(definition, name)), None)


def _is_unpacked(definition: Definition, name: str) -> bool:
    """Whether a name is one of several that an assignment binds."""
    groups = [node for node in definition.tree.nodes if isinstance(node, ast.Tuple | ast.List) and isinstance(node.ctx, ast.Store)]
    return any(isinstance(node, ast.Name) and node.id == name for group in groups for node in ast.walk(group))


def _binds(target: ast.expr, name: str) -> bool:
    return isinstance(target, ast.Name) and target.id == name
