"""The rules of structure: bodies and how they end, values before their use, what branches and loops hand on, headers of functions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from xdsl.dialects.arith import CMPF_COMPARISON_OPERATIONS, CMPI_COMPARISON_OPERATIONS, CmpfOp, CmpiOp
from xdsl.dialects.builtin import ArrayAttr, FunctionType, ModuleOp, StringAttr, SymbolRefAttr
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.dialects.scf import ConditionOp, IfOp, WhileOp, YieldOp
from xdsl.ir import Attribute, Block, Operation, OpTraits, Region, SSAValue
from xdsl.traits import IsTerminator, NoTerminator
from xdsl.utils.exceptions import VerifyException

Problem = tuple[Operation, str, str | None]
"""The op at fault, what is wrong with it, and perhaps what to do."""

_SYMBOL = re.compile(r"[A-Za-z_][A-Za-z0-9_$.]*", re.ASCII)
_VISIBILITIES = ("public", "private", "nested")


def module_structure(module: ModuleOp) -> Iterator[Problem]:
    """Everything wrong with the structure of a module."""
    if len(module.body.blocks) > 1:
        yield module, f"the body of `{module.name}` has {len(module.body.blocks)} blocks; one is allowed", None
        return
    for op in module.body.ops:
        if isinstance(op, ModuleOp):
            yield from module_structure(op)
        elif isinstance(op, FuncOp):
            yield from _function_structure(op)
        else:
            yield op, f"`{op.name}` stands outside of a function", None


def _function_structure(function: FuncOp) -> Iterator[Problem]:
    complaint = _signature(function)
    if complaint is not None:
        yield function, complaint, None
    elif function.body.blocks:
        yield from _region_structure(function, set())


def _signature(function: FuncOp) -> str | None:
    name = function.sym_name.data
    if not _SYMBOL.fullmatch(name):
        return f'the function @"{name}" cannot be called that: names are letters, digits, `_`, `$` and `.`, and do not start with a digit'
    if not function.body.blocks:
        private = function.sym_visibility is not None and function.sym_visibility.data == "private"
        return None if private else f"@{name} has no body: only a private function is declared without one"
    wanted, got = function.function_type.inputs.data, function.body.blocks[0].arg_types
    return None if wanted == got else f"@{name} takes {listed(wanted)} by its type, but {listed(got)} in its body"


def listed(types: Sequence[Attribute]) -> str:
    """Types as a message shows them."""
    return f"({', '.join(map(str, types))})"


# bodies -----------------------------------------------------------------------------------------------------------------------


def _region_structure(op: Operation, defined: set[SSAValue]) -> Iterator[Problem]:
    for region in op.regions:
        if len(region.blocks) > 1:
            yield op, f"a body of `{op.name}` has {len(region.blocks)} blocks; one is allowed", "write branches and loops with scf.if, scf.for and scf.while"
            continue
        for block in region.blocks:
            yield from _block_structure(op, block, defined | set(block.args))


def _block_structure(parent: Operation, block: Block, defined: set[SSAValue]) -> Iterator[Problem]:
    if block.last_op is None and not parent.has_trait(NoTerminator):
        yield parent, f"a body of `{parent.name}` is empty: it needs a terminator", _TERMINATORS.get(parent.name)
    for op in block.ops:
        problem = _op_structure(parent, block, op, defined)
        if problem is not None:
            yield problem
            return
        if op.regions:
            yield from _region_structure(op, defined)
        defined.update(op.results)


def _op_structure(parent: Operation, block: Block, op: Operation, defined: set[SSAValue]) -> Problem | None:
    """The first thing wrong with an op by itself."""
    for operand in op.operands:
        if operand not in defined:
            return op, f"an operand of `{op.name}` is used before it is defined" + (f": %{operand.name_hint}" if operand.name_hint else ""), None
    if isinstance(op, FuncOp | ModuleOp):
        return op, f"`{op.name}` stands inside a function", None
    if op.has_trait(IsTerminator) and op is not block.last_op:
        return op, f"`{op.name}` ends a body, but more follows", None
    if op is block.last_op and not op.has_trait(IsTerminator) and not parent.has_trait(NoTerminator):
        return op, f"the body ends here without a terminator: `{parent.name}` needs one", _TERMINATORS.get(parent.name)
    problem = _control(op)
    if problem is not None or isinstance(op, CallOp):
        return problem
    try:
        op.verify(verify_nested_ops=False)
    except Exception as error:
        # xDSL says with several kinds of exceptions what the ops of its own dialects do not allow.
        return op, f"{op.name}: {reason(error)}", None
    return _predicate(op)


_TERMINATORS = {
    "func.func": "end it with `return`", "scf.for": "end it with `scf.yield`", "scf.if": "end it with `scf.yield`",
    "scf.while": "end the first body with `scf.condition`, the second one with `scf.yield`",
}  # fmt: skip


def reason(error: Exception) -> str:
    """What an exception of xDSL's says about an op; one of Python's says nothing that a user could read."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = lines and (isinstance(error, VerifyException) or type(error) is Exception)
    return lines[-1] if told else "its operands, attributes or bodies are not those of this op"


