"""Request templates: the bytes of a request with places for its texts."""

from urllib.parse import urlsplit

import msgspec

from trivium.metrics.judge.client.request import ModelRequest


class RequestTemplate(msgspec.Struct, frozen=True):
    """A request body with placeholders for texts: 0 instructions, 1 case, 2 and on the turns.

    Attributes:
        url: Address of the request.
        headers: Its headers. They contain the API key: never show them.
        pieces: Parts of the JSON body between the placeholders.
        places: Index of the text that goes between each two pieces.
    """

    url: str
    headers: dict[str, str]
    pieces: tuple[bytes, ...]
    places: tuple[int, ...]

    def __repr__(self) -> str:
        return f"RequestTemplate({self.url!r})"

    @property
    def address(self) -> str:
        """Scheme, host and path of ``url``, without credentials and query."""
        return address_of(self.url)

    def body(self, request: ModelRequest) -> bytes:
        """Return the body of a request.

        Raises:
            UnicodeEncodeError: If a text holds a lone surrogate.
        """
        texts = [_json_inner(each) for each in _texts(request)]
        body = [self.pieces[0]]
        for place, piece in zip(self.places, self.pieces[1:], strict=True):
            body += (texts[place], piece)
        return b"".join(body)


def address_of(url: str) -> str:
    """Scheme, host and path of a URL, without credentials and query."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _texts(request: ModelRequest) -> list[str]:
    first, *others = request.turns
    return [request.instructions, request.case, first, *(turn or "(no answer)" for turn in others)]


def _json_inner(text: str) -> bytes:
    """Escape a text for a JSON string, without the quotes."""
    return msgspec.json.encode(text)[1:-1]
