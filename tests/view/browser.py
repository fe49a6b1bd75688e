"""A headless Chromium, asked over a pipe with nothing but the standard library."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any

COMMAND = next((found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None)
"""The browser of this machine, if it has one."""


class Browser:
    """One page."""

    def __init__(self, page: Path, profile: Path) -> None:
        assert COMMAND is not None
        to_read, self._to = os.pipe()
        self._from, to_write = os.pipe()

        def wire() -> None:  # Chromium reads commands from 3 and answers on 4
            low, high = os.dup(to_read), os.dup(to_write)
            os.dup2(low, 3)
            os.dup2(high, 4)

        options = ("--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--window-size=1280,760")
        command = [COMMAND, *options, f"--user-data-dir={profile}"]
        self._process = subprocess.Popen(
            command, preexec_fn=wire, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(to_read)
        os.close(to_write)
        self._buffer, self._number, self._session = b"", 0, ""
        target = self._ask("Target.createTarget", url=page.as_uri())["targetId"]
        self._session = self._ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        while not self.run("location.protocol === 'file:' && document.readyState === 'complete'"):
            pass  # it answers when it has time to

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        found = self._ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def press(self, key: str) -> None:
        """Press and release a key."""
        for kind in ("keyDown", "keyUp"):
            self._ask("Input.dispatchKeyEvent", type=kind, key=key, **({"text": key} if kind == "keyDown" and len(key) == 1 else {}))

    def screenshot(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self._ask("Page.captureScreenshot", format="png")["data"]))

    def _ask(self, method: str, **params: object) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": params, **({"sessionId": self._session} if self._session else {})}
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self._buffer:
                part = os.read(self._from, 1 << 16)
                assert part, "the browser went away"
                self._buffer += part
            text, _, self._buffer = self._buffer.partition(b"\0")
            found = json.loads(text)
            if found.get("id") == self._number:
                assert "error" not in found, found
                return found["result"]

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._to)
        os.close(self._from)
