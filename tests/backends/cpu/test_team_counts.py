"""What threads write to memory that others write to as well, counted per call: it must not grow faster than their number."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import textwrap

import pytest

from tests.patience import HANG

pytestmark = pytest.mark.skipif(sys.platform != "linux" or platform.machine() != "x86_64", reason="no thread pool on this platform")

COUNTED = textwrap.dedent(
    """
    import ctypes, json, re
    import numpy as np
    import tilejit.language as pl
    from tilejit import RunConfig
    from tilejit.backends.cpu import executable

    NAMES = ("done", "next", "gate", "sleepers", "lock", "generation", "taken")
    words, plain = (ctypes.c_int64 * len(NAMES))(), executable.pool_text

    def counted():
        lines = []
        for number, line in enumerate(plain().splitlines()):
            lines.append(line)
            found = re.match(r"  %([\\\\w.]+) = (atomicrmw \\\\w+|cmpxchg) ptr %(\\\\w+)", line)
            if found:
                at, one = ctypes.addressof(words) + 8 * NAMES.index(found[3]), "1"
                if found[2] == "cmpxchg":  # one that came too late wrote nothing
                    one = f"%wrote{number}"
                    lines += [f"  %exchanged{number} = extractvalue {{ i32, i1 }} %{found[1]}, 1", f"  {one} = zext i1 %exchanged{number} to i64"]
                lines.append(f"  %counted{number} = atomicrmw add ptr inttoptr (i64 {at} to ptr), i64 {one} seq_cst, align 8")
        return "\\\\n".join(lines)

    executable.pool_text = counted

    @pl.jit
    def product(a: pl.Tensor, b: pl.Tensor, c: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            c[:] = pl.matmul(a, b)

    @pl.jit
    def softmax(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            e = pl.exp(pl.row_expand_sub(x, pl.row_max(x)))
            out[:] = pl.row_expand_div(e, pl.row_sum(e))

    square = np.random.default_rng(0).standard_normal((512, 512), np.float32)
    found = []
    together, each = ({"gemm FP32": {"own_bytes": size}} for size in (0, 4 << 20))  # panels of B packed by all, and by each thread for itself
    products = product, (square, square, square.copy()), 2
    for threads in (4, 16, 64):  # so that the pool has no more than these: any that is late for an earlier call comes through the gate too
        for kernel, arguments, phases, schedule in ((*products, together), (*products, each), (softmax, (square, square.copy()), 1, {})):
            kernel(*arguments, config=RunConfig(num_threads=threads, schedule=schedule))
            words[:] = [0] * len(NAMES)
            kernel(*arguments, config=RunConfig(num_threads=threads, schedule=schedule))
            found.append([phases, threads, dict(zip(NAMES, words))])
    print(json.dumps(found))
    """
).replace("\\\\", "\\")


def test_shared_writes_of_a_call_grow_no_faster_than_the_threads() -> None:
    ran = subprocess.run([sys.executable, "-c", COUNTED], capture_output=True, text=True, timeout=HANG)
    assert ran.returncode == 0, ran.stderr
    pieces: dict[int, list[int]] = {}
    for phases, threads, counts in json.loads(ran.stdout):
        # A thread says once in a phase that it is done. It comes through the gate once, or twice where it was late for the call before: then it is told of this
        # one when it has left. The caller takes the pool, and opens and closes the gate.
        assert counts["done"] <= phases * threads and counts["gate"] <= 4 * threads and counts["lock"] + counts["generation"] == 2, counts
        pieces.setdefault(phases, []).append(counts["next"])
    # Each piece of work is taken once, from the counter of a thread's own stretch while there is something left in it: for 64 threads 8 each at most.
    assert max(max(counts) for counts in pieces.values()) <= 8 * 64, pieces
