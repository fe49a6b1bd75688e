"""Compiles the kernels of a plan to cubins without a GPU, by Triton's own stages."""

from __future__ import annotations

import linecache
from typing import Any

from tilejit.backends.cuda import plan


def compile_kernel(kernel: plan.Kernel, architecture: int, aligned: bool = True) -> dict[str, Any]:
    """The cubin and facts of a kernel; `aligned`: the variant whose divisible parameters are multiples of 16."""
    from triton._C.libtriton import ir
    from triton.backends.compiler import GPUTarget
    from triton.compiler.compiler import ASTSource, make_backend

    name = f"<{kernel.name}-{abs(hash(kernel.text))}>"
    linecache.cache[name] = (len(kernel.text), None, kernel.text.splitlines(True), name)
    space: dict[str, Any] = {"__name__": kernel.name}
    exec(compile(kernel.text, name, "exec"), space)
    target = GPUTarget("cuda", architecture, 32)
    backend: Any = make_backend(target)
    options = backend.parse_options({"num_warps": kernel.num_warps, "num_stages": kernel.num_stages, **kernel.options})
    attributes = {(i,): [["tt.divisibility", 16]] for i, p in enumerate(kernel.parameters) if aligned and (p.divisible or p.kind in ("scratch", "error"))}
    source = ASTSource(space[kernel.name], kernel.signature, {}, attributes)
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    module = source.make_ir(target, options, backend.get_codegen_implementation(options), backend.get_module_map(), context)
    stages: dict[str, Any] = {}
    backend.add_stages(stages, options, source.language)
    facts: dict[str, Any] = {"target": target, **options.__dict__}
    made: dict[str, Any] = {}
    for extension, stage in stages.items():
        module = stage(module, facts)
        made[extension] = module
    return {**facts, **made}
