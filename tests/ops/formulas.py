"""What every op computes, said a second time: Python integers, float64, torch and plain loops instead of the table's NumPy.

A formula of NUMBERS gets floats as float64 and integers as Python ints in object arrays, and returns exact values that the test rounds
to the result's dtype. A formula of MOVES gets the arrays as they are and returns cells that must match bit for bit.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

Array = Any
Formula = Callable[..., Any]


def cellwise(function: Callable[..., Any]) -> Formula:
    """A function of numbers for every cell of its (broadcast) operands."""

    def formula(*_: object, **args: Any) -> Array:
        operands = [value for value in args.values() if value is not None and not isinstance(value, str | bool)]
        cells = np.broadcast_arrays(*(np.asarray(value, object) for value in operands))
        out = np.empty(cells[0].shape, object)
        for place in np.ndindex(out.shape):
            out[place] = function(*(cell[place] for cell in cells))
        return out

    return formula


def bitwise(of_numbers: Callable[..., int], of_flags: Callable[..., bool]) -> Formula:
    """A function of bits; of masks one of flags, where a number is a flag that holds unless it is zero."""

    def formula(use: Any, **args: Any) -> Array:
        masks = use.results[0].dtype.name == "BOOL"
        return cellwise((lambda *cells: int(of_flags(*map(bool, cells)))) if masks else of_numbers)(**args)

    return formula


def real(function: Callable[[float], float]) -> Formula:
    """A real function; outside its domain NaN, beyond the largest number infinity."""

    def safe(x: Any) -> float:
        try:
            return function(float(x))
        except ValueError:
            return math.nan
        except OverflowError:
            return math.inf

    return cellwise(safe)


def _divided(x: Any, y: Any) -> Any:
    if isinstance(x, int) and isinstance(y, int):
        return int(math.copysign(1, x) * math.copysign(1, y)) * (abs(x) // abs(y)) if y else x
    return float(np.divide(np.float64(x), np.float64(y)))


def _floored(x: Any, y: Any) -> Any:
    if isinstance(x, int) and isinstance(y, int):
        return x // y if y else x
    return float(x) // float(y) if y else _divided(x, y)


def _modulo(x: Any, y: Any) -> Any:
    if isinstance(x, int) and isinstance(y, int):
        return x - (x // y) * y if y else 0
    return float(torch.remainder(torch.tensor(float(x), dtype=torch.float64), torch.tensor(float(y), dtype=torch.float64)))


def _fmod(x: Any, y: Any) -> Any:
    if isinstance(x, int) and isinstance(y, int):
        return int(math.copysign(abs(x) % abs(y), x)) if y and abs(x) < 2**53 else (abs(x) % abs(y)) * (1 if x >= 0 else -1) if y else 0
    return float(torch.fmod(torch.tensor(float(x), dtype=torch.float64), torch.tensor(float(y), dtype=torch.float64)))


def _largest(x: Any, y: Any) -> Any:
    return math.nan if x != x or y != y else max(x, y)


def _gelu(x: float, approximate: str) -> float:
    return float(torch.nn.functional.gelu(torch.tensor(x, dtype=torch.float64), approximate=approximate))


def _smallest(x: Any, y: Any) -> Any:
    return math.nan if x != x or y != y else min(x, y)


def _power(x: Any, y: Any) -> Any:
    if isinstance(x, int) and isinstance(y, int):
        return x**y if y >= 0 else int(float(x) ** y) if x else 0
    return _real_power(float(x), float(y))


def _real_power(x: float, y: float) -> float:
    try:
        return math.pow(x, y)
    except OverflowError:
        return -math.inf if x < 0 and y % 2 == 1 else math.inf
    except ValueError:  # of zero to a negative power, or of a negative number to a fraction
        return math.nan if x else math.copysign(math.inf, x) if y % 2 == 1 else math.inf


def _sqrt_inverse(x: float) -> float:
    return math.nan if x < 0 else math.copysign(math.inf, x) if x == 0 else 1 / math.sqrt(x)


def _log(x: float) -> float:
    return -math.inf if x == 0 else math.log(x)


def _whole(function: Callable[[float], int]) -> Formula:
    return cellwise(lambda x: x if isinstance(x, int) or not math.isfinite(x) else function(x))


def _recip(x: float) -> float:
    return math.copysign(math.inf, x) if x == 0 else 1 / x


COMPARE = (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge)


def compare(lhs: Array, rhs: Array, cmp_type: int = 0) -> Array:
    return np.vectorize(COMPARE[cmp_type], otypes=[object])(lhs, rhs).astype(object) * 1


# reductions, expands ----------------------------------------------------------------------------------------------------


def folded(axis_name: str, combine: Callable[[Sequence[Any]], Any]) -> Formula:
    def formula(use: Any, input: Array) -> Array:
        axis = input.ndim - 1 if axis_name == "row" else 0 if use.level == "tile" and input.ndim > 2 else input.ndim - 2
        moved = np.moveaxis(np.asarray(input, object), axis, -1)
        out = np.empty(moved.shape[:-1], object)
        for place in np.ndindex(out.shape):
            out[place] = combine(list(moved[place]))
        return np.expand_dims(out, axis)

    return formula


def _first(cells: Sequence[Any], better: Callable[[Any, Any], bool]) -> int:
    """The first NaN, else the first of the best."""
    for place, cell in enumerate(cells):
        if cell != cell:
            return place
    best = 0
    for place, cell in enumerate(cells):
        if better(cell, cells[best]):
            best = place
    return best


def _any_nan(cells: Sequence[Any], best: Callable[[Sequence[Any]], Any]) -> Any:
    return math.nan if any(cell != cell for cell in cells) else best(cells)


FOLDS: dict[str, Callable[[Sequence[Any]], Any]] = {
    "sum": lambda cells: math.fsum(cells) if isinstance(cells[0], float) else sum(cells),
    "prod": math.prod,
    "max": lambda cells: _any_nan(cells, max),
    "min": lambda cells: _any_nan(cells, min),
    "argmax": lambda cells: _first(cells, operator.gt),
    "argmin": lambda cells: _first(cells, operator.lt),
}
PAIRS: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": _divided, "max": _largest, "min": _smallest,
    "expdif": lambda x, r: math.inf if x - r > 700 else math.exp(x - r),
}  # fmt: skip


# products ---------------------------------------------------------------------------------------------------------------


def _accumulated(total: Any, bits: int) -> Any:
    """Integers are summed in 32 bits, or in the 64 they have."""
    span = 2 ** max(bits, 32)
    return (total + span // 2) % span - span // 2 if isinstance(total, int) else total


def multiplied(use: Any, lhs: Array, rhs: Array, a_trans: bool = False, b_trans: bool = False, **rest: Any) -> Array:
    """Sums of products, one by one."""
    left = np.swapaxes(lhs, -1, -2) if a_trans else lhs
    right = np.swapaxes(rhs, -1, -2) if b_trans else rhs
    batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    left, right = (np.broadcast_to(side, (*batch, *side.shape[-2:])) for side in (left, right))
    out = np.empty((*batch, left.shape[-2], right.shape[-1]), object)
    for place in np.ndindex(out.shape):
        row, column = left[*place[:-1]], right[*place[:-2], :, place[-1]]
        out[place] = _accumulated(sum(a * b for a, b in zip(row.tolist(), column.tolist(), strict=True)), use.dtype.bits)
    acc, bias = rest.get("acc"), rest.get("bias")
    if acc is not None and not rest.get("init_cond"):
        out = out + acc
    return out + bias if bias is not None else out


def scaled(use: Any, lhs: Array, lhs_scale: Array, rhs: Array, rhs_scale: Array, **rest: Any) -> Array:
    """Each block of 32 along K times its scale."""
    left, right = np.array(lhs, float), np.array(rhs, float)
    for k in range(left.shape[1]):
        left[:, k] *= lhs_scale[:, k // 32].astype(float)
        right[k, :] *= rhs_scale[k // 32, :].astype(float)
    return multiplied(use, left, right, **rest)


def _running(combine: Callable[[Any, Any], Any], input: Array, axis: int) -> Array:
    out = np.array(input, object)
    rows = np.moveaxis(out, axis, -1)
    for place in np.ndindex(rows.shape[:-1]):
        for index in range(1, rows.shape[-1]):
            rows[place][index] = combine(rows[place][index - 1], rows[place][index])
    return out


NUMBERS: dict[str, Formula] = {
    **{name: cellwise(PAIRS[name]) for name in ("add", "sub", "mul", "div")},
    "floordiv": cellwise(_floored),
    "mod": cellwise(_modulo),
    "rem": cellwise(_modulo),
    "fmod": cellwise(_fmod),
    "addc": cellwise(lambda a, b, c: a + b + c),
    "subc": cellwise(lambda a, b, c: a - b - c),
    "neg": cellwise(operator.neg),
    "abs": cellwise(abs),
    "maximum": cellwise(_largest),
    "minimum": cellwise(_smallest),
    "exp": real(math.exp),
    "log": real(_log),
    "sqrt": real(math.sqrt),
    "rsqrt": real(_sqrt_inverse),
    "recip": real(_recip),
    "sin": real(math.sin),
    "cos": real(math.cos),
    "tanh": real(math.tanh),
    "erf": real(math.erf),
    "sigmoid": real(lambda x: float(torch.sigmoid(torch.tensor(x, dtype=torch.float64)))),
    "softplus": real(lambda x: max(x, 0.0) + math.log1p(math.exp(-abs(x)))),
    "silu": real(lambda x: float(torch.nn.functional.silu(torch.tensor(x, dtype=torch.float64)))),
    "gelu": lambda use, input, approximate="none": real(lambda x: _gelu(x, approximate))(input=input),
    "clamp": cellwise(lambda x, low, high: _smallest(_largest(x, low), high)),
    "cumsum": lambda use, input, axis: _running(operator.add, input, axis),
    "cumprod": lambda use, input, axis: _running(operator.mul, input, axis),
    "cummax": lambda use, input, axis: _running(_largest, input, axis),
    "cummin": lambda use, input, axis: _running(_smallest, input, axis),
    "log1p": real(lambda x: -math.inf if x == -1 else math.log1p(x)),
    "expm1": real(math.expm1),
    "exp2": real(lambda x: 2.0**x),
    "log2": real(lambda x: _log(x) / math.log(2)),
    "log10": real(lambda x: _log(x) / math.log(10)),
    "square": cellwise(lambda x: x * x),
    "tan": real(math.tan),
    "cdiv": cellwise(lambda x, y: -(-x // y) if y else x),
    "pow": cellwise(_power),
    "floor": _whole(math.floor),
    "ceil": _whole(math.ceil),
    "round": _whole(round),
    "relu": cellwise(lambda x: _largest(x, 0)),
    "lrelu": cellwise(lambda x, slope: x if x > 0 else slope * x),
    "prelu": cellwise(lambda x, slope: x if x > 0 else slope * x),
    "and_": bitwise(operator.and_, lambda a, b: a and b),
    "or_": bitwise(operator.or_, lambda a, b: a or b),
    "xor": bitwise(operator.xor, lambda a, b: a != b),
    "not_": bitwise(lambda x: ~x, lambda a: not a),
    "shl": cellwise(lambda x, n: x * 2**n if n < 64 else 0),
    "shr": cellwise(lambda x, n: x // 2**n),
    "cmp": lambda use, **args: compare(**args),
    "compare": lambda use, **args: compare(**args),
    "where": lambda use, condition, lhs, rhs: cellwise(lambda c, a, b: a if c else b)(condition=np.asarray(condition, object), lhs=lhs, rhs=rhs),
    "isnan": cellwise(lambda x: int(x != x)),
    "logical_and": lambda use, lhs, rhs: cellwise(lambda a, b: int(bool(a and b)))(lhs=np.asarray(lhs, object), rhs=np.asarray(rhs, object)),
    "logical_or": lambda use, lhs, rhs: cellwise(lambda a, b: int(bool(a or b)))(lhs=np.asarray(lhs, object), rhs=np.asarray(rhs, object)),
    "logical_not": lambda use, input: cellwise(lambda a: int(not a))(input=np.asarray(input, object)),
    **{f"part_{name}": cellwise(PAIRS[name]) for name in ("add", "mul", "max", "min")},
    **{f"{axis}_{name}": folded(axis, combine) for axis in ("row", "col") for name, combine in FOLDS.items()},
    **{f"{axis}_expand_{name}": cellwise(combine) for axis in ("row", "col") for name, combine in PAIRS.items()},
    "row_expand": cellwise(lambda x, r: r),
    "col_expand": cellwise(lambda x, c: c),
    "expand_clone": lambda use, src, target: np.broadcast_to(src, target.shape),
    "expands": lambda use, target, scalar: np.full(target.shape, scalar, object),
    "full": lambda use, shape, dtype, value: np.full(shape, value, object),
    "ci": lambda use, start, shape, dtype, descending=False: np.array([[start - k if descending else start + k for k in range(shape[1])]], object),
    **dict.fromkeys(("matmul", "matmul_acc", "matmul_bias", "gemv", "gemv_acc", "gemv_bias", "batch_matmul", "batch_matmul_acc"), multiplied),
    **dict.fromkeys(("matmul_mx", "matmul_mx_acc", "matmul_mx_bias"), scaled),
}


def triangle(use: Any, diagonal: int, shape: Sequence[int], dtype: Any = None, upper: bool = False, valid_shape: Sequence[int] | None = None) -> Array:
    cells = torch.ones(tuple(shape), dtype=torch.int64)
    cells = torch.triu(cells, diagonal=int(diagonal)) if upper else torch.tril(cells, diagonal=int(diagonal))
    kept = cells.numpy() if valid_shape is None else cells.numpy()[: valid_shape[0], : valid_shape[1]]
    return kept.astype(object)


NUMBERS["tri"] = triangle


def philox(use: Any, shape: Sequence[int], dtype: Any, rounds: int = 10, valid_shape: Any = None, **words: int) -> Array:
    """Philox 4x32 by its definition, word by word."""
    key, counter = [words["key0"], words["key1"]], [words[f"counter{i}"] for i in range(4)]
    start = counter[0] + (counter[1] << 32)
    out: list[int] = []
    for block in range(-(-math.prod(shape) // 4)):
        low = (start + block) % 2**64
        c, k = [low % 2**32, low >> 32, counter[2], counter[3]], list(key)
        for _ in range(rounds):
            a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
            c = [(b >> 32) ^ c[1] ^ k[0], b % 2**32, (a >> 32) ^ c[3] ^ k[1], a % 2**32]
            k = [(k[0] + 0x9E3779B9) % 2**32, (k[1] + 0xBB67AE85) % 2**32]
        out += c
    return np.array(out[: math.prod(shape)], object).reshape(tuple(shape))


NUMBERS["random"] = philox


def cast(use: Any, input: Array, target_type: Any, mode: str = "round") -> Array:
    """By a table of all numbers that the target has (up to 16 bits), or Python's own rounding to integers."""
    if target_type.is_float and target_type.bits <= 16:
        return _to_small_float(np.asarray(input), target_type, mode if use.dtype.is_float else "rint")
    if target_type.is_float or target_type.name == "COMPLEX64":
        return input
    return cellwise(lambda x: _to_integer(x, target_type, mode))(input=input)


