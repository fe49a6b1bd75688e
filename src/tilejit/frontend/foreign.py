"""Names that people bring from NumPy, torch and Triton: what to write here instead."""

from __future__ import annotations

from tilejit import ops
from tilejit.dtypes import dtype_elsewhere
from tilejit.types.scopes import MARKERS

_CAST = "write pl.cast(x, pl.FP16)"
_RESHAPE = "write pl.reshape(x, [rows, columns])"
_TRANSPOSE = "write pl.transpose(x, -2, -1), with the two axes that change places"
_FILL = "write x[:] = value"
_PARTS = "write into its parts, which are slices: "
_INFINITY = 'write float("inf")'
_EYE = "write pl.where(pl.iota([n, n], axis=0) == pl.iota([n, n], axis=1), 1.0, 0.0)"
_ASIN = "write pl.atan2(x, pl.sqrt(1.0 - x * x))"
_ACOS = "write pl.atan2(pl.sqrt(1.0 - x * x), x)"
_SHIFTED = "add up shifted slices: x[:-1] * w[0] + x[1:] * w[1]"
_NEW = "write pl.create_tensor([rows, columns], dtype=pl.FP32) for a buffer to write into, or pl.zeros([rows, columns], pl.FP32)"
_JOIN = "write into the parts of one tensor: out[0:m, :] = a and out[m:n, :] = b; pl.concat(a, b) joins columns"

