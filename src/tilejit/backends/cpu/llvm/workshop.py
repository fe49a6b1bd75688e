"""Modules on their way to machine code, here and in other processes: llvmlite lets one thread of a process into LLVM at a time."""

from __future__ import annotations

import base64
import json
import os
import sys
from queue import Empty, SimpleQueue
from threading import Thread
from typing import IO, TYPE_CHECKING

from tilejit.backends.cpu.llvm.compile import compile_llvm
from tilejit.config import CPU
from tilejit.runtime.threads import thread_count

if TYPE_CHECKING:
    import subprocess
    from types import TracebackType

_WORKER = "import sys; sys.path[:] = {path!r}; from tilejit.backends.cpu.llvm.workshop import serve; serve()"


class Workshop:
    """Modules that as many processes compile as a call may use threads, from the moment they are added; a context, so that none is left behind.

    Who compiles a module changes nothing but the time: what another process cannot do is done here, or fails with the error that belongs to it.
    """

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._objects: dict[int, bytes] = {}
        self._waiting: SimpleQueue[int | None] = SimpleQueue()
        """Modules that nobody has begun; None sends a thread home."""
        self._threads: list[Thread] = []
        self._processes: list[subprocess.Popen[bytes]] = []
        self._closed = False
        self._level = CPU.value

    def __enter__(self) -> Workshop:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._closed = True
        for process in self._processes:
            process.kill()
        self._send_home()

    def __len__(self) -> int:
        return len(self._texts)

    def add(self, text: str) -> None:
        """One more module, which another process may begin at once."""
        self._texts.append(text)
        self._waiting.put(len(self._texts) - 1)
        self.expect()

    def expect(self) -> None:
        """A module is to come: another process may get ready for it, if there are to be more."""
        if len(self._threads) < thread_count() - 1 and sys.executable:
            self._threads.append(Thread(target=self._help, name="tilejit-llvm", daemon=True))
            self._threads[-1].start()

    def objects(self) -> list[bytes]:
        """The object files of all modules, in the order in which they were added."""
        while (number := self._next()) is not None:
            self._objects[number] = _object_of(self._texts[number])
        self._send_home()
        return [self._objects.get(number) or _object_of(text) for number, text in enumerate(self._texts)]

    def _next(self) -> int | None:
        try:
            return self._waiting.get_nowait()
        except Empty:
            return None

    def _send_home(self) -> None:
        for _ in self._threads:
            self._waiting.put(None)
        for thread in self._threads:
            thread.join()
        self._threads.clear()

    def _help(self) -> None:
        """A thread that hands modules to a process of its own, until there are no more or the process fails."""
        import subprocess

        command = [sys.executable, "-c", _WORKER.format(path=sys.path)]
        try:
            environment = {**os.environ, CPU.variable: self._level}  # that of the module, which may be another one by now
            with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment) as process:
                self._processes.append(process)
                assert process.stdin is not None and process.stdout is not None
                while (number := self._waiting.get()) is not None and not self._closed:
                    self._objects[number] = _asked(process.stdin, process.stdout, self._texts[number])
                process.kill()  # It has nothing left to say.
        except (OSError, ValueError):
            return


def _object_of(text: str) -> bytes:
    return compile_llvm(text, large=True).object_bytes


def _asked(question: IO[bytes], answer: IO[bytes], text: str) -> bytes:
    """What another process makes of a module; ValueError: nothing."""
    question.write(json.dumps(text).encode() + b"\n")
    question.flush()
    return base64.b64decode(json.loads(answer.readline()), validate=True)


def serve() -> None:
    """The other process: a module in each line of the standard input, its object in a line of the standard output."""
    for line in sys.stdin:
        print(json.dumps(base64.b64encode(_object_of(json.loads(line))).decode()), flush=True)
