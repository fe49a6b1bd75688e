"""Submitted tasks: `pl.submit`, `pl.spmd_submit`, their dependencies and predicates."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from xdsl.ir import Block, SSAValue

from tilejit.dtypes import INDEX, TASK_ID
from tilejit.errors import ArgumentError, ParserSyntaxError, ParserTypeError, did_you_mean
from tilejit.frontend import functions
from tilejit.frontend.context import Context
from tilejit.frontend.values import MethodReference, NoValue, TaskHandle, describe_value, shaped
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.program import Function
from tilejit.types.values import ArrayType, BufferType, ScalarType, ValueType


class TaskResult(tuple[object, ...]):
    """The flat tuple of what `pl.submit` gives: results, then the task id."""

    @property
    def nested(self) -> tuple[object, object]:
        """(result, task id), the results as one tuple where there are several."""
        results = self[:-1]
        return (results[0] if len(results) == 1 else results, self[-1])


# options --------------------------------------------------------------------------------------------------------------


def dependencies(given: object) -> list[TaskHandle | SSAValue]:
    """The task ids of `deps=`; None in it stands for "no producer"."""
    found: list[TaskHandle | SSAValue] = []
    for item in _listed(given, "deps"):
        if isinstance(item, TaskHandle) or (isinstance(item, SSAValue) and _holds_ids(d.type_of(item))):
            found.append(item)
        elif item is not None:
            raise ParserTypeError(f"`deps` takes task ids, got {describe_value(item)}", help="`with pl.at(…) as tid:` and `out, tid = pl.submit(…)` bind one")
    return found


def _holds_ids(type: ValueType) -> bool:
    return isinstance(type, ScalarType | ArrayType) and type.dtype is TASK_ID


def check_options(options: Mapping[str, object]) -> None:
    """Options that mean something to a scheduler only are checked like all others."""
    for name in ("allow_early_resolve", "sync_start", "windowize"):
        value = options.get(name)
        if value is not None and not isinstance(value, bool):
            raise ParserTypeError(f"`{name}` is True or False, got {describe_value(value)}")
    for name in ("dumps", "no_dep_args"):
        for item in _listed(options.get(name), name):
            if shaped(item) is None:
                raise ParserTypeError(f"`{name}` lists tensors, got {describe_value(item)}")
    dependencies(options.get("deps"))


def _listed(value: object, name: str) -> Sequence[object]:
    if value is None:
        return ()
    if not isinstance(value, tuple | list):
        raise ParserTypeError(f"`{name}` must be a list, got {describe_value(value)}", help=f"write {name}=[…]")
    return value


# predicates -----------------------------------------------------------------------------------------------------------

_PREDICATE = "compare one element with an integer: predicate=flags[0] > 0"


def _check_predicate(ctx: Context, predicate: object, deps: object) -> SSAValue:
    """A scheduler reads one element and compares it with a number: nothing else can be asked of it."""
    compared = predicate.owner if isinstance(predicate, SSAValue) else None
    if not isinstance(predicate, SSAValue) or not isinstance(compared, d.ApplyOp) or compared.op != "cmp":
        raise ParserTypeError(f"`predicate` must be one comparison, got {describe_value(predicate)}", help=_PREDICATE)
    elements = [side.owner for side in map(_plain, compared.args) if isinstance(side.owner, d.ReadOp)]
    numbers = [side for side in map(_plain, compared.args) if isinstance(side.owner, d.ConstOp)]
    if len(elements) != 1 or len(numbers) != 1:
        raise ParserTypeError("`predicate` must compare one element of a tensor with an integer literal", help=_PREDICATE)
    source = elements[0].source
    type = shaped(source)
    if not isinstance(type, BufferType) or not type.dtype.is_integer or not type.dtype.is_signed:
        raise ParserTypeError(f"`predicate` must read a tensor of signed integers, got {type}", help="INT32 flags are usual")
    producer = ctx.producers.get(source)
    known = dependencies(deps)
    if producer is not None and producer not in known and not any(isinstance(item, SSAValue) for item in known):
        raise ParserTypeError("`predicate` reads the result of a submitted task that is not in `deps`", help="add the task id of its submit: deps=[tid]")
    return predicate


def _plain(value: SSAValue) -> SSAValue:
    """The value under the conversions that a comparison of mixed integers needs."""
    while isinstance(value.owner, d.ApplyOp) and value.owner.op == "cast":
        value = value.owner.args[0]
    return value


Launched = TypeVar("Launched")


def guarded(ctx: Context, predicate: object, deps: object, launch: Callable[[], Launched]) -> Launched:
    """What `launch` starts is skipped at run time when the predicate is false."""
    if predicate is None:
        return launch()
    flag = _check_predicate(ctx, predicate, deps)
    then, orelse = Block(), Block()
    with ctx.builder.at(then):
        result = launch()
        ctx.builder.yield_([])
    with ctx.builder.at(orelse):
        ctx.builder.yield_([])
    ctx.builder.if_(flag, then, orelse, [])
    return result


# tasks ----------------------------------------------------------------------------------------------------------------

_KEYWORDS = ("deps", "dumps", "allow_early_resolve", "predicate")


def submit(ctx: Context, node: ast.Call) -> object:
    """`out, tid = pl.submit(self.kernel, …)`"""
    kernel, options = _task(ctx, "submit", node, _KEYWORDS)
    args = _arguments(ctx, kernel, node)
    why = "is skipped when its predicate is false" if options.get("predicate") is not None else None
    return guarded(ctx, options.get("predicate"), options.get("deps"), lambda: _launched(ctx, kernel, args, node, why))


def spmd_submit(ctx: Context, node: ast.Call) -> object:
    """`out, tid = pl.spmd_submit(self.kernel, …, core_num=n)`"""
    kernel, options = _task(ctx, "spmd_submit", node, (*_KEYWORDS, "core_num", "sync_start"))
    if "core_num" not in options:
        ctx.fail(ArgumentError, "pl.spmd_submit needs `core_num`", node, help="write core_num=4, the number of blocks")
    blocks = ctx.index(options["core_num"], "core_num")
    args = _arguments(ctx, kernel, node)

    def launch() -> TaskResult:
        block = Block(arg_types=d.ir_types([ScalarType(INDEX)]))
        with ctx.builder.at(block):
            result = _launched(ctx, kernel, args, node, "runs once per block")
            ctx.builder.yield_([])
        ctx.builder.region(block, [], blocks, "spmd")
        return result

    return guarded(ctx, options.get("predicate"), options.get("deps"), launch)


def _task(ctx: Context, marker: str, node: ast.Call, keywords: Sequence[str]) -> tuple[MethodReference, Mapping[str, object]]:
    if ctx.plane == "execution":
        ctx.fail(ParserSyntaxError, f"pl.{marker} inside a kernel", node, help="tasks are started on the control plane; inside a kernel call the function")
    if not node.args:
        ctx.fail(ArgumentError, f"pl.{marker} needs a kernel", node, help=f"write pl.{marker}(self.kernel, …)")
    kernel = ctx.value(node.args[0])
    if isinstance(kernel, Function):
        kernel = MethodReference(ctx.program.add_external(kernel, ctx.span(node)).symbol)
    if not isinstance(kernel, MethodReference):
        help = f"write pl.{marker}(kernel, …): a @pl.jit.incore or @pl.function, or self.kernel in a program"
        ctx.fail(ParserTypeError, f"pl.{marker} takes a function of the program, got {describe_value(kernel)}", node.args[0], help=help)
    options: dict[str, object] = {}
    for keyword in node.keywords:
        if keyword.arg is None or keyword.arg not in keywords:
            ctx.fail(ArgumentError, f"pl.{marker} has no parameter `{keyword.arg}`", keyword.value, help=did_you_mean(keyword.arg or "", keywords))
        options[keyword.arg] = ctx.keyword(keyword)
    check_options(options)
    return kernel, options


def _arguments(ctx: Context, kernel: MethodReference, node: ast.Call) -> Sequence[object]:
    """What the kernel is called with. Tensors for outputs that are left out are made here: once, whatever the predicate and the blocks are."""
    return functions.with_outputs(ctx, kernel.name, [ctx.value(item) for item in node.args[1:]], node)


def _launched(ctx: Context, kernel: MethodReference, args: Sequence[object], node: ast.Call, not_once: str | None) -> TaskResult:
    """`not_once`: why the kernel may run another number of times than once, so that only tensors it writes can leave it."""
    call = ast.copy_location(ast.Call(node.args[0], node.args[1:], []), node)
    result = functions.call_method(ctx, kernel.name, args, {}, call)
    ctx.tasks += 1
    handle = TaskHandle(f"task{ctx.tasks}")
    results = () if isinstance(result, NoValue) else result if isinstance(result, tuple) else (result,)
    for item in results:
        if isinstance(item, SSAValue):
            if not_once is not None and isinstance(item.owner, d.CallOp):
                ctx.fail(
                    ParserTypeError,
                    f"`{kernel.name}` returns a value of its own, but it {not_once}",
                    node,
                    help=f"give `{kernel.name}` an output parameter: out: pl.Out[pl.Tensor]",
                )
            ctx.producers[item] = handle
    return TaskResult((*results, handle))
