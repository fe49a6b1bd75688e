"""The menu of operations, and how one is chosen."""

from __future__ import annotations

from collections.abc import Callable

from tests.fuzz import composed_numbers, indexed, movement, numpy_forms, operations, products, public_forms, shapes, sorting, special
from tests.fuzz.values import Val
from tests.fuzz.writer import Writer

Operation = Callable[[Writer], Val | None]

MENU: tuple[tuple[int, Operation], ...] = (
    (4, operations.smooth),
    (1, operations.clamped),
    (1, operations.trigonometry),
    (2, operations.sign),
    (1, operations.rounded),
    (4, operations.scalar_operand),
    (1, operations.reversed_scalar),
    (6, operations.arithmetic),
    (2, operations.quotient),
    (2, operations.bits),
    (3, operations.conversion),
    (2, operations.choice),
    (2, operations.mask),
    (4, operations.reduction),
    (4, operations.expansion),
    (3, movement.load),
    (2, movement.load_at),
    (2, movement.cut),
    (2, movement.reshape),
    (2, movement.transpose),
    (2, movement.concat),
    (3, movement.pad),
    (1, movement.narrow),
    (3, movement.product),
    (2, movement.constant),
    (2, movement.partial),
    (2, movement.three_operands),
    (1, movement.element_write),
    (1, indexed.pattern),
    (2, indexed.gather),
    (2, indexed.scatter),
    (2, indexed.rows_by_index),
    (1, special.power),
    (1, special.nan_test),
    (1, special.flagged),
    (1, special.remainder),
    (1, special.bit_pairs),
    (1, special.scalar_select),
    (1, special.three_with_scalar),
    (1, special.made),
    (1, special.narrow_type),
    (1, special.rounding_mode),
    (1, special.precise),
    (1, special.part),
    (1, products.accumulated),
    (1, products.added_to_parts),
    (1, products.one_row),
    (1, products.biased),
    (1, products.batched),
    (1, products.transposed),
    (1, products.scaled),
    (2, shapes.higher_rank),
    (2, shapes.turned),
    (1, shapes.moved),
    (1, shapes.padded),
    (1, shapes.bytes_as),
    (1, shapes.put),
    (2, shapes.window),
    (1, shapes.viewed),
    (2, shapes.stack_reduction),
    (1, sorting.gather_rows),
    (1, sorting.compared),
    (1, sorting.byte_blocks),
    (1, sorting.scatter_pattern),
    (1, sorting.paged),
    (1, sorting.row_into),
    (1, sorting.sorted_blocks),
    (3, numpy_forms.over_axes),
    (1, numpy_forms.product_over),
    (1, numpy_forms.place_of_extreme),
    (1, numpy_forms.normalised),
    (2, numpy_forms.elementary),
    (1, numpy_forms.covered),
    (3, numpy_forms.other_axes),
    (3, numpy_forms.made_like),
    (1, numpy_forms.summed_product),
    (2, numpy_forms.running),
    (2, numpy_forms.in_order),
    (1, numpy_forms.tallied),
    (1, numpy_forms.overhanging),
    (2, composed_numbers.scanned),
    (2, composed_numbers.angle),
    (3, composed_numbers.complex_parts),
    (3, composed_numbers.changed_element),
    (1, public_forms.narrowed_view),
    (1, public_forms.rows_at),
    (1, public_forms.dense_columns),
    (1, public_forms.inside_of_an_overhang),
    (1, public_forms.without_leading_dims),
    (1, public_forms.unsigned_range),
    (1, public_forms.spread_copy),
)
_WEIGHTS = [weight for weight, _ in MENU]
_OPERATIONS = [operation for _, operation in MENU]


def expression(w: Writer) -> Val | None:
    """A random operation that fits, tamed."""
    chosen = w.rng.choices(_OPERATIONS, _WEIGHTS, k=8)
    if w.theme is not None and w.chance(0.35):
        # Each program prefers one entry of the menu, so that rare ones come up as often as others.
        chosen.insert(0, _OPERATIONS[w.theme % len(_OPERATIONS)])
    for operation in chosen:
        mark = len(w.lines)
        value = operation(w)
        if value is not None:
            value = w.tamed(value)
        if value is not None and _size(value) <= 4096:
            return value
        del w.lines[mark:]
    return None


def _size(value: Val) -> int:
    size = 1
    for extent in value.shape:
        size *= extent if isinstance(extent, int) else 32
    return size
