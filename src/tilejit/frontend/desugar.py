"""Rewrites break, continue and early return into flags and branches, so that the rest of the front end sees none of them."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Sequence

from tilejit.errors import Span, UnsupportedFeatureError
from tilejit.frontend.early import SIDE_BY_SIDE, without_early_returns
from tilejit.frontend.guards import branches

SpanOf = Callable[[ast.AST], Span]

RETURN = "$return"
"""The name that holds the result when a function returns from inside a block."""
TYPED = "$typed_"
"""Begins the name of a value that takes an annotation before it is yielded."""


def desugar(body: Sequence[ast.stmt], span: SpanOf) -> list[ast.stmt]:
    """The body of a function without break, continue and returns inside blocks. Untouched nodes are shared with `body`."""
    statements = _loops(without_early_returns(body, span), span)
    end = next((index for index, statement in enumerate(statements) if isinstance(statement, ast.Return)), len(statements))
    del statements[end + 1 :]  # Never reached.
    if any(_contains(statement, ast.Return, into_loops=True) for statement in statements if not isinstance(statement, ast.Return)):
        statements, always = _returns(statements, span)
        last = statements[-1]
        if not always:
            raise UnsupportedFeatureError("this function returns on some paths only", span=span(last), help="return on every path, or once at the end")
        result = ast.copy_location(ast.Return(_name(RETURN, last)), last)
        statements.append(result)
    return statements


# loops ----------------------------------------------------------------------------------------------------------------


def break_flag(node: ast.For | ast.While) -> str | None:
    """The name of the flag that ends this loop early, if it has one."""
    return getattr(node, "tilejit_break", None)


def _loops(body: Sequence[ast.stmt], span: SpanOf) -> list[ast.stmt]:
    out: list[ast.stmt] = []
    for statement in body:
        if isinstance(statement, ast.For | ast.While):
            out += _loop(statement, span)
        elif isinstance(statement, ast.If | ast.With):
            out.append(_with_blocks(statement, lambda block: _loops(block, span)))
        else:
            out += _plain_yield(statement)
    return out


def _plain_yield(node: ast.stmt) -> list[ast.stmt]:
    """`n: T = pl.yield_(v)` yields `v` as a T: the value takes the annotation, then it is yielded. Other statements stay."""
    call = node.value if isinstance(node, ast.AnnAssign) else None
    if not isinstance(node, ast.AnnAssign) or not isinstance(call, ast.Call) or not is_yield(call):
        return [node]
    if not isinstance(node.target, ast.Name) or len(call.args) != 1 or isinstance(call.args[0], ast.Starred):
        return [ast.copy_location(ast.Assign([node.target], call), node)]
    typed = TYPED + node.target.id
    value = ast.copy_location(ast.AnnAssign(_name(typed, node.target, store=True), node.annotation, call.args[0], simple=1), node)
    handed = ast.copy_location(ast.Call(call.func, [_name(typed, call.args[0])], call.keywords), call)
    return [value, ast.copy_location(ast.Assign([node.target], handed), node)]


def _with_blocks(node: ast.If | ast.With, rewrite: Callable[[Sequence[ast.stmt]], list[ast.stmt]]) -> ast.stmt:
    new = copy.copy(node)
    new.body = rewrite(node.body)
    if isinstance(new, ast.If):
        new.orelse = rewrite(new.orelse)
    return new


def _loop(node: ast.For | ast.While, span: SpanOf) -> list[ast.stmt]:
    if isinstance(node, ast.While) and branches(node.test):
        return _decided_before(node, span)
    breaks = any(_contains(statement, ast.Break) for statement in node.body)
    continues = any(_contains(statement, ast.Continue) for statement in node.body)
    new = copy.copy(node)
    if not (breaks or continues) or (isinstance(node, ast.For) and loop_kind(node) in NO_BREAK):
        new.body = _loops(node.body, span)  # A forbidden break stays, for the error that names the loop.
        return [new]
    place = f"{node.lineno}_{node.col_offset}"
    stop, skip = f"$break_{place}", f"$continue_{place}"
    before: list[ast.stmt] = []
    after: list[ast.stmt] = []
    body = node.body
    if breaks:
        before.append(_assign(stop, False, node))
        new.tilejit_break = stop  # type: ignore[attr-defined]
    if isinstance(new, ast.For):
        new, body, carried, finish = _natural_carry(new, span)
        before += carried
        after += finish
    flags = [name for name, used in ((stop, breaks), (skip, continues)) if used]
    guarded = _guard(_loops(body, span), stop, skip, flags)
    new.body = [_assign(skip, False, node), *guarded] if continues else guarded
    return [*before, new, *after]


def _decided_before(node: ast.While, span: SpanOf) -> list[ast.stmt]:
    """A loop on a condition that branches: it is computed before each turn, into a name."""
    name = f"$while_{node.lineno}_{node.col_offset}"
    new = copy.copy(node)
    new.test = _name(name, node.test)
    decided = ast.copy_location(ast.Assign([_name(name, node.test, store=True)], node.test), node.test)
    *before, loop = _loop(new, span)
    assert isinstance(loop, ast.While)
    stop = break_flag(loop)
    again: ast.stmt = copy.deepcopy(decided)
    if stop is not None:
        again = ast.copy_location(ast.If(ast.copy_location(ast.UnaryOp(ast.Not(), _name(stop, node.test)), node.test), [again], []), node.test)
    loop.body = [*loop.body, again]
    return [*before, decided, loop]


NO_BREAK = SIDE_BY_SIDE
"""Loops in which break and continue have no meaning."""


def loop_kind(node: ast.For) -> str | None:
    """The last name of the loop's iterable, as written: `range` of `pl.range(…)`."""
    if isinstance(node.iter, ast.Call):
        function = node.iter.func
        return function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else None
    return None


