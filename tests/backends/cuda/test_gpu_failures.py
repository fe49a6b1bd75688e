"""On a GPU: what goes wrong in a kernel is raised at the next call or synchronisation, for the first block, and nothing is written outside."""

from __future__ import annotations

from typing import Any

import pytest

from tests.backends.cuda.failing import asserts, load_past_the_end, store_past_the_end, wrong_index
from tilejit.errors import KernelAssertionError, OutOfBoundsError
from tilejit.runtime import synchronise

pytestmark = [pytest.mark.gpu, pytest.mark.torch]


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch")


def arrays(torch: Any, columns: int, wrong: int) -> tuple[Any, Any, Any, Any]:
    """Operands, and the memory of which the output is the first part."""
    memory = torch.full((256,), -1.0, device="cuda")
    places = torch.full((4, 2) if columns == 2 else (1,), wrong, dtype=torch.int32, device="cuda")
    return torch.randn(4, 8, device="cuda"), places, memory[: 4 * columns].view(4, columns), memory[4 * columns :]


@pytest.mark.parametrize(
    ("kernel", "columns", "wrong", "said"),
    [
        (load_past_the_end, 8, 3, "load reads outside `x` in dim 0: offset 3, size 2, extent 4"),
        (store_past_the_end, 8, 3, "store writes outside `out` in dim 0: offset 3, size 2, extent 4"),
        (store_past_the_end, 8, -1, "store writes outside `out` in dim 0: offset -1, size 2, extent 4"),
        (wrong_index, 2, 9, "gather: index 9 of an extent of 8"),
        (wrong_index, 2, -1, "gather: index -1 of an extent of 8"),
    ],
)
def test_a_failure_is_raised_at_synchronisation_and_at_the_next_call(kernel: Any, columns: int, wrong: int, said: str, torch: Any) -> None:
    x, places, out, rest = arrays(torch, columns, wrong)
    kernel(x, places, out)
    with pytest.raises(OutOfBoundsError) as found:
        synchronise()
    assert found.value.message == said and "failing.py" in str(found.value)
    assert (rest == -1).all()
    synchronise()  # It is raised once.
    kernel(x, places, out)
    torch.cuda.synchronize()
    with pytest.raises(OutOfBoundsError):
        kernel(x, places, out)
    synchronise()  # The call that raised has launched nothing.
    places.zero_()
    kernel(x, places, out)
    synchronise()


def test_an_assertion_stops_nobody_else_and_is_told(torch: Any) -> None:
    x, places, out, rest = arrays(torch, 8, 0)
    asserts(x, places, out)
    with pytest.raises(KernelAssertionError, match="only two"):
        synchronise()
    assert torch.equal(out[:2], x[:2]) and (rest == -1).all()
