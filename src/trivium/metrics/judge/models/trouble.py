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
        same_for_all: Whether every other request to the model would meet the same: the key, the account or
            the model is what is wrong.
        refused: The parameter of the request that the server does not take, or None.
        maybe_one_text: Whether that is not certain: a firewall may turn away one text alone.
    """

    def __init__(
        self,
        why: str,
        *,
        kind: Kind,
        retry_after: float | None = None,
        billed: bool = False,
        sent: bool = True,
        same_for_all: bool = False,
        maybe_one_text: bool = False,
        refused: str | None = None,
    ) -> None:
        super().__init__(mask(" ".join(why.split()))[:REASON_CHARS])
        self.kind = kind
        self.retry_after = retry_after
        self.billed = billed
        self.sent = sent
        self.same_for_all = same_for_all
        self.maybe_one_text = maybe_one_text
        self.refused = refused

    def again(self) -> "Trouble":
        """The same trouble with another request."""
        return Trouble(
            str(self),
            kind=self.kind,
            retry_after=self.retry_after,
            billed=self.billed,
            sent=self.sent,
            same_for_all=self.same_for_all,
            maybe_one_text=self.maybe_one_text,
            refused=self.refused,
        )


class GivenUp(Exception):
    """A model gave no usable answer; the text says why, in one line."""


class ParameterRefused(GivenUp):
    """A model's server does not take a parameter of the request.

    Attributes:
        parameter: Which, by the name that :attr:`Call.parameters` has for it.
    """

    def __init__(self, why: str, parameter: str) -> None:
        super().__init__(why)
        self.parameter = parameter
