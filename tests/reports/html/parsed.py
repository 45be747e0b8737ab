"""A page taken apart by the standard library's HTML parser, as an oracle for what a browser would see."""

import base64
import json
import zlib
from html.parser import HTMLParser

VOID = {"meta", "input", "br", "img", "link", "hr", "wbr"}
PACKED = "application/octet-stream"


class Page(HTMLParser):
    """Elements in order, with their attributes and the text directly inside them."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.open: list[str] = []
        self.content: dict[str, list[str]] = {"style": [], "script": []}
        self.packed: list[tuple[dict[str, str | None], str]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data):
        attributes = self.elements[-1][1] if self.elements else {}
        if self.open and self.open[-1] == "script" and attributes.get("type") == PACKED:
            self.packed.append((attributes, zlib.decompress(base64.b64decode(data)).decode()))
        elif self.open and self.open[-1] in self.content:
            self.content[self.open[-1]].append(data)
        else:
            self.texts.append(data)

    @property
    def tags(self):
        return [tag for tag, _ in self.elements]

    @property
    def text(self):
        return "".join(self.texts)

    @property
    def scripts(self):
        """The scripts that a browser runs."""
        return [found for found in self.all("script") if found.get("type") != PACKED]

    @property
    def index(self):
        """The columns of the index, of all attempts in the order in which they came."""
        columns = {}
        for attributes, content in self.packed:
            if attributes["class"] == "index":
                for name, values in json.loads(content).items():
                    columns.setdefault(name, []).extend([values] if isinstance(values, dict) else values)
        return columns

    @property
    def packed_attempts(self):
        """The HTML of the attempts that the script unpacks, by number."""
        found = {}
        for attributes, content in self.packed:
            if attributes["class"] == "attempts":
                pieces = content.split('<details class="attempt"')[1:]
                numbers = map(int, attributes["data-numbers"].split())
                found |= dict(zip(numbers, pieces, strict=True))
        return found

    def all(self, tag, **attributes):
        wanted = {name.strip("_").replace("_", "-"): value for name, value in attributes.items()}
        return [found for name, found in self.elements if name == tag and wanted.items() <= found.items()]
