"""Every citation of a page of docs/ in the code leads somewhere, and every number has a definition."""

import inspect
import re
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import trivium.trust
from trivium.metrics.graph.trajectories import path_agreement
from trivium.metrics.registry import BUILT_IN, CASE_FIGURES, RETRIEVAL, STATE
from trivium.suites.rubrics.built_in import built_in_rubrics
from trivium.trust.calibration.fitting import KNOWN, METHODS
from trivium.trust.calibration.methods import TARGETS
from trivium.trust.confidence.functions import REGISTERED
from trivium.trust.rater_agreement import RANKED, RATES
from trivium.trust.selective.inference import COMMON_METRIC_NAMES, METRIC_NAMES
from trivium.trust.selective.items import LOSSES

ROOT = Path(__file__).parents[1]
DEFINITIONS = ROOT / "docs" / "definitions"
CITATION = re.compile(r"\bdocs/([\w/-]+\.md)(#[\w-]+)?")
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)#([\w-]+)\)")
ANCHOR = re.compile(r'<a id="([^"]*)"></a>')
OLD_CODE = re.compile(
    r"\bspec: (?:metrics|files|architecture)|\b(?:T[1-3]|[BCDHMS])\.\d+\b|\((?:T[1-3]|[BCHMS])\)"
)
"""Codes of a document outside the repository, such as B.3 and T2.5."""

NO_NUMBER = {"calibrator_from_json": "reads a file"}
"""Public names of trivium.trust without a definition."""


def sources(*folders: str) -> Iterator[tuple[str, str]]:
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in {".py", ".md", ".yaml", ".toml"} and path != Path(__file__):
                yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")


def anchors(page: Path) -> list[str]:
    """The places of a page that a link may lead to: explicit anchors, and headings by their words."""
    text = page.read_text(encoding="utf-8")
    headings = re.findall(r"^#+ (.*)$", ANCHOR.sub("", text), flags=re.MULTILINE)
    slugs = [re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings]
    return [*ANCHOR.findall(text), *slugs]


def citations(text: str | None) -> list[tuple[str, str]]:
    return CITATION.findall(text or "")


def test_every_citation_in_the_code_leads_to_a_place_on_a_page() -> None:
    broken = []
    for name, text in sources("src"):
        for page, anchor in citations(text):
            path = ROOT / "docs" / page
            if not path.exists() or (anchor and anchor.removeprefix("#") not in anchors(path)):
                broken.append(f"{name}: docs/{page}{anchor}")
    assert broken == []


def test_a_definition_is_cited_by_its_own_anchor_and_not_by_that_of_a_heading() -> None:
    """Headings may be reworded; whoever follows a citation from another version still arrives."""
    explicit = {
        f"definitions/{page.name}": ANCHOR.findall(page.read_text(encoding="utf-8"))
        for page in DEFINITIONS.glob("*.md")
    }
    cited = {each for _, text in sources("src") for each in citations(text)}
    ours = {(page, anchor) for page, anchor in cited if page in explicit}
    defined = {(page, f"#{anchor}") for page, found in explicit.items() for anchor in found}
    assert ours - defined == set()
    assert defined - ours == set(), "no code says that it computes these"


@pytest.mark.parametrize("page", sorted(DEFINITIONS.glob("*.md")), ids=lambda page: page.name)
def test_an_anchor_is_defined_once(page: Path) -> None:
    found = Counter(ANCHOR.findall(page.read_text(encoding="utf-8")))
    assert {anchor: count for anchor, count in found.items() if count > 1} == {}
    assert all(re.fullmatch(r"[a-z][a-z0-9-]*", anchor) for anchor in found)


def test_every_link_to_a_definition_leads_to_it() -> None:
    broken = []
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for target, anchor in LINK.findall(page.read_text(encoding="utf-8")):
            path = (page.parent / target).resolve() if target else page
            if DEFINITIONS in (path.parent, page.parent) and anchor not in anchors(path):
                broken.append(f"{page.relative_to(ROOT)}: {target}#{anchor}")
    assert broken == []


def test_no_code_of_an_outside_document_is_cited() -> None:
    texts = [*sources("src", "tests", "docs", "benchmarks", "examples")]
    texts += [(name, (ROOT / name).read_text(encoding="utf-8")) for name in ("README.md", "CONTRIBUTING.md")]
    assert [f"{name}: {found}" for name, text in texts for found in OLD_CODE.findall(text)] == []


@pytest.mark.parametrize("name", [*BUILT_IN, *CASE_FIGURES])
def test_every_metric_cites_its_definition(name: str) -> None:
    target = BUILT_IN.get(name)
    module, _, attribute = (target or "").partition(":")
    defined = getattr(import_module(module), attribute) if target else path_agreement
    assert f"#{name.replace('_', '-')}" in [anchor for _, anchor in citations(defined.__doc__)]


@pytest.mark.parametrize("name", sorted(set(trivium.trust.__all__) - NO_NUMBER.keys()))
def test_every_public_name_of_trust_cites_a_definition(name: str) -> None:
    cited = citations(inspect.getdoc(getattr(trivium.trust, name)))
    assert [page for page, _ in cited if page.startswith("definitions/")]


def test_only_public_names_are_excepted() -> None:
    assert NO_NUMBER.keys() <= set(trivium.trust.__all__)


@pytest.mark.parametrize(
    ("page", "names"),
    [
        (
            "text.md",
            [name for name, home in BUILT_IN.items() if ".text." in home and name not in {*RETRIEVAL, STATE}],
        ),
        ("worlds.md", [STATE]),
        ("retrieval.md", RETRIEVAL),
        ("traces.md", [*(name for name, home in BUILT_IN.items() if ".graph." in home), *CASE_FIGURES]),
        ("judge.md", [*KNOWN, *(each.name for each in built_in_rubrics()["review"].dimensions)]),
        ("selective.md", [*METRIC_NAMES, *COMMON_METRIC_NAMES, *LOSSES, *REGISTERED]),
        ("calibration.md", [*METHODS, *TARGETS]),
        ("agreement.md", [*RATES, *RANKED]),
    ],
)
def test_every_name_in_the_output_stands_on_the_page(page: str, names: list[str]) -> None:
    text = (DEFINITIONS / page).read_text(encoding="utf-8")
    assert [name for name in names if f"`{name}`" not in text] == []