def _predicate(op: Operation) -> Problem | None:
    """xDSL does not look at the numbers that name comparisons."""
    if not isinstance(op, CmpiOp | CmpfOp):
        return None
    known = len(CMPI_COMPARISON_OPERATIONS if isinstance(op, CmpiOp) else CMPF_COMPARISON_OPERATIONS)
    number = op.predicate.value.data
    return None if 0 <= number < known else (op, f"{op.name}: the predicate is a number from 0 to {known - 1}, got {number}", None)


# branches and loops -------------------------------------------------------------------------------------------------------------


def _control(op: Operation) -> Problem | None:
    """What scf.if and scf.while hand on, against their results; xDSL only looks at scf.for."""
    if isinstance(op, IfOp) and len(op.regions) == 2 and len(op.regions[0].blocks) == 1:
        return _branches(op)
    if isinstance(op, WhileOp) and len(op.regions) == 2 and all(len(region.blocks) == 1 for region in op.regions):
        return _loop(op)
    return None


def _branches(op: IfOp) -> Problem | None:
    results = [result.type for result in op.results]
    if results and not op.false_region.blocks:
        return op, f"scf.if: it has {_counted(len(results), 'result')}, but no else", "write `else { scf.yield … }`: both branches give the results"
    for region in op.regions:
        for block in list(region.blocks)[:1]:
            if block.args:
                return op, f"scf.if: a branch has no arguments, got {listed(block.arg_types)}", None
            problem = _handed_on(op, region, YieldOp, results, "the branch gives", "the results of scf.if are")
            if problem is not None:
                return problem
    return None


def _loop(op: WhileOp) -> Problem | None:
    carried, results = [operand.type for operand in op.operands], [result.type for result in op.results]
    for region, wanted, which in ((op.before_region, carried, "first"), (op.after_region, results, "second")):
        if list(region.block.arg_types) != wanted:
            return op, f"scf.while: the {which} body takes {listed(wanted)}, got {listed(region.block.arg_types)}", None
    return (
        _handed_on(op, op.before_region, ConditionOp, results, "the first body gives", "the results of scf.while are")
        or _handed_on(op, op.after_region, YieldOp, carried, "the second body gives", "scf.while carries")
    )  # fmt: skip


def _handed_on(op: Operation, region: Region, kind: type[Operation], wanted: list[Attribute], gives: str, whose: str) -> Problem | None:
    last = region.block.last_op
    if last is None or not last.has_trait(IsTerminator):
        return None  # The rule of terminators reports it.
    if not isinstance(last, kind):
        return last, f"this body of `{op.name}` must end with `{kind.name}`, it ends with `{last.name}`", None
    given = [operand.type for operand in last.operands][kind is ConditionOp :]
    if given == wanted:
        return None
    return last, f"{last.name}: {gives} {listed(given)}, but {whose} {listed(wanted)}", None


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


# the generic form ---------------------------------------------------------------------------------------------------------------


def header_problem(op: Operation) -> str | None:
    """What keeps a module, a function or a call in the generic form from being looked at any further."""
    if isinstance(op, FuncOp | ModuleOp) and len(op.regions) != 1:
        return f"`{op.name}` has one body, got {len(op.regions)}"
    if isinstance(op, FuncOp):
        wrong = _function_header(op)
    elif isinstance(op, CallOp):
        callee = op.properties.get("callee")
        plain = isinstance(callee, SymbolRefAttr) and not callee.nested_references.data
        wrong = None if plain else "`func.call` needs `callee`, the symbol of a function"
    elif isinstance(op, ModuleOp):
        blocks = len(op.regions[0].blocks)
        wrong = None if blocks == 1 else f"the body of `{op.name}` has {blocks} blocks; one is allowed"
    else:
        return None
    return wrong or _definition(op)


def _function_header(op: FuncOp) -> str | None:
    name, type, visibility = (op.properties.get(key) for key in ("sym_name", "function_type", "sym_visibility"))
    if not isinstance(name, StringAttr):
        return "`func.func` needs `sym_name`, a string"
    if not isinstance(type, FunctionType):
        return "`func.func` needs `function_type`, like (i32) -> ()"
    if visibility is not None and not (isinstance(visibility, StringAttr) and visibility.data in _VISIBILITIES):
        return f"`sym_visibility` of `func.func` is one of {', '.join(_VISIBILITIES)}, got {visibility}"
    for key, types in (("arg_attrs", type.inputs.data), ("res_attrs", type.outputs.data)):
        found = op.properties.get(key)
        if isinstance(found, ArrayAttr) and len(found.data) != len(types):
            return f"`{key}` of `func.func` has {len(found.data)} dictionaries for {listed(types)}"
    return None


def _definition(op: FuncOp | CallOp | ModuleOp) -> str | None:
    """Operands, results and attributes by xDSL's definition; without its traits, which look at the whole file."""
    definition = op.get_irdl_definition()
    unknown = [name for name in op.properties if name not in definition.properties]
    if unknown:
        return f"`{op.name}` has no property `{unknown[0]}`; it has {', '.join(definition.properties)}"
    try:
        replace(definition, traits=OpTraits(tuple)).verify(op)
    except Exception as error:
        return f"{op.name}: {reason(error)}"
    return None
