"""Rows that only mean something inside a kernel: each runs in one, on the reference, and is compared with NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilejit import ir
from tilejit import language as pl

rng = np.random.default_rng(41)
X = rng.standard_normal((6, 8)).astype(np.float32)
INDICES = rng.permutation(48).astype(np.int32)[:8].reshape(1, 8)


def _run(body: str, expected: Any, out: Any = None, kind: str = "InCore", extra: str = "") -> None:
    """Run lines of a kernel `(x, idx, out)` on the reference; `out` is what the output holds before."""
    out = np.full_like(expected, 7) if out is None else out.copy()
    shape, dtype = list(out.shape), {"float32": "FP32", "int32": "INT32", "int64": "INT64"}[out.dtype.name]
    lines = "\n".join(f"        {line}" for line in body.splitlines())
    text = (
        f"import tilejit.language as pl\n@pl.program\nclass Small:\n{extra}"
        f"    @pl.function(type=pl.FunctionType.{kind})\n"
        f"    def main(self, x: pl.Tensor[[6, 8], pl.FP32], idx: pl.Tensor[[1, 8], pl.INT32], out: pl.InOut[pl.Tensor[{shape}, pl.{dtype}]]):\n{lines}\n"
    )
    program = pl.parse(text)
    ir.compile(program, platform="reference")(X.copy(), INDICES.copy(), out)
    np.testing.assert_array_equal(out, expected)


def load() -> None:
    _run("pl.store(pl.load(x, [2, 3], [3, 4]), [0, 0], out)", X[2:5, 3:7])
    expected = np.full((3, 4), 7, np.float32)
    expected[:2, :3] = X[1:3, 2:5]
    _run("pl.store(pl.load(x, [1, 2], [3, 4], valid_shape=[2, 3]), [0, 0], out)", expected)
    clamped = np.full((4, 8), 7, np.float32)
    clamped[:2] = X[4:6]
    _run("pl.store(pl.load(x, [4, 0], [4, 8], clamp=True), [0, 0], out)", clamped)


def store() -> None:
    expected = np.full((9, 9), 7, np.float32)
    expected[2:8, 1:9] = X
    _run("pl.store(pl.load(x, [0, 0], [6, 8]), [2, 1], out)", expected)
    expected[2:8, 1:9] = X + 7
    _run("pl.store(pl.load(x, [0, 0], [6, 8]), [2, 1], out, atomic=pl.AtomicType.Add)", expected)


def create_tensor() -> None:
    _run(
        "t = pl.create_tensor([6, 8], dtype=pl.FP32, init_value=1.5)\nwith pl.at(level=pl.Level.CORE_GROUP):\n    out[:] = pl.add(x, t)",
        X + np.float32(1.5),
        kind="Opaque",
    )


def create_l1() -> None:
    body = "t = pl.create_l1([6, 8], pl.FP32)\n    t[:] = pl.neg(x)\n    out[:] = pl.abs(t)"
    _run(f"with pl.at(level=pl.Level.CORE_GROUP):\n    {body}", np.abs(X), kind="Opaque")


def dim() -> None:
    _run("pl.write(out, [0], pl.cast(pl.dim(x, 0) * 100 + pl.tensor.dim(x, -1), pl.INT32))", np.array([608], np.int32))


def read() -> None:
    _run("pl.write(out, [0], pl.read(x, [4, 5]))\npl.write(out, [1], pl.read(x, 13))", np.array([X[4, 5], X.flat[13]], np.float32))


def view() -> None:
    _run("out[:] = pl.tensor.view(x, [8, 6])", X.reshape(8, 6))


def no_dep() -> None:
    _run("out[:] = pl.neg(pl.no_dep(x))", -X)


def mscatter() -> None:
    expected = np.full(60, 7, np.float32)
    for place, value in zip(INDICES[0], X[0], strict=True):
        expected[place] = value
    _run("pl.mscatter(pl.load(x, [0, 0], [1, 8]), pl.load(idx, [0, 0], [1, 8]), out)", expected.reshape(6, 10))


def places() -> None:
    """get_block_idx, get_block_num."""
    blocks = np.array([i * 10 + 4 for i in range(4)], np.int32)
    _run(
        "with pl.spmd(4):\n    i = pl.tile.get_block_idx()\n    pl.write(out, [i], pl.cast(i * 10 + pl.tile.get_block_num(), pl.INT32))", blocks, kind="Opaque"
    )


def lanes() -> None:
    """get_subblock_idx, aiv_shard."""
    body = "t = pl.load(x, [0, 0], [6, 8])\nfor lane in pl.split_aiv(2, mode=pl.SplitMode.UP_DOWN):\n"
    body += "    i = pl.tile.get_subblock_idx()\n    pl.store(pl.add(pl.aiv_shard(t), pl.cast(i + 1, pl.FP32)), [i * 3, 0], out)"
    _run(body, X + np.repeat(np.array([1, 2], np.float32), 3)[:, None])


def arrays() -> None:
    body = "a = pl.array.create(5, pl.INT32)\nfor i in pl.range(5):\n    a = pl.array.update_element(a, i, pl.cast(i * i, pl.INT32))\n"
    body += "b = pl.array.update_element(a, 2, pl.const(-1, pl.INT32))\nfor i in pl.range(5):\n"
    body += "    pl.write(out, [0, i], pl.array.get_element(a, i))\n    pl.write(out, [1, i], pl.array.get_element(b, i))"
    _run(body, np.array([[0, 1, 4, 9, 16], [0, 1, -1, 9, 16]], np.int32))


def fresh_array() -> None:
    _run("a = pl.array.create(3, pl.INT64)\nfor i in pl.range(3):\n    pl.write(out, [i], a[i])", np.zeros(3, np.int64))


def machine() -> None:
    _run(
        "pl.write(out, [0], pl.cast(pl.system.available_aiv_count(), pl.INT32))\npl.write(out, [1], pl.cast(pl.system.available_cluster_count(), pl.INT32))",
        np.array([16, 8], np.int32),
    )


def addresses() -> None:
    """Addresses are numbers that only Ascend looks at: they are there, and change nothing."""
    _run("a = pl.reserve_buffer(name='f', size=64)\nb = pl.import_peer_buffer(name='f', peer_func='main')\nout[:] = x", X)


def no_producer() -> None:
    _run("tid = pl.system.task_invalid()\nwith pl.at(level=pl.Level.CORE_GROUP, deps=[tid]):\n    out[:] = pl.neg(x)", -X, kind="Opaque")


CUBE_TO_VECTOR = """
    @pl.function(type=pl.FunctionType.AIC)
    def cube(self, x: pl.Tensor[[6, 8], pl.FP32]):
        for i in pl.range(3):
            pl.tpush_to_aiv(pl.load(x, [i * 2, 0], [2, 8]), split=0)
    @pl.function(type=pl.FunctionType.AIV)
    def vector(self, out: pl.InOut[pl.Tensor[[6, 8], pl.FP32]]):
        for i in pl.range(3):
            t = pl.tpop_from_aic(shape=[2, 8], dtype=pl.FP32)
            pl.store(pl.neg(t), [i * 2, 0], out)
            pl.tfree_to_aic(t)
