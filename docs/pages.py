"""What the documentation site adds to the pages in this folder, as a hook of MkDocs (``make docs``).

The README becomes the first page, so that it is written once. The reference is one page for each module that
users import from, with the docstrings of its public names. Links to files outside this folder, which the site
does not have, become their paths.
"""

import ast
import posixpath
import re
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]

PUBLIC = {
    "trivium": "trivium",
    "trivium.trace": "trivium.traces.recording",
    "trivium.trust": "trivium.trust",
    "trivium.integrations.deepeval": "trivium.integrations.deepeval",
    "trivium.integrations.inspect_ai": "trivium.integrations.inspect_ai",
    "trivium.integrations.opik": "trivium.integrations.opik",
    "trivium.integrations.pydantic_evals": "trivium.integrations.pydantic_evals",
    "trivium.integrations.pytest": "trivium.integrations.pytest",
}
"""The modules that users import from, by the name they use; everything else is internal."""

_FENCE = re.compile(r"^```(\w+) (\S+)$", re.MULTILINE)
_CITATION = re.compile(r"docs/([\w/-]+)\.md#([\w-]+)")
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?!https?:|#)([^)#\s]+)(#[^)]*)?\)")


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are made: the first one, and the reference."""
    from mkdocs.structure.files import File  # noqa: PLC0415 - MkDocs is in the site's environment only

    for name, text in {**made_pages(), "llms.txt": for_models(config["nav"])}.items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Make a page's Markdown the site's own."""
    return site_markdown(markdown, page.file.src_uri)


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """Make the citations in a page of the reference links."""
    return linked_citations(html) if page.file.src_uri.startswith("reference/") else html


def linked_citations(html: str) -> str:
    """Link each definition that a docstring cites, such as ``docs/definitions/text.md#cosine``.

    Args:
        html: A page in a folder of the site.
    """
    return _CITATION.sub(
        lambda found: f'<a href="../{found[1]}.html#{found[2]}">{found[2].replace("-", " ")}</a>', html
    )


def made_pages() -> dict[str, str]:
    """The text of each page that is made, by its path in the site."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    readme = re.sub(r"(?:^    make .*\n)+\n", "", readme, count=1, flags=re.MULTILINE)  # of a checkout
    return {
        "index.md": readme.replace("](docs/", "](")
        .replace("](CONTRIBUTING", "](../CONTRIBUTING")
        .replace("](CHANGELOG", "](../CHANGELOG"),
        **{f"reference/{name}.md": _reference(name, module) for name, module in PUBLIC.items()},
    }


def for_models(nav: list[dict[str, Any]]) -> str:
    """The site's ``llms.txt``: each page with the first sentence that it says, for models that look for one.

    Args:
        nav: The navigation of the site.
    """
    lines = ["# Trivium", "", "> Evaluates LLM agents and says how far each number can be trusted."]
    for section in nav:
        (title, pages), *_ = section.items()
        paths = [page if isinstance(page, str) else next(iter(page.values())) for page in pages]
        written = [path for path in paths if (ROOT / "docs" / path).is_file()]
        if isinstance(pages, list) and written:
            lines += ["", f"## {title}", "", *map(_line_for_models, written)]
    return "\n".join(lines) + "\n"


def _line_for_models(path: str) -> str:
    head, _, rest = (ROOT / "docs" / path).read_text(encoding="utf-8").partition("\n")
    words = re.sub(r"```.*?```", "", rest, flags=re.DOTALL).strip().partition("\n\n")[0]
    text = " ".join(_LINK.sub(r"\1", words).split())
    sentence = re.split(r"(?<=[.:])\s", text, maxsplit=1)[0].rstrip(":")
    return f"- [{head.removeprefix('# ')}]({path.removesuffix('.md')}.html): {sentence}"


def site_markdown(markdown: str, path: str) -> str:
    """Return the Markdown of a page as the site needs it.

    Args:
        markdown: The page, written for a viewer of the repository.
        path: Path of the page in the site.
    """
    markdown = _FENCE.sub(r'```\1 title="\2"', markdown)

    def inside(found: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join("docs", posixpath.dirname(path), found[2]))
        return found[0] if target.startswith("docs/") else f"{found[1]} (`{target}`)"

    return _LINK.sub(inside, markdown)


def public_names(module: str) -> list[str]:
    """The names in a module's ``__all__``.

    A list in the source is read there, since many modules need packages that the site does not. Modules whose
    list is a table of lazy imports need none and are imported.
    """
    path = ROOT / "src" / module.replace(".", "/")
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            with suppress(ValueError):
                return list(ast.literal_eval(node.value))
    if str(ROOT / "src") not in sys.path:
        sys.path.insert(0, str(ROOT / "src"))
    return list(import_module(module).__all__)


def _reference(title: str, module: str) -> str:
    parts = [f"# {title}"]
    for name in sorted(public_names(module), key=str.lower):
        if f"{title}.{name}" in PUBLIC:
            parts.append(f"## {name}\n\nA module: see [{title}.{name}]({title}.{name}.md).")
        elif not name.startswith("__"):
            parts.append(f"::: {module}.{name}")
    return "\n\n".join(parts) + "\n"
