"""Large products: blocks of the result in grouped order, `tl.dot` in a pipelined loop over K, and an epilogue on the accumulator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from tilejit.backends.cuda.control_plane import host
from tilejit.backends.cuda.control_plane.frame import Frame, Making
from tilejit.backends.cuda.control_plane.host import Memory, Number
from tilejit.backends.cuda.products import descriptors, dot
from tilejit.backends.cuda.program.body import Body
from tilejit.backends.cuda.schedule import FEW, ProductSchedule, pieces_of, product_of, walkers_of
from tilejit.backends.cuda.text import numbers
from tilejit.backends.cuda.text.types import DECODED, register
from tilejit.backends.cuda.text.values import Buffer, Scalar, Tile, full, index
from tilejit.dtypes import FP32, FP64, INDEX, INT8, DType
from tilejit.ops.matmul import NARROW

GROUP = 8
"""Rows of blocks that are worked on together, so that they share what they load of the right operand."""

TOGETHER = 1024
"""Products of 8 bits along K whose sum tensor cores keep in fewer bits than FP32 before it is taken over: as many times 2⁻¹⁵ of it are lost at most."""

SUMMED = ProductSchedule(32, 32, 8, 4, 1)
"""Blocks of products that no tensor core does: all products of a step are in registers before they are summed up."""

_FOLDED = (16, 64)
"""Rows and columns of a block whose pieces of K are summed up."""

Epilogue = Callable[[Body, Tile, Scalar, Scalar], None]
"""Takes the accumulator of a block, and its first row and column."""


@dataclass(frozen=True)
class Product:
    """[M, K] times [K, N]; operands are windows in memory that start at the first row and column of the whole."""

    left: Buffer
    right: Buffer
    rows: Scalar
    columns: Scalar
    inner: Scalar
    work: DType = FP32
    to_integers: bool = False
    """What is lost in a sum may be a whole number of the result."""
    zeros: tuple[bool, bool] = (False, False)
    """Whether the memory of an operand ends in zeros, past what the product asks for: they are read too, in whole vectors."""


def turned(buffer: Buffer) -> Buffer:
    """The last two dims swapped."""
    *lead, rows, columns = buffer.dims
    return replace(buffer, dims=(*lead, columns, rows))


def launch(
    frame: Frame,
    name: str,
    make: Callable[[Making, Scalar], Product],
    shape: tuple[Number, Number, Number],
    dtype: DType,
    epilogue: Callable[[Making, Scalar], Epilogue],
    batches: Number,
    read: DType | None = None,
) -> None:
    """Write and launch the kernel of a product of M × K × N in `dtype`, its right operand in memory as `read`; `make` gives the operands of a batch. Where
    only the run knows whether rows are few there are several kernels, and all but one have no programs: blocks that suit many rows leave a GPU idle then."""
    rows, inner, columns = shape
    summed = dtype is FP64 or (dtype.is_integer and dtype is not INT8)
    for most, share in [(None, host.number(1))] if summed else _cases(frame, rows):
        depth, wide, many = (size.const if isinstance(size.const, int) else None for size in (inner, columns, batches))
        kernel = frame.kernel(name)
        chosen = SUMMED if summed else product_of(most, depth, wide, many, dtype, frame.state.options.fast_math, read or dtype)
        chosen = frame.state.book.product(name, chosen, summed)
        down = host.number(1) if most is not None and most <= chosen.rows else host.ceildiv(rows, host.number(chosen.rows))
        _launch(frame, kernel, (make, epilogue), chosen, (rows, inner, columns), (down, batches, share))


def _cases(frame: Frame, rows: Number) -> list[tuple[int | None, Number]]:
    """How many rows to choose blocks for, None: many; and 1 where the run has so many, else 0."""
    if isinstance(rows.const, int):
        return [(rows.const, host.number(1))]
    least, most = rows.bounds or host.EXTENT
    limits = [limit for limit in FEW if limit >= least]
    limits = limits[: 1 + next((at for at, limit in enumerate(limits) if most <= limit), len(limits))]
    upto = [frame.named(host.maximum(host.minimum(host.sub(host.number(limit + 1), rows), host.number(1)), host.number(0)), "few") for limit in limits]
    if not limits or most > limits[-1]:
        limits, upto = [*limits, None], [*upto, host.number(1)]
    shares = [frame.named(host.sub(share, before), "share") for before, share in zip([host.number(0), *upto], upto, strict=False)]
    return list(zip(limits, shares, strict=True))[::-1]


def _launch(
    frame: Frame,
    kernel: Making,
    parts: tuple[Callable[[Making, Scalar], Product], Callable[[Making, Scalar], Epilogue]],
    chosen: ProductSchedule,
    sizes: tuple[Number, Number, Number],
    counts: tuple[Number, Number, Number],
) -> None:
    """One kernel of a product with these blocks: blocks of rows, batches, and 1 or 0 of it."""
    make, epilogue = parts
    rows, inner, columns = sizes
    down, batches, share = counts
    out = kernel.out
    down = frame.named(down, "down")
    across = frame.named(host.ceildiv(columns, host.number(chosen.columns)), "across")
    blocks = host.mul(host.mul(down, across), batches)
    pieces = pieces_of(_known(blocks), _known(inner), chosen) if batches.const == 1 else 1
    programs = frame.named(host.mul(host.mul(blocks, host.number(pieces)), share), "programs")
    tall, wide = host.take_number(out, down, "down"), host.take_number(out, across, "across")
    program = out.program()
    batch = piece = index(0)
    if batches.const != 1 or pieces > 1:
        each = numbers.mul(tall, wide)
        batch = Scalar(out.let("batch" if pieces == 1 else "piece", f"{program} // {each.text}"), INDEX, (0, batches.bounds[1]) if batches.bounds else None)
        program = out.let("tile", f"{program} % {each.text}")
    if pieces > 1:
        batch, piece = index(0), Scalar(batch.text, INDEX, (0, pieces - 1))
    first_row, first_column = _grouped(out, program, tall, wide, chosen, rows, columns)
    product = make(kernel, batch)
    described = isinstance(programs.const, int) and can_be_described(product, chosen, programs.const)
    if described and isinstance(programs.const, int):
        out.blocks = programs.const
    if pieces == 1:
        tile = accumulate(kernel.body, product, chosen, first_row, first_column, described)
        epilogue(kernel, batch)(kernel.body, tile, first_row, first_column)
        frame.finish(kernel, programs, chosen)
        return
    partial = frame.allocate([host.number(pieces), rows, columns], product.work, "partial")
    depth = -(-(_known(inner) or 0) // (pieces * chosen.inner)) * chosen.inner
    first = numbers.mul(piece, index(depth))
    tile = accumulate(kernel.body, product, chosen, first_row, first_column, False, (first, numbers.minimum(numbers.add(first, index(depth)), product.inner)))
    kernel.body.store_tile(tile, _piece(host.take_memory(out, partial), piece), (first_row, first_column))
    frame.finish(kernel, programs, chosen, note=f"{pieces} pieces of K, ")
    _fold(frame, frame.kernel(f"{out.name}_fold"), partial, epilogue, share)


def _known(number: Number) -> int | None:
    return number.const if isinstance(number.const, int) else None


def _piece(partial: Buffer, piece: Scalar) -> Buffer:
    return replace(partial, offset=numbers.add(partial.offset, numbers.mul(piece, partial.dims[0].stride)), dims=partial.dims[1:])


def _fold(frame: Frame, kernel: Making, partial: Memory, epilogue: Callable[[Making, Scalar], Epilogue], share: Number) -> None:
    """The sum of what was computed of pieces of K, and what follows it."""
    pieces, rows, columns = partial.shape
    out, body = kernel.out, kernel.body
    across = host.ceildiv(columns, host.number(_FOLDED[1]))
    programs = frame.named(host.mul(host.mul(host.ceildiv(rows, host.number(_FOLDED[0])), across), share), "programs")
    source, wide = host.take_memory(out, partial), host.take_number(out, frame.named(across, "across"), "across")
    program, most = out.program(), [size.bounds[1] if size.bounds else (1 << 31) - 1 for size in (rows, columns)]
    row = Scalar(out.let("row", f"({program} // {wide.text}) * {_FOLDED[0]}"), INDEX, (0, most[0]))
    column = Scalar(out.let("column", f"({program} % {wide.text}) * {_FOLDED[1]}"), INDEX, (0, most[1]))
    ends = zip(source.dims[1:], (row, column), _FOLDED, strict=True)
    valid = tuple(_named(body, part(dim.extent, start, block), "size") for dim, start, block in ends)
    acc, piece = out.fresh("acc"), out.fresh("piece")
    out.line(f"{acc} = tl.zeros({_text(_FOLDED)}, {register(partial.dtype)})")
    with out.block(f"for {piece} in range({pieces.const}):"):
        at = _piece(source, Scalar(piece, INDEX, (0, int(pieces.const or 1) - 1)))
        out.line(f"{acc} += {body.load_tile(at, (row, column), _FOLDED, valid, 'x').text}")
    epilogue(kernel, index(0))(body, Tile(acc, partial.dtype, _FOLDED, valid), row, column)
    frame.finish(kernel, programs, warps=4)


def _grouped(out: object, program: str, tall: Scalar, wide: Scalar, chosen: ProductSchedule, rows: Number, columns: Number) -> tuple[Scalar, Scalar]:
    """The first row and column of a program's block: programs that run at once work on few rows of blocks."""
    from tilejit.backends.cuda.text.writer import Writer

    assert isinstance(out, Writer)
    most = [size.bounds[1] if size.bounds else (1 << 31) - 1 for size in (rows, columns)]
    if tall.const == 1 or wide.const == 1:
        row, column = ("0", program) if tall.const == 1 else (program, "0")
    else:
        group = out.let("group", f"{program} // ({GROUP} * {wide.text})")
        height = out.let("height", f"tl.minimum({tall.text} - {group} * {GROUP}, {GROUP})")
        row = out.let("block_row", f"{group} * {GROUP} + ({program} % ({GROUP} * {wide.text})) % {height}")
        column = out.let("block_column", f"({program} % ({GROUP} * {wide.text})) // {height}")
    return (
        Scalar(out.let("row", f"{row} * {chosen.rows}"), INDEX, (0, most[0])) if row != "0" else index(0),
        Scalar(out.let("column", f"{column} * {chosen.columns}"), INDEX, (0, most[1])) if column != "0" else index(0),
    )


