"""What the cache says, word for word: changed values, refusals, explanations, log lines, warnings.

After a change of a message: `UPDATE_GOLDEN=1 pytest tests/jit/test_cache_messages.py`, then read the difference.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import types
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.jit.conftest import MakeKernel
from tilejit.errors import TilejitError, TilejitWarning
from tilejit.jit.function import JITFunction
from tilejit.runtime.call.layout import supported
from tilejit.runtime.store.directory import Store
from tilejit.runtime.store.entry import CacheEntry, encode

GOLDEN = Path(__file__).parent.parent / "golden" / "cache"
UPDATE = bool(os.environ.get("UPDATE_GOLDEN"))
X = np.arange(12, dtype=np.float32).reshape(3, 4)


class Bench:
    """What a case works with: kernels that read `model.VALUE`, settings, and a cache of its own."""

    def __init__(self, make: MakeKernel, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.make, self.patch, self.folder = make, monkeypatch, folder
        self.model: Any = types.ModuleType("model")

    def kernel(self, value: object, options: str = "", body: str = "x * model.VALUE") -> JITFunction:
        self.model.VALUE = value
        text = f"""
        @pl.jit{options}
        def scaled(x: pl.Tensor, out: pl.Out[pl.Tensor]):
            with pl.at(level=pl.Level.CORE_GROUP):
                out[:] = {body}
        """
        return self.make(text, model=self.model)

    def called(self, value: object, options: str = "", body: str = "x * model.VALUE") -> JITFunction:
        kernel = self.kernel(value, options, body)
        kernel(X)
        return kernel

    def logged(self, action: Callable[[], object]) -> str:
        self.patch.setenv("TILEJIT_LOG", "recompile")
        stream = io.StringIO()
        with contextlib.redirect_stderr(stream):
            action()
        return stream.getvalue().strip()


def error_of(action: Callable[[], object]) -> str:
    with pytest.raises(Exception) as caught:
        action()
    if isinstance(caught.value, TilejitError):
        assert caught.value.hint, "an error of ours says what to do"
    return f"{type(caught.value).__name__}: {caught.value}"


def warning_of(action: Callable[[], object]) -> str:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        action()
        action()
    return "\n".join(f"{row.category.__name__}: {row.message}" for row in caught)


# drift --------------------------------------------------------------------------------------------------------------------


def drift(change: Callable[[Bench], object], value: object = 2.0, **how: str) -> Callable[[Bench], str]:
    def case(bench: Bench) -> str:
        kernel = bench.called(value, **how)
        change(bench)
        return error_of(lambda: kernel(X))

    return case


def double(number: float) -> float:
    return 2 * number


def drift_defaults(bench: Bench) -> str:
    kernel = bench.make("""
    @pl.jit
    def shifted(x: pl.Tensor, out: pl.Out[pl.Tensor], n: pl.FP32 = 3.0):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = x + n
    """)
    kernel(X, X.copy())
    setattr(kernel.definition.function, "__defaults__", (4.0,))  # noqa: B010 - a Callable has none for the type checker
    return error_of(lambda: kernel(X, X.copy()))


def drift_recompile(bench: Bench) -> str:
    kernel = bench.called(2.0, "(on_drift='recompile')")

    def again() -> None:
        bench.model.VALUE = 5.0
        np.testing.assert_array_equal(kernel(X), 5 * X)

    return bench.logged(again)


def drift_ignore(bench: Bench) -> str:
    kernel = bench.called(2.0, "(on_drift='ignore')")

    def again() -> None:
        bench.model.VALUE = 5.0
        np.testing.assert_array_equal(kernel(X), 2 * X)

    return bench.logged(again) or "(nothing is said: the compiled value stays)"


def drift_setting(bench: Bench) -> str:
    kernel = bench.called(2.0)
    bench.patch.setenv("TILEJIT_ON_DRIFT", "recompile")

    def again() -> None:
        bench.model.VALUE = 5.0
        np.testing.assert_array_equal(kernel(X), 5 * X)

    return bench.logged(again)


def drift_unknown_setting(bench: Bench) -> str:
    kernel = bench.called(2.0)
    bench.patch.setenv("TILEJIT_ON_DRIFT", "panic")
    return error_of(lambda: kernel(X))


# refusals -----------------------------------------------------------------------------------------------------------------


def run_only_nothing(bench: Bench) -> str:
    bench.patch.setenv("TILEJIT_RUN_ONLY", "1")
    return error_of(lambda: bench.called(2.0))


def run_only_nearest(bench: Bench) -> str:
    bench.called(64)
    bench.patch.setenv("TILEJIT_RUN_ONLY", "1")
    return error_of(lambda: bench.kernel(128)(X.astype(np.float16)))


class Opaque:
    pass


class Half:
    def __abi_slots__(self) -> tuple[object, ...]:
        return (X,)


class Pair(Half):
    def __cache_signature__(self) -> object:
        return 1

    def __abi_slots__(self) -> tuple[object, ...]:
        return (X, X)


class ByFunction(Half):
    def __cache_signature__(self) -> object:
        return double


def refused(value: object, body: str = "x * model.VALUE") -> Callable[[Bench], str]:
    return lambda bench: error_of(lambda: bench.called(value, body=body))


def argument(value: object) -> Callable[[Bench], str]:
    return lambda bench: error_of(lambda: bench.kernel(2.0)(value))


def setting(name: str, text: str) -> Callable[[Bench], str]:
    def case(bench: Bench) -> str:
        bench.patch.setenv(name, text)
        return error_of(lambda: bench.called(2.0))

    return case


# explanations -------------------------------------------------------------------------------------------------------------


def explain_hits(bench: Bench) -> str:
    first = bench.called(2.0)
    return f"{first.explain(X)}\n{bench.kernel(2.0).explain(X)}"


def explain_misses(bench: Bench) -> str:
    kernel = bench.called(64)
    texts = [
        bench.kernel(64).explain(X[:2]),
        kernel.explain(X.astype(np.float16)),
        bench.kernel(128).explain(X),
        bench.kernel(64, body="x + model.VALUE").explain(X),
    ]
    return "\n".join(map(str, texts))


def explain_first(bench: Bench) -> str:
    return str(bench.kernel(2.0).explain(X))


def explain_mutable(bench: Bench) -> str:
    return str(bench.called([2.0], body="x * model.VALUE[0]").explain(X))


def log_lines(bench: Bench) -> str:
    return bench.logged(lambda: (bench.called(2.0), bench.called(3.0), bench.called(3.0)))


# warnings -----------------------------------------------------------------------------------------------------------------

KEY = "ab" * 32


def stored(damage: Callable[[Path], object]) -> Callable[[Bench], str]:
    def case(bench: Bench) -> str:
        store = Store(str(bench.folder / "store"))
        assert store.put(CacheEntry(KEY, {"a": 1}, {"code": b"code", "meta": b"meta"}))
        damage(bench.folder / "store" / KEY[:2] / f"{KEY}.tj")
        return warning_of(lambda: Store.get(store, KEY))

    return case


def rewritten(change: Callable[[bytes], bytes]) -> Callable[[Bench], str]:
    return stored(lambda path: path.write_bytes(change(path.read_bytes())))


def replace_by_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def unusable(prepare: Callable[[Path], object]) -> Callable[[Bench], str]:
    def case(bench: Bench) -> str:
        root = bench.folder / "store"
        prepare(root)
        store = Store(str(root))
        return warning_of(lambda: store.put(CacheEntry(KEY, {}, {})))

    return case


def world_writable(root: Path) -> None:
    root.mkdir()
    root.chmod(0o777)


def in_the_way(root: Path) -> None:
    root.mkdir(mode=0o700)
    (root / KEY[:2]).write_text("a file where a directory should be")


CASES: dict[str, Callable[[Bench], str]] = {
    "drift_changed": drift(lambda bench: setattr(bench.model, "VALUE", 3.0)),
    "drift_deleted": drift(lambda bench: delattr(bench.model, "VALUE")),
    "drift_type": drift(lambda bench: setattr(bench.model, "VALUE", 2)),
    "drift_in_place": drift(lambda bench: bench.model.VALUE.append(4.0), [2.0, 3.0], body="x * len(model.VALUE)"),
    "drift_function": drift(lambda bench: setattr(bench.model, "VALUE", abs), double, body="x * model.VALUE(2.0)"),
    "drift_raise_option": drift(lambda bench: setattr(bench.model, "VALUE", 3.0), options="(on_drift='raise')"),
    "drift_defaults": drift_defaults,
    "drift_recompile": drift_recompile,
    "drift_ignore": drift_ignore,
    "drift_setting": drift_setting,
    "drift_unknown_setting": drift_unknown_setting,
    "drift_unknown_option": lambda bench: error_of(lambda: bench.called(2.0, "(on_drift='panic')")),
    "run_only_nothing": run_only_nothing,
    "run_only_nearest": run_only_nearest,
    "uncacheable_object": refused(Opaque()),
    "uncacheable_array": refused(np.zeros(20_000, np.float64)),
    "uncacheable_objects": refused(np.array([1, None])),
    "uncacheable_dates": refused(np.array(["2020-01-01"], "M8[D]")),
    "uncacheable_file": refused(io.StringIO("2.0")),
    "argument_unknown": argument(Opaque()),
    "argument_without_signature": argument(Half()),
    "argument_two_slots": argument(Pair()),
    "argument_signature": argument(ByFunction()),
    "setting_bytes": setting("TILEJIT_CACHE_BYTES", "plenty"),
    "setting_flag": setting("TILEJIT_CACHE", "maybe"),
    "explain_hits": explain_hits,
    "explain_misses": explain_misses,
    "explain_first": explain_first,
    "explain_mutable": explain_mutable,
    "log_lines": log_lines,
    "warn_truncated": rewritten(lambda data: data[:-3]),
    "warn_flipped": rewritten(lambda data: data[:-1] + b"?"),
    "warn_empty": rewritten(lambda data: b""),
    "warn_foreign": rewritten(lambda data: b"\x80\x04" + data),
    "warn_format": rewritten(lambda data: data[:8] + b"\xff\0\0\0" + data[12:]),
    "warn_other_key": rewritten(lambda data: encode(CacheEntry("cd" * 32, {}, {}))),
    "warn_directory_entry": stored(replace_by_directory),
    "warn_world_writable": unusable(world_writable),
    "warn_not_a_directory": unusable(lambda root: root.write_text("a file")),
    "warn_write": unusable(in_the_way),
}


def shown(text: str, folder: Path) -> str:
    text = text.replace(str(folder), "<folder>").replace(str(Path(__file__).parents[2]), "<project>")
    text = re.sub(r"\d+ words", "<n> words", text)
    text = re.sub(r"asked, [\d.]+ µs", "asked, <n> µs", text)
    text = re.sub(r"in \d+ ms", "in <n> ms", re.sub(r"\b[0-9a-f]{64}\b", "<key>", text))
    text = re.sub(r"\b[0-9a-f]{12}\b", "<digest>", re.sub(r"0x[0-9a-f]+", "0x…", text))
    return re.sub(r"\b(?=[0-9a-f]*\d)[0-9a-f]{8} → [0-9a-f]{8}\b", "<digest> → <digest>", re.sub(r"<cell \d+>", "<cell>", text)) + "\n"


@pytest.mark.parametrize("name", CASES)
def test_the_text_is_the_golden_one(name: str, make_kernel: MakeKernel, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    if name.startswith("explain") and not supported():
        pytest.skip("what a drift check costs depends on the interpreter")
    for variable, value in {"NO_COLOR": "1", "TILEJIT_CACHE": "1", "TILEJIT_CACHE_DIR": str(tmp_path / "cache"), "TILEJIT_PLATFORM": "cpu"}.items():
        monkeypatch.setenv(variable, value)
    for variable in ("FORCE_COLOR", "TILEJIT_LOG", "TILEJIT_ON_DRIFT", "TILEJIT_RUN_ONLY"):
        monkeypatch.delenv(variable, raising=False)
    text = shown(CASES[name](Bench(make_kernel, monkeypatch, tmp_path)), tmp_path)
    golden = GOLDEN / f"{name}.txt"
    if UPDATE:
        golden.write_text(text)
    assert golden.exists(), f"no golden for {name}: run UPDATE_GOLDEN=1 pytest {Path(__file__).name}"
    assert text == golden.read_text()


def test_every_golden_belongs_to_a_case() -> None:
    assert sorted(path.stem for path in GOLDEN.glob("*.txt")) == sorted(CASES)


def test_warnings_of_the_cache_have_a_class_of_their_own() -> None:
    assert issubclass(TilejitWarning, UserWarning)
