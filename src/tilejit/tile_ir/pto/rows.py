"""Which row of the op table a PTO instruction is, said once: the raiser reads it from left to right, the writer from right to left.

Where an instruction means something a little different (the extremes of PTO let the first operand win over NaN), both say so beside their use of it.
"""

from __future__ import annotations

PAIRS = {
    "add": "add", "sub": "sub", "mul": "mul", "div": "div", "max": "maximum", "min": "minimum", "and": "and_", "or": "or_", "xor": "xor",
    "shl": "shl", "shr": "shr", "fmod": "fmod", "rem": "rem",
}  # fmt: skip
"""Instructions of two operands, without `t`; with an `s` behind it the second one is a scalar."""
FUNCTIONS = {"exp": "exp", "log": "log", "sqrt": "sqrt", "rsqrt": "rsqrt", "recip": "recip", "neg": "neg", "abs": "abs", "relu": "relu", "not": "not_"}
"""Instructions of one operand, without `t`."""
EXPANDING = ("add", "sub", "mul", "div", "max", "min", "expdif")
"""Instructions of two operands that exist with a vector spread along rows or columns: `trowexpandadd`."""
PARTS = ("add", "mul", "max", "min")
"""Those that exist for parts: `tpartadd`."""
FOLDS = ("sum", "max", "min", "prod", "argmax", "argmin")
"""What rows and columns are folded with: `trowsum` is row_sum."""
ARITH = {
    "addi": "add", "subi": "sub", "muli": "mul", "minsi": "minimum", "maxsi": "maximum", "andi": "and_", "ori": "or_", "xori": "xor", "shli": "shl",
    "shrsi": "shr", "floordivsi": "floordiv", "addf": "add", "subf": "sub", "mulf": "mul", "divf": "div", "maximumf": "maximum", "minimumf": "minimum",
    "remf": "fmod",
}  # fmt: skip
"""Scalar ops of `arith`."""
ARITH_OF_FLAGS = {"andi": "logical_and", "ori": "logical_or"}
"""The same between flags."""
ATOMIC = {"add": "add", "max": "maximum", "min": "minimum"}
"""What an atomic scatter combines with."""
