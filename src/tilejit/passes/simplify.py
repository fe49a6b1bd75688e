"""Folds constants, applies identities of index arithmetic, removes what nothing needs, and merges equal scalars."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from xdsl.ir import Block, Operation, SSAValue

from tilejit import ops
from tilejit.dtypes import COMPLEX64, DType
from tilejit.errors import TilejitError
from tilejit.ops.evaluate import evaluate
from tilejit.passes.dead import remove_dead
from tilejit.passes.extents import parameter_with
from tilejit.passes.rewriting import is_scalar_op, replace, splice
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import apply_args, constant_of
from tilejit.tile_ir.literal import write_literal
from tilejit.tile_ir.program import Program
from tilejit.types.values import ScalarType


def simplify(program: Program) -> None:
    """Make every function smaller without changing what it does."""
    for function in program.functions.values():
        while _block(function.body.block) | remove_dead(function.body.block):
            pass


def _block(block: Block) -> bool:
    """Simplify a block and what is nested in it; whether anything changed."""
    changed = False
    seen: dict[str, Operation] = {}
    numbers: dict[SSAValue, int] = {}
    for op in list(block.ops):
        for region in op.regions:
            changed |= _block(region.block)
        rule = _RULES.get(type(op))
        if (rule is not None and rule(op)) or _merge(op, seen, numbers):
            changed = True
    return changed


def _merge(op: Operation, seen: dict[str, Operation], numbers: dict[SSAValue, int]) -> bool:
    """Use an equal scalar computed before, in the same block; an extent check that was made before is not made again."""
    if not is_scalar_op(op) and not isinstance(op, d.DimOp | d.ValidOp | d.CheckOp):
        return False
    assert isinstance(op, d.TileOp)
    operands = [_operand_key(operand, numbers) for operand in op.operands]
    facts = [op.static(name) for name in ("op", "groups", "statics", "axis")]
    key = f"{op.name} {operands} {write_literal(facts)} {[str(result.type) for result in op.results]}"
    first = seen.setdefault(key, op)
    if first is op:
        return False
    replace(op, first.results)
    return True


def _operand_key(value: SSAValue, numbers: dict[SSAValue, int]) -> str:
    const = constant_of(value)
    if const is not None:
        return f"{write_literal(const)} {d.type_of(value)}"
    return str(numbers.setdefault(value, len(numbers)))


# scalars ----------------------------------------------------------------------------------------------------------------


def _apply(op: Operation) -> bool:
    assert isinstance(op, d.ApplyOp)
    return is_scalar_op(op) and (_fold(op) or _identity(op))


def _fold(op: d.ApplyOp) -> bool:
    """Compute an op on constants now."""
    consts = [constant_of(operand) for operand in op.operands]
    types = tuple(d.type_of(result) for result in op.results)
    if not consts or any(const is None for const in consts) or ScalarType(COMPLEX64) in types:  # there are no complex constants
        return False
    args = {name: _numpy(arg) for name, arg in apply_args(op).items()}
    try:
        values = evaluate(ops.table()[op.op], args, types)
    except TilejitError:
        return False  # It fails when it runs, if it runs.
    results: list[SSAValue] = []
    for value, type in zip(values, types, strict=True):
        assert isinstance(type, ScalarType)
        results.append(_constant(op, _python(value, type.dtype), type.dtype))
    replace(op, results)
    return True


def _numpy(arg: object) -> object:
    if isinstance(arg, list):
        return tuple(_numpy(item) for item in arg)
    if not isinstance(arg, SSAValue):
        return arg
    return np.array(constant_of(arg), d.type_of(arg).dtype.numpy)[()]


def _python(value: np.generic, dtype: DType) -> int | float | bool:
    if dtype.is_float:
        return float(value)
    return bool(value) if dtype.kind == "bool" else int(value)


def _constant(before: Operation, value: int | float | bool, dtype: DType) -> SSAValue:
    op = d.ConstOp.build(result_types=[d.IRType(ScalarType(dtype))], attributes=d.statics({"value": value}))
    if "span" in before.attributes:
        op.attributes["span"] = before.attributes["span"]
    assert before.parent is not None
    before.parent.insert_op_before(op, before)
    return op.result


def _identity(op: d.ApplyOp) -> bool:
    """x + 0, x * 1 and the like, on integers (floats have signed zeros and NaN)."""
    type = d.type_of(op.results[0])
    if len(op.operands) != 2 or not isinstance(type, ScalarType) or not type.dtype.is_integer:
        return False
    left, right = op.operands
    same = left is right
    value: SSAValue | int | None = None
    match op.op, constant_of(left), constant_of(right):
        case ("add" | "sub", _, 0) | ("mul" | "floordiv", _, 1):
            value = left
        case ("add", 0, _) | ("mul", 1, _):
            value = right
        case ("mul", _, 0) | ("mul", 0, _) | ("mod", _, 1):
            value = 0
        case "minimum" | "maximum", _, _ if same:
            value = left
        case "sub", _, _ if same:
            value = 0
        case _:
            return _reassociate(op, type.dtype)
    if isinstance(value, int):
        value = _constant(op, value, type.dtype)
    if d.type_of(value) != type:
        return False
    replace(op, [value])
    return True


def _sign(op: d.ApplyOp) -> int:
    """With which sign an op adds its second operand to its first; 0 when it does not."""
    return 1 if op.op == "add" else -1 if op.op == "sub" else 0


def _reassociate(op: d.ApplyOp, dtype: DType) -> bool:
    """(x + 1) + 2 becomes x + 3: integers wrap, so the order of additions does not matter."""
    left, right = op.operands
    outer, inner = constant_of(right), left.owner
    if not isinstance(outer, int) or not isinstance(inner, d.ApplyOp) or len(inner.operands) != 2 or 0 in (_sign(op), _sign(inner)):
        return False
    step = constant_of(inner.operands[1])
    types = {d.type_of(value) for value in [*op.operands, *inner.operands, *op.results]}
    if not isinstance(step, int) or types != {ScalarType(dtype)} or dtype.kind != "int":
        return False
    total = _sign(op) * outer + _sign(inner) * step
    if abs(total) >= 1 << (dtype.bits - 1):
        return False
    op.attributes["op"] = d.Static("add" if total >= 0 else "sub")
    op.operands = (inner.operands[0], _constant(op, abs(total), dtype))
    return True


def _dim(op: Operation) -> bool:
    """The extent of a new buffer or window is known from what made it, that of a computed value from the parameter that has it too: so a store that
    asks for it is no reason to keep the value."""
    assert isinstance(op, d.DimOp)
    axis, maker = op.axis, op.source.owner
    type = d.shaped_type(op.source)
    extent = type.shape[axis]
    if isinstance(extent, int):
        replace(op, [_constant(op, extent, _index_dtype(op))])
        return True
    if isinstance(maker, d.CreateOp | d.ViewOp):
        dynamic = sum(not isinstance(dim, int) for dim in type.shape[:axis])
        source = maker.extents[dynamic]
    elif isinstance(maker, d.StridedOp):
        source = maker.extents[axis]
    elif isinstance(maker, d.WindowOp) and not maker.static("clamp"):
        source = maker.extents[[dim for dim in range(len(maker.extents)) if dim not in maker.drop][axis]]
    elif isinstance(maker, d.ApplyOp | d.GroupOp) and (parameter := parameter_with(op.source, extent)) is not None:
        op.operands, op.attributes["axis"] = (parameter[0],), d.Static(parameter[1])
        return True
    else:
        return False
    if d.type_of(source) != d.type_of(op.result):
        return False
    replace(op, [source])
    return True


def _index_dtype(op: d.DimOp) -> DType:
    return d.type_of(op.result).dtype


# control flow -------------------------------------------------------------------------------------------------------------


def _if(op: Operation) -> bool:
    assert isinstance(op, d.IfOp)
    condition = constant_of(op.condition)
    if condition is None:
        return False
    splice(op, op.then.block if condition else op.orelse.block, [])
    return True


def _for(op: Operation) -> bool:
    """Loops that run never or once."""
    assert isinstance(op, d.ForOp)
    lower, upper, step = (constant_of(bound) for bound in (op.lower, op.upper, op.step))
    if not isinstance(lower, int) or not isinstance(upper, int) or not isinstance(step, int) or step == 0:
        return False
    trips = len(range(lower, upper, step))
    if trips == 0:
        replace(op, list(op.inits))
    elif trips == 1 and d.type_of(op.lower) == d.type_of(op.body.block.args[0]):
        splice(op, op.body.block, [op.lower, *op.inits])
    else:
        return False
    return True


def _check(op: Operation) -> bool:
    """Extents that agree need no check; those that are constants and differ fail when they run."""
    assert isinstance(op, d.CheckOp)
    left, right = constant_of(op.left), constant_of(op.right)
    if op.left is op.right or (left is not None and left == right):
        replace(op, [])
        return True
    return False


_RULES: dict[type[Operation], Callable[[Operation], bool]] = {
    d.ApplyOp: _apply,
    d.DimOp: _dim,
    d.IfOp: _if,
    d.ForOp: _for,
    d.CheckOp: _check,
}
