"""Kernels under a debugger: lines, locals, helpers and breakpoints are the author's, and the numbers those of the reference."""

from __future__ import annotations

import importlib.util
import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import tilejit
import tilejit.language as pl
from tests.backends.reference.stepped_kernel import stepped
from tests.suite import control_flow, fifos, helper_dags, helper_extents, natural_style, spmd_forms, valid_regions
from tests.suite.harness import Case
from tilejit.errors import KernelAssertionError, OutOfBoundsError
from tilejit.tools.demo import TOLERANCE, cases, load_example

SCRIPT = Path(__file__).with_name("stepped_kernel.py")
EXAMPLES = sorted((Path(__file__).parents[3] / "examples").glob("*.py"))


def line_of(mark: str) -> int:
    """The line of the script that ends in a comment."""
    return next(number for number, line in enumerate(SCRIPT.read_text(encoding="utf-8").splitlines(), 1) if line.endswith(f"  # {mark}"))


def debugged(*commands: str) -> list[str]:
    """What pdb answers to each command."""
    given = "\n".join([f"b {SCRIPT}:{line_of('call')}", *commands, "q", ""])
    environment = {**os.environ, "TILEJIT_EAGER": "1"}
    done = subprocess.run([sys.executable, "-m", "pdb", SCRIPT], input=given, capture_output=True, text=True, check=False, env=environment)
    return done.stdout.split("(Pdb) ")[2:]


def test_a_session_stops_on_a_kernel_line_prints_a_tile_steps_into_a_helper_and_goes_on() -> None:
    answers = debugged(
        "c", "p tile[1, :3]", "p type(tile).__module__", "s", "s", "p t[0, :2]", "n", "p low[0, :2]", "r", "n", "p soft[0, :2]", "p i", "cl 1", "c"
    )
    place = f"stepped_kernel.py({line_of('call')})stepped()"
    assert place in answers[0] and "soft = soften(tile)" in answers[0]
    assert answers[1].strip() == "array([ 8.,  9., 10.], dtype=float32)"
    assert answers[2].strip() == "'numpy'"
    assert f"stepped_kernel.py({line_of('low')})soften()" in answers[4]
    assert answers[5].strip() == "array([0., 1.], dtype=float32)"
    assert answers[7].strip() == "array([0. , 0.5], dtype=float32)"
    assert f"stepped_kernel.py({line_of('total')})stepped()" in answers[9]
    assert answers[10].strip() == "array([1. , 1.5], dtype=float32)"
    assert answers[11].strip() in ("0", "np.int64(0)")
    assert answers[13].startswith("right")


def test_lines_come_in_the_order_of_the_kernel() -> None:
    seen: list[tuple[str, int]] = []

    def watch(frame: FrameType, event: str, argument: object) -> Any:
        if frame.f_code.co_filename == str(SCRIPT) and event == "line":
            seen.append((frame.f_code.co_name, frame.f_lineno))
        return watch

    x, out = np.ones((8, 8), np.float32), np.zeros((4, 8), np.float32)
    with tilejit.eager():
        stepped(x, out)  # what compiling executes is no line of the kernel
        before = sys.gettrace()
        sys.settrace(watch)
        try:
            stepped(x, out)
        finally:
            sys.settrace(before)
    start = line_of("call") - 4
    inside = [("soften", line_of("low")), ("soften", line_of("low") + 1)]
    turn = [("stepped", start + 2), ("stepped", start + 3), ("stepped", start + 4), *inside, ("stepped", start + 5)]
    assert seen == [("stepped", start), ("stepped", start + 1), *turn, *turn, ("stepped", start + 2), ("stepped", line_of("total") + 2)]


