"""The menu, matrix products: with accumulators, biases, one row, batches, integers, block scales."""

from __future__ import annotations

from dataclasses import replace

from tests.fuzz.values import Val, rounding, settled
from tests.fuzz.writer import Writer

INNER = (1, 3, 8, 16, 33)


def _operand(w: Writer, shape: tuple[int, ...], dtype: str) -> Val:
    """A new parameter as an operand."""
    param = w.new_param("x", shape, dtype, "narrow" if dtype.startswith("FP8") or dtype == "FP4" else "small" if dtype == "INT8" else "normal")
    low, high = param.bounds()
    level = "tile" if w.level == "tile" else "buffer"
    text = f"pl.load({param.name}, {[0] * len(shape)}, {list(shape)})" if level == "tile" else param.name
    return Val(text, level, dtype, low, high, 0.0, shape, shape)


def _result(w: Writer, text: str, parts: list[Val], inner: int, shape: tuple[int, ...], extra: Val | None) -> Val:
    """What is known of a sum of `inner` products of two operands, and maybe another matrix."""
    x, y = parts
    dtype = "FP32" if x.is_float or x.dtype.startswith("F") else "INT32"
    bound = inner * x.magnitude * y.magnitude + (extra.magnitude if extra else 0.0)
    err = inner * (x.err * y.magnitude + y.err * x.magnitude) + rounding(dtype, bound, 3) + (extra.err if extra else 0.0)
    return settled(Val(text, "tile" if w.level == "tile" else "tensor", dtype, -bound, bound, err, shape, shape, product=dtype == "FP32"))


def _left(w: Writer, dtypes: tuple[str, ...], rows: int | None = None) -> Val | None:
    """A full matrix in scope, or a new one."""
    x = w.pick(lambda v: v.full and v.dtype in dtypes and len(v.shape) == 2 and all(isinstance(d, int) for d in v.shape) and rows in (None, v.shape[0]))
    return x if x is not None and w.chance(0.7) else _operand(w, (rows or w.rng.choice(w.rows), w.rng.choice(INNER)), w.rng.choice(dtypes))


def accumulated(w: Writer) -> Val | None:
    """matmul_acc with an accumulator in scope or a new one, overwriting on a run-time condition."""
    x = _left(w, ("FP32", "FP16", "BF16", "INT8"))
    if x is None or (x.level == "tile" and w.level != "tile"):
        return None
    rows, inner = (int(d) for d in x.shape)
    cols = w.rng.choice(w.cols)
    y = _operand(w, (inner, cols), x.dtype)
    wide = "INT32" if x.dtype == "INT8" else "FP32"
    acc = w.pick(lambda v: v.full and v.dtype == wide and v.shape == (rows, cols) and v.level != "buffer")
    if acc is None:
        fresh = _operand(w, (rows, cols), wide)
        acc = fresh if fresh.level == "tile" else replace(fresh, text=f"pl.maximum({fresh.text}, {fresh.text})", level="tensor")
    extra = ""
    flags = [s.text for s in w.scalars.values() if s.dtype == "INDEX"]
    if flags and w.chance(0.5):
        extra = f", init_cond={w.rng.choice(flags)} == {w.rng.randint(0, 3)}"
    return _result(w, f"pl.matmul_acc({acc.text}, {x.text}, {y.text}{extra})", [x, y], inner, (rows, cols), acc)