"""
VECTOR_TO_CUBE = """
    @pl.function(type=pl.FunctionType.AIV)
    def vector(self, x: pl.Tensor[[6, 8], pl.FP32]):
        for i in pl.range(3):
            pl.tpush_to_aic(pl.abs(pl.load(x, [i * 2, 0], [2, 8])), split=0)
    @pl.function(type=pl.FunctionType.AIC)
    def cube(self, out: pl.InOut[pl.Tensor[[6, 8], pl.FP32]]):
        for i in pl.range(3):
            t = pl.tpop_from_aiv(shape=[2, 8], dtype=pl.FP32)
            pl.store(t, [i * 2, 0], out)
            pl.tfree_to_aiv(t)
"""


LANES = """
    @pl.function(type=pl.FunctionType.AIC)
    def cube(self, x: pl.Tensor[[6, 8], pl.FP32], out: pl.InOut[pl.Tensor[[6, 8], pl.FP32]]):
        for i in pl.range(3):
            pl.tpush_to_aiv(pl.load(x, [i * 2, 0], [2, 8]), split=1)
            t = pl.tpop_from_aiv(shape=[2, 8], dtype=pl.FP32, split=1)
            pl.store(t, [i * 2, 0], out)
    @pl.function(type=pl.FunctionType.AIV)
    def vector(self):
        for i in pl.range(3):
            for lane in pl.split_aiv(2, mode=pl.SplitMode.UP_DOWN):
                t = pl.tpop_from_aic(shape=[1, 8], dtype=pl.FP32, split=1)
                pl.tpush_to_aic(pl.mul(t, pl.cast(lane + 2, pl.FP32)), split=1)
