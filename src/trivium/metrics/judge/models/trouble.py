"""Trouble: what came instead of an answer, and what follows from it."""

from typing import Literal

from trivium.masking import mask

REASON_CHARS = 300

Kind = Literal["limited", "failing", "lost", "late", "final"]


class Trouble(Exception):
    """A request came to nothing; the text says why, in one line without secrets.

    Attributes:
        kind: ``limited``: one request too many for now. ``failing``: an error of the provider's. ``lost``:
            the connection. ``late``: no answer within its time. ``final``: another try would not help.
        retry_after: Seconds that the provider asks to be left alone, or None.
        billed: Whether it may be billed all the same.
        sent: Whether there was a request at all.
        turned_down: Whether it is the key or the model that is wrong, which is the same for every request.
    """

    def __init__(
        self,
        why: str,
        *,
        kind: Kind,
        retry_after: float | None = None,
        billed: bool = False,
        sent: bool = True,
        turned_down: bool = False,
    ) -> None:
        super().__init__(mask(" ".join(why.split()))[:REASON_CHARS])
        self.kind = kind
        self.retry_after = retry_after
        self.billed = billed
        self.sent = sent
        self.turned_down = turned_down

    def again(self) -> "Trouble":
        """The same trouble with another request."""
        return Trouble(
            str(self),
            kind=self.kind,
            retry_after=self.retry_after,
            billed=self.billed,
            sent=self.sent,
            turned_down=self.turned_down,
        )


class GivenUp(Exception):
    """A model gave no usable answer; the text says why, in one line."""
