"""Calls and launches of the control plane: which kernels a function becomes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.ir import Operation, SSAValue

from tilejit.backends.cuda.control_plane import host
from tilejit.backends.cuda.control_plane.frame import Frame
from tilejit.backends.cuda.control_plane.host import Number
from tilejit.backends.cuda.control_plane.ranks import meets
from tilejit.backends.cuda.grids.workload import grows
from tilejit.backends.cuda.program.body import Body
from tilejit.errors import UnsupportedFeatureError
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.cross_core import Run
from tilejit.tile_ir.transfers import sync_class


def woven(frame: Frame, op: d.CallOp | d.LaunchOp) -> bool:
    """Kernels that wait for each other become one kernel, where the last of them stands."""
    run = frame.state.cross.run_of(op)
    if run is None or not run.transfers:
        return False
    if op is not run.last:
        return True
    counts = [frame.number(member.blocks) if member.blocks is not None else None for member in run.members]
    blocks = counts[0]
    if any((count is None) != (blocks is None) or (count is not None and blocks is not None and not host.same(count, blocks)) for count in counts):
        raise UnsupportedFeatureError(
            "CUDA runs kernels side by side in equal numbers of blocks only", span=op.span, help="give both sides the same number of blocks"
        )
    weave(frame, run, blocks)
    return True


def call(frame: Frame, op: d.CallOp) -> None:
    if woven(frame, op):
        return
    function = frame.state.functions[op.callee.data]
    if function.static("kind") in ("incore", "aic", "aiv"):
        bound(frame, function, op.args)
        launch_function(frame, function, None, op)
        return
    bound(frame, function, op.args)
    returned = frame.block(function.body.block)
    terminator = d.end_of(function.body.block, d.ReturnOp)
    params = set(function.body.block.args)
    results = [frame.values[operand] for operand in terminator.values if operand not in params]
    _ = returned
    for result, value in zip(op.results, results, strict=True):
        frame.values[result] = value


def bound(frame: Frame, function: d.FuncOp, args: Sequence[SSAValue]) -> None:
    """Begin a function: nothing is known of its values but its arguments."""
    for op in function.walk():
        for result in op.results:
            frame.values.pop(result, None)
    for param, arg in zip(function.body.block.args, args, strict=True):
        frame.values[param] = frame.values[arg]


def launch(frame: Frame, op: d.LaunchOp) -> None:
    if woven(frame, op):
        return
    function = frame.state.functions[op.callee.data]
    bound(frame, function, op.args)
    blocks = frame.number(op.blocks) if op.blocks is not None else None
    launch_function(frame, function, blocks, op)


def launch_function(frame: Frame, function: d.FuncOp, blocks: Number | None, op: Operation) -> None:
    from tilejit.backends.cuda.grids.loops import blocks_as_product
    from tilejit.backends.cuda.grids.phases import run_in_phases
    from tilejit.backends.cuda.grids.spread import blocks_by_the_host, by_the_host

    if function.static("kind") == "group":
        group(frame, function, blocks)
        return
    if blocks is None and meets(function):
        reason = by_the_host(frame, function)
        if reason is not None:
            raise reason
        return
    if blocks is None:
        reason = frame.attempt(lambda: _without_blocks(frame, function))
        if reason is not None and by_the_host(frame, function) is not None:
            raise reason
        return
    if meets(function):
        blocks_by_the_host(frame, function, blocks)
        return
    if run_in_phases(frame, function, blocks) or blocks_as_product(frame, function, blocks):
        return
    reason = frame.attempt(lambda: _in_blocks(frame, function, blocks))
    if reason is not None and frame.attempt(lambda: blocks_by_the_host(frame, function, blocks)) is not None:
        raise reason


def _in_blocks(frame: Frame, function: d.FuncOp, blocks: Number) -> None:
    """Each block is a program."""
    kernel = frame.kernel(function.symbol)
    kernel.over_blocks(blocks)
    if isinstance(blocks.const, int):
        kernel.out.blocks, kernel.out.last_first = blocks.const, grows(function)
    kernel.body.run(function.body.block)
    frame.finish(kernel, blocks)


def _without_blocks(frame: Frame, function: d.FuncOp) -> None:
    from tilejit.backends.cuda.grids.spread import spread

    if spread(frame, function):
        return
    kernel = frame.kernel(function.symbol)
    kernel.body.run(function.body.block)
    frame.finish(kernel, host.number(1))


def group(frame: Frame, function: d.FuncOp, blocks: Number | None) -> None:
    """The kernels of a group, each in all blocks; those that wait for each other are one kernel."""
    for op in function.body.block.ops:
        if isinstance(op, d.ReturnOp):
            return
        if isinstance(op, d.CallOp | d.LaunchOp) and blocks is not None:
            run = frame.state.cross.run_of(op)
            if run is None:
                callee = frame.state.functions[op.callee.data]
                bound(frame, callee, op.args)
                launch_function(frame, callee, blocks, op)
            elif op is run.last:
                weave(frame, run, blocks)
        else:
            frame.step(op)


def weave(frame: Frame, run: Run, blocks: Number | None) -> None:
    """One kernel of all members of a run."""
    from tilejit.backends.cuda.program.crossing import Weaver
    from tilejit.backends.cuda.program.structure import inline

    starts = [member.op for member in run.members]
    kernel = frame.kernel(next((op.callee.data for op in starts if isinstance(op, d.CallOp | d.LaunchOp)), "kernels"))
    if blocks is not None:
        kernel.over_blocks(blocks)
    works: list[tuple[Body, Callable[[], object]]] = []
    for barrier in (op for member in run.members for op in _function_of(frame, member.op).walk() if sync_class(op) is not None):
        what = "CUDA does not run kernels that hand tiles to each other and meet at a syncall: they are one program, which cannot be cut"
        raise UnsupportedFeatureError(what, span=barrier.span if isinstance(barrier, d.TileOp) else None, help="let the tiles go through a tensor")
    for member in run.members:
        op, function = member.op, _function_of(frame, member.op)
        assert isinstance(op, d.CallOp | d.LaunchOp)
        for lane in range(member.lanes):
            body = kernel.again(lane)
            arguments = [body[arg] for arg in op.args]
            works.append((body, lambda body=body, function=function, arguments=arguments: inline(body, function, arguments)))
    Weaver(run).start(works)
    frame.finish(kernel, blocks or host.number(1))


def _function_of(frame: Frame, op: Operation) -> d.FuncOp:
    assert isinstance(op, d.CallOp | d.LaunchOp)
    return frame.state.functions[op.callee.data]
