"""Which object a value is counts where Python can tell: helpers get the very objects, and the names of the language are the language's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilejit.language as pl
import tilejit.language.distributed as pld
from tests.jit.adding import ADD, called
from tests.jit.conftest import MakeKernel
from tilejit.errors import StaleCaptureError
from tilejit.jit.reads.plain import another

pytestmark = pytest.mark.usefixtures("cache")


def test_once_tells_arguments_apart_by_identity(make_kernel: MakeKernel) -> None:
    kernel = make_kernel("""
    class C:
        def __init__(self, k):
            self.k = k
        def __repr__(self):
            return "C"
    A, B = C(1), C(10)
    read = pl.once(lambda c: c.k)
    @pl.jit
    def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = x + float(read(A) + read(B))
    """)
    assert called(kernel) == 12.0


@pytest.mark.parametrize("path", ["native", "python", "reference"])
@pytest.mark.parametrize("read", ["block(CFG)", 'TOOLS["block"](CFG)', 'TOOLS["block"](BOX["c"])', 'pairs((BOX["c"], 1))', 'TOOLS["block"](config=BOX["c"])'])
def test_once_is_asked_for_an_argument_that_is_another_object_now(read: str, path: str, make_kernel: MakeKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_FASTPATH", str(int(path == "native")))
    monkeypatch.setenv("TILEJIT_PLATFORM", "reference" if path == "reference" else "cpu")
    made = """
    class Config:
        def __init__(self, block):
            self.block = block
    asked = []
    block = pl.once(lambda config: asked.append(config) or config.block)
    pairs = pl.once(lambda pair: asked.append(pair) or pair[0].block)
    CFG = Config(3.0)
    TOOLS, BOX = {"block": block}, {"c": CFG}
    """
    text = made + ADD.format(options="{options}", expression=read).replace("\n", "\n    ")
    kernel, strict = (make_kernel(text.replace("{options}", options)) for options in ("(on_drift='recompile')", ""))
    for one in (kernel, strict):
        names = one.definition.function.__globals__
        assert [called(one) for _ in range(4)] == [4.0] * 4
        assert len(names["asked"]) == 1
        names["CFG"] = names["BOX"]["c"] = names["Config"](4.0)
        if one is kernel:
            assert [called(one) for _ in range(4)] == [5.0] * 4
            assert len(names["asked"]) == 2
        else:
            with pytest.raises(StaleCaptureError):
                called(one)


EQUAL = ("'some text ' * 3", "10 ** 12", "1.5", "(1.5, 10 ** 12)", "b'some bytes'", "1.5j", "range(3, 9)", "slice(3, 9)", "np.float32(3)", "'é字'")
LOOKS = "import numpy as np\nI = J = W = {}\ndef f(a):\n    return 3 if a is W else 4\n"


@pytest.mark.parametrize("value", EQUAL)
def test_a_helper_is_given_the_object_that_the_text_names_among_equal_ones(value: str, make_kernel: MakeKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_FASTPATH", str(EQUAL.index(value) % 2))
    text = LOOKS.format(value) + ADD.format(options="(on_drift='recompile')", expression="f(I) + 10 * f(J) + 100 * f(*(J,))")
    kernel = make_kernel(text)
    assert called(kernel) == 334.0
    fresh = make_kernel(text)  # finds what the other one left on disk
    for change, wanted in (("I = another(I)", 335.0), ("I = W", 334.0), ("J = another(J)", 444.0), ("W = J", 335.0), ("I = J", 334.0)):
        for one in (kernel, fresh):
            exec(change, one.definition.function.__globals__ | {"another": another}, names := {})
            one.definition.function.__globals__.update(names)
            assert [called(one), called(one)] == [wanted, wanted], change


@pytest.mark.parametrize(("answer", "expression"), [("k", "O.k"), ("Add", "O + 1"), ("3", "len(f'{O!r:3}')")])
def test_a_word_of_the_text_that_was_an_answer_too(answer: str, expression: str, make_kernel: MakeKernel) -> None:
    kernel = make_kernel(f"""
    class C:
        def __getattr__(self, name):
            return {{"k": N}}[name]
        def __add__(self, other):
            return N - 1 + other
        def __repr__(self):
            return "x" * N
        def name(self):
            return "".join(list({answer!r}))
    N, O = 3, C()
    @pl.jit(on_drift="recompile")
    def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = x + float(O.name() == {answer!r} and {expression})
    """)
    for number in (3, 4):
        kernel.definition.function.__globals__["N"] = number
        assert [called(kernel) for _ in range(3)] == [1.0 + number] * 3


@pytest.mark.parametrize(
    ("setup", "expression", "other"),
    [
        ("N = int('1000')\nM = N", "3.0 if N is M else 4.0", "M = int('1000')"),
        ("N = 'ab' * 9\nM = N", "3.0 if N is not M else 4.0", "M = ''.join(['ab'] * 9)"),
        ("N = (1.5, b'a', range(3))\nM = N", "3.0 if N is M else 4.0", "M = (float('1.5'), bytes([97]), range(3))"),
        ("import numpy as np\nN = np.float32(3)\nM = N", "3.0 if N is M else 4.0", "M = np.float32(3)"),
        ("N = float('nan')\nM = (N,)", "3.0 if N in M else 4.0", "M = (float('nan'),)"),
        ("N = float('nan')\nM = (N,)\nT = (N,)", "3.0 if T == M else 4.0", "M = (float('nan'),)"),
        ("N = complex('nan')\nM = (N,)", "3.0 if N in M else 4.0", "M = (complex('nan'),)"),
        ("import numpy as np\nN = np.datetime64('nat')\nM = (N,)", "3.0 if N in M else 4.0", "M = (np.datetime64('nat'),)"),
        ("N = float('nan')\nM = [N]\nT = (N,)", "3.0 if tuple(M) == T else 4.0", "M = [float('nan')]"),
        ("N = float('nan')\nM = slice(N)\nT = slice(N)", "3.0 if T == M else 4.0", "M = slice(float('nan'))"),
    ],
)
def test_equal_values_mean_the_same_whichever_objects_they_are(setup: str, expression: str, other: str, make_kernel: MakeKernel) -> None:
    text = ADD.format(options="", expression=expression)
    first = called(make_kernel(f"{setup}\n{text}"))
    kernel = make_kernel(f"{setup}\n{other}\n{text}")
    found = called(kernel)
    assert kernel.cache_info().loaded == 1, "the key is the same"
    kernel.cache_clear(disk=True)
    assert first == found == called(kernel), "and so is what would be compiled anew"
    assert kernel.cache_info().compile_seconds > 0


def test_a_name_of_a_group_of_the_language_is_watched_where_no_words_are(make_kernel: MakeKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilejit.jit.reads.watch.supported", lambda: False)
    kernel = make_kernel(ADD.replace("x + float({expression})", "pl.tensor.exp(x)").format(options=""))
    for _ in range(4):
        called(kernel)
    language: Any = kernel.definition.function.__globals__["pl"]
    monkeypatch.setattr(language.tensor, "exp", language.tensor.abs)
    with pytest.raises(StaleCaptureError):
        called(kernel)


ALIASES = """
class C:
    k, j = 3, 1
