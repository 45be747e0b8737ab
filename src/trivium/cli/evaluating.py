"""What ``run`` and ``score`` share: loading the suite, evaluating it, presenting the run."""

import signal
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from trivium.cli.options import split_names
from trivium.cli.outcome import exit_code, interrupted, just_made, own_command_line, present
from trivium.cli.progress import ProgressBar
from trivium.cli.standard_output import kept_for_answers
from trivium.errors import EncoderUnavailable, InputError, Problem, StoreLost, TriviumError
from trivium.runs.evaluate import evaluate
from trivium.suites.suite import Suite


def load_suite(
    source: str,
    *,
    config: str | None = None,
    encoder: str | None = None,
    repeats: int | None = None,
    at_once: int | None = None,
    tag: str | None = None,
    sample: int | None = None,
    certificates: Sequence[str] = (),
) -> Suite:
    """A suite with what the command line changes of it."""
    suite = Suite.load(source) if config is None else Suite.load(source, config=config)
    if tag is not None:
        suite = suite.filter(tag=tag)
    if sample is not None:
        suite = suite.sample(sample, seed=suite.settings.seed)
    changes: dict[str, Any] = {}
    if encoder is not None:
        _check_encoder(encoder)
        changes["encoder"] = encoder
    if certificates:
        changes["judge"] = {"certificate": list(certificates)}
    if repeats is not None:
        changes["repeats"] = repeats
    if at_once is not None:
        changes["limits"] = msgspec.structs.replace(suite.settings.limits, attempts_at_once=at_once)
    return suite.with_settings(**changes) if changes else suite


def _check_encoder(name: str) -> None:
    """Refuse an encoder that cannot be had, whether a folder or a name on the hub: it was asked for here."""
    from trivium.metrics.text.encoders.loading import load

    try:
        load(name, tell=False)
    except EncoderUnavailable as error:
        raise InputError("", Problem("--encoder", str(error))) from None


def evaluate_and_present(suite: Suite, given: Mapping[str, Any], **whose: Any) -> int:
    """Evaluate, print, report; returns the exit code."""
    bar = ProgressBar(quiet=given["quiet"] or given["as_json"])
    # A service manager's polite end is treated like Ctrl-C: what came back is stored.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with kept_for_answers():
            run = evaluate(
                suite,
                metrics=split_names(given["metrics"]),
                store=given["store"],
                resume=given["resume"],
                progress=bar,
                **whose,
            )
    except (KeyboardInterrupt, TriviumError, OSError, MemoryError) as error:
        if not isinstance(error, StoreLost):
            interrupted(own_command_line(), bar.run, bar.done)
        if isinstance(error, OSError):  # such as no file handle left
            raise InputError(str(error.filename or ""), error.strerror or str(error)) from error
        raise
    finally:
        signal.signal(signal.SIGTERM, before)
    summary = just_made(run)
    present(
        run,
        summary,
        as_json=given["as_json"],
        quiet=given["quiet"],
        html=given["html"],
        markdown=given["markdown"],
        junit=given["junit"],
    )
    return exit_code(summary, inconclusive=given["inconclusive"])
