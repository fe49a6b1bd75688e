"""Matrix products as internal LLVM functions: packed and blocked for large ones, in place for small ones, streaming for few rows.

Every function is called as

    void @gemm...(ptr a, i64 a_row, i64 a_col, ptr b, i64 b_row, i64 b_col, ptr c, i64 c_row, i64 m, i64 n, i64 k, i1 accumulate, ptr scratch)

and computes C[m, n] = A[m, k] @ B[k, n], or C += A @ B with `accumulate`. Strides count elements; those of A and B may be anything
(a transpose swaps them), the columns of C are adjacent. A and B have dtype `operand`, or B has dtype `right`, then it is turned as it is read;
C has the accumulator type `accumulator_of(operand)` (FP32 for floats, FP64 for FP64, INT32 for integers up to 32 bits).
`scratch` has `scratch_bytes(module, operand)` bytes, 64-byte aligned. Sizes may be 0.
C must not overlap A or B.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tilejit.backends.cpu.llvm.text import Emitter, Index, Module, Value
from tilejit.backends.cpu.llvm.vector import binary
from tilejit.backends.cpu.products import dots, few, few_tiles, short
from tilejit.backends.cpu.products import packed as blocks
from tilejit.backends.cpu.products.direct import direct, turned
from tilejit.backends.cpu.products.elements import Elements, accumulator_of
from tilejit.backends.cpu.products.kernels import PARAMS, function_emitter, params_of
from tilejit.backends.cpu.schedule import GemmSchedule
from tilejit.dtypes import DType

_Size = int | None


def schedule_of(module: Module, operand: DType) -> GemmSchedule:
    """How products of this type are done."""
    return module.schedules.gemm(accumulator_of(operand))


def scratch_bytes(module: Module, operand: DType, right: DType | None, m: _Size = None, n: _Size = None, k: _Size = None) -> int:
    """Bytes of packing memory that one product needs; less when sizes are known."""
    kind, schedule = Elements.of(module, operand, right).packed, schedule_of(module, operand)
    copied = min(n or schedule.direct_n, schedule.direct_n) * min(k or schedule.direct_k, schedule.direct_k) * kind.acc_bytes if kind.plain else 0
    packed = blocks.scratch_bytes(kind, blocks.block_of(module, kind), m, n, k)
    dotted = dots.scratch_bytes(kind, min(schedule.few_dots, m or schedule.few_dots), k)
    streamed = max(schedule.few_rows, schedule.large_few_rows)
    return max(copied, packed, few_tiles.scratch_bytes(kind, m, k), dotted, few.scratch_bytes(kind, schedule, min(streamed, m or streamed), n, k))


class Gemm(NamedTuple):
    """C[m, n] (+)= A[m, k] @ B[k, n]."""

    a: tuple[Value, Index, Index]
    """Address, row stride, column stride."""
    b: tuple[Value, Index, Index]
    c: tuple[Value, Index]
    """Address, row stride."""
    sizes: tuple[Index, Index, Index]
    accumulate: Value | bool
    scratch: Value


def call_gemm(e: Emitter, operand: DType, gemm: Gemm, right: DType | None = None) -> None:
    """Compute a product with what suits its strides and sizes."""
    _call(e, gemm_function(e.module, operand, gemm.a[1:], gemm.b[1:], gemm.sizes, right), gemm)


def call_variant(e: Emitter, variant: str, operand: DType, gemm: Gemm, right: DType | None = None) -> None:
    """The same with one of `variants`."""
    _call(e, _BUILDERS[variant](e.module, Elements.of(e.module, operand, right)), gemm)


def call_dots(e: Emitter, kind: Elements, gemm: Gemm) -> None:
    """The same for few rows with a transposed B of a kind of its own."""
    _call(e, dots.dots(e.module, kind), gemm)


def _call(e: Emitter, name: str, gemm: Gemm) -> None:
    a, b, c, sizes, accumulate, scratch = gemm
    flag = accumulate if isinstance(accumulate, Value) else Value("true" if accumulate else "false", "i1")
    values = [a[0], e.i64(a[1]), e.i64(a[2]), b[0], e.i64(b[1]), e.i64(b[2]), c[0], e.i64(c[1]), *map(e.i64, sizes), flag, scratch, e.context]
    e.void(f"call void @{name}({', '.join(map(str, values))})")


def gemm_function(
    module: Module, operand: DType, a: tuple[Index, Index], b: tuple[Index, Index], sizes: tuple[Index, Index, Index], right: DType | None = None
) -> str:
    """Name of the function for these strides and sizes, added to `module` when first used; what is known now spares variants."""
    kind = Elements.of(module, operand, right)
    wanted = variants(schedule_of(module, operand), kind, a, b, sizes)
    return _of_known(module, kind, wanted[0], b, sizes) if len(wanted) == 1 else _dispatcher(module, kind, wanted)


def _of_known(module: Module, kind: Elements, variant: str, b: tuple[Index, Index], sizes: tuple[Index, Index, Index]) -> str:
    """The function of a variant that is certain, which may be one for just what is known of B."""
    m, n, k = sizes
    if variant == "dots" and m == 1 and b[1] == k and short.takes_columns(k, kind):
        return short.dots(module, kind, k)
    if variant == "stream" and isinstance(m, int) and m < few.TOGETHER and b[0] == n and short.takes_rows(n, kind):
        return short.stream(module, kind, n)
    if variant == "turned" and isinstance(b[1], int) and isinstance(n, int) and isinstance(k, int):
        return turned(module, kind, (b[1], n, k))
    return _BUILDERS[variant](module, kind)


def variants(schedule: GemmSchedule, kind: Elements, a: Sequence[Index], b: Sequence[Index], sizes: tuple[Index, Index, Index]) -> list[str]:
    """Variants that could apply to operands of these strides, best first; the last one serves always."""
    m, n, k = sizes
    out: list[str] = []

    def may_be(value: Index, wanted: int) -> bool:
        return not isinstance(value, int) or value == wanted

    few_rows = _few_rows(schedule, sizes)
    if not (isinstance(m, int) and m > few_rows) and may_be(b[1], 1):
        out.append("stream")
        if isinstance(m, int) and b[1] == 1:
            return out
    small = kind.plain and not (isinstance(n, int) and n > schedule.direct_n) and not (isinstance(k, int) and k > schedule.direct_k)
    known = isinstance(n, int) and isinstance(k, int)
    if small and not (isinstance(m, int) and m <= few_rows) and may_be(b[0], 1):
        out.append("turned")
        if known and isinstance(m, int) and b[0] == 1:
            return out
    if not (isinstance(m, int) and m > schedule.few_dots) and may_be(b[0], 1) and may_be(a[1], 1):
        out.append("dots")
        if isinstance(m, int) and b[0] == 1 and a[1] == 1:
            return out
    if small and may_be(b[1], 1):
        out.append("direct")
        if known and b[1] == 1:
            return out
    return [*out, "packed"]


def _few_rows(schedule: GemmSchedule, sizes: tuple[Index, Index, Index]) -> int:
    _, n, k = sizes
    large = isinstance(n, int) and isinstance(k, int) and n * k >= schedule.large_elements
    return max(schedule.few_rows, schedule.large_few_rows) if large else schedule.few_rows


def _dispatcher(module: Module, kind: Elements, wanted: list[str]) -> str:
    """A function that picks the variant by the sizes and strides it is given."""
    name = f"gemm.{kind.name}.{'.'.join(wanted)}"
    if name in module.functions:
        return name
    params = params_of(PARAMS)
    _, a_row, a_col, _, b_row, b_col, _, _, m, n, k, *_ = params
    e = function_emitter(module, name, "void", params)
    for variant in wanted:
        if variant != "packed":
            with e.when(applies(e, variant, kind.operand, (a_row, a_col), (b_row, b_col), (m, n, k)), variant):
                e.void(f"call void @{_BUILDERS[variant](module, kind)}({', '.join(map(str, params))})")
                e.void("ret void")
                e.place(e.fresh("unreached"))
        else:
            e.void(f"call void @{blocks.packed(module, kind)}({', '.join(map(str, params))})")
    e.void("ret void")
    e.finish()
    return name


def applies(e: Emitter, variant: str, operand: DType, a: Sequence[Index], b: Sequence[Index], sizes: tuple[Index, Index, Index]) -> Value:
    """Whether a variant other than the packed one is meant for these strides and sizes."""
    m, n, k = sizes
    schedule = schedule_of(e.module, operand)
    few_rows = _few_rows(schedule, sizes)
    if variant == "direct":
        tests = [e.icmp("eq", b[1], 1), e.icmp("sle", n, schedule.direct_n), e.icmp("sle", k, schedule.direct_k)]
    elif variant == "turned":
        tests = [e.icmp("eq", b[0], 1), e.icmp("sgt", m, few_rows), e.icmp("sle", n, schedule.direct_n), e.icmp("sle", k, schedule.direct_k)]
    elif variant == "stream":
        tests = [e.icmp("eq", b[1], 1), e.icmp("sle", m, few_rows)]
    else:
        tests = [e.icmp("eq", b[0], 1), e.icmp("eq", a[1], 1), e.icmp("sle", m, schedule.few_dots)]
    condition = tests[0]
    for test in tests[1:]:
        condition = binary(e, "and", condition, test)
    return condition


_BUILDERS = {"packed": blocks.packed, "direct": direct, "turned": turned, "stream": few.stream, "dots": few_tiles.dots}
