"""`python -m tests.runtime.cycles load|compile COUNT`: repeats a cycle and prints memory, mappings and handles after a tenth and after all, as JSON."""

from __future__ import annotations

import gc
import json
import os
import sys
import tempfile

import numpy as np

from tests.runtime.programs import COLUMNS, ROWS, binary
from tilejit import CompiledProgram, ir


def usage() -> dict[str, int]:
    gc.collect()
    with open("/proc/self/statm", encoding="ascii") as file:
        resident = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
        mappings = sum(1 for _ in file)
    return {"resident": resident, "mappings": mappings, "handles": len(os.listdir("/proc/self/fd"))}


def main(cycle: str, count: int) -> None:
    a = np.random.default_rng(0).standard_normal((ROWS, COLUMNS), np.float32)
    with tempfile.TemporaryDirectory() as directory:
        ir.compile(binary("FP32", "pl.exp(pl.sub(a, b))"), directory, platform="cpu")
        seen: list[dict[str, int]] = []
        for turn in range(1, count + 1):
            if cycle == "load":
                CompiledProgram.from_dir(directory)(a, a)
            else:
                program = binary.__wrapped__("FP32", f"pl.add(pl.exp(pl.sub(a, b)), {float(turn)})")
                result = np.asarray(ir.compile(program, platform="cpu")(a, a))
                assert (result == 1 + turn).all()
            if turn in (count // 10, count):
                seen.append(usage())
    print(json.dumps(seen))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
