"""Tries all kernels of tests/suite: which lower, which compile to cubins, which give their numbers in Triton's interpreter.

python -m tests.backends.cuda.sweep [--compile 80,90] [--topic NAME] [--case NAME] [--show] [--jobs N]
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
import sys
import time
import traceback
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import Any

if "--compile" not in sys.argv and "--gpu" not in sys.argv:
    os.environ["TRITON_INTERPRET"] = "1"


import tilejit.language as pl
from tests.suite import harness
from tilejit import ir
from tilejit.backends.base import CompileOptions
from tilejit.backends.cuda.lower import lower
from tilejit.errors import TilejitError
from tilejit.passes import pipeline
from tilejit.passes.fuse import fuse
from tilejit.passes.outline import outline
from tilejit.passes.simplify import simplify

SUITE = Path(harness.__file__).parent
TOPICS = sorted(path.stem for path in SUITE.glob("*.py") if path.stem not in ("__init__", "harness") and not path.stem.startswith("test_"))


def program_of(case: harness.Case, arguments: list[Any]) -> ir.Program:
    if isinstance(case.kernel, ir.Program):
        return case.kernel
    found = pl.parse(case.kernel.specialized_source(*arguments))
    assert isinstance(found, ir.Program)
    return found


def prepared(program: ir.Program) -> ir.Program:
    return pipeline.run_pipeline(program, (simplify, outline, simplify, fuse))


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
                print(error)
        except Exception as error:
            if self.options.show:
                traceback.print_exc()
            text = [line for line in str(error).strip().splitlines() if line.strip()]
            self.reason = f"{type(error).__name__}: {' | '.join(text[:1] + text[-2:])}"
            if error.__cause__ is not None:
                self.reason = f"{str(error.__cause__)[-160:]} <- {self.reason}"

    def _check(self) -> None:
        installed = _installed(self)
        if isinstance(self.case.kernel, harness.JITFunction):
            self.case.kernel.cache_clear()
        config = (
            harness.RunConfig(platform="reference", disk_cache=False) if hasattr(harness.RunConfig(), "disk_cache") else harness.RunConfig(platform="reference")
        )
        case = self.case if self.case.tol else dataclasses.replace(self.case, tol=2e-6)
        with installed:
            case._check_calls(config)

    def _compile(self, call: Any) -> None:
        arguments, _, _ = self.case._given(self.case.arguments(call))
        program = prepared(program_of(self.case, arguments))
        made = lower(program, CompileOptions())
        self.stage = "compile"
        from tests.backends.cuda.cubins import compile_kernel

        for kernel in made.kernels:
            for architecture in self.options.compile:
                if self.options.show:
                    print(kernel.text)
                compile_kernel(kernel, architecture)


@contextlib.contextmanager
def _installed(run: Run) -> Any:
    """Programs for the reference platform run in Triton's interpreter for a while."""
    if run.options.gpu:
        from tests.backends.cuda.gpu import Gpu as Machine
    else:
        from tests.backends.cuda.machine import Machine
    from tilejit import compiler
    from tilejit.runtime import machine as facts
    from tilejit.runtime.arrays import ArrayView

    @dataclasses.dataclass(frozen=True)
    class Runner:
        machine: Machine
        name: str

        def run(self, arguments: Any, num_threads: int | None = None) -> None:
            run.stage = "run"
            self.machine.run(self.name, [argument.numpy() if isinstance(argument, ArrayView) else argument for argument in arguments])
            run.stage = "agree"

    def build(program: Any, config: Any, output_dir: Any, known: Any) -> Any:
        run.stage = "lower"
        ready = prepared(program)
        made = lower(ready, CompileOptions(), interpreted=not run.options.gpu)
        if run.options.show:
            for kernel in made.kernels:
                print(kernel.text)
            print(made.entries)
        artifact = compiler.Artifact(program.name, "reference", compiler._entry_infos(ready, program), (), facts.architecture(), (), compiler._versions())
        return compiler.CompiledProgram(
            artifact, {name: Runner(Machine(made), name) for name in ready.entries}, program=program, stages=[], output_dir=output_dir
        )

    saved = compiler._BUILDERS["reference"]
    compiler._BUILDERS["reference"] = build
    try:
        yield
    finally:
        compiler._BUILDERS["reference"] = saved


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
