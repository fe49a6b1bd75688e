"""PTO text: reading and checking it against xDSL's own parser, running and launching it against the same kernel written with @pl.jit."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from measure import Pair, Target
from xdsl.context import Context
from xdsl.dialects.arith import Arith
from xdsl.dialects.builtin import Builtin
from xdsl.dialects.func import Func
from xdsl.dialects.scf import Scf
from xdsl.parser import Parser

import tilejit.language as pl
from tilejit import pto
from tilejit.frontend.pto.text import parse_pto
from tilejit.tile_ir.pto.verify import verify

SIZE, TILE = 4096, 128
GM = pto.ptr(pto.f32, "gm")
_TILE = f"!pto.tile_buf<vec, {TILE}x{TILE}xf32>"
_SLICE = f"!pto.partition_tensor_view<{TILE}x{TILE}xf32>"
_VIEW = "!pto.tensor_view<?x?xf32>"


def _transfers() -> str:
    names = ("x", "y", "o")
    views = "".join(f"    %v{n} = pto.make_tensor_view %{n}, shape = [%n, %n], strides = [%n, %one] : {_VIEW}\n" for n in names)
    slices = "".join(f"        %s{n} = pto.partition_view %v{n}, offsets = [%i, %j], sizes = [%t, %t] : {_VIEW} -> {_SLICE}\n" for n in names)
    return f"""{views}    scf.for %i = %zero to %n step %t {{
      scf.for %j = %zero to %n step %t {{
{slices}        %a = pto.alloc_tile : {_TILE}
        %b = pto.alloc_tile : {_TILE}
        pto.tload ins(%sx : {_SLICE}) outs(%a : {_TILE})
        pto.tload ins(%sy : {_SLICE}) outs(%b : {_TILE})
"""


def chain_text(repeats: int = 1) -> str:
    """exp(x * y + 0.5) tile by tile; with `repeats` the middle is written out that often."""
    step = f"""        pto.tmul ins(%a, %b : {_TILE}, {_TILE}) outs(%a : {_TILE})
        pto.tadds ins(%a, %half : {_TILE}, f32) outs(%a : {_TILE})
        pto.texp ins(%a : {_TILE}) outs(%a : {_TILE})
"""
    return f"""module {{
  func.func @chain(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>, %o: !pto.ptr<f32>) {{
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %t = arith.constant {TILE} : index
    %n = arith.constant {SIZE} : index
    %half = arith.constant 5.000000e-01 : f32
{_transfers()}{step * repeats}        pto.tstore ins(%a : {_TILE}) outs(%so : {_SLICE})
      }}
    }}
    return
  }}
}}
"""


@pto.jit(source=chain_text())
def chain(x: GM, y: GM, o: GM) -> None: ...  # type: ignore[valid-type]


@pl.jit
def chain_pl(x: pl.Tensor, y: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(0, SIZE, TILE):
            for j in pl.range(0, SIZE, TILE):
                a = pl.load(x, [i, j], [TILE, TILE])
                b = pl.load(y, [i, j], [TILE, TILE])
                pl.store(pl.exp(pl.add(pl.mul(a, b), 0.5)), [i, j], o)


_FIRST = """module {
  func.func @first(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>, %o: !pto.ptr<f32>) {
    %zero = arith.constant 0 : index
    %a = pto.load_scalar %x[%zero] : !pto.ptr<f32> -> f32
    %b = pto.load_scalar %y[%zero] : !pto.ptr<f32> -> f32
    %s = arith.addf %a, %b : f32
    pto.store_scalar %s, %o[%zero] : !pto.ptr<f32>, f32
    return
  }
}
"""


@pto.jit(source=_FIRST)
def first(x: GM, y: GM, o: GM) -> None: ...  # type: ignore[valid-type]


@pl.jit
def first_pl(x: pl.Tensor, y: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        o[:] = x + y


def _in_file(folder: str) -> pto.SourceKernel:
    path = Path(folder) / "first.pto"
    path.write_text(_FIRST)

    @pto.jit("first", source=str(path))
    def filed(x: GM, y: GM, o: GM) -> None: ...  # type: ignore[valid-type]

    return filed


def launches(folder: str) -> Iterator[Pair]:
    """What a launch costs when the kernel does almost nothing."""
    filed = _in_file(folder)
    x, y = np.random.default_rng(1).standard_normal((2, 1, 1), np.float32)
    for kind, (a, b, ours, theirs) in {
        "NumPy arrays": (x, y, np.zeros_like(x), np.zeros_like(x)),
        "torch tensors": (torch.from_numpy(x), torch.from_numpy(y), torch.zeros(1, 1), torch.zeros(1, 1)),
    }.items():
        launch = first[1, None]

        def peer(a: object = a, b: object = b, out: object = theirs) -> None:
            first_pl(a, b, out)

        def check(ours: object = ours, theirs: object = theirs) -> None:
            np.testing.assert_array_equal(np.asarray(ours), np.asarray(theirs))

        def kept(a: object = a, b: object = b, out: object = ours, launch: Callable[..., None] = launch) -> None:
            launch(a, b, out)

        def whole(a: object = a, b: object = b, out: object = ours) -> None:
            first[1, None](a, b, out)

        def from_file(a: object = a, b: object = b, out: object = ours) -> None:
            filed[1, None](a, b, out)

        cases = (("launch", kept, Target(1.5, 1)), ("kernel[1, None]", whole, Target(6, 1)), ("kernel[1, None] of a file", from_file, Target(10, 1)))
        for case, call, bar in cases:
            for _ in range(4):
                call()
                peer()
            yield Pair(f"{case}, 3 {kind}", "@pl.jit", call, peer, target=bar, check=check)


def _generic_parser(text: str) -> Callable[[], object]:
    """xDSL alone on the generic form: ops and types of pto are unregistered to it."""
    context = Context(allow_unregistered=True)
    for dialect in (Builtin, Func, Arith, Scf):
        context.load_dialect(dialect)
    return lambda: Parser(context, text).parse_module()


def _checked(text: str) -> object:
    file = parse_pto(text)
    verify(file)
    return file


def cases() -> Iterator[Pair]:
    text = chain_text(repeats=93)
    assert len(text.splitlines()) in range(300, 310)
    generic = parse_pto(text).print(generic=True)
    yield Pair("read and check 300 lines", "xDSL, generic form", lambda: _checked(text), _generic_parser(generic), target=Target(3))
    with tempfile.TemporaryDirectory() as folder:
        yield from launches(folder)
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, SIZE, SIZE), np.float32)
    ours, theirs = np.empty_like(x), np.empty_like(x)
    launch = chain[1, None]
    assert launch.compiled.backend == "cpu"
    yield Pair(
        "chain of 4096x4096 in tiles",
        "@pl.jit",
        lambda: launch(x, y, ours),
        lambda: chain_pl(x, y, theirs),
        target=Target(1.2),
        check=lambda: np.testing.assert_array_equal(ours, theirs),
    )
