"""The server as a process of its own: ``python -m tests.judge_server --port 8001 --latency 0.2``.

Prints its URLs as a line of JSON once it listens; runs until standard input ends or it is interrupted.
``GET /stats`` tells the counts and the CPU seconds so far.
"""

import argparse
import sys
from collections.abc import Sequence

import msgspec

from tests.judge_server import Conditions, JudgeServer, faults

_SHARES = [share for share, default in faults.__kwdefaults__.items() if isinstance(default, float)]


def _arguments(options: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.judge_server", description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--latency", type=float, default=0.0, help="seconds until an answer")
    parser.add_argument("--rate", type=float, help="requests a second let through")
    parser.add_argument(
        "--limit", choices=["bucket", "window"], default="bucket", help="how the rate is held"
    )
    parser.add_argument("--burst", type=float, default=1.0, help="size of the bucket, in requests")
    parser.add_argument("--rate-retry-after", choices=["exact", "whole"], help="what a 429 for the rate says")
    for share in _SHARES:
        parser.add_argument(f"--{share.replace('_', '-')}", type=float, default=0.0, help="share of requests")
    parser.add_argument("--retry-after", type=float, help="seconds, in the drawn 429s")
    parser.add_argument(
        "--by", choices=["request", "prompt"], default="request", help="what faults are drawn for"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--change-at", type=int, help="answers after which latency and rate change")
    parser.add_argument("--then-latency", type=float)
    parser.add_argument("--then-rate", type=float)
    parser.add_argument("--text", help="what is said where no schema asks for more")
    parser.add_argument("--words", type=int, default=8, help="length of each text that a schema asks for")
    return parser.parse_args(options)


def from_options(options: Sequence[str] | None = None) -> JudgeServer:
    """The server that command line options describe, by default those of this process."""
    given = _arguments(options)
    shares = {share: getattr(given, share) for share in _SHARES}
    conditions = Conditions(
        latency=given.latency,
        rate=given.rate,
        limit=given.limit,
        burst=given.burst,
        retry_after=given.rate_retry_after,
        plan=faults(**shares, retry_after=given.retry_after, seed=given.seed, by=given.by),
    )
    changes = {}
    if given.change_at is not None:
        then = {"latency": given.then_latency, "rate": given.then_rate}
        changed = {name: value for name, value in then.items() if value is not None}
        changes[given.change_at] = msgspec.structs.replace(conditions, **changed)
    text = {} if given.text is None else {"text": given.text}
    return JudgeServer(
        conditions=conditions, changes=changes, record=False, port=given.port, words=given.words, **text
    )


def main() -> None:
    with from_options() as server:
        urls = {"openai_url": server.openai_url, "anthropic_url": server.anthropic_url}
        print(msgspec.json.encode(urls).decode(), flush=True)
        try:
            sys.stdin.read()
        except KeyboardInterrupt:
            return


if __name__ == "__main__":
    main()
