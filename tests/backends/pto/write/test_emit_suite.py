"""Kernels of the suite leave as PTO text, are read back and run, on both architectures, at two sizes, with the numbers of their formulas."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest

from tests.suite.harness import Case, Cases, Random

KERNELS = {
    "casts": ("eight_bit_floats", "integers_wrap", "booleans", "store_widens_integers"),
    "control_flow": ("first_position", "collatz", "python_scalar_operators"),
    "dynamic_shapes": ("both_extents", "product_of_any_size", "extents_declared_in_a_helper", "extent_of_zero"),
    "elementwise": ("rank_one", "bits_of_tensors", "sine_and_cosine", "mixed_integers", "run_time_scalar", "planes_of_a_batch", "additional_functions"),
    "expands": ("rows_in_six_ways", "batches_of_vectors"),
    "gather_scatter_sort": ("columns_by_index", "scattered_columns"),
    "helper_dags": ("chain_through_a_temporary", "opaque_over_incore_over_inline", "kernel_returns_three_values"),
    "llm_attention": ("three_kernels",),
    "llm_moe_quant": ("activations_quantised_per_token",),
    "llm_sampling": ("logits_and_argmax_fused",),
    "llm_norms": ("rmsnorm_bf16", "layernorm_two_passes", "softmax_masked_with_temperature", "softmax_columns_fp16", "cross_entropy_by_gather"),
    "masks": ("six_comparisons_of_tensors", "where_of_rank_three"),
    "movement": ("three_side_by_side", "any_two_axes", "subscripts_that_drop_dims", "triangles"),
    "products": ("result_dtypes", "broadcast_batches", "one_dimensional_operands", "mixed_operands_promote", "quantised_linear"),
    "reductions": ("columns_of_a_tensor", "positions_with_ties", "last_axes_of_rank_four"),
    "task_graphs": ("chain_in_a_loop",),
    "valid_regions": ("three_pad_values", "set_at_run_time", "intersection_of_two", "product_of_partial_tiles"),
}

OF_ONE_SIZE = {
    "public_expands": ("a_column_vector_of_the_run", "spread_over_a_target", "vectors_without_leading_dims", "vectors_with_some_leading_dims"),
    "public_loops": ("the_last_tile_of_a_loop", "bound_in_some_rounds", "an_annotated_yield_in_branches"),
    "public_windows": ("written_by_its_valid_region", "written_by_a_valid_region_of_the_run", "valid_region_of_a_slice"),
}

def _larger(dim: int) -> int:
    return dim if dim == 1 else 3 * dim + 1


def larger(case: Case) -> Case:
    """The same kernel on tensors about three times as long in every dim."""

    def grown(argument: Any) -> Any:
        return replace(argument, shape=tuple(map(_larger, argument.shape))) if isinstance(argument, Random) else argument

    return replace(case, calls=(tuple(map(grown, case.calls[0])),), compiles=None, threads=())


def _cases(table: dict[str, tuple[str, ...]]) -> Iterator[tuple[str, Case]]:
    for topic, names in table.items():
        cases: Cases = import_module(f"tests.suite.{topic}").CASES
        yield from ((f"{topic}-{case.name}", case) for case in cases if case.name in names)


def _params() -> list[Any]:
    both = [(name, size, case) for name, case in _cases(KERNELS) for size, case in (("small", case), ("large", larger(case)))]
    fixed = [pytest.param(case, id=name) for name, case in _cases(OF_ONE_SIZE)]
    return [pytest.param(case, id=f"{name}-{size}") for name, size, case in both] + fixed


@pytest.mark.parametrize("platform", ["a2a3", "a5"])
@pytest.mark.parametrize("case", _params())
def test_a_kernel_of_the_suite_gives_the_numbers_of_its_formula_as_pto(case: Case, platform: str) -> None:
    case.check(platform)


def test_every_kernel_named_here_exists() -> None:
    for table in (KERNELS, OF_ONE_SIZE):
        assert len(list(_cases(table))) == sum(map(len, table.values()))
