"""A headless Chromium, controlled by the DevTools protocol over a WebSocket of the standard library."""
from __future__ import annotations

import base64
import json
import os
import shutil
import socket
import struct
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def find_chromium() -> str | None:
    """Return the path of Chromium: that of LAMINA_CHROMIUM, else the first one on the search path."""
    return os.environ.get("LAMINA_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One browser process with one page."""

    def __init__(self, program: str) -> None:
        self.folder = tempfile.mkdtemp(prefix="lamina-see-chromium-")
        self.process = subprocess.Popen(
            [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
             "--no-first-run", "--disable-background-networking", "--disable-extensions", "--remote-debugging-port=0",
             f"--user-data-dir={self.folder}", "about:blank"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            port = self._port()
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list", timeout=20) as answer:
                target = next(t for t in json.load(answer) if t["type"] == "page")
            self._connect(port, target["webSocketDebuggerUrl"].split(str(port), 1)[1])
        except BaseException:
            self.close()
            raise
        self.count = 0
        self.errors: list[str] = []
        self.requests: list[str] = []
        self.loaded = False
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def _port(self) -> int:
        file = Path(self.folder, "DevToolsActivePort")
        for _ in range(300):
            if file.exists() and file.read_text().strip():
                return int(file.read_text().split()[0])
            if self.process.poll() is not None:
                break
            time.sleep(0.1)
        raise RuntimeError("Chromium did not start")

    def _connect(self, port: int, path: str) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        key = base64.b64encode(os.urandom(16)).decode()
        self.socket.sendall((f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                             f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n").encode())
        self.buffer = b""
        while b"\r\n\r\n" not in self.buffer:
            self.buffer += self.socket.recv(4096)
        head, self.buffer = self.buffer.split(b"\r\n\r\n", 1)
        assert b" 101 " in head.split(b"\r\n")[0], head

    def _take(self, n: int) -> bytes:
        while len(self.buffer) < n:
            part = self.socket.recv(1 << 16)
            if not part:
                raise ConnectionError("Chromium closed the connection")
            self.buffer += part
        found, self.buffer = self.buffer[:n], self.buffer[n:]
        return found

    def _read(self) -> dict[str, Any]:
        text, final = b"", False
        while not final:
            first, size = self._take(2)
            final, size = bool(first & 128), size & 127
            if size > 125:
                size = struct.unpack(">H" if size == 126 else ">Q", self._take(2 if size == 126 else 8))[0]
            text += self._take(size)
        return json.loads(text)

    def _handle(self, message: dict[str, Any]) -> None:
        name, about = message.get("method"), message.get("params", {})
        if name == "Runtime.exceptionThrown":
            details = about["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description") or details["text"])
        elif name == "Runtime.consoleAPICalled" and about["type"] in ("error", "warning", "assert"):
            self.errors.append(" ".join(str(a.get("value", a.get("description"))) for a in about["args"]))
        elif name == "Log.entryAdded" and about["entry"]["level"] in ("error", "warning"):
            self.errors.append(about["entry"]["text"])
        elif name == "Network.requestWillBeSent":
            self.requests.append(about["request"]["url"])
        elif name == "Page.loadEventFired":
            self.loaded = True

    def call(self, method: str, session: str = "", **parameters: Any) -> dict[str, Any]:
        self.count += 1
        about = {"sessionId": session} if session else {}
        data = json.dumps({"id": self.count, "method": method, "params": parameters, **about}).encode()
        size = bytes([128 | len(data)]) if len(data) < 126 else (b"\xfe" + struct.pack(">H", len(data)) if len(data) < 65536
                                                                 else b"\xff" + struct.pack(">Q", len(data)))
        self.socket.sendall(b"\x81" + size + b"\0\0\0\0" + data)
        while True:
            message = self._read()
            if message.get("id") == self.count:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]
            self._handle(message)

    def run(self, code: str) -> Any:
        """Return the value of JavaScript code, JSON types only; a promise is awaited."""
        answer = self.call("Runtime.evaluate", expression=code, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise AssertionError(answer["exceptionDetails"].get("exception", {}).get("description", code))
        return answer["result"].get("value")

    def wait_in_frame(self, code: str, seconds: float = 60) -> Any:
        """Wait until JavaScript code in the first frame of the page has a value that is true; return it."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                found = self._run_in_frame(code)
            except (KeyError, RuntimeError):  # the frame is being replaced
                found = None
            if found:
                return found
            time.sleep(0.05)
        raise AssertionError(f"not true in the frame after {seconds} s: {code}")

    def _run_in_frame(self, code: str) -> Any:
        """Return the value of JavaScript code in the first frame, which may be a process of its own."""
        other = [t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "iframe"]
        if other:
            session = self.call("Target.attachToTarget", targetId=other[0]["targetId"], flatten=True)["sessionId"]
            return self.call("Runtime.evaluate", session, expression=code, returnByValue=True)["result"].get("value")
        frame = self.call("Page.getFrameTree")["frameTree"]["childFrames"][0]["frame"]["id"]
        world = self.call("Page.createIsolatedWorld", frameId=frame)["executionContextId"]
        return self.call("Runtime.evaluate", expression=code, contextId=world, returnByValue=True)["result"].get("value")

    def open(self, file: str | Path, width: int = 1400, height: int = 900, dark: bool = False) -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 700)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme, {"name": "prefers-reduced-motion", "value": "reduce"}])
        self.errors.clear()
        self.requests.clear()
        self.call("Page.navigate", url=Path(file).resolve().as_uri())
        self.wait("document.documentElement && document.documentElement.dataset.ready")

    def wait(self, code: str, seconds: float = 60) -> Any:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = self.run(code)
            if found:
                return found
            time.sleep(0.03)
        raise AssertionError(f"not true after {seconds} s: {code}")

    def settle(self) -> None:
        """Wait for two frames, so that what was drawn is on the screen."""
        self.run("new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(() => r(1))))")

    def click(self, selector: str, part: tuple[float, float] = (0.5, 0.5)) -> None:
        """Click an element with the mouse, at a part of its width and height."""
        x, y = self.run(f"""(() => {{ const e = document.querySelector({json.dumps(selector)});
            if (!e) throw new Error("no element " + {json.dumps(selector)});
            e.scrollIntoView({{block: "center"}}); const r = e.getBoundingClientRect();
            return [r.left + r.width * {part[0]}, r.top + r.height * {part[1]}]; }})()""")
        self.settle()
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="none" if kind == "mouseMoved" else "left",
                      clickCount=0 if kind == "mouseMoved" else 1)
        self.settle()

    def press(self, key: str) -> None:
        text = key if len(key) == 1 else {"Enter": "\r"}.get(key, "")
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **({"text": text} if text else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)
        self.settle()

    def picture(self, path: str | Path, full: bool = False) -> None:
        """Save a screenshot as PNG; `full`: of the whole page."""
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=full)["data"]
        Path(path).write_bytes(base64.b64decode(data))

    def close(self) -> None:
        if hasattr(self, "socket"):
            self.socket.close()
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