def part(size: Scalar, first: Scalar, block: int) -> Scalar:
    """How much of a block lies inside."""
    if isinstance(size.const, int) and size.const % block == 0:
        return index(block)
    return numbers.minimum(numbers.sub(size, first), index(block))


def accumulate(
    body: Body, product: Product, chosen: ProductSchedule, row: Scalar, column: Scalar, described: bool, piece: tuple[Scalar, Scalar] | None = None
) -> Tile:
    """The sum over K of one block, or over a piece of K; `described`: its tiles are copied by descriptors."""
    out = body.out
    shape = (chosen.rows, chosen.columns)
    work = product.work
    acc, k = out.fresh("acc"), out.fresh("k")
    valid = (body.named("rows", part(product.rows, row, chosen.rows)), body.named("columns", part(product.columns, column, chosen.columns)))
    nothing = f"tl.zeros({_text(shape)}, {register(work)})"
    out.line(f"{acc} = {nothing}")
    bounds = (0, product.inner.bounds[1]) if product.inner.bounds else None
    kind = _eights(body, product)
    short = isinstance(product.inner.const, int) and product.inner.const <= TOGETHER
    sums = acc if kind is None or short else out.let("sums", nothing)
    left, right = (_as_eights(body, side, kind) for side in (product.left, product.right))
    down, across = (valid[0], product.inner), (product.inner, valid[1])
    if product.zeros[0]:
        down = body.named("rows", part(left.dims[0].extent, row, chosen.rows)), left.dims[1].extent
    if product.zeros[1]:
        across = right.dims[0].extent, body.named("columns", part(right.dims[1].extent, column, chosen.columns))
    begin, end = piece or (index(0), product.inner)
    with out.block(f"for {k} in range({begin.text}, {end.text}, {chosen.inner}):"):
        step = Scalar(k, INDEX, bounds)
        if described:
            a, b = _described(body, left, right, chosen, (row, step, column))
        else:
            near, far = (_named(body, part(size, step, chosen.inner), "inner") for size in (down[1], across[0]))
            a = body.load_tile(left, (row, step), (chosen.rows, chosen.inner), (down[0], near), "a")
            b = body.load_tile(right, (step, column), (chosen.inner, chosen.columns), (far, across[1]), "b")
        if kind is not None:
            out.line(f'{sums} = {out.helper("dot_eights")}({a.text}, {b.text}, {sums}, "{kind}")')
            if sums != acc:
                with out.block(f"if {k} % {TOGETHER} == {TOGETHER - chosen.inner}:"):
                    out.line(f"{acc} += {sums}")
                    out.line(f"{sums} = {nothing}")
        else:
            out.line(f"{acc} = {dot.multiplied(body, dot.Operands(a, b, work), acc, chosen.precision)}")
    if sums != acc:
        out.line(f"{acc} += {sums}")
    body.order.read.clear()
    return Tile(acc, work, shape, valid)


