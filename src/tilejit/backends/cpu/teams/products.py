"""Matrix products on several threads: large ones packed together (packed.py), the others in stretches of columns or rows, each a product of its own.

Stretches are whole register blocks and use the variant that the whole product would, so that every element is summed as ever.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilejit.backends.cpu.function import FunctionWriter
from tilejit.backends.cpu.llvm.text import Emitter, Index, Value
from tilejit.backends.cpu.products import few
from tilejit.backends.cpu.products.elements import Elements
from tilejit.backends.cpu.products.gemm import Gemm, applies, call_variant, schedule_of, scratch_bytes, variants
from tilejit.backends.cpu.products.packed import block_of, whole_words
from tilejit.backends.cpu.teams import few_rows, team
from tilejit.backends.cpu.teams.counts import nanoseconds, quotient, quotient_up, remainder
from tilejit.backends.cpu.teams.packed import Plan, multiply_together, plan_of
from tilejit.backends.cpu.teams.product import Product, captured
from tilejit.backends.cpu.teams.squares import by_squares, share_squares
from tilejit.passes.cost import CERTAIN_NS

_BY_COLUMNS = ("stream", "dots")
"""Variants for few rows, which are not cut."""


def share_product(f: FunctionWriter, product: Product, alone: Callable[[], None], convert: Callable[[], None]) -> bool:
    """Write a product as a task if it may be worth it, `alone` as the code for one thread, and `convert` for what becomes of C; False: nothing is written."""
    e = f.e
    strides = product.a.strides[-2:], product.b.strides[-2:]
    kind = Elements.of(e.module, product.operand, product.b.dtype)
    *others, last = variants(schedule_of(e.module, product.operand), kind, *strides, product.sizes)
    conditions = [applies(e, name, product.operand, *strides, product.sizes) for name in others]
    if not set(_BY_COLUMNS) & set(others):
        return _share_variant(f, product, kind, last, conditions, alone, convert)

    def share_or_not(name: str) -> None:
        with f.scope():
            if name not in (*_BY_COLUMNS, last) or not _share_variant(f, product, kind, name, (), alone, convert):
                alone()
                convert()

    stem = e.fresh("variant")
    for name, condition in zip(others, conditions, strict=True):
        e.cbr(condition, f"{stem}.{name}", f"{stem}.not_{name}")
        e.place(f"{stem}.{name}")
        share_or_not(name)
        e.br(f"{stem}.done")
        e.place(f"{stem}.not_{name}")
    share_or_not(last)
    e.br(f"{stem}.done")
    e.place(f"{stem}.done")
    return True


def _share_variant(
    f: FunctionWriter, product: Product, kind: Elements, variant: str, others: Sequence[Value], alone: Callable[[], None], convert: Callable[[], None]
) -> bool:
    """The same for one variant, where none of `others` holds."""
    e = f.e
    schedule = schedule_of(e.module, product.operand)
    m, n, k = product.sizes
    # The columns of a small B would be too narrow.
    by_columns = variant in _BY_COLUMNS or (variant == "packed" and not (isinstance(n, int) and n < 2 * schedule.least_columns))
    unit = max(schedule.vectors * kind.lanes, few.unit(kind)) if by_columns else schedule.rows
    whole, across = (n, m) if by_columns else (m, n)
    least, pieces = schedule.least_columns if by_columns else schedule.least_rows, schedule.pieces
    if variant == "stream":
        least, pieces = schedule.stream_columns, schedule.pieces if isinstance(m, int) and m >= few.TOGETHER else schedule.stream_pieces
    size = _stretch(e, whole, unit, least, pieces)
    parts = quotient_up(e, whole, size)
    count = parts
    for extent in product.batch:
        count = e.mul(count, extent)
    estimate = nanoseconds(e, size, across, k)
    single = all(extent == 1 for extent in product.batch)
    thin = isinstance(m, int) and m <= schedule.thin_rows and isinstance(n, int) and n >= schedule.pieces * schedule.least_columns
    if variant == "packed" and not thin and by_squares(product, kind.packed, schedule):
        share_squares(f, product, kind.packed, schedule, alone, others)
        convert()
        return True
    if variant == "packed" and single and not thin:
        block = block_of(e.module, kind.packed)
        whole = whole_words(kind.packed, block)
        lies = product.a.strides[-1] == 1 and isinstance(k, int) and whole > 0 and k % whole == 0
        return _share_packed(f, product, plan_of(e, kind.packed, block, product.sizes, lies=lies), others, alone, convert)
    if variant == "stream" and single and few_rows.by_depth(product, kind, schedule):
        few_rows.share_by_depth(f, product, kind, schedule, alone, others)
        convert()
        return True
    if not team.is_worth_it(count, estimate):
        return False

    def body(inner: FunctionWriter, captures: team.Captures, begin: Value, end: Value) -> None:
        g = inner.e
        own = captured(product, captures)
        length, many = captures.index(size), captures.index(parts)
        whole = own.sizes[1 if by_columns else 0]
        known = [item if isinstance(item, int) else None for item in own.sizes]
        scratch = inner.allocate(scratch_bytes(g.module, own.operand, own.b.dtype, *known), own.span)
        if single:  # Stretches that follow each other are one.
            start = g.mul(begin, length)
            _write_stretch(inner, own, variant, (0, start, g.sub(g.min(g.mul(end, length), whole), start)), scratch, by_columns=by_columns)
            return
        with g.loop(begin, end, name="stretches") as loop:
            g.look()
            start = g.mul(remainder(g, loop.iv, many), length)
            extent = g.min(length, g.sub(whole, start))
            _write_stretch(inner, own, variant, (quotient(g, loop.iv, many), start, extent), scratch, by_columns=by_columns)

    task, args = team.write_range_task(f, [], body)
    team.run_task(f, task, args, count, estimate, alone, unless=others, in_long_pieces=single)
    convert()
    return True


def _share_packed(
    f: FunctionWriter, product: Product, plan: Plan, others: Sequence[Value], alone: Callable[[], None], convert: Callable[[], None]
) -> bool:
    m, n, k = product.sizes
    total = nanoseconds(f.e, m, n, k)
    if isinstance(total, int) and total < CERTAIN_NS:
        return False

    def on_one() -> None:
        alone()
        convert()

    def on_several(crew: Value) -> None:
        multiply_together(f, product, plan, crew)
        if plan.apart or product.rounded is None:
            convert()

    team.run_together(f, [(total, CERTAIN_NS)], on_several, on_one, others)
    return True


def _write_stretch(f: FunctionWriter, product: Product, variant: str, place: tuple[Index, Index, Index], scratch: Value, *, by_columns: bool) -> None:
    """One stretch of one product of the batch: (number in the batch, first row or column, how many)."""
    e = f.e
    number, start, extent = place
    pointers = [product.c.pointer, product.a.pointer, product.b.pointer]
    arrays = (product.c, product.a, product.b)
    for axis in reversed(range(len(product.batch))):
        index = remainder(e, number, product.batch[axis]) if axis else number
        number = quotient(e, number, product.batch[axis]) if axis else number
        steps = [0 if array.shape[axis] == 1 else array.strides[axis] for array in arrays]
        pointers = [e.offset(pointer, e.mul(index, step), array.dtype.llvm) for pointer, step, array in zip(pointers, steps, arrays, strict=True)]
    m, n, k = product.sizes
    c, a, b = pointers
    if by_columns:
        n = extent
        c, b = e.offset(c, start, product.c.dtype.llvm), e.offset(b, e.mul(start, product.b.strides[-1]), product.b.dtype.llvm)
    else:
        m = extent
        c = e.offset(c, e.mul(start, product.c.strides[-2]), product.c.dtype.llvm)
        a = e.offset(a, e.mul(start, product.a.strides[-2]), product.a.dtype.llvm)
    left, right = (a, product.a.strides[-2], product.a.strides[-1]), (b, product.b.strides[-2], product.b.strides[-1])
    gemm = Gemm(left, right, (c, product.c.strides[-2]), (m, n, k), product.accumulate, scratch)
    call_variant(e, variant, product.operand, gemm, product.b.dtype)


# sizes ------------------------------------------------------------------------------------------------------------------


def _stretch(e: Emitter, whole: Index, unit: int, least: int, pieces: int) -> Index:
    """`whole` in so many pieces, but at least `least`, in whole units."""
    least = -(-least // unit) * unit
    return e.max(e.mul(quotient_up(e, whole, pieces * unit), unit), least)
