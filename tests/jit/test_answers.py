"""What Python answered is the key: asked once per call, never mixed up between threads, objects told apart by what was asked of them."""

from __future__ import annotations

import os
import threading
import types
from typing import Annotated, Any

import numpy as np
import pytest

from tests.jit.adding import ADD, X, called
from tests.jit.conftest import MakeKernel
from tilejit.errors import StaleCaptureError, TilejitWarning, UnsupportedFeatureError
from tilejit.runtime.call.layout import supported

ROUNDS = int(os.environ.get("TILEJIT_TEST_RACES", "20"))
pytestmark = pytest.mark.usefixtures("cache")


def test_a_question_is_asked_once_per_call(make_kernel: MakeKernel) -> None:
    kernel = make_kernel("calls = []\ndef helper():\n    calls.append(1)\n    return 3\n" + ADD.format(options="", expression="helper() + helper()"))
    names: dict[str, Any] = kernel.definition.function.__globals__
    assert kernel(X)[0, 0] == 7.0, "return style: key, outputs and program share the answer"
    assert len(names["calls"]) == 1
    names["calls"].clear()
    assert called(kernel) == 7.0
    assert len(names["calls"]) == 1


def test_two_objects_of_one_repr_do_not_share_a_helper(make_kernel: MakeKernel) -> None:
    kernel = make_kernel("""
    import dataclasses
    @dataclasses.dataclass(frozen=True)
    class C:
        k: float = dataclasses.field(repr=False)
    A, B = C(1.0), C(10.0)
    @pl.jit.inline
    def inner(t: pl.Tensor, c):
        return t * c.k
    @pl.jit
    def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = inner(x, A) + inner(x, B)
        return out
    """)
    assert called(kernel) == 11.0


def test_what_nobody_asked_may_change(make_kernel: MakeKernel) -> None:
    kernel = make_kernel("class C:\n    made = 0\n    k = 3\nOBJ = C()\nseen = {}\n" + ADD.format(options="", expression="OBJ.k"))
    names: dict[str, Any] = kernel.definition.function.__globals__
    for turn in range(5):
        assert called(kernel) == 4.0
        names["OBJ"].made = turn
        names["C"].registry = [turn]
        names["seen"][turn] = turn


def test_a_new_specialisation_that_gets_another_answer_is_drift_too(make_kernel: MakeKernel) -> None:
    kernel = make_kernel("N = 3\n" + ADD.format(options="", expression="N"))
    assert called(kernel) == 4.0
    kernel.definition.function.__globals__["N"] = 4
    with pytest.raises(StaleCaptureError, match="changed from 3 to 4"):
        called(kernel, np.ones((5, 3), np.float32))


def test_an_error_is_never_kept(make_kernel: MakeKernel) -> None:
    kernel = make_kernel("D = {}\n" + ADD.format(options="", expression="D['a']"))
    for _ in range(2):
        with pytest.raises(Exception, match="KeyError"):
            called(kernel)
    kernel.definition.function.__globals__["D"]["a"] = 3
    assert called(kernel) == 4.0