def test_print_and_breakpoint_work_in_a_kernel(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    @pl.jit(eager=True)
    def talking(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            tile = pl.load(x, [0, 0], [2, 3])
            print("tile", tile)
            breakpoint()  # noqa: T100 - that is what is tested
            out[:] = pl.mul(tile, 2.0)

    stopped: list[Any] = []

    def stop() -> None:
        found = sys._getframe(1)
        while found.f_code.co_name != "talking":
            assert found.f_back is not None
            found = found.f_back
        stopped.append((found.f_code.co_filename, found.f_locals["tile"].tolist()))

    monkeypatch.setattr(sys, "breakpointhook", stop)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(talking(x), 2 * x)
    assert capsys.readouterr().out == f"tile {x}\n"
    assert stopped == [(__file__, x.tolist())]


def test_a_warm_kernel_is_stepped_through_as_soon_as_eager_is_asked_for() -> None:
    @pl.jit
    def doubled(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        out[:] = pl.mul(x, 2.0)

    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    for _ in range(5):
        doubled(x)
    names: set[str] = set()

    def watch(frame: FrameType, event: str, argument: object) -> None:
        if frame.f_code.co_filename == __file__:
            names.add(frame.f_code.co_name)

    before = sys.gettrace()
    sys.settrace(watch)
    try:
        doubled(x)
        assert "doubled" not in names
        with tilejit.eager():
            result = doubled(x)
        assert "doubled" in names
    finally:
        sys.settrace(before)
    np.testing.assert_array_equal(result, 2 * x)
    assert "TILEJIT_EAGER" not in os.environ


def test_errors_point_at_the_kernel_and_stop_there() -> None:
    @pl.jit(eager=True, runtime_scalars=("row",))
    def outside(x: pl.Tensor, out: pl.Out[pl.Tensor[[2, 3], pl.FP32]], row: pl.Scalar[pl.INT32]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.load(x, [row, 0], [2, 3])

    @pl.jit(eager=True, runtime_scalars=("row",))
    def asserted(x: pl.Tensor, out: pl.Out[pl.Tensor], row: pl.Scalar[pl.INT32]):
        with pl.at(level=pl.Level.CORE_GROUP):
            pl.device_assert(row < 3, "row is small")
            out[:] = pl.mul(x, 2.0)

    x = np.ones((4, 3), np.float32)
    with pytest.raises(OutOfBoundsError) as caught:
        outside(x, row=3)
    assert caught.traceback[-1].name != "outside" and any(entry.name == "outside" for entry in caught.traceback)
    assert [entry.name for entry in caught.traceback[:3]] == ["test_errors_point_at_the_kernel_and_stop_there", "__call__", "outside"]
    with pytest.raises(KernelAssertionError, match="row is small"):
        asserted(x, row=7)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_give_their_numbers(path: Path) -> None:
    case = list(cases(load_example(path), seed=5))[-1]
    with tilejit.eager():
        case.call()
    assert case.error() <= TOLERANCE


SAMPLE = [case for topic in (control_flow, fifos, helper_dags, helper_extents, natural_style, spmd_forms, valid_regions) for case in list(topic.CASES)[::6]]


@pytest.mark.parametrize("case", SAMPLE, ids=lambda case: case.name)
def test_the_suite_gives_its_numbers(case: Case) -> None:
    case.check("eager")


@pytest.mark.skipif(importlib.util.find_spec("debugpy") is None, reason="needs debugpy")
def test_debugpy_stops_on_a_kernel_line_with_tiles_in_its_locals() -> None:
    client = DebugClient()
    try:
        place, shown, output = client.session(line_of("call"), "tile[1, :3].tolist()")
    finally:
        client.close()
    assert place == ("stepped", line_of("call"))
    assert shown == "[8.0, 9.0, 10.0]"
    assert "right" in output


class DebugClient:
    """As much of the Debug Adapter Protocol as one stop needs."""

    def __init__(self) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        command = [sys.executable, "-X", "frozen_modules=off", "-m", "debugpy", "--listen", str(port), "--wait-for-client", str(SCRIPT)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env={**os.environ, "TILEJIT_EAGER": "1"})
        self._socket = self._connected(port)
        self._file = self._socket.makefile("rb")
        self._number = 0
        self._guard = threading.Timer(120, self._process.kill)
        self._guard.start()

    def _connected(self, port: int) -> socket.socket:
        while True:
            try:
                return socket.create_connection(("127.0.0.1", port), timeout=120)
            except ConnectionRefusedError:
                assert self._process.poll() is None, "debugpy did not start"
                os.sched_yield()

    def session(self, line: int, expression: str) -> tuple[tuple[str, int], str, str]:
        """Stop at a line, evaluate there, go on to the end."""
        self._send("initialize", adapterID="test", pathFormat="path")
        self._until("initialize")
        self._send("attach", justMyCode=False)
        self._event("initialized")
        self._send("setBreakpoints", source={"path": str(SCRIPT)}, breakpoints=[{"line": line}])
        self._send("configurationDone")
        thread = self._event("stopped")["threadId"]
        self._send("stackTrace", threadId=thread)
        frame = self._until("stackTrace")["stackFrames"][0]
        self._send("evaluate", expression=expression, frameId=frame["id"])
        shown = self._until("evaluate")["result"]
        self._send("setBreakpoints", source={"path": str(SCRIPT)}, breakpoints=[])
        self._send("continue", threadId=thread)
        self._event("terminated")
        self._send("disconnect")
        self._until("disconnect")
        assert self._process.stdout is not None
        return (frame["name"], frame["line"]), shown, self._process.stdout.read()

    def _send(self, command: str, **arguments: object) -> None:
        self._number += 1
        body = json.dumps({"seq": self._number, "type": "request", "command": command, "arguments": arguments}).encode()
        self._socket.sendall(f"Content-Length: {len(body)}\r\n\r\n".encode() + body)

    def _message(self) -> dict[str, Any]:
        length = 0
        while (header := self._file.readline()) != b"\r\n":
            assert header, "the debugger went away"
            if header.startswith(b"Content-Length:"):
                length = int(header.split(b":")[1])
        return json.loads(self._file.read(length))

    def _until(self, command: str) -> dict[str, Any]:
        while True:
            found = self._message()
            if found["type"] == "response" and found["command"] == command:
                assert found["success"], found
                return found.get("body", {})

    def _event(self, name: str) -> dict[str, Any]:
        while True:
            found = self._message()
            if found["type"] == "event" and found["event"] == name:
                return found.get("body", {})

    def close(self) -> None:
        self._guard.cancel()
        self._socket.close()
        self._process.kill()
        self._process.wait()
