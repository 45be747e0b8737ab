"""A page taken apart by the standard library's HTML parser, as an oracle for what a browser would see."""

from html.parser import HTMLParser

VOID = {"meta", "input", "br", "img", "link", "hr"}


class Page(HTMLParser):
    """Elements in order, with their attributes and the text directly inside them."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.open: list[str] = []
        self.content: dict[str, list[str]] = {"style": [], "script": []}
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
        if self.open and self.open[-1] in self.content:
            self.content[self.open[-1]].append(data)
        else:
            self.texts.append(data)

    @property
    def tags(self):
        return [tag for tag, _ in self.elements]

    @property
    def text(self):
        return "".join(self.texts)

    def all(self, tag, **attributes):
        wanted = {name.strip("_").replace("_", "-"): value for name, value in attributes.items()}
        return [found for name, found in self.elements if name == tag and wanted.items() <= found.items()]
