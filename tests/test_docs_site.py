"""The documentation site, as far as it can be checked without building it (``make docs`` builds strictly)."""

import re
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
CONFIG = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def pages() -> ModuleType:
    spec = spec_from_file_location("docs_pages", ROOT / "docs" / "pages.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def paths(nav: Any) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    parts = nav.values() if isinstance(nav, dict) else nav
    return [path for part in parts for path in paths(part)]


def test_the_navigation_names_every_page_once_and_no_other(pages: ModuleType) -> None:
    docs = ROOT / "docs"
    written = [path.relative_to(docs).as_posix() for path in docs.rglob("*.md")]
    named, there = paths(CONFIG["nav"]), {*written, *pages.made_pages()}
    assert there - {*named} == set(), "write a line for each in nav of mkdocs.yml"
    assert sorted(named) == sorted(there)


def test_the_readme_leads_to_every_page_but_those_on_the_code() -> None:
    linked = re.findall(r"\]\((docs/[^)#]+)", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert "docs/definitions/README.md" in linked
    there = {f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")}
    assert there - set(linked) == set(), "link each in the README's table of what one has and wants"


def test_the_reference_has_every_public_name_and_no_other(pages: ModuleType) -> None:
    for name, module in pages.PUBLIC.items():
        page = pages.made_pages()[f"reference/{name}.md"]
        entries = re.findall(r"^(?:## |::: .*\.)(\w+)$", page, flags=re.MULTILINE)
        assert sorted(entries) == sorted(set(import_module(module).__all__) - {"__version__"})


def test_nothing_is_fetched_from_elsewhere_when_the_site_is_read() -> None:
    assert CONFIG["theme"]["font"] is False
    assert "search" in CONFIG["plugins"]
    assert "offline" not in CONFIG["plugins"]  # it takes a script from a content delivery network
    assert "analytics" not in CONFIG["extra"]
    assert "extra_javascript" not in CONFIG


def test_a_file_block_shows_its_name_and_a_link_out_of_the_site_becomes_a_path(pages: ModuleType) -> None:
    text = "```json a.jsonl\n{}\n```\n[x](../examples/y.md#z), [page](traces.md#a), ![p](pictures/a.svg)"
    assert pages.site_markdown(text, "ci.md") == (
        '```json title="a.jsonl"\n{}\n```\nx (`examples/y.md`), [page](traces.md#a), ![p](pictures/a.svg)'
    )


def test_a_citation_in_the_reference_is_a_link_to_the_definition(pages: ModuleType) -> None:
    text = "<p>A rate (docs/definitions/intervals.md#rate), or docs/definitions/traces.md#tool-graph.</p>"
    assert pages.linked_citations(text) == (
        '<p>A rate (<a href="../definitions/intervals.html#rate">rate</a>), '
        'or <a href="../definitions/traces.html#tool-graph">tool graph</a>.</p>'
    )


def test_the_first_page_is_the_readme(pages: ModuleType) -> None:
    text = pages.site_markdown(pages.made_pages()["index.md"], "index.md")
    assert text.startswith("# Trivium\n\nTrivium evaluates LLM agents")
    assert "[traces](traces.md)" in text
    assert "How the code is organised (`CONTRIBUTING.md`)" in text
    assert "](docs/" not in text


def test_a_file_for_models_lists_the_pages_with_what_they_are_about(pages: ModuleType) -> None:
    text = pages.for_models(CONFIG["nav"])
    assert text.startswith("# Trivium\n\n> Evaluates LLM agents")
    found = dict(re.findall(r"^- \[[^\]]+\]\((\S+)\.html\): (.+)$", text, flags=re.MULTILINE))
    assert len(found) > 40
    assert not [name for name in found if not (ROOT / "docs" / f"{name}.md").exists()]
