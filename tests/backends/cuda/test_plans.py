"""Kernels of the suite on CUDA, as far as that can be seen without a GPU: numbers in Triton's interpreter, and cubins for two architectures."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

NUMBERS = {
    "elementwise": ("bits_of_tensors", "remainders", "integer_remainders"),
    "llm_norms": ("rmsnorm_bf16", "softmax_columns_fp16", "rmsnorm_hidden_in_chunks"),
    "llm_attention": ("prefill_dynamic_causal",),
    "products": ("blocks_with_ragged_edges", "chain_of_products"),
    "gather_scatter_sort": ("columns_by_index", "scattered_columns", "thirty_two_sorted", "rows_of_pages"),
    "control_flow": (),
    "valid_regions": (),
    "masks": (),
    "casts": ("half_precision", "four_bits_saturate"),
    "scans_and_atomics": ("exchanged_and_compared", "pairs_of_two_types"),
    "public_variants": ("a_barrier_in_a_loop", "barriers_around_what_a_while_carries", "unsigned_ranges_from_anywhere"),
    "complex_numbers": ("arithmetic", "carried_by_loops_and_branches"),
}
"""Cases by topic; all of a topic where none is named."""

CUBINS = {
    "llm_norms": ("rmsnorm_bf16", "softmax_rows"),
    "llm_attention": ("prefill_dynamic_causal",),
    "products": ("chain_of_products",),
    "gather_scatter_sort": ("thirty_two_sorted",),
    "scans_and_atomics": ("folded_by_all_blocks",),
}


def swept(topic: str, names: tuple[str, ...], *options: str) -> None:
    """Run the sweep in a process of its own: Triton decides at import whether it interprets."""
    cases = [word for name in names for word in ("--case", name)]
    command = [sys.executable, "-m", "tests.backends.cuda.sweep", "--topic", topic, *cases, *options]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "TILEJIT_CACHE": "0"}, check=False)
    assert done.returncode == 0 and "'ok'" in done.stdout, done.stdout[-4000:] + done.stderr[-2000:]


@pytest.mark.parametrize("topic", NUMBERS)
def test_kernels_give_their_numbers_in_the_interpreter(topic: str) -> None:
    swept(topic, NUMBERS[topic])


@pytest.mark.parametrize("topic", CUBINS)
def test_kernels_compile_for_both_architectures(topic: str) -> None:
    swept(topic, CUBINS[topic], "--compile", "80,90")