@pytest.mark.parametrize("fast", ["0", "1"])
def test_a_value_asked_once_per_process_is_in_the_key_on_disk(fast: str, make_kernel: MakeKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_FASTPATH", fast)
    text = "calls = []\ndef slow():\n    calls.append(1)\n    return N\nread = pl.once(slow)\n" + ADD.format(options="", expression="read()")
    for value in (3, 4, 3):
        kernel = make_kernel(f"N = {value}\n" + text)
        names: dict[str, Any] = kernel.definition.function.__globals__
        for _ in range(5):
            assert called(kernel) == value + 1
        names["N"] = 9
        assert called(kernel) == value + 1 and len(names["calls"]) == 1


def test_a_kernel_called_from_its_own_question_names_the_helper(make_kernel: MakeKernel) -> None:
    helper = "import numpy as np\ndef helper():\n    return kernel(np.ones((2, 3), np.float32))[0, 0]\n"
    kernel = make_kernel(helper + ADD.format(options="", expression="helper()"))
    with pytest.raises(Exception, match=r"kernel `kernel` is called by `helper\(\)`") as caught:
        called(kernel)
    assert isinstance(caught.value, UnsupportedFeatureError)


def test_a_slow_question_is_named_once(make_kernel: MakeKernel) -> None:
    kernel = make_kernel("import time\ndef slow():\n    return sum(list(range(20000))) * 0 + 3\n" + ADD.format(options="", expression="slow()"))
    with pytest.warns(TilejitWarning, match=r"asks `slow\(\)` at each call") as caught:
        for _ in range(6):
            assert called(kernel) == 4.0
    assert len([item for item in caught if issubclass(item.category, TilejitWarning)]) == 1


def test_functions_of_math_are_watched_with_their_names(make_kernel: MakeKernel) -> None:
    kernel = make_kernel("import math\n" + ADD.format(options="(on_drift='recompile')", expression="math.sqrt(64)"))
    assert [called(kernel) for _ in range(3)] == [9.0, 9.0, 9.0]
    told = str(kernel.explain(np.ones((2, 3), np.float32)))
    assert "watched: math.sqrt(64)" in told and "asked" not in told
    names: dict[str, Any] = kernel.definition.function.__globals__
    names["math"] = types.SimpleNamespace(sqrt=lambda value: value / 4)
    assert called(kernel) == 17.0


DICTS = """
class Shown(dict):
    def items(self):
        return [("q", 99)]
class Mapping:
    def keys(self):
        return ["b", "a"]
    def __getitem__(self, key):
        return {"a": 5, "b": 7}[key]
def weighed(**given):
    return sum((place + 1) * value for place, value in enumerate(given.values()))
PLAIN, SHOWN, MAPPING = {"x": 1, "y": 2}, Shown(x=3, y=4), Mapping()
"""


@pytest.mark.parametrize(
    ("expression", "value"),
    [("weighed(**PLAIN)", 5), ("weighed(**SHOWN)", 11), ("weighed(**MAPPING)", 17), ("weighed(**{**PLAIN, 'z': 3})", 14), ("len({**SHOWN})", 2)],
)
def test_dicts_of_python_are_taken_apart_by_their_keys_as_python_does(expression: str, value: int, make_kernel: MakeKernel) -> None:
    for _ in range(2):  # the second comes from the disk
        kernel = make_kernel(DICTS + ADD.format(options="(on_drift='recompile')", expression=expression))
        assert [called(kernel) for _ in range(3)] == [value + 1.0] * 3
    names: dict[str, Any] = kernel.definition.function.__globals__
    names["PLAIN"]["x"] = 10
    names["SHOWN"]["w"] = 0
    names["MAPPING"] = {"a": 1}
    assert called(kernel) == eval(expression, names) + 1.0


def test_what_numpy_does_about_floats_decides_nothing(make_kernel: MakeKernel) -> None:
    kernel = make_kernel("import numpy as np\nA, Z = np.float64(1), np.float64(0)\n" + ADD.format(options="", expression="1.0 if A / Z > 5 else 0.0"))
    with np.errstate(all="raise"):
        assert called(kernel) == 2.0
    assert called(kernel) == 2.0


def test_iterators_that_run_out_are_drift(make_kernel: MakeKernel) -> None:
    kernel = make_kernel("IT = iter([3, 4, 5, 6, 7, 8])\n" + ADD.format(options="(on_drift='recompile')", expression="next(IT)"))
    assert [called(kernel), called(kernel)] == [4.0, 5.0]


ITERATORS = """
def made(count=2):
    yield from range(1, count + 1)
class Holder:
    kept = iter((7, 8, 9))
    @property
    def fresh(self):
        return iter((5, 6))
LEFT, RIGHT, HOLDER = [1, 2], [3, 4], Holder()
"""


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("sum(made()) + sum(v for v in made()) + sum([*made()]) + len(list(made()))", 11),
        ("sum(HOLDER.fresh) + sum(list(HOLDER.fresh)) + max(HOLDER.fresh)", 28),
        ("len(list(zip(LEFT, RIGHT))) + len(list(zip(LEFT, RIGHT))) + sum(a * b for a, b in zip(LEFT, RIGHT))", 15),
        ("sum(sum(made()) for turn in range(40)) + len([*made()])", 122),
    ],
)
def test_every_call_that_makes_an_iterator_makes_one_of_its_own(expression: str, value: int, make_kernel: MakeKernel) -> None:
    for _ in range(2):  # the second comes from the disk
        kernel = make_kernel(ITERATORS + ADD.format(options="(on_drift='recompile')", expression=expression))
        assert [called(kernel) for _ in range(3)] == [value + 1.0] * 3
    names: dict[str, Any] = kernel.definition.function.__globals__
    names["LEFT"].append(5)
    names["RIGHT"].append(6)
    names["made"].__defaults__ = (3,)
    assert called(kernel) == eval(expression, names) + 1.0


