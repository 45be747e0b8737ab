"""Chromium, driven by Playwright: pages as a reader has them, from files or a server on this machine."""

import importlib.util
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
WIDE = 1280
"""Pixels of a desk's screen."""
NARROW = 400
"""Pixels of a telephone held upright, or of a window beside an editor."""

_ARGUMENTS = (
    "--no-sandbox",  # containers lack what it needs; the pages are our own
    "--disable-gpu",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
)


@contextmanager
def opened_browser() -> Iterator["Browser"]:
    """A browser; what needs one is skipped where there is no Chromium or no Playwright."""
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        pytest.skip("no Chromium is installed")
    with playwright.sync_playwright() as driver:
        try:
            opened = driver.chromium.launch(executable_path=program, args=_ARGUMENTS)
        except playwright.Error as error:
            pytest.skip(f"{program} does not start here: {error.message.splitlines()[0]}")
        yield opened
        opened.close()


_OPEN = pytest.StashKey[tuple[ExitStack, Any]]()
_NEXT = pytest.StashKey[pytest.Item | None]()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Remember which test comes next."""
    item.session.stash[_NEXT] = nextitem


@pytest.fixture(scope="module")
def browser(request: pytest.FixtureRequest) -> Iterator["Browser"]:
    """One browser for the tests of a module, and of the next one if that begins with it.

    Not for the whole session: while it is open, Playwright's event loop counts as running in this thread, and
    every ``asyncio.run`` of a later module would be refused.
    """
    session = request.session
    if _OPEN not in session.stash:
        stack = ExitStack()
        session.stash[_OPEN] = stack, stack.enter_context(opened_browser())
    stack, opened = session.stash[_OPEN]
    yield opened
    following = session.stash[_NEXT]
    if session.shouldstop or session.shouldfail or "browser" not in getattr(following, "fixturenames", ()):
        del session.stash[_OPEN]
        stack.close()


@pytest.fixture
def page(browser: "Browser") -> Iterator["Page"]:
    """An empty page, wide and light, that knows no other; no dialog may open on it."""
    with browser.new_context(viewport={"width": WIDE, "height": 900}, color_scheme="light") as context:
        dialogs: list[str] = []
        opened = context.new_page()
        opened.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
        yield opened
        assert dialogs == []


def show(page: "Page", what: Path | str) -> None:
    """Open a file or an address, and wait until the list of cases is there, where there is one."""
    page.goto(what.as_uri() if isinstance(what, Path) else what)
    until_ready(page)


def until_ready(page: "Page") -> None:
    """Wait until the cases that were asked for are unpacked and on the page."""
    page.wait_for_selector("#list:is(:not([data-ready]), [aria-busy])", state="detached")


def look(page: "Page", *, width: int = WIDE, dark: bool = False) -> None:
    """Look at it so wide, in light or dark."""
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme="dark" if dark else "light")


def complaints(page: "Page") -> list[str]:
    """What the page and the browser wrote to the console, refusals included, and errors of its scripts."""
    return [each.text for each in page.console_messages()] + [str(each) for each in page.page_errors()]


def barriers(page: "Page") -> list[Any]:
    """What axe-core finds that bars people from using the page: how grave, which rule, and where."""
    page.evaluate(_axe() + "; 0")
    found: list[Any] = page.evaluate(
        "axe.run({preload: false, resultTypes: ['violations']}).then(found => found.violations.map(one => "
        "[one.impact, one.id, one.nodes.map(node => node.html.slice(0, 160))]))"
    )
    return found


@cache
def _axe() -> str:
    found = importlib.util.find_spec("axe_playwright_python")
    if found is None or found.origin is None:
        pytest.skip("axe-playwright-python, which holds axe-core, is not installed")
    return (Path(found.origin).parent / "axe.min.js").read_text(encoding="utf-8")
