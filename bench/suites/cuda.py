"""Kernels, launches and compiles on a GPU, against torch and hand-written Triton in the same process; device times come from events, on random data."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import itertools
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from cuda_kernels import (
    column_sum,
    layernorm,
    linear_gelu,
    narrow_product,
    narrow_tiles,
    product,
    rmsnorm,
    tiled_product,
    transpose,
    wide_product,
)
from measure import Pair, Target
from peers_triton import add_kernel, attention, matmul, softmax_kernel
from torch.nn.functional import gelu, layer_norm, rms_norm, scaled_dot_product_attention

from suites.kernels import add, softmax

DEVICE = "cuda"
N = 8192


# ----------------------------------------------------------------------------------------------------------------------
# timing


def on_device(function: Callable[[], object]) -> Callable[[], float]:
    """Seconds that the GPU takes for one call: the median of several, each between events, after a write that clears the cache."""
    flush = torch.empty(256 << 20, dtype=torch.int8, device=DEVICE)

    def seconds() -> float:
        times: list[float] = []
        for _ in range(9):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            flush.zero_()
            start.record()
            function()
            end.record()
            end.synchronize()
            times.append(start.elapsed_time(end) * 1e-3)
        return statistics.median(times)

    return seconds


def pair(case: str, peer: str, ours: Callable[[], object], theirs: Callable[[], object], check: Callable[[], None], least: float | None = None) -> Pair:
    """`least` is the ratio that is wanted: our speed as a multiple of the peer's."""
    target = None if least is None else Target(1 / least)
    return Pair(case, peer, on_device(ours), on_device(theirs), samples=4, self_timed=True, check=check, target=target)


def launch(kernel: Any, programs: int, *arguments: object) -> None:
    """Triton's own launcher."""
    kernel[(programs,)](*arguments)


def random(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, device=DEVICE).to(dtype)


def close(ours: torch.Tensor, theirs: torch.Tensor, tolerance: float) -> Callable[[], None]:
    return lambda: torch.testing.assert_close(ours.float(), theirs.float(), rtol=tolerance, atol=tolerance)


def cases() -> Iterator[Pair]:
    for group in (launches, from_disk, layers, products, memory_bound, decodes, attentions, compiles):  # what is closest to its bar comes first
        try:
            yield from group()
        except Exception as error:  # the rest still tells something
            print(f"{group.__name__}: {type(error).__name__}: {error}", flush=True)


# ----------------------------------------------------------------------------------------------------------------------
# the rows


def launches() -> Iterator[Pair]:
    """Host time of a warm call on three small tensors."""
    x, y, out, other = (random(64, 1024) for _ in range(4))

    def ours() -> None:
        add(x, y, out)

    def theirs() -> None:
        launch(add_kernel, 64, x, y, other, 65536, 1024)

    for _ in range(4):
        ours()
    check = close(out, x + y, 1e-6)
    yield Pair("launch, 3 tensors, host", "Triton", ours, theirs, check=check, target=Target(0.35))
    yield Pair("launch, 3 tensors, host", "torch.add(out=)", ours, lambda: torch.add(x, y, out=other), check=check)
    bare, native = _bare_launches(x, y, other)
    yield Pair("launch, 3 tensors, host", "cuLaunchKernelEx, ctypes", ours, bare, check=check)

    def calls(kernel: Callable[..., object] = add, x: torch.Tensor = x, y: torch.Tensor = y, out: torch.Tensor = out) -> None:
        for _ in itertools.repeat(None, LAUNCHES):  # names that are looked up are no part of a launch
            kernel(x, y, out)

    peer = "cuLaunchKernelEx, native loop"
    yield Pair("launch, 3 tensors, host", peer, _host_seconds(calls), _host_seconds(native), samples=41, self_timed=True, check=check, target=Target(1.15))


LAUNCHES = 500


