"""Every page looks as it did: in light, in the dark, narrow, and on paper.

    python -m tests.web.test_pictures

makes the pictures again that look another way now; look at them before you commit them. Pictures can be
compared only where Chromium and the fonts are those that they were made with: ``pictures/made-with.json``.
"""

import hashlib
import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.browser import NAMES, NARROW, WIDE, opened_browser
from tests.web.pages.served import Served
from tests.web.shop import NOW, Shop, filled, monitors
from trivium.store.store import Store
from trivium.web.pages.site import case_address

FOLDER = Path(__file__).with_name("pictures")
MADE_WITH = FOLDER / "made-with.json"

PAPER = 703
"""Pixels between the margins of a sheet of A4."""

SCALE = 0.5
"""Pixels of a picture for each pixel of the page."""

VISIBLE = 10
"""Difference of a colour, of 255, above which a pixel is another one. Pictures are kept in 256 colours,
which changes a pixel by 5 at most."""

MOST = 0.0002
"""Share of the pixels of a picture that may be other ones: a word of ten letters is more than that."""

LOOKS: dict[str, dict[str, Any]] = {
    "light": {"width": WIDE, "color_scheme": "light"},
    "dark": {"width": WIDE, "color_scheme": "dark"},
    "narrow": {"width": NARROW, "color_scheme": "light"},
    "print": {"width": PAPER, "color_scheme": "light", "media": "print"},
}


def pages(shop: Shop) -> dict[str, str]:
    """The address of each page, by the name of its pictures."""
    base, head = shop.runs
    begun, both = shop.queues
    return {
        "runs": "/runs",
        "run": f"/runs/{head}?by=tag",
        "case": case_address(head, "refund"),
        "judged": case_address(shop.judged, "wash"),
        "trace": case_address(head, "wash", part="trace"),
        "compared": f"/compare/{base}/{head}",
        "cannot-compare": f"/compare/{base}/{shop.judged}",
        "labels": "/labels",
        "label": f"/labels/{begun}",
        "people": f"/labels/{both}/people",
        "trust": f"/labels/{both}/trust",
        "monitors": "/monitors",
        "monitor": "/monitors/shop%20support",
        "alert": f"/alerts/{shop.alert}",
        "why": f"/traces/{159:032x}",
        "search": "/search?q=jacket",
        "login": "/login",
        "problem": "/nowhere",
    }


@cache
def environment() -> dict[str, str]:
    """What decides how a page is drawn, besides the page: Chromium, and the fonts that it finds."""

    def said(*command: str) -> str:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()

    found = {"chromium": said(next(filter(None, map(shutil.which, NAMES)), "true"), "--version")}
    for name in ("system-ui", "monospace"):
        file = said("fc-match", "--format=%{file}", name) if shutil.which("fc-match") else ""
        digest = hashlib.sha256(Path(file).read_bytes()).hexdigest()[:12] if file else "unknown"
        found[name] = f"{Path(file).name} {digest}"
    return found


_RESTYLE = "rule => { const sheet = document.styleSheets[0]; sheet.insertRule(rule, sheet.cssRules.length); }"


_UNFETCHED = "[hx-trigger=revealed]"
"""Links that stand without scripts where a page fetches something when it is seen."""


class Gallery:
    """The pages of the shop in a browser."""

    def __init__(self, site: Served, shop: Shop, browser: Any) -> None:
        self.pages = pages(shop)
        self._address = site.address
        self._context = browser.new_context(device_scale_factor=SCALE, reduced_motion="reduce")
        self._page = self._context.new_page()
        self._change = ""

    @contextmanager
    def restyled(self, change: str) -> Iterator[None]:
        """Pages with one rule more at the end of the style sheet."""
        self._change = change
        yield
        self._change = ""

    def looks(self, name: str) -> Iterator[tuple[str, Image.Image]]:
        """A page in each of its looks."""
        self._page.goto(self._address + self.pages[name], wait_until="load")
        self._page.locator(_UNFETCHED).first.wait_for(state="detached")
        for look, how in LOOKS.items():
            self._page.emulate_media(media=how.get("media", "screen"), color_scheme=how["color_scheme"])
            self._page.set_viewport_size({"width": how["width"], "height": 900})
            if self._change:
                self._page.evaluate(_RESTYLE, self._change)
            shot = self._page.screenshot(full_page=True, animations="disabled", caret="hide")
            yield f"{name}-{look}.png", Image.open(BytesIO(shot)).convert("RGB")


