"""The style sheet keeps to the scale and the colours of docs/design/pages.md."""

import re
from pathlib import Path

import pytest

from trivium.web.pages.site import assets

PAGE = Path(__file__).parents[3] / "docs/design/pages.md"
TEMPLATES = [
    path
    for folder in ("web/pages/templates", "reports/html/templates")
    for path in sorted((Path(__file__).parents[3] / "src/trivium" / folder).glob("*.html"))
]


@pytest.fixture(scope="module")
def sheet() -> str:
    return assets()["style.css"].body.decode()


@pytest.fixture(scope="module")
def rules(sheet) -> str:
    """The style sheet without the values of its variables."""
    return re.sub(r":root \{[^}]*\}", "", sheet)


def named(sheet: str, prefix: str = "") -> set[str]:
    return set(re.findall(rf"(--{prefix}[a-z-]+): ", sheet))


def test_sizes_of_words_are_those_of_the_scale(rules):
    sizes = re.findall(r"(?:font-size: |font: )([^;}\s/]+)", rules)
    assert {each for each in sizes if each != "inherit"} <= {
        f"var({name})" for name in re.findall(r"`(--text-[a-z]+)`", PAGE.read_text())
    }


def test_weights_are_three(rules):
    assert set(re.findall(r"font-weight: (\w+)", rules)) <= {"400", "500", "600"}


def test_spaces_are_those_of_the_scale(rules):
    said = re.search(r"gaps are ([\d, or]+) px", " ".join(PAGE.read_text().split()))
    assert said is not None
    spaces = re.findall(r"(?:[\s;{])(?:(?:margin|padding)(?:-\w+)?|gap): ([^;}]+)", rules)
    found = {int(each) for space in spaces for each in re.findall(r"(?<![\w.-])(\d+)px", space)}
    assert found <= {int(each) for each in re.findall(r"\d+", said[1])}


def test_colours_are_variables_and_each_has_a_meaning(sheet, rules):
    assert re.findall(r"#[0-9a-fA-F]{3,8}\b|rgba?\(", re.sub(r"#[a-z]+[\s.:{\[]", " ", rules)) == []
    colours = {name for name in re.findall(r"(--[a-z-]+): #", sheet) if not name.endswith("-soft")}
    page = PAGE.read_text()
    assert {name for name in colours if f"`{name}`" not in page} <= {"--bar", "--track", "--shade"}


def test_every_variable_is_used_and_known(sheet):
    scripts = "".join(path.read_text() for path in (PAGE.parents[2] / "src/trivium/reports").rglob("*.py"))
    used = set(re.findall(r"var\((--[a-z-]+)", sheet + scripts))
    assert used == named(sheet)


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)
def test_no_template_repeats_the_head_or_styles_itself(template):
    text = template.read_text()
    assert "style=" not in text
    if template.name not in {"layout.html", "document.html"}:
        assert "<h1" not in text
        assert "<html" not in text