def _host_seconds(launches: Callable[[], object]) -> Callable[[], float]:
    """Seconds of the host for one of many launches, the GPU idle before the first."""

    def seconds() -> float:
        torch.cuda.synchronize()
        start = time.perf_counter()
        launches()
        return (time.perf_counter() - start) / LAUNCHES

    return seconds


def _bare_launches(x: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> tuple[Callable[[], object], Callable[[], object]]:
    """One packed launch of our own kernel, again and again: what the driver costs, called from Python and from native code."""
    from tilejit.runtime.cuda.entry import CudaEntry

    add(x, y, out)
    runner = next(iter(add._cache.values())).only("call").runner
    assert isinstance(runner, CudaEntry)
    loaded = runner.program.on(0)
    launcher, function = loaded.kernels[0], loaded.cubins[0][-1].function
    block, call, run = launcher.blocks[0], launcher.driver_call, _native_loop()
    launch_ex = loaded.device.driver.address("cuLaunchKernelEx")
    return lambda: call(block.config, function, block.places, None), lambda: run(LAUNCHES, launch_ex, block.config, function, block.places)


_LOOP = """
define void @repeat(i64 %n, ptr %launch, ptr %config, ptr %function, ptr %parameters) {
entry:
  br label %turn
turn:
  %i = phi i64 [ 0, %entry ], [ %next, %turn ]
  %status = call i32 %launch(ptr %config, ptr %function, ptr %parameters, ptr null)
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %turn, label %done
done:
  ret void
}
"""


def _native_loop() -> Callable[..., object]:
    """A loop in machine code around one call of the driver."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(_LOOP), llvm.Target.from_default_triple().create_target_machine())
    engine.finalize_object()
    run: Any = ctypes.CFUNCTYPE(None, ctypes.c_int64, *[ctypes.c_void_p] * 4)(engine.get_function_address("repeat"))
    run.engine = engine  # keeps the code
    return run


def memory_bound() -> Iterator[Pair]:
    x, y, out, other = (random(N, N) for _ in range(4))

    def copy() -> None:
        other.copy_(x)

    def half_copy() -> None:
        other[: N // 2].copy_(x[: N // 2])

    yield pair("add 8192² f32", "1.5 copies", lambda: add(x, y, out), lambda: (copy(), half_copy()), close(out, x + y, 1e-6), 0.97)
    softmax(x, out)
    right = close(out.clone(), torch.softmax(x, 1), 1e-5)
    yield pair("softmax 8192² f32", "copy", lambda: softmax(x, out), copy, right, 0.95)
    yield pair("softmax 8192² f32", "torch.softmax", lambda: softmax(x, out), lambda: torch.softmax(x, 1, out=other), right, 2.0)
    yield pair("softmax 8192² f32", "Triton", lambda: softmax(x, out), lambda: launch(softmax_kernel, N, x, other, N, N), right)
    sums = torch.empty(1, N, device=DEVICE)
    yield pair("column sum 8192² f32", "half a copy", lambda: column_sum(x, sums), half_copy, close(sums, x.sum(0, True), 1e-2), 0.85)
    yield pair("transpose 8192² f32", "copy", lambda: transpose(x, out), copy, lambda: torch.testing.assert_close(out, x.T.contiguous()), 0.85)
    yield from _norms()
    yield from _odd_rows()


def _norms() -> Iterator[Pair]:
    x, out, other = (random(N, N, dtype=torch.bfloat16) for _ in range(3))
    gamma, beta = (random(1, N, dtype=torch.bfloat16) for _ in range(2))
    compiled_rms = torch.compile(lambda: rms_norm(x, (N,), gamma[0], 1e-6))
    compiled_layer = torch.compile(lambda: layer_norm(x, (N,), gamma[0], beta[0], 1e-5))
    rmsnorm(x, gamma, out)
    right = close(out.clone(), rms_norm(x.float(), (N,), gamma[0].float(), 1e-6), 3e-2)
    yield pair("rmsnorm 8192² bf16", "copy", lambda: rmsnorm(x, gamma, out), lambda: other.copy_(x), right, 0.9)
    yield pair("rmsnorm 8192² bf16", "torch.compile", lambda: rmsnorm(x, gamma, out), compiled_rms, right, 1.0)
    layernorm(x, gamma, beta, out)
    right = close(out.clone(), layer_norm(x.float(), (N,), gamma[0].float(), beta[0].float(), 1e-5), 3e-2)
    yield pair("layernorm 8192² bf16", "copy", lambda: layernorm(x, gamma, beta, out), lambda: other.copy_(x), right, 0.9)
    yield pair("layernorm 8192² bf16", "torch.compile", lambda: layernorm(x, gamma, beta, out), compiled_layer, right, 1.0)


def _odd_rows() -> Iterator[Pair]:
    for rows, columns in ((65536, 1001), (512, 100_000)):
        x, out, other = (random(rows, columns) for _ in range(3))
        softmax(x, out)
        right = close(out.clone(), torch.softmax(x, 1), 1e-5)
        yield pair(f"softmax {rows}×{columns}", "copy", lambda x=x, out=out: softmax(x, out), lambda x=x, other=other: other.copy_(x), right, 0.8)


def products() -> Iterator[Pair]:
    for size in (2048, 4096, 8192):
        for dtype in (torch.bfloat16, torch.float16):
            yield from _product(size, dtype)
    for size in (1000, 4095):
        a, b = (random(size, size, dtype=torch.bfloat16) for _ in range(2))
        c = torch.empty(size, size, device=DEVICE, dtype=torch.bfloat16)
        right = close(c, torch.mm(a, b), 0.5)
        yield pair(f"bf16 {size}³ operator", "torch.mm", lambda a=a, b=b, c=c: product(a, b, c), lambda a=a, b=b: torch.mm(a, b), right, 0.8)
    x, w = (random(4096, 4096, dtype=torch.bfloat16) for _ in range(2))
    bias, out = random(1, 4096, dtype=torch.bfloat16), torch.empty(4096, 4096, device=DEVICE, dtype=torch.bfloat16)
    right = close(out, gelu(torch.mm(x, w) + bias), 1.0)
    yield pair("bf16 4096³ + bias + gelu", "torch eager", lambda: linear_gelu(x, w, bias, out), lambda: gelu(torch.mm(x, w) + bias), right, 1.1)
    yield from _narrow_products()


def _product(size: int, dtype: torch.dtype) -> Iterator[Pair]:
    name = "bf16" if dtype is torch.bfloat16 else "f16"
    a, b = (random(size, size, dtype=dtype) for _ in range(2))
    c = torch.empty(size, size, device=DEVICE, dtype=torch.bfloat16)
    right = close(c, torch.mm(a, b), 1.0)
    yield pair(f"{name} {size}³ operator", "torch.mm", lambda: product(a, b, c), lambda: torch.mm(a, b), right, 0.93)
    yield pair(f"{name} {size}³ tiles", "torch.mm", lambda: tiled_product(a, b, c), lambda: torch.mm(a, b), right, 0.93)
    if dtype is torch.bfloat16:
        yield pair(f"{name} {size}³ operator", "Triton", lambda: product(a, b, c), lambda: matmul(a, b, c), right, 0.98)


def _narrow_products() -> Iterator[Pair]:
    size = 8192
    a, b = (random(size, size, dtype=torch.bfloat16) for _ in range(2))
    half = torch.empty(size, size, device=DEVICE, dtype=torch.bfloat16)
    x, y = (torch.randint(-9, 9, (size, size), device=DEVICE).to(torch.int8) for _ in range(2))
    out = torch.empty(size, size, device=DEVICE, dtype=torch.int32)
    wide_product(x, y, out)
    right = close(out[:256].clone(), x[:256].float() @ y.float(), 1e-2)
    yield pair("int8 8192³ operator", "our bf16", lambda: wide_product(x, y, out), lambda: product(a, b, half), right, 1.3)
    yield from _eights(size, lambda: product(a, b, half))


def _eights(size: int, bf16: Callable[[], object]) -> Iterator[Pair]:
    """The right operand lies with K along the memory, as torch._scaled_mm wants it too."""
    x, y = (random(size, size, dtype=torch.float8_e4m3fn) for _ in range(2))
    out, one = torch.empty(size, size, device=DEVICE, dtype=torch.bfloat16), torch.ones((), device=DEVICE)
    scaled: Any = vars(torch)["_scaled_mm"]
    for name, kernel in (("operator", narrow_product), ("tiles", narrow_tiles)):
        kernel(x, y, out)
        right = close(out[:256].clone(), x[:256].float() @ y.float().T, 1.0)
        ours = functools.partial(kernel, x, y, out)
        yield pair(f"fp8 8192³ {name}", "our bf16", ours, bf16, right, 1.5)
        yield pair(f"fp8 8192³ {name}", "torch._scaled_mm", ours, lambda: scaled(x, y.T, one, one, out_dtype=torch.bfloat16), right)


def attentions() -> Iterator[Pair]:
    from attention_kernel import causal_attention, full_attention

    q, k, v = (random(4, 32, 4096, 128, dtype=torch.bfloat16) for _ in range(3))
    out, other = torch.empty_like(q), torch.empty_like(q)
    backends = {"SDPA, cuDNN": torch.nn.attention.SDPBackend.CUDNN_ATTENTION, "SDPA, flash": torch.nn.attention.SDPBackend.FLASH_ATTENTION}
    flat = [tensor.view(-1, 128) for tensor in (q, k, v, out)]
    for name, kernel, causal in (("full", full_attention, False), ("causal", causal_attention, True)):
        kernel(*flat)
        right = close(out.clone(), scaled_dot_product_attention(q, k, v, is_causal=causal), 2e-2)
        for peer, backend in backends.items():

            def theirs(backend: Any = backend, causal: bool = causal) -> None:
                with torch.nn.attention.sdpa_kernel(backend):
                    scaled_dot_product_attention(q, k, v, is_causal=causal)

            yield pair(f"attention 4×32×4096×128, {name}", peer, lambda kernel=kernel: kernel(*flat), theirs, right, 0.78 if "cuDNN" in peer else 1.3)
        ours: Callable[[], object] = lambda kernel=kernel: kernel(*flat)  # noqa: E731
        yield pair(f"attention 4×32×4096×128, {name}", "Triton", ours, lambda causal=causal: attention(q, k, v, other, causal), right)


def decodes() -> Iterator[Pair]:
    """One token of 64 sequences over 8k tokens each, in pages: bound by reading keys and values."""
    from attention_kernel import GROUP, KV_HEADS, PAGE, paged_decode

    batch, pages, d = 64, 8192 // PAGE, 128
    keys, values = (random(batch * pages * PAGE, KV_HEADS * d, dtype=torch.bfloat16) for _ in range(2))
    table = torch.randperm(batch * pages, device=DEVICE).to(torch.int32).view(batch, pages)
    q = random(batch * KV_HEADS * GROUP, d, dtype=torch.bfloat16)
    out, other = torch.empty_like(q), torch.empty_like(keys)
    paged_decode(q, keys, values, table, out)
    rows = (table[0].long()[:, None] * PAGE + torch.arange(PAGE, device=DEVICE)).flatten()
    first = [tensor[rows].view(-1, KV_HEADS, d).transpose(0, 1) for tensor in (keys, values)]
    mine, asked = (tensor[: KV_HEADS * GROUP].view(KV_HEADS, GROUP, d) for tensor in (out, q))
    right = close(mine.clone(), scaled_dot_product_attention(asked, first[0], first[1]), 2e-2)
    ours = functools.partial(paged_decode, q, keys, values, table, out)
    yield pair("paged decode, batch 64, 8k", "a copy of as many bytes", ours, lambda: other.copy_(keys), right, 0.8)


def layers() -> Iterator[Pair]:
    """A layer of 218 million weights for the next token of 16 requests with 2,048 tokens each, one program."""
    from decode_layer import Layer, Sizes, arguments, layer, plain
    from torch._dynamo.utils import counters

    sizes = Sizes(batch=16, hidden=4096, heads=32, kv_heads=8, inner=14336, length=2048)
    given = arguments(sizes, DEVICE)
    want = plain(sizes, [tensor.clone() for tensor in given])
    layer(*given)
    right = close(given[-1].clone(), want, 0.1)
    yield pair("decode layer, batch 16, 2k", "torch eager", lambda: layer(*given), lambda: plain(sizes, given), right, 1.2)
    graph = layer.compile(*given).graph(*given)
    compiled = torch.compile(Layer(sizes, given).eval(), mode="reduce-overhead")

    @torch.no_grad()
    def theirs() -> None:
        compiled(given[0])

    for _ in range(3):  # compiles, then captures
        theirs()
    if counters["inductor"]["cudagraph_skips"]:
        raise RuntimeError("torch.compile captured no graph of the layer: there is no peer")
    yield pair("decode layer, batch 16, 2k, graph", "torch.compile, reduce-overhead", graph, theirs, right, 1.0)


# ----------------------------------------------------------------------------------------------------------------------
# processes


def compiles() -> Iterator[Pair]:
    """The first kernel of a process, imports excluded: ours against Triton's launcher, with empty caches."""
    yield from _in_processes("first compile", "Triton", ("ours", "triton"), 2, Target(0.35))


def from_disk() -> Iterator[Pair]:
    """The same, with what an earlier process left on disk."""
    yield from _in_processes("from disk", "Triton, its cache", ("disk", "triton disk"), 4, Target(9, 3000))


def _in_processes(case: str, peer: str, hows: tuple[str, str], samples: int, target: Target) -> Iterator[Pair]:
    """One process of each comes before those that count, and from disk alone: it fills the caches."""
    kernels = ("add", "softmax", "matmul")
    keys = list(itertools.product(kernels, hows))
    taken: dict[tuple[str, str], list[float]] = {key: [] for key in keys}
    for turn in (keys, keys * samples) if "disk" in hows else (keys * (1 + samples),):
        for key, seconds in zip(turn, _first_calls(turn), strict=True):
            taken[key].append(seconds)
    for kernel in kernels:
        ours, theirs = (iter(taken[kernel, how]) for how in hows)
        yield Pair(f"{case}, {kernel}", peer, ours.__next__, theirs.__next__, samples=samples, self_timed=True, target=target)


def _first_calls(keys: Sequence[tuple[str, str]]) -> list[float]:
    """Seconds of the first call in a new process for each kernel and way. They start side by side, as each takes seconds to import torch, and wait until all
    have: then what is measured runs in one of them at a time, and the others have nothing to do."""
    script, pipe = Path(__file__).parent.parent / "first_call.py", subprocess.PIPE
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    with contextlib.ExitStack() as stack:
        commands = [[sys.executable, str(script), *key] for key in keys]
        started = [stack.enter_context(subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=environment)) for command in commands]
        for process in started:
            stack.callback(process.kill)
        ready = [bool(process.stdout.readline()) for process in started if process.stdout is not None]
        return [_told(process, is_ready) for process, is_ready in zip(started, ready, strict=True)]


def _told(process: subprocess.Popen[str], ready: bool) -> float:
    """What a process that waits says once it may go on."""
    said, complaints = process.communicate("go\n" if ready else None)
    if process.returncode:
        raise RuntimeError(complaints)
    return float(said.split()[-1])