ADVICE: dict[str, str] = {
    "average": "write pl.mean(x, axis=1)",
    "dot": "write pl.matmul(a, b)", "mm": "write pl.matmul(a, b)",
    "bmm": "write pl.batch_matmul(a, b) on tiles, or a loop over pl.matmul",
    "empty": _NEW, "empty_like": _NEW,
    "subtract": "write a - b", "multiply": "write a * b",
    "divide": "write a / b", "true_divide": "write a / b", "power": "write pl.pow(x, y)", "absolute": "write pl.abs(x)", "fabs": "write pl.abs(x)",
    "negative": "write -x", "reciprocal": "write pl.recip(x)", "mod": "write a % b", "remainder": "write a % b", "floor_divide": "write a // b",
    "program_id": "it is the counter of the loop: for i in pl.spmd(blocks):",
    "num_programs": "it is the number that pl.spmd(blocks) was given",
    "load": "write pl.load(x, [row, column], [rows, columns]); clamp=True stops at the edge, where Triton takes a mask",
    "store": "write pl.store(tile, [row, column], out)",
    "atomic_xchg": "write pl.atomic_exchange(x, [row, column], value)",
    "associative_scan": "write pl.scan(function, x, axis=1)", "arctan2": "write pl.atan2(y, x)", "arctan": "write pl.atan(x)",
    "type": _CAST, "float": "write pl.cast(x, pl.FP32)", "half": _CAST, "int": "write pl.cast(x, pl.INT32)",
    "t": _TRANSPOSE, "mT": _TRANSPOSE, "swapaxes": _TRANSPOSE, "trans": _TRANSPOSE,
    "view": _RESHAPE, "flatten": _RESHAPE, "ravel": _RESHAPE,
    "concatenate": _JOIN, "cat": _JOIN, "stack": _JOIN, "hstack": _JOIN, "vstack": _JOIN,
    "tile": f"it is the namespace of operators on tiles; to repeat an array, {_JOIN}", "repeat": f"to repeat an array, {_JOIN}",
    "sign": "write pl.where(x > 0, 1.0, pl.where(x < 0, -1.0, 0.0))",
    "expand": "write pl.broadcast_to(x, [rows, columns])",
    "item": "x[i, j] reads one element", "size": "x.shape has the extents", "numel": "x.shape has the extents", "ndim": "len(x.shape)",
    "len": "x.shape[0] is the number of rows",
    "copy_": "write x[:] = value", "copyto": "write x[:] = value", "fill": _FILL, "fill_": _FILL, "zero_": "write x[:] = 0.0",
    "copy": "write +x", "clone": "write +x", "contiguous": "leave it out: a kernel may read any layout",
    "pad": _PARTS + "p = pl.zeros([rows, columns]) and p[1:-1, 1:-1] = x; pl.load(x, …, pad=0.0) reads tiles that overhang",
    "roll": _PARTS + "out[k:] = x[:-k] and out[:k] = x[-k:]", "diff": "write x[1:] - x[:-1]",
    "norm": "write pl.sqrt(pl.square(x).sum())", "outer": "write a[:, None] * b[None, :]",
    "inner": "write (a * b).sum()", "vdot": "write (a * b).sum()", "tensordot": 'write pl.einsum("ij,jk->ik", a, b)',
    "inf": _INFINITY, "nan": 'write float("nan")', "pi": "write math.pi", "e": "write math.e",
    "isinf": "write pl.abs(x) == float(\"inf\")", "isfinite": "write pl.abs(x) < float(\"inf\")", "nan_to_num": "write pl.where(pl.isnan(x), 0.0, x)",
    "isclose": "write pl.abs(a - b) < 1e-6", "allclose": "write pl.all(pl.abs(a - b) < 1e-6)",
    "linspace": "write first + step * pl.arange(0.0, [count], pl.FP32)",
    "logical_and": "write a & b", "logical_or": "write a | b", "logical_xor": "write a ^ b", "logical_not": "write ~a",
    "bitwise_and": "write a & b", "bitwise_or": "write a | b", "bitwise_xor": "write a ^ b", "bitwise_not": "write ~a", "invert": "write ~a",
    "left_shift": "write a << b", "right_shift": "write a >> b",
    "eye": _EYE, "identity": _EYE, "diag": "write pl.where(pl.iota([n, n], axis=0) == pl.iota([n, n], axis=1), x, 0.0)",
    "tril": "write pl.where(pl.iota([n, n], axis=0) >= pl.iota([n, n], axis=1), x, 0.0)",
    "triu": "write pl.where(pl.iota([n, n], axis=0) <= pl.iota([n, n], axis=1), x, 0.0)",
    "median": "take the middle of pl.sort(x)", "moveaxis": "write x.permute(1, 0, 2), with the new order of all axes",
    "randint": "write pl.floor(pl.rand(seed, [rows, columns]) * n)",
    "sinh": "write (pl.exp(x) - pl.exp(-x)) / 2.0", "cosh": "write (pl.exp(x) + pl.exp(-x)) / 2.0",
    "asin": _ASIN, "arcsin": _ASIN, "acos": _ACOS, "arccos": _ACOS, "hypot": "write pl.sqrt(x * x + y * y)",
    "cbrt": "write pl.where(x < 0.0, -1.0, 1.0) * pl.pow(pl.abs(x), 1.0 / 3.0)",
    "elu": "write pl.where(x > 0.0, x, pl.exp(x) - 1.0)", "leaky_relu": "write pl.lrelu(x, slope)", "hardtanh": "write pl.clip(x, -1.0, 1.0)",
    "relu6": "write pl.clip(x, 0.0, 6.0)", "swish": "write pl.silu(x)",
    "conv1d": _SHIFTED, "conv2d": _SHIFTED, "convolve": _SHIFTED,
}  # fmt: skip
"""What to write instead, by the last name of the chain: of names that the language lacks, or has with other arguments."""


def in_language(name: str) -> bool:
    """Whether the language has a function of this name."""
    return name in MARKERS or ops.public("pl", name) is not None


def missing_name(name: str) -> str | None:
    """The advice for a name that the language does not have."""
    dtype = dtype_elsewhere(name)
    return ADVICE.get(name, f"write {dtype!r}" if dtype is not None else None)


def function_elsewhere(name: str) -> str | None:
    """The advice for a function of another library, called in a kernel on what only exists at run time."""
    known = f"write pl.{name}(…): functions of other libraries work on arrays that exist already" if in_language(name) else None
    return ADVICE.get(name, known)


def method(name: str, owner: str) -> str | None:
    """The advice for a method or attribute that tensors and tiles do not have."""
    return ADVICE.get(name, f"write pl.{name}({owner}, …)" if in_language(name) else None)