def _guard(body: Sequence[ast.stmt], stop: str, skip: str, flags: Sequence[str]) -> list[ast.stmt]:
    """`body` with break and continue as flags; what follows a possible one runs only if no flag is up."""
    out: list[ast.stmt] = []
    for position, statement in enumerate(body):
        if isinstance(statement, ast.Break | ast.Continue):
            out.append(_assign(stop if isinstance(statement, ast.Break) else skip, True, statement))
            return out
        if not (_contains(statement, ast.Break) or _contains(statement, ast.Continue)):
            out.append(statement)
            continue
        assert isinstance(statement, ast.If | ast.With)
        out.append(_with_blocks(statement, lambda block: _guard(block, stop, skip, flags)))
        rest = body[position + 1 :]
        if rest:
            raised: list[ast.expr] = [_name(flag, statement) for flag in flags]
            test = raised[0] if len(raised) == 1 else ast.copy_location(ast.BoolOp(ast.Or(), raised), statement)
            test = ast.copy_location(ast.UnaryOp(ast.Not(), test), statement)
            out.append(ast.copy_location(ast.If(test, _guard(rest, stop, skip, flags), []), rest[0]))
        return out
    return out


def is_yield(node: ast.AST | None) -> bool:
    """Whether `node` is a call of `pl.yield_`."""
    if not isinstance(node, ast.Call):
        return False
    function = node.func
    return (isinstance(function, ast.Attribute) and function.attr == "yield_") or (isinstance(function, ast.Name) and function.id == "yield_")


def _natural_carry(node: ast.For, span: SpanOf) -> tuple[ast.For | ast.While, list[ast.stmt], list[ast.stmt], list[ast.stmt]]:
    """A loop with init_values and break or continue, as plain rebinding: the loop, its body, statements before and after it."""
    call = node.iter
    keywords = call.keywords if isinstance(call, ast.Call) else []
    initial = next((keyword.value for keyword in keywords if keyword.arg == "init_values"), None)
    if initial is None or not isinstance(call, ast.Call):
        return node, node.body, [], []
    while_form = loop_kind(node) == "while_"
    carried = node.target if while_form else node.target.elts[1] if isinstance(node.target, ast.Tuple) and len(node.target.elts) == 2 else None
    if carried is None:
        return node, node.body, [], []
    before: list[ast.stmt] = [ast.copy_location(ast.Assign([carried], initial), node)]
    body: list[ast.stmt] = []
    after: list[ast.stmt] = []
    for statement in (plain for written in node.body for plain in _plain_yield(written)):
        if isinstance(statement, ast.Assign) and is_yield(statement.value):
            assert isinstance(statement.value, ast.Call)
            values = ast.copy_location(ast.Tuple(statement.value.args, ast.Load()), statement.value)
            body.append(ast.copy_location(ast.Assign([carried], values), statement))
            single = len(statement.value.args) == 1 and not isinstance(statement.targets[0], ast.Tuple)
            result: ast.expr = _loaded(carried)
            if single and isinstance(result, ast.Tuple):
                result = result.elts[0]
            after.append(ast.copy_location(ast.Assign(statement.targets, result), statement))
        else:
            body.append(statement)
    if while_form:
        return _natural_while(node, body, span), body[1:], before, after
    new_call = copy.copy(call)
    new_call.keywords = [keyword for keyword in call.keywords if keyword.arg != "init_values"]
    new = copy.copy(node)
    assert isinstance(node.target, ast.Tuple)
    new.iter, new.target = new_call, node.target.elts[0]
    return new, body, before, after


