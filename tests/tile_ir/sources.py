"""Programs as text, one per construct of the language, with shapes of their arguments."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Source:
    """The body of a program class, and what its entry `main` takes: shapes with dtypes, or scalars."""

    body: str
    arguments: tuple[tuple[tuple[int, ...], str] | int | float, ...]
    header: str = ""

    @property
    def text(self) -> str:
        lines = "\n".join(f"    {line}" if line else "" for line in self.body.strip("\n").split("\n"))
        return f"import tilejit.language as pl\n{self.header}\n\n@pl.program\nclass Example:\n{lines}\n"

    def make_arguments(self) -> list[npt.NDArray[np.generic] | int | float]:
        rng = np.random.default_rng(7)
        out: list[npt.NDArray[np.generic] | int | float] = []
        for argument in self.arguments:
            if isinstance(argument, tuple):
                shape, dtype = argument
                data = rng.integers(1, 6, shape) if np.dtype(dtype).kind in "iu" else rng.standard_normal(shape)
                out.append(data.astype(dtype))
            else:
                out.append(argument)
        return out


F = "float32"
A, OUT = "a: pl.Tensor[[24, 16], pl.FP32]", "out: pl.Out[pl.Tensor[[24, 16], pl.FP32]]"
FUNCTION = "@pl.function(type=pl.FunctionType.Orchestration)\n"
AT = "with pl.at(level=pl.Level.CORE_GROUP):\n"
TILE_IO = (((24, 16), F), ((24, 16), F))


def _main(params: str, *lines: str, header: str = "", arguments: tuple[object, ...] = TILE_IO, prelude: str = "", kind: str = FUNCTION) -> Source:
    body = prelude + kind + f"def main(self, {params}):\n" + "\n".join(f"    {line}" for line in lines)
    return Source(body, arguments, header)  # type: ignore[arg-type]


SOURCES: dict[str, Source] = {
    "tiles": _main(
        f"{A}, {OUT}",
        "with pl.at(level=pl.Level.CORE_GROUP, name_hint='scale'):",
        "    # doubles and shifts",
        "    t = pl.load(a, [0, 0], [24, 16])",
        "    t = pl.add(pl.mul(t, 2.0), -1.5)",
        "    pl.store(t, [0, 0], out)",
        "return out",
    ),
    "operators": _main(f"{A}, {OUT}", AT.strip(), "    out[:] = (a + 1.0) * a / (pl.abs(a) + 2.0) - -a"),
    "control plane": _main(f"{A}, {OUT}", "b = a * 2.0", "c = pl.exp(b)", "n = a.shape[0]", "out[:] = c + b", "pl.write(out, [n - 1, 0], 3.0)"),
    "loop with rebinding": _main(
        f"{A}, {OUT}",
        AT.strip(),
        "    acc = pl.load(a, [0, 0], [4, 16])",
        "    for i in pl.range(1, 6):",
        "        acc = pl.add(acc, pl.load(a, [i * 4, 0], [4, 16]))",
        "    pl.store(acc, [20, 0], out)",
    ),
    "explicit carry": _main(
        f"{A}, {OUT}",
        AT.strip(),
        "    start = pl.load(a, [0, 0], [4, 16])",
        "    for i, (acc, n) in pl.range(1, 6, init_values=(start, 3)):",
        "        t = pl.load(a, [i * 4, 0], [4, 16])",
        "        if n % 2 == 0:",
        "            u = pl.yield_(pl.mul(t, 10.0))",
        "        else:",
        "            u = pl.yield_(t)",
        "        total, m = pl.yield_(pl.add(acc, u), n + i)",
        "    pl.store(total, [0, 0], out)",
        "    pl.write(out, [m, 0], 7.0)",
    ),
    "break and continue": _main(
        f"{A}, {OUT}",
        AT.strip(),
        "    t = pl.load(a, [0, 0], [4, 16])",
        "    k = 0",
        "    for i in pl.range(9):",
        "        if i == 2:",
        "            continue",
        "        k = k + i",
        "        if k > 12:",
        "            break",
        "        t = pl.mul(t, 0.5)",
        "    pl.store(t, [k % 5, 0], out)",
    ),
    "while": _main(
        f"{A}, {OUT}, n: pl.Scalar[pl.INDEX]",
        AT.strip(),
        "    t = pl.load(a, [0, 0], [4, 16])",
        "    i = n",
        "    while i > 1 and i < 1000:",
        "        t = pl.add(t, 1.0)",
        "        i = i // 2",
        "    pl.store(t, [i, 0], out)",
        arguments=(*TILE_IO, 37),
    ),
    "while on memory": _main(
        f"{A}, cfg: pl.InOut[pl.Tensor[[3], pl.INT32]], {OUT}",
        AT.strip(),
        "    t = pl.load(a, [0, 0], [4, 16])",
        "    while pl.read(cfg, [0]) < 9:",
        "        pl.write(cfg, [0], pl.read(cfg, [0]) + pl.read(cfg, [1]))",
        "        t = pl.neg(t)",
        "    pl.store(t, [0, 0], out)",
        arguments=(((24, 16), F), ((3,), "int32"), ((24, 16), F)),
    ),
    "branches": _main(
        f"{A}, {OUT}, n: pl.Scalar[pl.INDEX], x: pl.Scalar[pl.FP32]",
        AT.strip(),
        "    t = pl.load(a, [0, 0], [8, 16])",
        "    s = x * 2.0",
        "    if n > 3:",
        "        t = pl.mul(t, s)",
        "        s = s + 1.0",
        "    elif not (n == 1) and x < 0.5:",
        "        t = pl.exp(t)",
        "    pl.store(pl.add(t, s), [0, 0], out)",
        arguments=(*TILE_IO, 2, 0.25),
    ),
    "ragged": _main(
        "a: pl.Tensor[[M, 16], pl.FP32], out: pl.Out[pl.Tensor[[M, 16], pl.FP32]]",
        AT.strip(),
        "    n = pl.tensor.dim(a, 0)",
        "    for i in pl.range((n + 9) // 10):",
        "        left = pl.min(n - i * 10, 10)",
        "        t = pl.load(a, [i * 10, 0], [10, 16], valid_shape=[left, 16])",
        "        u = pl.load(a, [i * 10, 0], [10, 16], clamp=True)",
        "        pl.store(pl.add(t, u), [i * 10, 0], out)",
        header='M = pl.dynamic("M")',
    ),
    "dynamic tensors": _main(
        "a: pl.Tensor[[M, N], pl.FP32], out: pl.Out[pl.Tensor[[M, N], pl.FP32]]",
        "tmp = pl.create_tensor([a.shape[0], a.shape[1]], dtype=pl.FP32)",
        "half = a.shape[1] // 2",
        AT.strip(),
        "    ms = pl.mul(pl.row_sum(pl.mul(a, a)), 0.5)",
        "    tmp[:] = pl.row_expand_mul(a, pl.rsqrt(pl.add(ms, 1e-6)))",
        AT.strip(),
        "    out[:, 0:half] = tmp[:, half:]",
        "    out[:, half:] = pl.neg(tmp[:, 0:half])",
        header='M = pl.dynamic("M")\nN = pl.dynamic("N")',
    ),
    "calls": _main(
        f"{A}, {OUT}",
        "tmp: pl.Tensor[[24, 16], pl.FP32] = pl.create_tensor([24, 16], dtype=pl.FP32)",
        "tmp = self.scale(a, 3.0, tmp)",
        "out = self.scale(tmp, 0.5, out)",
        "return out",
        prelude=(
            "@pl.function(type=pl.FunctionType.InCore)\n"
            "def scale(self, x: pl.Tensor[[M, 16], pl.FP32], s: pl.Scalar[pl.FP32], y: pl.Out[pl.Tensor[[M, 16], pl.FP32]]):\n"
            "    y[:] = pl.mul(x, s)\n"
            "    return y\n\n"
        ),
        header='M = pl.dynamic("M")',
    ),
    "values from helpers": _main(
        f"{A}, {OUT}",
        "b = self.double(a)",
        AT.strip(),
        "    out[:] = pl.add(self.double(b), a)",
        prelude=("@pl.function(type=pl.FunctionType.InCore)\ndef double(self, x: pl.Tensor[[24, 16], pl.FP32]):\n    return pl.add(x, x)\n\n"),
    ),
    "control plane calls": _main(
        f"{A}, {OUT}",
        "t = pl.create_tensor([24, 16], dtype=pl.FP32)",
        "t, c = self.layer(a, t, 3)",
        "n = 0",
        "while n < 3:",
        "    t, c = self.layer(t, out, n + 1)",
        "    n = n + 1",
        "if n == 3:",
        "    out[:] = c * t",
        "else:",
        "    out[:] = c",
        "return out",
        prelude=(
            FUNCTION + "def layer(self, a: pl.Tensor[[M, 16], pl.FP32], b: pl.Out[pl.Tensor[[M, 16], pl.FP32]], k: pl.Scalar[pl.INDEX]):\n"
            "    for i in pl.range(k):\n"
            "        with pl.at(level=pl.Level.CORE_GROUP):\n"
            "            b[:] = a * 2.0 + 1.0\n"
            "    return b, a + a\n\n"
        ),
        header='M = pl.dynamic("M")',
    ),
    "returned value": _main(A, "return pl.exp(a)", arguments=(((24, 16), F), ((24, 16), F))),
    "tile writes": _main(
        f"{A}, {OUT}",
        AT.strip(),
        "    t = pl.load(a, [0, 0], [8, 16])",
        "    u = t",
        "    t[2, 3] = 5.0",
        "    part = pl.tile.full([2, 16], dtype=pl.FP32, value=-1.0)",
        "    t = pl.assemble(t, part, [4, 0])",
        "    pl.store(pl.add(t, u), [0, 0], out)",
    ),
    "regions in order": _main(
        f"{A}, {OUT}",
        AT.strip(),
        "    t = pl.load(a, [0, 0], [24, 16])",
        "    corner = pl.read(a, [3, 4])",
        "    top = pl.row_max(t, t)",
        AT.strip(),
        "    pl.store(pl.add(pl.row_expand_sub(t, top), corner), [0, 0], out)",
    ),
    "slices": _main(
        "a: pl.Tensor[[2, 12, 16], pl.FP32], out: pl.Out[pl.Tensor[[24, 16], pl.FP32]], i: pl.Scalar[pl.INDEX]",
        AT.strip(),
        "    row = a[i]",
        "    flat = pl.reshape(a, [24, 16])",
        "    out[0:12, :] = pl.add(row, row)",
        "    out[12:24, :] = flat[i : i + 12, :]",
        "    out[i, 3] = flat[0, i]",
        arguments=(((2, 12, 16), F), ((24, 16), F), 1),
    ),
    "narrow types": _main(
        "a: pl.Tensor[[8, 16], pl.FP16], b: pl.Tensor[[16, 4], pl.FP16], n: pl.Tensor[[8], pl.INT32], out: pl.Out[pl.Tensor[[8, 4], pl.FP32]]",
        AT.strip(),
        "    c = pl.matmul(a, b, out_dtype=pl.FP32)",
        "    k = pl.cast(pl.read(n, [2]), pl.FP32)",
        "    out[:] = pl.maximum(c * k, pl.const(0.25, pl.FP32))",
        arguments=(((8, 16), "float16"), ((16, 4), "float16"), ((8,), "int32"), ((8, 4), F)),
    ),
    "parallel and pipeline": _main(
        f"{A}, {OUT}",
        "for i in pl.parallel(6):",
        "    with pl.at(level=pl.Level.CORE_GROUP):",
        "        for j in pl.pipeline(0, 16, 8, stage=2):",
        "            pl.store(pl.exp(pl.load(a, [i * 4, j], [4, 8])), [i * 4, j], out)",
    ),
    "blocks": _main(
        f"{A}, {OUT}",
        "for b in pl.spmd(6):",
        "    t = pl.load(a, [b * 4, 0], [4, 16])",
        "    pl.store(pl.mul(t, 2.0), [b * 4, 0], out)",
        "with pl.spmd(3):",
        "    self.part(a, out)",
        prelude=(
            "@pl.function(type=pl.FunctionType.InCore)\n"
            "def part(self, x: pl.Tensor[[24, 16], pl.FP32], y: pl.InOut[pl.Tensor[[24, 16], pl.FP32]]):\n"
            "    row = pl.tile.get_block_idx() * 8\n"
            "    pl.store(pl.load(x, [row, 0], [2, 16]), [row, 0], y, atomic=pl.AtomicType.Add)\n\n"
        ),
    ),
    "print and assert": _main(
        f"{A}, {OUT}, n: pl.Scalar[pl.INDEX]",
        AT.strip(),
        "    pl.device_assert(n < 5, 'n is too large')",
        "    out[:] = pl.exp(a)",
        arguments=(*TILE_IO, 2),
    ),
    "scalar arithmetic": _main(
        f"{A}, {OUT}, n: pl.Scalar[pl.INDEX], x: pl.Scalar[pl.FP32]",
        AT.strip(),
        "    k = (n + 3) * (n - 1) // 2 % 7 - -n",
        "    m = min(max(k, 1), 20) + ((n << 2) & 3 | n ^ 1)",
        "    f = abs(x) ** 2 / (x - 3.0)",
        "    if (n > 1 or m <= 3) and not m == 19:",
        "        f = f + 1.0",
        "    pl.store(pl.mul(pl.load(a, [m % 8, 0], [4, 16]), f), [k % 9, 0], out)",
        arguments=(*TILE_IO, 4, -1.5),
    ),
    "opaque": _main(f"{A}, {OUT}", AT.strip(), "    out[:] = pl.neg(a)", "return out", kind="@pl.function\n"),
    "split hint": _main(
        f"{A}, {OUT}",
        "with pl.at(level=pl.Level.CORE_GROUP, optimizations=[pl.split(pl.SplitMode.UP_DOWN)]):",
        "    out[:] = pl.neg(a)",
    ),
    "carried buffers": _main(
        f"{A}, {OUT}, n: pl.Scalar[pl.INDEX]",
        "cur = pl.create_tensor([24, 16], dtype=pl.FP32)",
        "nxt = pl.create_tensor([24, 16], dtype=pl.FP32, init_value=0.0)",
        "cur[:] = a + 0.0",
        "for i in pl.range(n):",
        "    with pl.at(level=pl.Level.CORE_GROUP):",
        "        nxt[:] = pl.mul(cur, 1.5)",
        "    cur, nxt = nxt, cur",
        "out[:] = cur - 1.0",
        arguments=(*TILE_IO, 3),
    ),
    "masks": _main(
        f"{A}, {OUT}",
        AT.strip(),
        "    t = pl.load(a, [0, 0], [24, 16])",
        "    tmp = pl.create_tile([24, 16], dtype=pl.FP32)",
        "    mask = pl.cmps(t, 0.25, cmp_type=4)",
        "    pl.store(pl.sel(mask, t, pl.neg(t), tmp), [0, 0], out)",
    ),
}
"""Every construct at least once."""
