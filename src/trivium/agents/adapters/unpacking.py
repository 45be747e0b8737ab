"""The body of an HTTP answer, unpacked as it comes and never further than is wanted."""

import zlib
from typing import TYPE_CHECKING

from trivium.agents.adapter import AgentFailure

if TYPE_CHECKING:
    import httpx

ACCEPTED = "gzip"
"""What a server may pack its answer as (``Accept-Encoding``)."""

_GZIP_FRAME = 16 + zlib.MAX_WBITS


async def beginning(response: "httpx.Response", size: int) -> bytes:
    """The first ``size`` bytes of a body; the rest is neither read nor unpacked.

    httpx would unpack whatever a server packs, a whole chunk at a time: 60 kB of zstd become 2 GB.

    Raises:
        AgentFailure: When it is packed as nobody asked for, or is no gzip though it says so.
    """
    coding = response.headers.get("content-encoding", "").strip().lower()
    if coding not in {"", "identity", "gzip", "x-gzip"}:
        raise AgentFailure(f'the answer is packed as "{coding[:40]}", expected gzip or as it is')
    packed = zlib.decompressobj(_GZIP_FRAME) if coding.endswith("gzip") else None
    body = bytearray()
    async for chunk in response.aiter_raw():
        left = size - len(body)
        try:
            body += packed.decompress(chunk, left) if packed else chunk[:left]
        except zlib.error as error:
            raise AgentFailure(f"the answer is no gzip, though it says so: {error}") from error
        if len(body) >= size:
            return bytes(body)
    if packed and not packed.eof and response.num_bytes_downloaded:
        raise AgentFailure("the answer is gzip that ends in the middle")
    return bytes(body)