def test_a_stored_iterator_stays_the_one_that_it_is(make_kernel: MakeKernel) -> None:
    kernel = make_kernel(ITERATORS + ADD.format(options="", expression="next(HOLDER.kept) + sum(HOLDER.kept)"))
    assert called(kernel) == 25.0


def test_the_axis_of_bind_dynamic_is_asked(make_kernel: MakeKernel) -> None:
    text = """
    AXIS = {axis}
    M = pl.dynamic("M")
    @pl.jit
    def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        x.bind_dynamic(AXIS, M)
        out.bind_dynamic(AXIS, M)
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = x + 1.0
    """
    for axis in (0, 1, 0):
        kernel = make_kernel(text.format(axis=axis))
        for shape in ((2, 3), (4, 3), (2, 5)):
            x = np.random.default_rng(0).random(shape, np.float32)
            out = np.empty_like(x)
            kernel(x, out)
            np.testing.assert_array_equal(out, x + 1)
        assert kernel.cache_info().entries == 2


NAMING_AN_AXIS = ["(x: Annotated[pl.Tensor, AXIS], out: pl.Out[pl.Tensor])", "(x: pl.Tensor, out: pl.Out[pl.Tensor]) -> Annotated[pl.Tensor, AXIS]"]


@pytest.mark.filterwarnings("ignore::tilejit.errors.TilejitWarning")  # Annotated is asked at each call
@pytest.mark.parametrize("fast", ["1", "0"])
@pytest.mark.parametrize("signature", NAMING_AN_AXIS)
def test_an_axis_that_an_annotation_in_quotes_names_too_is_asked(signature: str, fast: str, make_kernel: MakeKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_FASTPATH", fast)
    text = f"""
    from __future__ import annotations
    M = pl.dynamic("M")
    @pl.jit(on_drift="recompile")
    def kernel{signature}:
        x.bind_dynamic(AXIS, M)
        out.bind_dynamic(AXIS, M)
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = x * float(x.shape[1 - AXIS])
    """
    for axes in ((0,), (1,), (1, 0, 1)):  # the second process finds on disk what the first one kept, as it were
        kernel = make_kernel(text, AXIS=None, Annotated=Annotated)
        for axis in axes:
            kernel.definition.function.__globals__["AXIS"] = axis
            for shape in ((4, 8), (5, 8), (4, 9)):
                for _ in range(3):
                    given, out = np.ones(shape, np.float32), np.empty(shape, np.float32)
                    kernel(given, out)
                    assert (out == shape[1 - axis]).all()


@pytest.mark.parametrize("policy", ["raise", "recompile", "ignore"])
@pytest.mark.parametrize("fast", ["0", "1"])
def test_a_value_that_another_thread_changes_never_ends_up_under_the_wrong_key(
    policy: str, fast: str, make_kernel: MakeKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILEJIT_FASTPATH", fast)
    values = (3, 4, 5)
    text = "N = {value}\ndef helper():\n    return N\n" + ADD.format(options=f"(on_drift={policy!r})", expression="helper() + 10 * N")
    allowed = {1 + a + 10 * b for a in values for b in values}
    for turn in range(ROUNDS):
        kernel = make_kernel(text.format(value=values[turn % 3]))
        names: dict[str, Any] = kernel.definition.function.__globals__
        stop = threading.Event()
        results: list[float] = []

        def change(names: dict[str, Any] = names, stop: threading.Event = stop) -> None:
            place = 0
            while not stop.is_set():
                names["N"] = values[place % 3]
                place += 1

        def call(kernel: Any = kernel, results: list[float] = results) -> None:
            for _ in range(10):
                try:
                    results.append(called(kernel))
                except StaleCaptureError:
                    assert policy == "raise"

        threads = [threading.Thread(target=change), *(threading.Thread(target=call) for _ in range(2))]
        for thread in threads:
            thread.start()
        for thread in threads[1:]:
            thread.join()
        stop.set()
        threads[0].join()
        assert set(results) <= allowed
        for value in values:
            assert called(make_kernel(text.format(value=value))) == 1 + 11 * value, "the disk serves what belongs to the value"


def test_untracked_values_are_in_no_key(make_kernel: MakeKernel) -> None:
    text = "import types\nOBJ = pl.untracked(types.SimpleNamespace(k={value}))\n" + ADD.format(options="", expression="OBJ.k")
    assert called(make_kernel(text.format(value=3))) == 4.0
    assert called(make_kernel(text.format(value=4))) == 4.0, "left out on disk too, at the author's risk"


def test_explain_tells_tier_and_cost_of_each_question(make_kernel: MakeKernel) -> None:
    kernel = make_kernel("L = [3]\nf = pl.once(lambda: 1)\n" + ADD.format(options="", expression="L[0] + f()"))
    called(kernel)
    text = str(kernel.explain(X, X))
    assert "asked" in text and "µs: L[0]" in text and "once: f()" in text


@pytest.mark.skipif(not supported(), reason="needs native dispatch")
@pytest.mark.parametrize(("kind", "asked"), [("int", False), ("(float, str)", False), ("K", True), ("(int, K)", True)])
def test_kinds_of_python_are_watched_and_those_of_a_user_are_asked(kind: str, asked: bool, make_kernel: MakeKernel) -> None:
    kernel = make_kernel("N = 3\nclass K:\n    pass\n" + ADD.format(options="", expression=f"isinstance(N, {kind})"))
    called(kernel)
    assert (" asked" in str(kernel.explain(X, X))) == asked


@pytest.mark.skipif(not supported(), reason="needs native dispatch")
@pytest.mark.parametrize(
    ("annotation", "asked"),
    [
        ("T", False),
        ("C.T", False),
        ("pl.Tensor[[N - 1, 3], pl.FP32] | None", False),
        ("pl.Tensor[[-(-N + 1), D], pl.FP32]", False),
        ("L[0]", True),
        ("f()", True),
    ],
)
def test_names_in_annotations_are_watched_and_code_in_them_is_asked(annotation: str, asked: bool, make_kernel: MakeKernel) -> None:
    setup = "N, D = 3, pl.dynamic('D')\nT = pl.Tensor[[2, 3], pl.FP32]\nL = [T]\nclass C:\n    T = T\ndef f():\n    return T\n"
    added = ADD.format(options="", expression="1").replace("x: pl.Tensor", f"x: {annotation}")
    kernel = make_kernel("from __future__ import annotations\n" + setup + added)
    assert called(kernel) == 2.0
    assert (" asked" in str(kernel.explain(X, X))) == asked


@pytest.mark.skipif(not supported(), reason="needs native dispatch")
def test_classes_in_annotations_are_watched_with_what_they_say_of_themselves(make_kernel: MakeKernel) -> None:
    text = """
    from __future__ import annotations
    from typing import Any

    class How:
        pass

    @pl.jit(on_drift="recompile")
    def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor], how: How | None = 3, other: Any = 2):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = x + (3.0 if isinstance(how, float) else 4.0)
    """
    kernel = make_kernel(text)
    assert called(kernel) == 5.0
    assert " asked" not in str(kernel.explain(X, X))
    names = kernel.definition.function.__globals__
    names["How"] = names["pl"].Scalar[names["pl"].FP32]
    assert called(kernel) == 4.0




FOLLOWED = {
    "helper of the same text from another closure": ("""
        M = pl.dynamic("M")
        def make(k):
            @pl.jit.inline
            def inner(t: pl.Tensor[[M, 3], pl.FP32]):
                return t + float(k)
            return inner
        inner = make(3)
        @pl.jit(on_drift="recompile")
        def kernel(x: pl.Tensor[[M, 3], pl.FP32], out: pl.Out[pl.Tensor[[M, 3], pl.FP32]]):
            with pl.at(level=pl.Level.CORE_GROUP):
                out[:] = inner(x)
        """, "inner = make({value})"),
    "default of a helper that is an object": ("""
        class C:
            k = 3
        A = C()
        @pl.jit.inline
        def inner(t: pl.Tensor, c=A):
            return t + float(c.k)
        @pl.jit(on_drift="recompile")
        def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
            with pl.at(level=pl.Level.CORE_GROUP):
                out[:] = inner(x)
        """, "A.k = {value}"),
    "global of an inline function": ("""
        N = 3
        @pl.inline
        def inner(t):
            return t + float(N)
        @pl.jit(on_drift="recompile")
        def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
            with pl.at(level=pl.Level.CORE_GROUP):
                out[:] = inner(x)
        """, "N = {value}"),
    "list that becomes part of the program": ("""
        V = [3.0]
        @pl.jit(on_drift="recompile")
        def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
            with pl.at(level=pl.Level.CORE_GROUP):
                t = x * 1.0
                for i in pl.unroll(1):
                    t = t + V[i]
                out[:] = t
        """, "V[0] = {value}.0"),
    "objects in nested unrolled loops": ("""
        class C:
            def __init__(self, k):
                self.k = k
        L = [C(0), C(0)]
        @pl.jit(on_drift="recompile")
        def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
            with pl.at(level=pl.Level.CORE_GROUP):
                t = x * 1.0
                for i in pl.unroll(2):
                    for j in pl.unroll(2):
                        t = t + float(L[i].k * (j + 1))
                out[:] = t
        """, "L[1].k = {value} - 3 * L[0].k if {value} % 3 == 0 else 0; L[0].k = ({value} - 3 * L[1].k) / 3"),
    "arguments from a list": ("""
        V = [3, 0]
        def f(a, b):
            return a + b
        @pl.jit(on_drift="recompile")
        def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
            with pl.at(level=pl.Level.CORE_GROUP):
                out[:] = x + float(f(*V))
        """, "V[0] = {value}"),
    "object chosen by a local flag": ("""
        class C:
            def __init__(self, k):
                self.k = k
        A, B = C(1), C(2)
        FLAG = True
        @pl.jit(on_drift="recompile")
        def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
            c = A
            flag = FLAG
            if flag:
                c = B
            with pl.at(level=pl.Level.CORE_GROUP):
                t = x * 1.0
                for i in pl.range(1):
                    t = t + float(c.k)
                out[:] = t
        """, "FLAG = {value} % 2 == 0; A.k = B.k = {value}"),
    "method of a number": ("""
        N = 7
        @pl.jit(on_drift="recompile")
        def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
            with pl.at(level=pl.Level.CORE_GROUP):
                out[:] = x + float(N.bit_length())
        """, "N = 2 ** {value} - 1"),
    "code of a helper kernel": ("""
        def add3(t: pl.Tensor):
            return t + 3.0
        def add4(t: pl.Tensor):
            return t + 4.0
        def add5(t: pl.Tensor):
            return t + 5.0
        added = {3: pl.jit.inline(add3), 4: pl.jit.inline(add4), 5: pl.jit.inline(add5)}
        inner = added[3]
        @pl.jit(on_drift="recompile")
        def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
            with pl.at(level=pl.Level.CORE_GROUP):
                out[:] = inner(x)
        """, "inner = added[{value}]"),
}  # fmt: skip


@pytest.mark.parametrize("fast", ["0", "1"])
@pytest.mark.parametrize("name", FOLLOWED)
def test_changes_are_followed(name: str, fast: str, make_kernel: MakeKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_FASTPATH", fast)
    text, change = FOLLOWED[name]
    kernel = make_kernel(text)
    for value in (3, 4, 3, 5, 4):
        exec(change.format(value=value), kernel.definition.function.__globals__)
        for _ in range(4):
            assert called(kernel) == value + 1


def test_a_list_of_extents_is_asked_for_its_content(make_kernel: MakeKernel) -> None:
    kernel = make_kernel("""
    OFFSETS = [0, 0]
    @pl.jit(on_drift="recompile")
    def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.load(x, OFFSETS, [1, 3])
            pl.store(t, [0, 0], out)
            pl.store(t, [1, 0], out)
    """)
    x = np.random.default_rng(1).random((2, 3), np.float32)
    out = np.empty_like(x)
    for row in (0, 1, 0):
        kernel.definition.function.__globals__["OFFSETS"][0] = row
        for _ in range(3):
            kernel(x, out)
            np.testing.assert_array_equal(out, np.repeat(x[row : row + 1], 2, axis=0))


def test_a_value_that_became_nested_too_deeply_is_a_named_error(make_kernel: MakeKernel) -> None:
    kernel = make_kernel("T = (1, 2)\n" + ADD.format(options="", expression="len(T)"))
    assert called(kernel) == 3.0
    names = kernel.definition.function.__globals__
    for _ in range(3000):
        names["T"] = (names["T"],)
    with pytest.raises(UnsupportedFeatureError, match="`T`, a value that is nested too deeply") as caught:
        called(kernel)
    span = caught.value.span
    assert span is not None and "len(T)" in (span.source.line(span.line) or "")


@pytest.mark.parametrize("function", ["LARGEST", "PAIR[1]", "LIST[1]", "TABLE['most']", "C.most", "[f for f in LIST][1]", "{'most': LARGEST}['most']"])
@pytest.mark.parametrize("fast", ["1", "0"])
def test_a_builtin_may_have_another_name(fast: str, function: str, make_kernel: MakeKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_FASTPATH", fast)
    text = """
    class C:
        most = max
    SIZES, LARGEST, PAIR, LIST, TABLE = [1, 5], max, (min, max), [min, max], {"most": max}
    """ + ADD.format(options="(on_drift='recompile')", expression=f"{function}(SIZES)").replace("\n", "\n    ")
    for kernel in (make_kernel(text), make_kernel(text)):  # the second one finds what the first one left on disk
        names = kernel.definition.function.__globals__
        assert [called(kernel) for _ in range(3)] == [6.0] * 3
        names["SIZES"].append(7)
        assert [called(kernel) for _ in range(3)] == [8.0] * 3


def test_the_name_of_a_kernel_is_a_text_like_others(make_kernel: MakeKernel) -> None:
    assert called(make_kernel(ADD.format(options="", expression="len(kernel.__name__)"))) == 1.0 + len("kernel")


@pytest.mark.parametrize("name", ["µ", "ｋ", "ﬁt"])
def test_names_that_python_spells_another_way_are_found_again(name: str, make_kernel: MakeKernel) -> None:
    text = f"{name} = 0.5\n" + ADD.format(options="", expression=f"list(({name},))[0]")
    for kernel in (make_kernel(text), make_kernel(text)):
        assert [called(kernel) for _ in range(3)] == [1.5] * 3
