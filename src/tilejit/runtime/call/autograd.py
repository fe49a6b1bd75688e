"""What autograd must know of a call: which tensors it writes, and that its results carry no gradient."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterable

from tilejit.errors import TilejitWarning
from tilejit.runtime.arrays import ArrayView

_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep


def note_write(array: object) -> None:
    """Tell autograd, if the array is one of torch, that a kernel writes it."""
    if type(array).__module__ != "numpy" and "torch" in sys.modules:
        from tilejit.runtime import torch

        torch.note_write(array)


class GradNote:
    """Whether the callers of one kernel were told that its results carry no gradient: once is enough."""

    def __init__(self) -> None:
        self.given = False

    def __bool__(self) -> bool:
        return self.given

    def before(self, name: str, given: Iterable[tuple[str, str, object]]) -> None:
        """A checked call of the kernel or host function `name` is about to run: tell autograd what it writes, and the caller, once, what it leaves out.

        `given`: of each argument its name, its direction and what was bound to it.
        """
        if "torch" not in sys.modules:
            return
        from tilejit.runtime import torch

        for argument, direction, view in given:
            if not isinstance(view, ArrayView) or view.framework != "torch":
                continue
            if direction != "In":
                torch.note_write(view.owner)
            elif view.requires_grad and torch.grad_is_wanted():
                self.warn(name, argument)

    def warn(self, name: str, argument: str) -> None:
        """Tell the caller, once, that `argument` of `name` gets no gradient."""
        if self.given:
            return
        self.given = True
        text = (
            f"{name}: `{argument}` requires grad, but what a kernel computes carries no gradient; make it an operator with a backward "
            f"(kernel.as_torch_op), call it in the forward of a torch.autograd.Function, or pass {argument}.detach() if none is needed"
        )
        warnings.warn(text, TilejitWarning, stacklevel=_callers_level())


def _callers_level() -> int:
    """The stack level of the first frame that is neither ours nor torch's, as `warnings.warn` counts in the function that asks."""
    between = (_PACKAGE, os.path.dirname(str(sys.modules["torch"].__file__)) + os.sep)
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(between):
        frame, level = frame.f_back, level + 1
    return level