def _named(body: Body, size: Scalar, hint: str) -> Scalar:
    return size if size.const is not None else body.named(hint, size)


def can_be_described(product: Product, chosen: ProductSchedule, programs: int) -> bool:
    """Whether the copy engine shall bring the tiles of a product of INT8, whole ones only: tensor cores are through with them before threads have computed
    the addresses of the next. Of so many that programs walk over several blocks, since making descriptors takes longer than a few turns of the loop."""
    whole = all(
        isinstance(size.const, int) and size.const % block == 0
        for size, block in ((product.rows, chosen.rows), (product.columns, chosen.columns), (product.inner, chosen.inner))
    )
    ints = product.left.dtype is INT8 and product.right.dtype is INT8
    many = walkers_of(programs, (chosen.rows + chosen.columns) * chosen.inner * chosen.stages) > 0
    sides = (product.left, chosen.rows), (turned(product.right), chosen.columns)
    return ints and whole and many and all(descriptors.describes(side, (block, chosen.inner)) for side, block in sides)


def _described(body: Body, left: Buffer, right: Buffer, chosen: ProductSchedule, starts: tuple[Scalar, Scalar, Scalar]) -> tuple[Tile, Tile]:
    """The tiles of a step; that of the right operand lies with K along the memory."""
    row, step, column = starts
    a = body.out.let("a", descriptors.copied(body, left, (row, step), (chosen.rows, chosen.inner), in_loop=True))
    b = body.out.let("b", f"tl.trans({descriptors.copied(body, turned(right), (column, step), (chosen.columns, chosen.inner), in_loop=True)})")
    shapes = (chosen.rows, chosen.inner), (chosen.inner, chosen.columns)
    return Tile(a, left.dtype, shapes[0], full(shapes[0]), zeros=True), Tile(b, right.dtype, shapes[1], full(shapes[1]), zeros=True)


def _eights(body: Body, product: Product) -> str | None:
    """The kind of two operands of 8 bits that tensor cores multiply as they are, less exactly than FP32: None where they may not, or it is another product."""
    same = product.left.dtype is product.right.dtype and product.left.dtype in NARROW
    rough = body.options.fast_math and product.work is FP32 and not product.to_integers
    return DECODED[product.left.dtype] if same and rough else None


def _as_eights(body: Body, side: Buffer, kind: str | None) -> Buffer:
    """An operand as memory of floats instead of their bits: a load that is turned into something else would not be under way while others are used."""
    if kind is None:
        return side
    pointer = body.out.once(f"{side.pointer}_{kind}", f'{body.out.helper("as_eights")}({side.pointer}, "{kind}")')
    return replace(side, pointer=pointer)


def _text(sizes: tuple[int, ...]) -> str:
    return f"({', '.join(map(str, sizes))},)"