def _natural_while(node: ast.For, body: Sequence[ast.stmt], span: SpanOf) -> ast.While:
    first = body[0] if body else None
    if not (isinstance(first, ast.Expr) and isinstance(first.value, ast.Call) and first.value.args):
        raise UnsupportedFeatureError("the body of pl.while_ begins with pl.cond(condition)", span=span(node))
    new = ast.copy_location(ast.While(first.value.args[0], list(body[1:]), []), node)
    new.tilejit_break = break_flag(node)  # type: ignore[attr-defined]
    return new


def _loaded(target: ast.expr) -> ast.expr:
    new = copy.deepcopy(target)
    for child in ast.walk(new):
        if isinstance(child, ast.Name | ast.Tuple | ast.List):
            child.ctx = ast.Load()
    return new


# returns --------------------------------------------------------------------------------------------------------------


def _returns(body: Sequence[ast.stmt], span: SpanOf) -> tuple[list[ast.stmt], bool]:
    """`body` with each return as a binding of RETURN, and whether every path returns."""
    out: list[ast.stmt] = []
    for position, statement in enumerate(body):
        rest = list(body[position + 1 :])
        if isinstance(statement, ast.Return):
            value = statement.value or ast.copy_location(ast.Constant(None), statement)
            out.append(ast.copy_location(ast.Assign([_name(RETURN, statement, store=True)], value), statement))
            return out, True
        if not _contains(statement, ast.Return, into_loops=True):
            out.append(statement)
        elif isinstance(statement, ast.If):
            then, then_always = _returns(statement.body, span)
            orelse, orelse_always = _returns(statement.orelse, span)
            if not then_always:
                then, then_always = _returns([*statement.body, *rest], span)
            if not orelse_always:
                orelse, orelse_always = _returns([*statement.orelse, *rest], span)
            new = copy.copy(statement)
            new.body, new.orelse = then, orelse
            out.append(new)
            return out, then_always and orelse_always
        elif isinstance(statement, ast.With):
            inner, always = _returns(statement.body, span)
            if not always:
                raise UnsupportedFeatureError(
                    "a return on some paths of a `with` block", span=span(statement), help="assign the value in the block and return it after the block"
                )
            new_with = copy.copy(statement)
            new_with.body = inner
            out.append(new_with)
            return out, True
        else:
            raise UnsupportedFeatureError(
                "return inside a loop", span=span(_first_return(statement)), help="assign the value in the loop and return it at the end"
            )
    return out, False


def _first_return(node: ast.AST) -> ast.AST:
    return next(child for child in ast.walk(node) if isinstance(child, ast.Return))


def _contains(node: ast.stmt, kind: type[ast.stmt], into_loops: bool = False) -> bool:
    """Whether a statement of `kind` belongs to `node`; those of inner loops do not, unless asked for."""
    if isinstance(node, kind):
        return True
    if isinstance(node, ast.If):
        return any(_contains(child, kind, into_loops) for child in [*node.body, *node.orelse])
    if isinstance(node, ast.With) or (into_loops and isinstance(node, ast.For | ast.While)):
        return any(_contains(child, kind, into_loops) for child in node.body)
    return False


# nodes ----------------------------------------------------------------------------------------------------------------


def _name(name: str, at: ast.AST, store: bool = False) -> ast.Name:
    node = ast.Name(name, ast.Store() if store else ast.Load())
    assert isinstance(at, ast.stmt | ast.expr)
    return ast.copy_location(node, at)


def _assign(name: str, value: bool, at: ast.stmt) -> ast.stmt:
    constant = ast.copy_location(ast.Constant(value), at)
    return ast.copy_location(ast.Assign([_name(name, at, store=True)], constant), at)
