"""Random views of one to five dims: what is loaded through one and stored through another is the same as machine code and interpreted."""

from __future__ import annotations

import math
import random

import numpy as np

from tests.pto.harness import NDArray, run_text

_ROW_DIMS = {"nd": (0, 1, 2, 3), "dn": (3,), "nz": (2, 3)}


class View:
    """A slice of a strided view: extents, sizes, offsets and strides of its dims, and the matrix it is; the text may say smaller extents."""

    def __init__(self, pick: random.Random, rank: int, layout: str, sizes: list[int]) -> None:
        self.layout = layout
        self.sizes = sizes
        self.offsets = [pick.choice((0, 0, 1, 3)) for _ in sizes]
        self.extents = [offset + size + pick.choice((0, 0, 2)) for offset, size in zip(self.offsets, sizes)]
        self.said = [max(1, extent - pick.choice((0, 0, 0, 2))) for extent in self.extents]
        order = list(range(rank))
        if pick.random() < 0.5:
            pick.shuffle(order)
        self.strides = [0] * rank
        step = 1
        for axis in reversed(order):
            self.strides[axis] = step
            step *= self.extents[axis]
            if pick.random() < 0.2:
                step += pick.randint(1, 5)
        self.start = pick.choice((0, 0, 7))
        self.size = self.start + sum((extent - 1) * stride for extent, stride in zip(self.extents, self.strides)) + 1

    @property
    def matrix(self) -> tuple[int, int]:
        """Rows and columns."""
        pad = 5 - len(self.sizes)
        along = set(_ROW_DIMS[self.layout if len(self.sizes) > 2 else "nd"])
        rows = math.prod(size for axis, size in enumerate(self.sizes) if axis + pad in along)
        return rows, math.prod(self.sizes) // rows

    def text(self, name: str, constant: dict[int, str]) -> str:
        def numbers(values: list[int]) -> str:
            return ", ".join(constant.setdefault(value, f"%n{value}") for value in values)

        dims = "x".join(["?"] * len(self.sizes))
        sizes = "x".join(map(str, self.sizes))
        view, part = f"!pto.tensor_view<{dims}xf32>", f"!pto.partition_tensor_view<{sizes}xf32>"
        layout = f"{{layout = #pto.layout<{self.layout}>}} "
        return (
            f"    %p{name} = pto.addptr %{name}, {numbers([self.start])} : !pto.ptr<f32> -> !pto.ptr<f32>\n"
            f"    %v{name} = pto.make_tensor_view %p{name}, shape = [{numbers(self.said)}], strides = [{numbers(self.strides)}] {layout}: {view}\n"
            f"    %s{name} = pto.partition_view %v{name}, offsets = [{numbers(self.offsets)}], sizes = [{numbers(self.sizes)}] : {view} -> {part}\n"
        )

    @property
    def slice(self) -> str:
        return f"!pto.partition_tensor_view<{'x'.join(map(str, self.sizes))}xf32>"


def _source(pick: random.Random) -> View:
    rank = pick.randint(1, 5)
    layout = pick.choice(("nd", "dn", "nz")) if rank > 2 else "nd"
    return View(pick, rank, layout, [pick.choice((1, 2, 3, 4, 8)) for _ in range(rank)])


def kernel(seed: int) -> tuple[str, int, int]:
    """A text and the sizes of its two arrays."""
    pick = random.Random(seed)
    source = _source(pick)
    rows, cols = source.matrix
    target = _source(pick)
    while math.prod(target.sizes) != rows * cols:
        target = View(pick, 2, "nd", [rows, cols] if pick.random() < 0.7 else [cols, rows])
    tile = f"!pto.tile_buf<vec, {rows}x{cols}xf32>" if pick.random() < 0.6 else f"!pto.tile_buf<vec, {rows + 3}x{cols + 2}xf32, valid={rows}x{cols}>"
    names: dict[int, str] = {}
    views = source.text("x", names) + target.text("o", names)
    constants = "".join(f"    {name} = arith.constant {value} : index\n" for value, name in names.items())
    text = f"""module {{
  func.func @views(%x: !pto.ptr<f32>, %o: !pto.ptr<f32>) {{
{constants}{views}    %t = pto.alloc_tile : {tile}
    pto.tload ins(%sx : {source.slice}) outs(%t : {tile})
    pto.tneg ins(%t : {tile}) outs(%t : {tile})
    pto.tstore ins(%t : {tile}) outs(%so : {target.slice})
    return
  }}
}}
"""
    return text, source.size, target.size


def check(seed: int) -> None:
    """Both ways give the same."""
    text, length, room = kernel(seed)
    x: NDArray = np.random.default_rng(seed).standard_normal(length).astype(np.float32)
    run_text(text, x, np.ones(room, np.float32))
