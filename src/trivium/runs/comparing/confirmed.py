"""Sums up the further attempts that confirm a comparison: how many there are, and what they cost."""

from collections.abc import Iterable
from typing import Any

import msgspec

from trivium.runs.versions import End
from trivium.store.records import RunRecord
from trivium.values import sum_known


class Calls(msgspec.Struct, frozen=True, kw_only=True):
    """Further attempts of one side.

    Attributes:
        attempts: Their number.
        failed: How many of them failed.
        cost_usd: What agent and judges cost in USD; None if no cost is known.
        tokens: Tokens of agent and judges; None if none are reported.
    """

    attempts: int = 0
    failed: int = 0
    cost_usd: float | None = None
    tokens: int | None = None


class Confirmed(msgspec.Struct, frozen=True, kw_only=True):
    """The further attempts by which two versions were compared.

    Definition: docs/definitions/decisions.md#confirm.

    Attributes:
        base: Those of base.
        head: Those of head.
        runs: Ids of the runs that hold them.
        end: Why no further ones were made; None if the asking broke off.
    """

    base: Calls
    head: Calls
    runs: tuple[str, ...]
    end: End | None = None

    @property
    def warnings(self) -> tuple[str, ...]:
        """What stays open although calls were made."""
        if self.base.attempts or not self.head.attempts:
            return ()
        why = "a case that it passed by chance looks broken (--base-agent has base asked, too)"
        return (f"only head was asked again: what base does rests on its own attempts, and {why}",)


def calls_of(runs: Iterable[RunRecord]) -> Calls:
    """Sum the number and costs of attempts over finished runs, from their summaries."""
    summaries: list[dict[str, Any]] = [run.summary or {} for run in runs]
    agents = [each.get("agent") or {} for each in summaries]
    judges = [each.get("spent") or {} for each in summaries]
    return Calls(
        attempts=sum(each.get("attempts", 0) for each in summaries),
        failed=sum(each.get("errors", {}).get("attempts", 0) for each in summaries),
        cost_usd=sum_known(each.get("cost_usd") for each in (*agents, *judges)),
        tokens=sum_known(
            each.get(name) for each in (*agents, *judges) for name in ("input_tokens", "output_tokens")
        ),
    )