@contextmanager
def gallery(browser: Any) -> Iterator[Gallery]:
    """The pages of a new shop."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Store(f"sqlite:///{folder}/store.db") as store,
    ):
        shop = filled(store)
        with Served(store, monitors(), receiving=False, clock=lambda: NOW) as site:
            yield Gallery(site, shop, browser)


def difference(kept: Image.Image, now: Image.Image) -> np.ndarray:
    """Which pixels of two pictures differ visibly, shape (height, width); all that only one has do."""
    found = np.ones((max(kept.height, now.height), max(kept.width, now.width)), dtype=bool)
    height, width = min(kept.height, now.height), min(kept.width, now.width)
    first, second = (np.asarray(each.convert("RGB"), dtype=np.int16)[:height, :width] for each in (kept, now))
    found[:height, :width] = np.abs(first - second).max(axis=2) > VISIBLE
    return found


def complaint(name: str, now: Image.Image, folder: Path) -> str:
    """How a picture differs from the one that is kept; empty if nobody sees it."""
    file = FOLDER / name
    if not file.exists():
        return f"{name}: no picture is kept of it"
    with Image.open(file) as kept:
        found = difference(kept, now)
        if found.mean() <= MOST:
            return ""
        kept.save(folder / f"kept-{name}")
    now.save(folder / f"now-{name}")
    Image.fromarray(found).save(folder / f"difference-{name}")
    return f"{name}: {found.mean():.2%} of the pixels differ (was {kept.size}, is {now.size})"


@pytest.fixture(scope="module")
def shown(browser: Any) -> Iterator[Gallery]:
    """The gallery, where it can be compared with what is kept."""
    kept = json.loads(MADE_WITH.read_text(encoding="utf-8"))
    if environment() != kept:
        pytest.skip(f"the pictures were made with {kept}, and here is {environment()}")
    with gallery(browser) as opened:
        yield opened


KEPT = sorted(path.name.removesuffix("-light.png") for path in FOLDER.glob("*-light.png"))


@pytest.mark.parametrize("name", KEPT)
def test_a_page_looks_as_it_did(shown, name, tmp_path):
    found = [complaint(file, now, tmp_path) for file, now in shown.looks(name)]
    told = "\n".join(filter(None, found))
    assert not told, (
        f"{told}\nkept, now and difference are in {tmp_path}\n"
        "if this is meant: python -m tests.web.test_pictures"
    )


def test_every_page_has_its_pictures_and_no_other_is_kept(shown):
    wanted = {f"{name}-{look}.png" for name in shown.pages for look in LOOKS}
    assert {path.name for path in FOLDER.glob("*.png")} == wanted


@pytest.mark.parametrize("change", [
    "* { --accent: #1d5baa }", ".site main { padding-top: 26px }", "table { font-size: 14px }",
    "h1 { letter-spacing: 0 }", ".card { border-color: transparent }", "thead th { color: var(--ink) }",
])  # fmt: skip
def test_what_a_person_sees_is_noticed(shown, tmp_path, change):
    with shown.restyled(change):
        assert any(complaint(file, now, tmp_path) for file, now in shown.looks("run"))


def remade() -> None:
    """Write the pictures that look another way now, and say which."""
    with (
        opened_browser() as browser,
        gallery(browser) as opened,
        tempfile.TemporaryDirectory() as folder,
    ):
        same = MADE_WITH.exists() and json.loads(MADE_WITH.read_text(encoding="utf-8")) == environment()
        wanted = set()
        for name in opened.pages:
            for file, now in opened.looks(name):
                wanted.add(file)
                told = complaint(file, now, Path(folder)) if same else f"{file}: made"
                if told:
                    print(told)
                    kept = now.quantize(256, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
                    kept.save(FOLDER / file, optimize=True)
    for path in FOLDER.glob("*.png"):
        if path.name not in wanted:
            path.unlink()
    MADE_WITH.write_text(json.dumps(environment(), indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    remade()
