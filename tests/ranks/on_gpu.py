"""`python -m tests.ranks.on_gpu [fake] [sample] [GROUP…]`: what comes out of ranks that share a GPU, against NumPy and the CPU; each line says what is wrong.

Without a GPU (`fake`) kernels run in Triton's interpreter, and everything around them is what it is with one."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from random import Random

import numpy as np

Check = Callable[[], None]
SMALL = ((1, 7), (2, 1), (3, 33))
"""Ranks, and columns of a row."""
FAILING = ("deadlock", "assert", "mismatch", "roots", "left_out", "peer", "bounds")


def scenarios(worlds: tuple[int, ...]) -> Iterator[tuple[str, Check]]:
    """The programs that come out the same on every engine."""
    from tests.ranks.engines import on
    from tests.ranks.gpu import REFUSED
    from tests.ranks.scenarios import SCENARIOS

    for world in worlds:
        for name in SCENARIOS:
            if name in REFUSED or (name == "rallies" and world != 2):
                continue

            def check(name: str = name, world: int = world) -> None:
                found, wanted = SCENARIOS[name](world, on(world, "cuda"))
                for key in wanted:
                    np.testing.assert_array_equal(found[key], wanted[key])

            yield f"{name} of {world}", check


def collectives(dtypes: tuple[str, ...], shapes: tuple[tuple[int, int], ...]) -> Iterator[tuple[str, Check]]:
    """Every collective, reduction and dtype, in kernels; every collective in host functions."""
    import tilejit.language.distributed as pld
    from tests.ranks import test_collectives as suite
    from tests.ranks.collectives import on_host
    from tests.ranks.engines import on
    from tilejit.dtypes import DTYPES
    from tilejit.ops.ranks import REDUCIBLE

    uses = [(kind, name, pld.ReduceOp.Sum) for kind in suite.MOVES for name in dtypes]
    uses += [(kind, name, op) for kind in suite.FOLDS for name in dtypes if DTYPES[name] in REDUCIBLE for op in pld.ReduceOp]
    for kind, name, op in uses:
        yield f"{kind} {name} {op.name}", lambda kind=kind, name=name, op=op: suite.check(kind, name, op, "cuda", shapes=shapes)

    def by_host(kind: str) -> None:
        x = suite.data("FP32", 3, 3, 5)
        y = np.zeros_like(x)
        on_host(kind, DTYPES["FP32"], pld.ReduceOp.Sum)(x, x[:, 0].copy(), y, config=on(3, "cuda"))
        assert y.tobytes() == suite.expected(kind, x, pld.ReduceOp.Sum, "FP32").tobytes()

    for kind in (*suite.MOVES, *suite.FOLDS):
        yield f"{kind} of a host function", lambda kind=kind: by_host(kind)


def signals() -> Iterator[tuple[str, Check]]:
    """What holds on the CPU and on the reference."""
    from tests.ranks import test_signals as suite
    from tests.ranks.gpu import REFUSED, there
    from tests.ranks.signals import ring_put

    def alone() -> None:
        x, win, cells = np.random.default_rng(5).standard_normal((8, 16)).astype(np.float32), np.zeros((8, 16), np.float32), np.zeros((1, 1), np.int32)
        moved, y = there(), np.empty_like(x)
        on = [moved[0](array) for array in (x, y, win, cells)]
        ring_put(*on)
        for array, found in zip((x, y, win, cells), on, strict=True):
            moved[1](array, found)
        assert np.array_equal(y, x) and np.array_equal(win, x) and cells[0, 0] == 1

    yield "alone", alone
    for name, function in vars(suite).items():
        names = inspect.signature(function).parameters if name.startswith("test_") and name not in REFUSED else {}
        if list(names) == ["platform"]:
            yield name, lambda function=function: function("cuda")


def sums(dtypes: tuple[str, ...]) -> Iterator[tuple[str, Check]]:
    """Adds of all ranks, from several blocks each, to the copy of one."""
    from tests.ranks.test_signals import test_adds_from_all_blocks_of_all_ranks_are_all_there

    for name in dtypes:
        yield f"sums of {name}", lambda name=name: test_adds_from_all_blocks_of_all_ranks_are_all_there("cuda", name)


def failures() -> Iterator[tuple[str, Check]]:
    """Mistakes end as they do on the CPU, and a good call works afterwards."""
    from tests.ranks import signals
    from tests.ranks.engines import on
    from tests.ranks.failing import ACTS, acts, all_wait
    from tilejit.errors import DistributedError, TilejitError

    def told(how: str, platform: str) -> tuple[object, ...]:
        try:
            if how in ACTS:
                acts(np.ones((2, 8), np.float32), *ACTS[how], config=on(2, platform))
            else:
                all_wait(np.zeros((2, 1, 1), np.int32), 6 if how == "assert" else 0, config=on(2, platform))
        except TilejitError as error:
            return type(error), error.message, error.span and error.span.line, error.ranks if isinstance(error, DistributedError) else (), error.where
        return ("nothing",)

    def check(how: str) -> None:
        from tests.ranks.gpu import elsewhere

        found = told(how, "cuda")
        with elsewhere():
            assert found == (wanted := told(how, "cpu")), (found, wanted)
        x = np.arange(256, dtype=np.float32).reshape(2, 8, 16)
        y = np.empty_like(x)
        signals.shift(x, y, config=on(2, "cuda"))
        assert np.array_equal(y, np.roll(x, 1, axis=0))

    for how in FAILING:
        yield f"failing by {how}", lambda how=how: check(how)


def random_programs(seeds: range) -> Iterator[tuple[str, Check]]:
    """Programs of puts, gets, notifies and waits that do what their order does when one runs it alone; without a notify they stand still."""
    from tests.ranks import tables
    from tests.ranks.engines import on
    from tilejit.errors import DeadlockError

    def stands_still(seed: int) -> None:
        made = tables.table(Random(seed))
        if made.edges:
            own = np.zeros((made.world, 1, tables.CELLS), np.int32)
            try:
                tables.run(made.steps(without=Random(seed).randrange(len(made.edges))), own, np.empty_like(own), config=on(made.world, "cuda"))
            except DeadlockError:
                return
            raise AssertionError("it went on")

    for seed in seeds:
        yield f"random {seed}", lambda seed=seed: tables.check(seed, lambda world: on(world, "cuda"))
        yield f"random {seed} without a notify", lambda seed=seed: stands_still(seed)


GROUPS: dict[str, Callable[[bool], Iterator[tuple[str, Check]]]] = {
    "scenarios": lambda fake: scenarios((1, 2, 3) if fake else (1, 2, 3, 4, 8)),
    "collectives": lambda fake: collectives(("BF16",), SMALL[2:]) if fake else collectives(_ALL, ((2, 33), (8, 5))),
    "sums": lambda fake: sums(("INT8",) if fake else ("FP32", "BF16", "FP16", "INT32", "INT16", "INT8")),
    "random": lambda fake: random_programs(range(2 if fake else 60)),
    "signals": lambda fake: signals(),
    "failures": lambda fake: failures(),
}
_ALL = ("FP32", "FP16", "BF16", "INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64", "FP8E4M3FN")
SAMPLE = (
    "shifts of 2", "boxes of 3", "third of 3", "adders of 2", "counted of 3", "carried of 3", "kept of 2", "allreduce BF16 Max", "allgather of a host function",
    "test_a_block_goes_on_while_those_before_it_wait", "alone", *(f"failing by {how}" for how in FAILING if how != "deadlock"),
)  # fmt: skip
"""What a run of all tests has time for."""


def main(fake: bool, wanted: Sequence[str] = (), sample: bool = False) -> int:
    """How many of the checks of the wanted groups fail."""
    from tests.ranks import gpu

    wrong = done = 0
    with gpu.on_a_fake_gpu() if fake else gpu.on_this_gpu():
        for name, check in (item for group in wanted or GROUPS for item in GROUPS[group](fake)):
            if sample and name not in SAMPLE:
                continue
            done += 1
            try:
                check()
            except Exception as error:
                wrong += 1
                print(f"{name}: {type(error).__name__}: {' '.join(str(error).split())[:700]}", flush=True)
    print(f"{done} tried, {wrong} wrong")
    return wrong


if __name__ == "__main__":
    if "fake" in sys.argv:
        os.environ["TRITON_INTERPRET"] = "1"
    sys.exit(main("fake" in sys.argv, [word for word in sys.argv[1:] if word in GROUPS], "sample" in sys.argv) != 0)
