"""A large module is compiled in parts by several processes, and is the same program."""

from __future__ import annotations

import ctypes
import sys
import threading
from typing import IO

import numpy as np
import pytest

import tilejit.language as pl
from tests.backends.cpu.pool import shared
from tests.patience import HANG
from tilejit import RunConfig
from tilejit.backends.cpu.llvm import parts, workshop
from tilejit.backends.cpu.llvm.compile import Compiled, compile_llvm
from tilejit.backends.cpu.llvm.elf import flatten
from tilejit.backends.cpu.llvm.host import host
from tilejit.backends.cpu.llvm.text import Module
from tilejit.errors import InternalError
from tilejit.runtime.artifact.blob import LoadedBlob

pytestmark = pytest.mark.skipif(sys.platform != "linux" or not host().is_x86, reason="only ELF objects of x86-64 are put together")


def chain(count: int) -> str:
    """Functions that each call the next, through its address if its number is odd; they share a table, an inlined helper and C functions."""
    table = "@table = internal unnamed_addr constant [4 x i64] [i64 3, i64 5, i64 7, i64 11], align 8\ndeclare i64 @labs(i64)\n"
    inlined = "define internal i64 @mix(i64 %x) alwaysinline {\n  %y = call i64 @twist(i64 %x)\n  %z = mul i64 %y, 31\n  ret i64 %z\n}\n"
    twist = "define internal i64 @twist(i64 %x) alwaysinline {\n  %y = xor i64 %x, 1234567\n  ret i64 %y\n}\n"
    apply = "define internal i64 @apply(ptr %f,\n    i64 %x) noinline {\n  %y = call i64 %f(i64 %x)\n  ret i64 %y\n}\n"
    last = f"define internal i64 @f{count}(i64 %x) {{\n  ret i64 %x\n}}\n"
    texts = [table, inlined, twist, apply, last]
    for i in range(count):
        call = f"@apply(ptr @f{i + 1}, i64 %s)" if i % 2 else f"@f{i + 1}(i64 %s)"
        texts.append(
            f"define {'internal ' if i else ''}i64 @f{i}(i64 %x) {{\n  %m = call i64 @mix(i64 %x)\n  %at = and i64 %m, 3\n"
            f"  %p = getelementptr i64, ptr @table, i64 %at\n  %t = load i64, ptr %p\n  %a = call i64 @labs(i64 %m)\n  %s = add i64 %a, %t\n"
            f"  %r = call i64 {call}\n  %q = add i64 %r, {i}\n  ret i64 %q\n}}\n"
        )
    return "\n".join(texts)


def by_hand(x: int, count: int) -> int:
    for _ in range(count):
        mixed = wrapped((x ^ 1234567) * 31)
        x = wrapped(abs(mixed) + (3, 5, 7, 11)[mixed & 3])
    return wrapped(x + sum(range(count)))


def wrapped(x: int) -> int:
    return (x + 2**63) % 2**64 - 2**63


def called(objects: list[bytes], x: int) -> int:
    code = LoadedBlob(flatten(*objects))
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(code.address("f0"))(x)


def compiled_parts(text: str, ahead: bool = False) -> list[bytes] | None:
    """The objects of a module that is there at once, or function by function."""
    with workshop.Workshop() as here:
        cutter = parts.Cutter(here)
        head, *functions = text.split("\ndefine ")
        module = Module({"head": head})
        for number, function in enumerate(functions):
            module.functions[str(number)] = f"define {function}\n"
            if ahead:
                cutter.grown(module)
        assert bool(here) == ahead, "none went ahead"
        return cutter.objects(module)


@pytest.fixture
def short_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "PART_LINES", 33)
    monkeypatch.setattr(workshop, "thread_count", lambda: 2)


@pytest.mark.usefixtures("short_parts")
@pytest.mark.parametrize("x", [0, 1, -987654321, 2**62 + 12345])
@pytest.mark.parametrize("ahead", [False, True])
def test_parts_call_each_other(x: int, ahead: bool) -> None:
    objects = compiled_parts(chain(40), ahead)
    assert objects is not None and len(objects) > 5
    assert called(objects, x) == called([compile_llvm(chain(40)).object_bytes], x) == by_hand(x, 40)