def _to_integer(x: Any, target: Any, mode: str) -> int:
    if not isinstance(x, float):
        return int(x)
    if target.name == "BOOL":
        return int(x != 0)
    if x != x:
        return 0
    signed = target.is_signed
    low, high = (-(2 ** (target.bits - 1)), 2 ** (target.bits - 1) - 1) if signed else (0, 2**target.bits - 1)
    if math.isinf(x):
        return high if x > 0 else low
    down = math.floor(x)
    rounded = {
        "none": round(x), "rint": round(x), "floor": down, "ceil": math.ceil(x), "trunc": math.trunc(x),
        "round": math.floor(abs(x) + 0.5) * (1 if x > 0 else -1) if abs(x) < 2**52 else int(x),
        "odd": int(x) if x == down else down if down % 2 else down + 1,
    }[mode]  # fmt: skip
    return min(max(rounded, low), high)


def _to_small_float(values: Array, target: Any, mode: str) -> Array:
    """Neighbours in the sorted list of all finite numbers of the type; out of its range nothing is said."""
    codes = np.arange(2**target.bits, dtype=np.uint32)
    kind = np.uint16 if target.bits == 16 else np.uint8
    with np.errstate(all="ignore"):
        known = np.unique(codes.astype(kind).view(target.numpy).astype(np.float64)) if target.bits >= 8 else np.array(FP4_NUMBERS)
    known = known[np.isfinite(known)]
    out = np.empty(values.shape, object)
    for place in np.ndindex(values.shape):
        x = float(values[place])
        if not known[0] <= x <= known[-1]:
            out[place] = None
            continue
        above = int(np.searchsorted(known, x))
        high = float(known[above])
        low = high if high == x else float(known[above - 1])
        out[place] = _between(x, low, high, mode, target)
    return out


FP4_NUMBERS = sorted({sign * x for sign in (1, -1) for x in (0, 0.5, 1, 1.5, 2, 3, 4, 6)})


def _between(x: float, low: float, high: float, mode: str, target: Any) -> float:
    if low == high:
        return low
    odd = low if _last_digit(low, target) else high
    # Powers of two have no digits behind the first: halves go up.
    even = high if odd == low or target.name == "FP8E8M0" else low
    if mode in ("floor", "ceil"):
        return low if mode == "floor" else high
    if mode == "trunc":
        return low if x > 0 else high
    if mode == "odd":
        return odd
    if x - low != high - x:
        return low if x - low < high - x else high
    return even if mode in ("none", "rint") else max(low, high, key=abs)


def _last_digit(x: float, target: Any) -> bool:
    """Whether the last digit of a number of the type is a one."""
    return bool(np.array([x]).astype(target.numpy).view(np.uint16 if target.bits == 16 else np.uint8)[0] & 1)


NUMBERS["cast"] = cast
