"""Tries all kernels of tests/suite: which lower, which compile to cubins, which give their numbers in Triton's interpreter.

python -m tests.backends.cuda.sweep [--compile 80,90] [--topic NAME] [--case NAME] [--show] [--jobs N]
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
import time
import traceback
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import Any

if "--gpu" in sys.argv:
    os.environ["TEST_ON_GPU"] = "1"
elif "--compile" not in sys.argv:
    os.environ["TRITON_INTERPRET"] = "1"


import tilejit.language as pl
from tests.suite import harness
from tilejit import ir
from tilejit.backends.base import CompileOptions
from tilejit.backends.cuda import plan
from tilejit.backends.cuda.lower import lower
from tilejit.errors import TilejitError
from tilejit.passes import pipeline

SUITE = Path(harness.__file__).parent
TOPICS = sorted(path.stem for path in SUITE.glob("*.py") if path.stem not in ("__init__", "harness") and not path.stem.startswith("test_"))


def program_of(case: harness.Case, arguments: list[Any]) -> ir.Program:
    if isinstance(case.kernel, ir.Program):
        return case.kernel
    found = pl.parse(case.kernel.specialized_source(*arguments))
    assert isinstance(found, ir.Program)
    return found


def prepared(program: ir.Program) -> ir.Program:
    return pipeline.run_pipeline(program, pipeline.FUSED)


class Run:
    """One case: what became of it."""

    def __init__(self, topic: str, case: harness.Case, options: argparse.Namespace) -> None:
        self.topic, self.case, self.options = topic, case, options
        self.stage, self.reason = "lower", ""

    def go(self) -> None:
        try:
            if self.options.compile:
                for call in self.case.calls[:1]:
                    self._compile(call)
            else:
                self._check()
            self.stage = "ok"
        except TilejitError as error:
            self.reason = f"{type(error).__name__}: {str(error).splitlines()[0]}"
            if self.options.show:
                traceback.print_exc()
        except Exception as error:
            if self.options.show:
                traceback.print_exc()
            text = [line for line in str(error).strip().splitlines() if line.strip()]
            self.reason = f"{type(error).__name__}: {' | '.join(text[:1] + text[-2:])}"
            if error.__cause__ is not None:
                self.reason = f"{str(error.__cause__)[-160:]} <- {self.reason}"

    def _check(self) -> None:
        from tests.backends.cuda import interpreted

        interpreted.seen[:] = [self._reached]
        if isinstance(self.case.kernel, harness.JITFunction):
            self.case.kernel.cache_clear()
        case = self.case if self.case.tol else dataclasses.replace(self.case, tol=2e-6)
        case._check_calls(harness.RunConfig(platform="triton"))  # pyright: ignore[reportPrivateUsage]

    def _reached(self, stage: str, made: plan.Program | None) -> None:
        self.stage = stage
        if made is not None and self.options.show:
            for kernel in made.kernels:
                print(kernel.text)
            print(made.entries)

    def _compile(self, call: Any) -> None:
        arguments, _, _ = self.case._given(self.case.arguments(call))
        program = prepared(program_of(self.case, arguments))
        made = lower(program, CompileOptions())
        self.stage = "compile"
        from tilejit.backends.cuda.compile import compile_kernel

        for kernel in made.kernels:
            for architecture in self.options.compile:
                if self.options.show:
                    print(kernel.text)
                compile_kernel(kernel, architecture, aligned=True)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--topic", action="append")
    parser.add_argument("--case", action="append")
    parser.add_argument("--compile", type=lambda text: [int(item) for item in text.split(",")])
    parser.add_argument("--gpu", action="store_true", help="run on the GPU of this machine, through torch and Triton's launcher")
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--first", action="store_true")
    parser.add_argument("--part", default="0/1")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    mine, parts = (int(item) for item in options.part.split("/"))
    stages: Counter[str] = Counter()
    reasons: list[str] = []
    number = 0
    for topic in options.topic or TOPICS:
        for case in import_module(f"tests.suite.{topic}").CASES:
            if options.case and case.name not in options.case:
                continue
            number += 1
            if number % parts != mine:
                continue
            run = Run(topic, case, options)
            start = time.perf_counter()
            run.go()
            spent = time.perf_counter() - start
            stages[run.stage] += 1
            if run.stage != "ok" or options.verbose or spent > 20:
                reasons.append(f"{run.stage:8} {topic}:{case.name} {spent:.1f}s {run.reason[:230]}")
                print(reasons[-1], flush=True)
    print(dict(stages))
    return 0 if set(stages) <= {"ok"} else 1


if __name__ == "__main__":
    sys.exit(main())