@pytest.mark.usefixtures("short_parts")
def test_the_code_does_not_depend_on_who_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    text = chain(20)
    want = compiled_parts(text, ahead=True)
    assert want is not None
    for count in (1, 3):
        monkeypatch.setattr(workshop, "thread_count", lambda count=count: count)
        assert compiled_parts(text, ahead=True) == want
    for program in ("", "/no/such/file", "/bin/false", "/bin/true"):
        monkeypatch.setattr(sys, "executable", program)
        assert compiled_parts(text, ahead=True) == want


@pytest.mark.usefixtures("short_parts")
def test_other_processes_do_their_share(monkeypatch: pytest.MonkeyPatch) -> None:
    first = threading.Event()

    def answered(question: IO[bytes], answer: IO[bytes], text: str) -> bytes:
        made = asked(question, answer, text)
        first.set()
        return made

    def patient(part: str, *, large: bool) -> Compiled:
        assert first.wait(HANG), "nobody else compiled anything"
        here.append(part)
        return compile_llvm(part, large=large)

    here, asked = list[str](), workshop._asked
    monkeypatch.setattr(workshop, "_asked", answered)
    monkeypatch.setattr(workshop, "compile_llvm", patient)
    objects = compiled_parts(chain(40))
    assert objects is not None and len(here) < len(objects)


@pytest.mark.usefixtures("short_parts")
def test_a_module_that_comes_to_nothing_leaves_no_process() -> None:
    with pytest.raises(InternalError), workshop.Workshop() as here:
        for _ in range(3):
            here.add(chain(40))
        raise InternalError("the rest cannot be written")
    assert all(process.returncode is not None for process in here._processes)


def test_a_small_module_stays_in_one_piece() -> None:
    assert compiled_parts(chain(40)) is None


@pytest.mark.usefixtures("short_parts")
@pytest.mark.parametrize("number", [0, 9, 19])
def test_text_that_llvm_refuses_is_an_internal_error_whoever_reads_it(number: int) -> None:
    with pytest.raises(InternalError, match="LLVM rejects the generated code"):
        compiled_parts(chain(20).replace(f"%q = add i64 %r, {number}\n", f"%q = add i64 %r, float {number}\n"))


@pl.jit
def large(x: pl.Tensor, w: pl.Tensor, sums: pl.InOut[pl.Tensor], out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        product = pl.matmul(x, w)
        e = pl.exp(pl.row_expand_sub(product, pl.row_max(product)))
        soft = pl.row_expand_div(e, pl.row_sum(e))
    with pl.at(level=pl.Level.CORE_GROUP):
        mixed = pl.tanh(pl.erf(soft)) + pl.matmul(soft, w, b_trans=True)
    for i in pl.spmd(16):
        tile = pl.load(mixed, [i * 20, 0], [20, 200])
        sums = pl.store(pl.exp(pl.exp(tile)), [0, 0], sums, atomic=pl.AtomicType.Add)
    for i in pl.spmd(16):
        out = pl.store(pl.exp(pl.log(pl.exp(pl.load(mixed, [i * 20, 0], [20, 200])))), [i * 20, 0], out)
    return out


@pytest.mark.parametrize("threads", [1, 2])
def test_a_kernel_in_parts_gives_the_bits_of_the_whole(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    x, w = rng.standard_normal((320, 200), np.float32), rng.standard_normal((200, 200), np.float32)
    monkeypatch.setenv("TILEJIT_CACHE", "0")
    results, leave = list[tuple[bytes, ...]](), workshop.Workshop.__exit__
    made: list[int] = []
    monkeypatch.setattr(workshop.Workshop, "__exit__", lambda self, *error: (made.append(len(self)), leave(self, *error)))
    for lines in (parts.PART_LINES, 100):
        monkeypatch.setattr(parts, "PART_LINES", lines)
        large.cache_clear()
        sums, out = np.ones((20, 200), np.float32), np.empty_like(x)
        with shared(threads > 1):
            large(x, w, sums, out, config=RunConfig(num_threads=threads))
        # The order of atomic adds is nobody's promise on several threads.
        results.append((out.tobytes(), sums.tobytes() if threads == 1 else b""))
    large.cache_clear()
    assert results[0] == results[1]
    assert made[0] == 0 and made[1] > 4