A, O = C(), C()
D, L = {"a": A, "b": A}, [A, A]
O.a = O.b = A
def get(name):
    return D[name]

@pl.jit
def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    if x.shape[0] == 2:
        total = {first}.k + {second}.j
    elif x.shape[0] == 3:
        total = {second}.k + {first}.j
    else:
        total = {second}.k
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x + float(total)
    return out
"""
WAYS = [("D['a']", "D['b']"), ("L[0]", "L[1]"), ("O.a", "O.b"), ("get('a')", "get('b')")]


@pytest.mark.parametrize(("first", "second"), WAYS)
def test_two_ways_to_one_object_may_be_read_in_any_order(first: str, second: str, make_kernel: MakeKernel) -> None:
    """Which of them comes first differs between specialisations; that they lead to one object does not. Two objects instead of one is drift."""
    kernel = make_kernel(ALIASES.replace("{first}", first).replace("{second}", second))
    names = kernel.definition.function.__globals__
    calls = {rows: np.zeros((rows, 4), np.float32) for rows in (2, 3, 5)}

    for _ in range(3):
        assert [called(kernel, x) for x in calls.values()] == [4.0, 4.0, 3.0]
    other = names["C"]()
    names["D"]["b"] = names["L"][1] = names["O"].b = other
    for rows in (2, 3):
        with pytest.raises(StaleCaptureError):
            called(kernel, calls[rows])
    names["A"] = names["D"]["a"] = names["L"][0] = names["O"].a = other  # one object again, though another
    assert [called(kernel, x) for x in calls.values()] == [4.0, 4.0, 3.0]


def test_names_of_the_language_that_a_kernel_does_not_read_may_be_anything(make_kernel: MakeKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program names the dtypes of its arguments; whose language that is nobody was asked, and so it is the language's own."""
    import tilejit.language as pl

    text = "@pl.jit\ndef kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):\n    out[:] = x * 2.0\n"
    with monkeypatch.context() as patch:
        patch.setattr(pl, "FP32", pl.FP16)
        patch.setattr(pl, "program", None)
        patch.setattr(pl.tensor, "muls", pl.tensor.adds)
        assert called(make_kernel(text)) == 2.0
        assert pl.FP32 is pl.FP16 and pl.program is None
    assert called(make_kernel(text)) == 2.0


