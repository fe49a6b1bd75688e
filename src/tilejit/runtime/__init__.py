"""Running compiled programs. Importing this loads no compiler; `run` and the instruments load it when they are used."""

from __future__ import annotations

from importlib import import_module

_NAMES = {
    "BenchmarkStats": "tilejit.runtime.bench",
    "CallbackInstrument": "tilejit.passes.context",
    "CompiledEntry": "tilejit.runtime.artifact.entry",
    "CompiledProgram": "tilejit.runtime.artifact.compiled",
    "DeviceArray": "tilejit.runtime.cuda.arrays",
    "DeviceTensor": "tilejit.runtime.arrays",
    "Sharded": "tilejit.runtime.ranks.resident",
    "StackedDeviceTensor": "tilejit.runtime.ranks.resident",
    "DistributedCompiledProgram": "tilejit.jit.hosts.distributed",
    "DistributedConfig": "tilejit.runtime.ranks.config",
    "DistributedRunHandle": "tilejit.jit.hosts.workers",
    "DistributedWorker": "tilejit.jit.hosts.workers",
    "OptimizationStrategy": "tilejit.runtime.config",
    "ParamInfo": "tilejit.runtime.call.signature",
    "PassContext": "tilejit.passes.context",
    "RoundTripInstrument": "tilejit.compiler",
    "RunConfig": "tilejit.runtime.config",
    "VerifyInstrument": "tilejit.passes.pipeline",
    "benchmark": "tilejit.runtime.bench",
    "execute_compiled": "tilejit.runtime.artifact.execute",
    "run": "tilejit.compiler",
    "synchronise": "tilejit.runtime.cuda.entry",
}
"""Public name → the module that has it. By name: what an artifact needs to run must not depend on the compiler."""

__all__ = sorted(_NAMES)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> object:
    if name not in _NAMES:
        raise AttributeError(f"module 'tilejit.runtime' has no attribute {name!r}", name=name)
    return getattr(import_module(_NAMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_NAMES])