"""


def lane_fifos() -> None:
    """Each lane takes its half of what the cube sends, and sends half of what the cube takes."""
    _run("self.vector()\nself.cube(x, out)", X * np.tile(np.array([2, 3], np.float32), 3)[:, None], kind="Orchestration", extra=LANES)


def cube_to_vector() -> None:
    _run("self.vector(out)\nself.cube(x)", -X, kind="Orchestration", extra=CUBE_TO_VECTOR)


def vector_to_cube() -> None:
    _run("self.cube(out)\nself.vector(x)", np.abs(X), kind="Orchestration", extra=VECTOR_TO_CUBE)


def barrier() -> None:
    """Every block writes, all wait, every block reads what its neighbour wrote."""
    body = "with pl.spmd(4):\n    i = pl.tile.get_block_idx()\n    pl.write(out, [i], pl.cast(i + 1, pl.INT32))\n"
    body += "    pl.system.syncall()\n    pl.write(out, [i + 4], pl.read(out, [(i + 1) % 4]))"
    _run(body, np.array([1, 2, 3, 4, 2, 3, 4, 1], np.int32), kind="Opaque")


CHANGES: dict[str, Callable[[int, int], int]] = {
    "add": lambda old, v: old + v, "max": max, "min": min, "and": lambda old, v: old & v, "or": lambda old, v: old | v, "xor": lambda old, v: old ^ v,
    "exchange": lambda old, v: v,
}  # fmt: skip


def _changed(name: str) -> Callable[[], None]:
    """out[0] is changed by each index in turn, out[1 + i] is what the i-th one found."""

    def run() -> None:
        now, found = 12, []
        for index in INDICES[0]:
            found.append(now)
            now = CHANGES[name](now, int(index))
        body = f"for i in pl.range(8):\n    out[i + 1] = pl.atomic_{name}(out, [0], idx[0, i])"
        _run(body, np.array([now, *found], np.int32), np.full(9, 12, np.int32))

    return run


def compared_and_changed() -> None:
    body = "out[1] = pl.atomic_cas(out, [0], 12, 5)\nout[2] = pl.atomic_cas(out, [0], 12, 6)"
    _run(body, np.array([5, 12, 5], np.int32), np.full(3, 12, np.int32))


KERNELS: dict[str, Callable[[], None]] = {
    **{f"atomic_{name}": _changed(name) for name in CHANGES}, "atomic_cas": compared_and_changed,
    "load": load, "store": store, "create_tensor": create_tensor, "create_l1": create_l1, "dim": dim, "read": read, "view": view, "no_dep": no_dep,
    "mscatter": mscatter, "get_block_idx": places, "get_block_num": places, "get_subblock_idx": lanes,
    "array_create": fresh_array, "array_get_element": arrays, "array_update_element": arrays,
    "available_aiv_count": machine, "available_cluster_count": machine, "reserve_buffer": addresses, "import_peer_buffer": addresses,
    "task_invalid": no_producer, "syncall": barrier,
    "tpop_from_aic": cube_to_vector, "tpush_to_aiv": cube_to_vector, "tpop_from_aiv": vector_to_cube, "tpush_to_aic": vector_to_cube,
    "lane_pop": lane_fifos, "lane_push": lane_fifos,
    "tfree_to_aic": cube_to_vector, "tfree_to_aiv": vector_to_cube,
}  # fmt: skip
