"""A page in a headless Chromium, driven by the DevTools protocol: https://chromedevtools.github.io/devtools-protocol/."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from websockets.sync.client import ClientConnection, connect

CHROMIUM: Final = shutil.which("chromium")
#: No wait takes longer.
MOST_S: Final = 60.0


class Page:
    """A page. ``requests``: the URLs that it has asked for; ``errors``: what its console says is wrong."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self._n = 0
        self.requests: list[str] = []
        self.errors: list[str] = []
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """Calls a method of the protocol, and takes the events that come before its answer."""
        self._n += 1
        self._connection.send(json.dumps({"id": self._n, "method": method, "params": params}))
        while True:
            message = json.loads(self._connection.recv(MOST_S))
            if message.get("id") == self._n:
                assert "error" not in message, message
                result: dict[str, Any] = message["result"]
                return result
            match message["method"]:
                case "Network.requestWillBeSent":
                    self.requests.append(message["params"]["request"]["url"])
                case "Runtime.exceptionThrown":
                    self.errors.append(json.dumps(message["params"]["exceptionDetails"]))
                case "Log.entryAdded" if message["params"]["entry"]["level"] == "error":
                    self.errors.append(json.dumps(message["params"]["entry"]))

    def go(self, url: str, width: int, height: int = 900) -> None:
        """Shows a URL in a window of so many CSS pixels."""
        self.resize(width, height)
        self.send("Page.navigate", url=url)
        shown = re.sub("//[^/]*@", "//", url)
        self.wait(f"location.href == {shown!r} && document.readyState == 'complete'")

    def resize(self, width: int, height: int = 900) -> None:
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def dark(self, *, is_dark: bool) -> None:
        value = "dark" if is_dark else "light"
        self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": value}])

    def value(self, expression: str) -> Any:
        """The value of an expression of JavaScript. Raises AssertionError for one that throws."""
        found = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def text(self, part: str) -> str:
        """The text of the element with an id, as it is seen."""
        return str(self.value(f"document.getElementById({part!r}).innerText"))

    def rows(self, table: str) -> list[list[str]]:
        """The texts of the cells of a table with an id, row by row, without its head."""
        rows = f"[...document.getElementById({table!r}).tBodies[0].rows]"
        found: list[list[str]] = self.value(f"{rows}.map((row) => [...row.cells].map((cell) => cell.textContent))")
        return found

    def wait(self, expression: str) -> Any:
        """Waits until an expression is true, and returns its value."""
        until = time.monotonic() + MOST_S
        while not (found := self.value(expression)):
            shown = "document.body.innerText"
            assert time.monotonic() < until, f"{expression} never came to be; the page shows {self.value(shown)}"
            time.sleep(0.05)
        return found

    def click(self, selector: str) -> None:
        self.value(f"document.querySelector({selector!r}).click()")

    def fill(self, part: str, text: str) -> None:
        self.value(f"document.getElementById({part!r}).value = {text!r}")

    def shoot(self, path: Path, *, whole: bool = True) -> None:
        """Writes a screenshot, of the whole page or of the window."""
        found = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(found["data"]))


@contextmanager
def browser() -> Iterator[Page]:
    """A page in a browser of its own within the block."""
    assert CHROMIUM is not None
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        line = [
            CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
            "--disable-background-networking", "--disable-component-update", "--no-first-run", "--disable-sync",
            "--remote-debugging-port=0", f"--user-data-dir={folder}", "about:blank",
        ]  # fmt: skip
        places = os.environ | {"TMPDIR": folder}  # it is killed, and leaves what it has put there
        with subprocess.Popen(line, env=places, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            try:
                port = _port(process, Path(folder) / "DevToolsActivePort")
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list", timeout=MOST_S) as reply:
                    targets = json.load(reply)
                [address] = [each["webSocketDebuggerUrl"] for each in targets if each["type"] == "page"]
                with connect(address, max_size=None, compression=None, ping_interval=None) as connection:
                    yield Page(connection)
            finally:
                process.kill()


def _port(process: subprocess.Popen[bytes], file: Path) -> str:
    until = time.monotonic() + MOST_S
    while not file.exists() or "\n" not in file.read_text():
        assert process.poll() is None, f"chromium ended with status {process.returncode}"
        assert time.monotonic() < until, "chromium has not begun"
        time.sleep(0.02)
    return file.read_text().split("\n")[0]
