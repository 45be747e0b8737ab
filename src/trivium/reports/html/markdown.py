"""Renders Markdown that an agent wrote as harmless HTML.

HTML in the text stays text. Links lead nowhere: their text and address are shown. Pictures are not loaded. No
element has an attribute, so that nothing has a style, an id or an address.
"""

import re
from typing import TYPE_CHECKING

from markupsafe import Markup

from trivium.reports.html.judgement import TEXT_CHARS
from trivium.safe_text import cut

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_LOOKS_LIKE_MARKDOWN = re.compile(
    r"^(?:#{1,6} \S|\s*[-*+] \S|\s*\d+[.)] \S|```|~~~|> |\|.+\|)"  # at the beginning of a line
    r"|\*\*\S|(?<!\w)__\S|`[^`\n]+`|\[[^\]\n]+\]\([^)\n]+\)",
    re.MULTILINE,
)


def looks_like_markdown(text: str) -> bool:
    """Whether a text has something that Markdown would show otherwise."""
    return _LOOKS_LIKE_MARKDOWN.search(text[:TEXT_CHARS]) is not None


def rendered(text: object) -> Markup | None:
    """The beginning of a text as HTML, as long as reports show; None if it does not look like Markdown."""
    if not isinstance(text, str) or not looks_like_markdown(text):
        return None
    shown, _ = cut(text, at_most=TEXT_CHARS)
    parser = _parser()
    return Markup(parser.renderer.render(_harmless(parser.parse(shown)), parser.options, {}))  # noqa: S704


def _parser() -> "MarkdownIt":
    from markdown_it import MarkdownIt

    options = {"html": False, "linkify": False, "typographer": False}
    return MarkdownIt("js-default", options).enable(["table", "strikethrough"])


def _harmless(tokens: "list[Token]") -> "list[Token]":
    """The tokens without attributes, links, pictures and headings, which would change the page's outline."""
    kept: list[Token] = []
    addresses: list[str] = []
    for token in tokens:
        if token.type == "link_open":
            addresses.append("" if token.markup == "autolink" else str(token.attrs.get("href", "")))
            continue
        if token.type == "link_close":
            address = addresses.pop()
            token.type, token.nesting = "text", 0
            token.content = f" ({address})" if address else ""
        elif token.type == "image":
            token.type, token.content = "text", f"[picture: {token.content} {token.attrs.get('src', '')}]"
        elif token.type in {"heading_open", "heading_close"}:
            token.tag = "div"
        token.info, token.attrs = "", {}
        if token.children and token.type != "text":
            token.children = _harmless(token.children)
        kept.append(token)
    return kept
