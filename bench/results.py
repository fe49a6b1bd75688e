"""The rows of a run as text: RESULTS.md and RESULTS-cuda.md, with the machine they come from."""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import cast

Rows = Sequence[dict[str, object]]
FOLDER = Path(__file__).parent
MEANING = "The ratio is the peer's time over ours: above 1 is in our favour."
SHOWN = ("avx2", "avx512f", "avx512_bf16", "avx512_vnni", "amx_bf16", "amx_int8")
"""Features of processors that the results depend on."""


def table(rows: Rows) -> list[str]:
    lines = ["| case | peer | ratio | ours µs | peer µs | target |", "|---|---|---|---|---|---|"]
    for row in rows:
        verdict = "" if row["met"] is None else f"{row['target']}: {'met' if row['met'] else 'not met'}"
        lines.append(f"| {row['case']} | {row['peer']} | {row['ratio']:.2f} | {row['ours_us']:.1f} | {row['peer_us']:.1f} | {verdict} |")
    return lines


def write_cuda(rows: Rows) -> None:
    import torch
    import triton

    from tilejit.runtime.cuda import devices

    gpu = devices.device(0)
    machine = (
        f"{gpu.name}, compute capability {gpu.capability / 10}, {gpu.multiprocessors} multiprocessors; "
        f"Python {sys.version.split()[0]}, torch {torch.__version__}, Triton {triton.__version__}. "
        f"Written by `python bench/run.py cuda`. Device times come from events, on random data, medians; launches and compiles are host times. {MEANING} "
        "Each row was measured twice; where the two differ by more than a twentieth, it says so."
    )
    (FOLDER / "RESULTS-cuda.md").write_text("\n".join(["# CUDA results", "", machine, "", *_twice(rows, "cuda"), ""]), encoding="utf-8")


def _twice(rows: Rows, suite: str) -> list[str]:
    """The table with one more column: the ratios of the runs, which are those of the first half of the samples and of the second where a row has one pass."""
    from measure import SAME, agree

    head, line, *lines = table(rows)
    found = [head + " two runs |", line + "---|"]
    for text, row in zip(lines, rows, strict=True):
        runs = cast("tuple[float, ...]", row["runs"])
        found.append(f"{text} {', '.join(f'{ratio:.2f}' for ratio in runs)}{'' if agree(runs, SAME[suite]) else ': differ'} |")
    return found


def write_cpu(rows: Rows) -> None:
    """A section for the number of threads; those of others stay."""
    path = FOLDER / "RESULTS.md"
    threads = int(os.environ["TILEJIT_NUM_THREADS"])
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    sections = {int(part.split()[0]): f"## {part.strip()}\n" for part in re.split(r"^## ", before, flags=re.MULTILINE)[1:]}
    title = f"## {threads} thread{'s' if threads > 1 else ''}"
    sections[threads] = "\n".join([title, "", f"{_processor()}. {MEANING}", "", *_twice(rows, "cpu"), ""])
    head = [
        "# CPU results",
        "",
        "Written by `python bench/run.py cpu --threads N`, a section each: medians of samples taken in turns and of the ratios of neighbours, "
        "all sides on so many threads, "
        "with several after a rest, so that nobody's threads are in the way of the other's. Runs: passes over all rows that have a target, one after the other "
        "(`--runs 2`), else the halves of the samples; where they differ by more than a tenth, it says so.",
        "",
    ]
    path.write_text("\n".join([*head, *(sections[count] for count in sorted(sections))]), encoding="utf-8")


def _processor() -> str:
    import numpy
    import torch

    from tilejit.runtime import machine

    name, caches = platform.processor() or platform.machine(), machine.cache_bytes()
    try:
        found = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
        name = found[1] if found else name
    except OSError:
        pass
    sizes = ", ".join(f"{size >> 10} KiB" if size < 1 << 20 else f"{size >> 20} MiB" for size in caches)
    features = ", ".join(feature for feature in SHOWN if feature in machine.features())
    versions = f"Python {platform.python_version()}, NumPy {numpy.__version__}, torch {torch.__version__}"
    return f"{name}, {len(os.sched_getaffinity(0))} processors, caches of {sizes}; {features}; {versions}"
