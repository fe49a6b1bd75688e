"""Reductions over rows: a block of columns runs down the rows, and what it folds is computed on the way."""

from __future__ import annotations

from dataclasses import dataclass, replace

from xdsl.ir import SSAValue

from tilejit import ops
from tilejit.backends.cuda.nests.nest import Nest, merged
from tilejit.backends.cuda.program import rows
from tilejit.backends.cuda.text import elementwise, numbers
from tilejit.backends.cuda.text.types import computed_in, register
from tilejit.backends.cuda.text.values import Buffer, Dim, Scalar, Tile, index
from tilejit.dtypes import INDEX
from tilejit.tile_ir import dialect as d


@dataclass
class ColumnNest:
    """A reduction over rows: a block of columns runs down the rows; what it folds is computed on the way."""

    nest: Nest
    op: d.ApplyOp
    height: Scalar
    """Rows that are folded: the extent before the last."""

    def emit(self, lead: Scalar, first: Scalar, output: Buffer, piece: tuple[Scalar, Scalar] | None = None) -> None:
        """Fold the columns from `first` on; `piece`: only that many rows from some row on, and the result stays in the type it is computed in."""
        nest, body, op = self.nest, self.nest.body, self.op
        saved, body.nest = body.nest, True
        rows_, width = nest.schedule.rows, nest.schedule.columns
        combine = str(ops.table()[op.op].attrs["combine"])
        compute = computed_in(d.shaped_type(op.args[0]).dtype)
        names = nest._start(op)
        name, places = names
        size = body.named("size", numbers.minimum(numbers.sub(nest.columns, first), index(width)))
        if isinstance(nest.columns.const, int) and nest.columns.const % width == 0:
            size = index(width)
        down = body.out.fresh("down")
        base = numbers.mul(lead, self.height) if piece is None else piece[0]
        height = self.height if piece is None else piece[1]
        with body.out.block(f"for {down} in range(0, {height.text}, {rows_}):"):
            step = Scalar(down, INDEX, (0, height.bounds[1]) if height.bounds else None)
            nest.first = body.named("first", numbers.add(base, step))
            nest.here = body.named("rows", numbers.minimum(numbers.sub(height, step), index(rows_)))
            if isinstance(height.const, int) and height.const % rows_ == 0:
                nest.here = index(rows_)
            loaded: dict[SSAValue, Tile] = {}
            for member in nest.members:
                nest._bind(member, first, size, width, loaded)
                if member is not op:
                    assert isinstance(member, d.ApplyOp)
                    nest._apply(member)
            source = rows.operand(body, op.args[0])
            assert isinstance(source, Tile)
            text = elementwise.widen(body.out, source.text, source.dtype)
            if source.padded != (rows_, width):
                text = f"tl.broadcast_to({text}, ({rows_}, {width},))"
            below = f"({body.out.arange(rows_)} < {nest.here.text})[:, None]"
            if nest.here.const != rows_:
                text = f"tl.where({below}, {text}, {rows.neutral(combine, compute)}).to({register(compute)})"
            if combine.startswith("arg"):
                here = f"tl.broadcast_to(({down} + {body.out.arange(rows_)})[:, None], ({rows_}, {width},)).to(tl.int32)"
                if nest.here.const != rows_:
                    here = f"tl.where({below}, {here}, 2147483647)"
                body.out.line(f"{name}, {places} = {body.out.helper(combine + '_nan')}({name}, {places}, {text}, {here})")
            else:
                body.out.line(f"{name} = {elementwise.combined(combine, compute, name, text)}")
        dtype = rows.result_dtype(op) if piece is None else compute
        if combine.startswith("arg"):
            top, found = body.out.fresh("top"), body.out.fresh("place")
            body.out.line(f"{top}, {found} = tl.reduce(({name}, {places}), 0, {body.out.helper(combine + '_nan')}, keep_dims=True)")
            text = found
        else:
            text = elementwise.held(body.out, rows.fold(body, name, 0, combine, compute), dtype)
        tile = Tile(body.out.let("result", text), dtype, (1, width), (index(1), size))
        rows_apart = output.dims[-2].stride if output.rank > 1 and piece is not None else numbers.mul(output.dims[-1].extent, output.dims[-1].stride)
        flat = merged(output, output.rank - 1)
        if flat is None or flat.dims[0].extent.const == 1:
            flat = replace(output, dims=(Dim(numbers.product(output.shape[:-1]), rows_apart), output.dims[-1]))
        body.store_tile(tile, flat, (lead, first))
        body.nest = saved
