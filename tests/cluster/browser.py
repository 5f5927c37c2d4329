"""A headless Chromium that tests drive by its debugging protocol, through the websocket client of Tornado."""

from __future__ import annotations

import asyncio
import base64
import json
import shutil
import subprocess
import time
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from tornado.websocket import WebSocketClientConnection, websocket_connect

NAMES = ("chromium", "chromium-browser", "google-chrome")


def find_browser() -> str | None:
    """Path of a Chromium; None where there is none."""
    return next((path for name in NAMES if (path := shutil.which(name)) is not None), None)


@contextmanager
def started_browser(folder: Path) -> Iterator[str]:
    """Start a browser with its profile in a folder; gives the address of its debugging protocol."""
    options = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars")
    folder.mkdir(exist_ok=True)
    process = subprocess.Popen(
        [
            str(find_browser()),
            *options,
            "--no-first-run",
            "--disable-extensions",
            "--disable-background-networking",
            "--remote-debugging-port=0",
            f"--user-data-dir={folder}",
            "about:blank",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield f"http://127.0.0.1:{_port(folder, process)}"
    finally:
        process.kill()
        process.wait()


def _port(folder: Path, process: subprocess.Popen[bytes]) -> int:
    file, end = folder / "DevToolsActivePort", time.monotonic() + 60
    while time.monotonic() < end:
        assert process.poll() is None, "the browser has ended"
        lines = file.read_text().splitlines() if file.exists() else []
        if len(lines) > 1:
            return int(lines[0])
        time.sleep(0.05)
    raise TimeoutError("the browser opens no port")


class Tab:
    """A page that the browser shows."""

    def __init__(self, socket: WebSocketClientConnection) -> None:
        self._socket, self._calls = socket, 0
        self.errors: list[str] = []

    @classmethod
    @asynccontextmanager
    async def open(cls, browser: str, url: str, width: int = 1280, height: int = 900) -> AsyncIterator[Tab]:
        """Open an address in a window of some size."""

        def targets() -> Any:
            with urllib.request.urlopen(f"{browser}/json", timeout=30) as answer:
                return json.load(answer)

        listed = await asyncio.to_thread(targets)
        address = next(target["webSocketDebuggerUrl"] for target in listed if target["type"] == "page")
        socket = await websocket_connect(address, max_message_size=1 << 27)
        try:
            tab = cls(socket)
            await tab.call("Runtime.enable")
            await tab.resize(width, height)
            await tab.call("Page.navigate", url=url)
            yield tab
        finally:
            socket.close()
            while await socket.read_message() is not None:
                pass

    async def call(self, method: str, **parameters: Any) -> Any:
        """Call a method of the protocol."""
        self._calls += 1
        await self._socket.write_message(json.dumps({"id": self._calls, "method": method, "params": parameters}))
        while True:
            message = await self._socket.read_message()
            assert message is not None, "the browser has closed the page"
            answer = json.loads(message)
            if answer.get("method") == "Runtime.exceptionThrown":
                self.errors.append(json.dumps(answer["params"]["exceptionDetails"])[:500])
            if answer.get("id") == self._calls:
                assert "error" not in answer, answer["error"]
                return answer["result"]

    async def resize(self, width: int, height: int) -> None:
        """Give the window another size, in pixels."""
        await self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
        )

    async def evaluate(self, script: str) -> Any:
        """Value of an expression of JavaScript."""
        answer = await self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    async def wait_for(self, script: str, seconds: float = 60.0) -> Any:
        """Value of an expression once it is true; errors of a page that is not ready count as false."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            value = await self.evaluate(f"(() => {{ try {{ return {script} }} catch (e) {{ return null }} }})()")
            if value:
                return value
            await asyncio.sleep(0.1)
        raise TimeoutError(f"{script} has not become true")

    async def screenshot(self) -> bytes:
        """The window as a PNG file."""
        answer = await self.call("Page.captureScreenshot", format="png")
        return base64.b64decode(answer["data"])
