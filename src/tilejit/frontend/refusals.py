"""What is said about loops that Python has and kernels have not, wherever that is found out."""

from __future__ import annotations

import ast

from tilejit.errors import UnsupportedFeatureError

LISTS_IN_LOOPS = (
    "expand the loop with pl.unroll(…), if its bounds are known while compiling; "
    "else let a tensor hold the members: t = pl.create_tensor([n, …], dtype=…) before the loop, t[i] = … in it"
)
"""What to do instead of changing a list in a loop of the run: which members it has is known while compiling."""


def plain_range(call: ast.Call) -> UnsupportedFeatureError:
    """The error for a loop over `range(…)`: whether it should run or be expanded is for the author to say."""
    text = ast.unparse(call)
    given = text[text.index("(") :]
    help = f"write pl.range{given} for a loop at run time, or pl.unroll{given} to expand it while compiling"
    return UnsupportedFeatureError("plain `range` is not a loop of the language", help=help)