def added_to_parts(w: Writer) -> Val | None:
    """Products added to parts of an accumulator, which has them too."""
    if w.level != "tile":
        return None
    rows, inner, cols = w.rng.choice((4, 8)), w.rng.choice(INNER), w.rng.choice(w.cols)
    dtype = w.rng.choice(("FP32", "FP16", "INT8"))
    x, y = _operand(w, (rows, inner), dtype), _operand(w, (inner, cols), dtype)
    acc = w.fresh("acc")
    w.emit(f"{acc} = pl.matmul({x.text}, {y.text})")
    found = _result(w, acc, [x, y], inner, (rows, cols), None)
    for _ in range(w.rng.choice((1, 2))):
        first, count = w.rng.randrange(rows // 2), rows // 2
        left = _operand(w, (count, inner), dtype)
        cut = w.rng.choice((f"{acc}[{first}:{first + count}, :]", f"pl.slice({acc}, [{count}, {cols}], [{first}, 0])", f"{acc}[{first}:, :][0:{count}, :]"))
        if w.chance(0.5):
            part = w.fresh("part")
            w.emit(f"{part} = {cut}")
            w.emit(f"{w.rng.choice((f'{part} = ', ''))}pl.matmul_acc({part}, {left.text}, {y.text})")
        else:
            w.emit(f"pl.matmul_acc({cut}, {left.text}, {y.text})")
        found = _result(w, acc, [left, y], inner, (rows, cols), found)
    return found


def one_row(w: Writer) -> Val | None:
    """gemv and its variants."""
    if w.level != "tile":
        return None
    x = _left(w, ("FP32", "FP16", "BF16", "INT8"), 1)
    if x is None:
        return None
    inner, cols = int(x.shape[1]), w.rng.choice(w.cols)
    y = _operand(w, (inner, cols), x.dtype)
    kind = w.rng.choice(("gemv", "gemv_acc", "gemv_bias"))
    extra = _operand(w, (1, cols), "INT32" if x.dtype == "INT8" else "FP32") if kind != "gemv" else None
    args = {"gemv": f"{x.text}, {y.text}", "gemv_acc": f"%s, {x.text}, {y.text}", "gemv_bias": f"{x.text}, {y.text}, %s"}[kind]
    text = args % extra.text if extra else args
    phase = w.rng.choice(("", ", acc_phase='final'"))
    return _result(w, f"pl.{kind}({text}{phase})", [x, y], inner, (1, cols), extra)


def biased(w: Writer) -> Val | None:
    if w.level != "tile":
        return None
    x = _left(w, ("FP32", "FP16", "BF16", "INT8"))
    if x is None:
        return None
    rows, inner = (int(d) for d in x.shape)
    cols = w.rng.choice(w.cols)
    y, bias = _operand(w, (inner, cols), x.dtype), _operand(w, (1, cols), "INT32" if x.dtype == "INT8" else "FP32")
    return _result(w, f"pl.matmul_bias({x.text}, {y.text}, {bias.text})", [x, y], inner, (rows, cols), bias)


def batched(w: Writer) -> Val | None:
    """Products of stacks: batch_matmul on tiles, matmul of rank 3 on tensors."""
    dtype = w.rng.choice(("FP32", "FP16", "BF16"))
    rows, inner, cols = w.rng.choice(w.rows), w.rng.choice(INNER), w.rng.choice(w.cols)
    x = _operand(w, (2, rows, inner), dtype)
    y = _operand(w, (w.rng.choice((1, 2)), inner, cols), dtype)
    shape = (2, rows, cols)
    if w.level == "tile" and w.chance(0.4):
        acc = _operand(w, shape, "FP32")
        return _result(w, f"pl.tile.batch_matmul_acc({acc.text}, {x.text}, {y.text})", [x, y], inner, shape, acc)
    name = "batch_matmul" if w.level == "tile" else "matmul"
    option = ", out_dtype=pl.FP32" if name == "matmul" else ""
    return _result(w, f"pl.{name}({x.text}, {y.text}{option})", [x, y], inner, shape, None)


def transposed(w: Writer) -> Val | None:
    """Tensor products of turned operands, and of a matrix and a vector."""
    if w.level == "tile":
        return None
    dtype = w.rng.choice(("FP32", "FP16"))
    rows, inner, cols = w.rng.choice(w.rows), w.rng.choice(INNER), w.rng.choice(w.cols)
    x, y = _operand(w, (inner, rows), dtype), _operand(w, (cols, inner), dtype)
    text = f"pl.matmul({x.text}, {y.text}, out_dtype=pl.FP32, a_trans=True, b_trans=True)"
    return _result(w, text, [x, y], inner, (rows, cols), None)


def _packed(scales: Val, layout: str) -> Val:
    """The same bytes as scales in boxes."""
    name = scales.text.removeprefix("pl.load(").partition(",")[0]
    return replace(scales, text=scales.text.replace(name, f"pl.tensor.view({name}, {list(scales.shape)}, layout=pl.TensorLayout.{layout})", 1))


def scaled(w: Writer) -> Val | None:
    """Products of eight- and four-bit floats with a scale per block of 32."""
    if w.level != "tile":
        return None
    dtype = w.rng.choice(("FP8E4M3FN", "FP8E5M2", "FP4"))
    rows, inner, cols = w.rng.choice((*w.rows, 16)), w.rng.choice((32, 64)), w.rng.choice([c for c in w.cols if c % 2 == 0] or [16])
    x, y = _operand(w, (rows, inner), dtype), _operand(w, (inner, cols), dtype)
    xs, ys = _operand(w, (rows, inner // 32), "FP8E8M0"), _operand(w, (inner // 32, cols), "FP8E8M0")
    x, y = (replace(v, lo=-36.0, hi=36.0) for v in (x, y))  # with their scales, which are at most 4
    if rows % 16 == 0 and cols % 16 == 0 and inner == 64 and w.chance(0.8):
        xs, ys = _packed(xs, "MX_A_ZZ"), _packed(ys, "MX_B_NN")
    kind = w.rng.choice(("matmul_mx", "matmul_mx_acc", "matmul_mx_bias"))
    extra = _operand(w, (1 if kind.endswith("bias") else rows, cols), "FP32") if kind != "matmul_mx" else None
    args = ", ".join((x.text, xs.text, y.text, ys.text))
    text = f"{extra.text}, {args}" if extra and kind.endswith("acc") else f"{args}, {extra.text}" if extra else args
    return _result(w, f"pl.{kind}({text})", [x, y], inner, (rows, cols), extra)
