"""The two planes: the control plane allocates, loops and launches; kernels and regions are the execution plane."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.ir import Operation

from tilejit.tile_ir import dialect as d

CONTROL_KINDS = frozenset({"orchestration", "opaque", "graph"})
KERNEL_KINDS = frozenset({"incore", "aic", "aiv"})


def called_inside(functions: Mapping[str, d.FuncOp]) -> set[str]:
    """Functions that run on the execution plane: called from kernels or regions."""
    found: set[str] = set()
    pending: list[Operation] = []
    for function in functions.values():
        pending += [function] if function.static("kind") in KERNEL_KINDS else [op for op in function.walk() if isinstance(op, d.RegionOp)]
    while pending:
        for op in pending.pop().walk():
            if isinstance(op, d.CallOp) and op.callee.data not in found:
                found.add(op.callee.data)
                pending.append(functions[op.callee.data])
    return found


def called_outside(functions: Mapping[str, d.FuncOp]) -> set[str]:
    """Functions that the control plane calls."""
    inner = called_inside(functions)
    found: set[str] = set()
    for name, function in functions.items():
        if function.static("kind") == "group" or (function.static("kind") in CONTROL_KINDS and name not in inner):
            found.update(op.callee.data for op in function.walk() if isinstance(op, d.CallOp) and d.enclosing(op, d.RegionOp) is None)
    return found
