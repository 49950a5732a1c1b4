"""Drives Chromium through its own debugging protocol over a pipe: no driver, no package."""

from __future__ import annotations

import base64
import itertools
import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
PATIENCE = 120.0  # seconds; machines are shared


class Browser:
    """One window. `with Browser(folder) as browser: browser.open(url)`."""

    def __init__(self, folder: Path) -> None:
        self.errors: list[str] = []  # what the page's console complains about
        self._numbers = itertools.count(1)
        self._folder = folder
        self._unread = b""

    def __enter__(self) -> Browser:
        to_browser, from_us = os.pipe()
        to_us, from_browser = os.pipe()
        options = "--headless=new --no-sandbox --disable-gpu --enable-unsafe-swiftshader --remote-debugging-pipe"
        quiet = "--disable-background-networking --hide-scrollbars --no-first-run --mute-audio --disable-dev-shm-usage"
        # The browser reads from its file 3 and writes to its file 4.
        shell = f'exec "$0" {options} {quiet} --user-data-dir="$1" about:blank 3<&{to_browser} 4>&{from_browser}'
        self._process = subprocess.Popen(
            ["bash", "-c", shell, str(CHROMIUM), str(self._folder / "profile")],
            pass_fds=(to_browser, from_browser),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for end in (to_browser, from_browser):
            os.close(end)
        self._write, self._read = from_us, to_us
        self._session: str | None = None
        page = next(each for each in self.send("Target.getTargets")["targetInfos"] if each["type"] == "page")
        self._target = page["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=self._target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "DOM", "Log"):
            self.send(f"{domain}.enable")
        return self

    def __exit__(self, *raised: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._write)
        os.close(self._read)

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """What the browser answers to one request of its protocol."""
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            told = self._message()
            if told.get("id") == number:
                assert "error" not in told, f"{method}: {told['error']}"
                return told["result"]

    def _message(self) -> dict[str, Any]:
        while b"\0" not in self._unread:
            piece = os.read(self._read, 1 << 20)
            assert piece, "the browser has gone"
            self._unread += piece
        line, _, self._unread = self._unread.partition(b"\0")
        told = json.loads(line)
        if told.get("method") == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(told["params"]["exceptionDetails"])[:600])
        if told.get("method") == "Log.entryAdded" and told["params"]["entry"]["level"] == "error":
            self.errors.append(f"{told['params']['entry']['text']} {told['params']['entry'].get('url', '')}")
        return told

    def open(self, url: str, width: int = 1400, height: int = 900, *, touch: bool = False, dark: bool = False) -> None:
        self.size(width, height, touch=touch, dark=dark)
        self.send("Page.navigate", url=url)
        self.wait("document.readyState === 'complete'")

    def size(self, width: int, height: int, *, touch: bool = False, dark: bool = False) -> None:
        scale = 2 if touch else 1
        self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=touch
        )
        self.send("Emulation.setTouchEmulationEnabled", enabled=touch)
        theme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[theme])

    def run(self, script: str) -> Any:
        """The value of an expression in the page; promises are waited for."""
        told = self.send("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in told, told["exceptionDetails"]
        return told["result"].get("value")

    def wait(self, condition: str, seconds: float = PATIENCE) -> None:
        """Until an expression is true."""
        end = time.monotonic() + seconds
        while not self.run(f"Boolean({condition})"):
            assert time.monotonic() < end, f"waited {seconds:.0f} s for {condition}; {self.errors}"
            time.sleep(0.1)

    def choose_files(self, selector: str, *files: Path) -> None:
        """As a person does in the dialogue of a file input."""
        root = self.send("DOM.getDocument")["root"]["nodeId"]
        node = self.send("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        self.send("DOM.setFileInputFiles", files=[str(file) for file in files], nodeId=node)

    def mouse(self, kind: str, x: float, y: float) -> None:
        pressed = {} if kind == "mouseMoved" else {"button": "left", "clickCount": 1}
        self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, **pressed)

    def tap(self, x: float, y: float) -> None:
        self.send("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])
        self.send("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    def key(self, name: str) -> None:
        for kind in ("keyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=name, code=name)

    def screenshot(self, path: Path, *, whole: bool = True) -> None:
        size = self.send("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        shot = self.send("Page.captureScreenshot", captureBeyondViewport=whole, **({"clip": clip} if whole else {}))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(shot["data"]))
