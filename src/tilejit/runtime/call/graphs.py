"""Calls of kernels under `torch.compile`: torch leaves them out of its graphs instead of tracing the compiler, and says how they get in."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar, cast

_DYNAMO = "torch._dynamo"
_REASON = 'a kernel is compiled by tilejit, not by torch: make it an operator, op = kernel.as_torch_op("mylib::name"), and call that'

F = TypeVar("F", bound=Callable[..., Any])


def untraced(function: F) -> F:
    """`function` as torch's tracer meets it: a break of the graph, with the reason; torch need not be there."""
    marked = cast("Any", function)
    marked._torchdynamo_disable = True
    marked._torchdynamo_disable_msg = _REASON
    return function


class _Tracer:
    """Whether torch's tracer knows that none of our frames are its business."""

    def __init__(self) -> None:
        self.told = False

    @untraced
    def tell(self) -> None:
        from tilejit.runtime import torch

        torch.leave_out_of_graphs(__name__.partition(".")[0])
        self.told = True


_tracer = _Tracer()


def keep_out_of_graphs() -> None:
    """Once torch's tracer is loaded: it skips every function of this package from now on."""
    if not _tracer.told and _DYNAMO in sys.modules:
        _tracer.tell()
