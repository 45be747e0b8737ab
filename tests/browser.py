"""A headless Chromium that a test drives over its own pipe (the DevTools protocol); nothing can leave it."""

import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
PATIENCE_SECONDS = 60
"""After this a browser that says nothing is given up; no test waits for it."""

_FLAGS = (
    "--headless",
    "--no-sandbox",  # containers lack what it needs; the pages are our own
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--remote-debugging-pipe",
)


_BEGIN = """
import fcntl, os, sys
read, say = (fcntl.fcntl(int(each), fcntl.F_DUPFD, 10) for each in sys.argv[1:3])
os.dup2(read, 3)
os.dup2(say, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""What makes a process the browser: it hears on descriptor 3 and answers on 4."""


class Left(Exception):
    """The browser has gone, or says nothing any more."""


class Browser:
    """One process; ask it for tabs."""

    def __init__(self, program: str, profile: Path) -> None:
        to_read, to_ask = os.pipe()
        to_hear, to_say = os.pipe()
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-ISc", _BEGIN, str(to_read), str(to_say), program),
                *(*_FLAGS, f"--user-data-dir={profile}", "about:blank"),
            ],
            pass_fds=(to_read, to_say),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(to_read)
        os.close(to_say)
        self._ask, self._hear = to_ask, to_hear
        self._heard_of = select.poll()
        self._heard_of.register(to_hear, select.POLLIN)
        self._numbers = itertools.count(1)
        self._heard = b""
        self.events: list[dict[str, Any]] = []

    def call(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        """What the browser answers; events that come before it are kept."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": params} | (
            {"sessionId": session} if session else {}
        )
        try:
            os.write(self._ask, json.dumps(message).encode() + b"\0")
        except BrokenPipeError as gone:
            raise Left from gone
        while (answer := self._next()).get("id") != number:
            self.events.append(answer)
        assert "error" not in answer, f"{method}: {answer}"
        return answer["result"]

    def wait_for(self, event: str, session: str) -> None:
        """Until an event of a tab came that has not been waited for."""
        while True:
            for each in self.events:
                if each["method"] == event and each.get("sessionId") == session and not each.get("seen"):
                    each["seen"] = True
                    return
            self.events.append(self._next())

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._heard:
            ready = self._heard_of.poll(1000 * PATIENCE_SECONDS)
            part = os.read(self._hear, 1 << 20) if ready else b""
            if not part:
                raise Left
            self._heard += part
        one, _, self._heard = self._heard.partition(b"\0")
        return json.loads(one)

    def close(self) -> None:
        with suppress(Left):
            self.call("Browser.close")
        os.close(self._ask)
        os.close(self._hear)
        try:
            self._process.wait(timeout=PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Tab:
    """A page that is open, as wide as a desk's screen and light until it is looked at otherwise.

    Attributes:
        requests: Every address that it asked for.
        complaints: What it or the browser wrote to the console.
    """

    def __init__(self, browser: Browser, page: Path) -> None:
        self._browser = browser
        self._target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        attached = browser.call("Target.attachToTarget", targetId=self._target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable")
        self.look(width=1280, dark=False)
        self._call("Page.navigate", url=page.as_uri())
        browser.wait_for("Page.loadEventFired", self._session)

    def look(self, *, width: int, dark: bool) -> None:
        """Look at it so wide, in light or dark."""
        sizes = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self._call("Emulation.setDeviceMetricsOverride", **sizes)
        self._call("Emulation.setScrollbarsHidden", hidden=True)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", features=[scheme])

    def _call(self, method: str, **params: Any) -> dict[str, Any]:
        return self._browser.call(method, self._session, **params)

    def run(self, script: str) -> Any:
        """The value of an expression in the page, as JSON."""
        answer = self._call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def click(self, selector: str) -> None:
        """Press and release the mouse in the middle of an element."""
        self.run(f"document.querySelector({json.dumps(selector)}).scrollIntoView({{block: 'center'}})")
        place = self.run(
            f"(({{x, y, width, height}}) => ({{x: x + width / 2, y: y + height / 2}}))"
            f"(document.querySelector({json.dumps(selector)}).getBoundingClientRect())"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self._call("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **place)

    def type(self, selector: str, text: str) -> None:
        """Write into a field as a keyboard would."""
        self.run(f"document.querySelector({json.dumps(selector)}).focus()")
        self._call("Input.insertText", text=text)

    def print(self) -> bytes:
        """The page on paper, as PDF; what the page does before and after printing is done."""
        return base64.b64decode(self._call("Page.printToPDF", printBackground=True)["data"])

    def as_printed(self) -> None:
        """Look at it as it is printed."""
        self._call("Emulation.setEmulatedMedia", media="print")

    def picture(self, *, whole: bool = True) -> bytes:
        """The page as PNG."""
        return base64.b64decode(self._call("Page.captureScreenshot", captureBeyondViewport=whole)["data"])

    def _of(self, *methods: str) -> list[dict[str, Any]]:
        self.run("0")  # what happened before is told before
        return [
            each["params"]
            for each in self._browser.events
            if each.get("sessionId") == self._session and each["method"] in methods
        ]

    @property
    def requests(self) -> list[str]:
        return [each["request"]["url"] for each in self._of("Network.requestWillBeSent")]

    @property
    def complaints(self) -> list[str]:
        events = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
        return [json.dumps(each) for each in self._of(*events, "Page.javascriptDialogOpening")]

    def close(self) -> None:
        self._browser.call("Target.closeTarget", targetId=self._target)


@contextmanager
def chromium(profile: Path) -> Iterator[Browser]:
    """A browser for as long as it is wanted; the test is skipped where there is none.

    Args:
        profile: An empty folder of its own.
    """
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        pytest.skip("no Chromium is installed")
    browser = Browser(program, profile)
    try:
        try:
            browser.call("Browser.getVersion")
        except Left:
            pytest.skip(f"{program} does not start here")
        yield browser
    finally:
        browser.close()