def test_what_programs_are_built_from_does_not_make_names_look_assigned(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table may give other objects for a name by then, as it does once an op was added to it."""
    assert pl.tile.scatter and pl.assigned(["tile.scatter"]) == ()  # type: ignore[attr-defined]
    monkeypatch.setattr("tilejit.ops.public", lambda space, name: object())
    assert pl.find("tile").scatter is not pl.tile.scatter and pl.assigned(["tile.scatter"]) == ()  # type: ignore[attr-defined]
    monkeypatch.setattr(pl.tile, "scatter", object())
    assert pl.assigned(["tile.scatter", "tile.gather"]) == ("tile.scatter",)  # type: ignore[attr-defined]


@pytest.mark.parametrize("space", ["pl.tile", "pld.tile", "pld.tensor", "pl", "pld"])
def test_what_somebody_assigns_in_the_language_is_watched_like_a_value(make_kernel: MakeKernel, monkeypatch: pytest.MonkeyPatch, space: str) -> None:
    """Names of programs for several ranks too, and of the groups in them."""
    owner: object = {"pl": pl, "pld": pld}[space.partition(".")[0]]
    for name in space.split(".")[1:]:
        owner = getattr(owner, name)
    text = f"@pl.jit\ndef kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):\n    out[:] = x * {space}.factor\n"
    monkeypatch.setattr(owner, "factor", 2.0, raising=False)
    kernel = make_kernel(text, pld=pld)
    assert called(kernel) == called(kernel) == 2.0
    monkeypatch.setattr(owner, "factor", 3.0)
    assert called(make_kernel(text, pld=pld)) == 3.0
    with pytest.raises(StaleCaptureError, match="factor"):
        called(kernel)


@pytest.mark.parametrize("lists_first", [True, False])
@pytest.mark.parametrize("made", ["T[0:1]", "T + U"])
def test_whether_a_list_is_made_anew_follows_what_makes_it(made: str, lists_first: bool, make_kernel: MakeKernel) -> None:
    class Kept:
        row: list[float] = [1.0]  # noqa: RUF012 (one list for all)

        def __getitem__(self, key: object) -> list[float]:
            return self.row

        def __add__(self, other: object) -> list[float]:
            return self.row

    body = f"    a = {made}\n    b = {made}\n    out[:] = x + (1.0 if a is b else 2.0)\n"
    kernel = make_kernel(f"@pl.jit(on_drift='recompile')\ndef k(x: pl.Tensor, out: pl.Out[pl.Tensor]):\n{body}", T=[1.0], U=[])
    function: Any = kernel.definition.function
    names = function.__globals__
    for are_lists in (lists_first, not lists_first, lists_first):
        names |= {"T": [1.0], "U": []} if are_lists else {"T": Kept(), "U": Kept()}
        assert [float(kernel(np.zeros((1, 4), np.float32))[0, 0]) for _ in range(3)] == [2.0 if are_lists else 1.0] * 3
