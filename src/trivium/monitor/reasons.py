"""Says why a trace has a score, or none."""

import msgspec

from trivium.monitor.alerting.messages import Message, duration, moment
from trivium.store.live_alerts import alerts_of, last_interaction, monitors_of
from trivium.store.live_jobs import Job, LiveJobs
from trivium.store.live_samples import case_of_trace, score_of_job, trace_of_case
from trivium.store.live_traces import state_of_trace
from trivium.store.records import RunRecord
from trivium.store.store import Store


class TraceReason(msgspec.Struct, frozen=True, kw_only=True):
    """Why a trace has a score of a monitor, or none.

    Attributes:
        trace: Id of the trace.
        monitor: Name of the monitor; empty if the answer is about none.
        state: ``unknown``, ``open``, ``unsampled``, ``waiting``, ``scoring``, ``scored``, ``dropped`` or
            ``failed``.
        sentence: The answer.
        score: Its composite, if it is scored.
        passed: Whether it passed, if it is scored.
        run: Id of the run that holds its scores, if it is scored.
        case: Id of its case in that run.
    """

    trace: str
    monitor: str = ""
    state: str
    sentence: str
    score: float | None = None
    passed: bool | None = None
    run: str | None = None
    case: str | None = None


class Received(msgspec.Struct, frozen=True):
    """What a case of a monitor's run is a sample of.

    Attributes:
        trace: Id of the trace.
        alert: Number of the newest firing alert that shows it; None if none does.
    """

    trace: str
    alert: int | None


def received_as(store: Store, run: RunRecord, position: int) -> Received | None:
    """What a case of a monitor's run is a sample of; None if the sample was deleted."""
    trace = trace_of_case(store, run, position)
    if trace is None:
        return None
    for alert in alerts_of(store, run.suite_name, firing=True):
        message = msgspec.convert(alert.body, Message, strict=False)
        if any(each.trace == trace for each in message.examples):
            return Received(trace, alert.number)
    return Received(trace, None)


def reasons(store: Store, trace: str, *, now: float) -> list[TraceReason]:
    """Why a trace has a score, or none: one answer for each monitor that sampled it, else one in all.

    Args:
        store: The store.
        trace: Id of the trace, as the application or its spans state it.
        now: Unix time.
    """
    jobs = LiveJobs(store).of_trace(trace)
    latest = {job.monitor: job for job in jobs}
    if latest:
        return [_of_job(store, job, now) for job in latest.values()]
    found = state_of_trace(store, trace)
    if found is None:
        last = last_interaction(store)
        latest_time = "nothing has come yet" if last is None else f"the last traffic came {moment(last)}"
        what = "no trace with this id is stored: it was not received, or is so old that it was deleted"
        return [TraceReason(trace=trace, state="unknown", sentence=f"{what} ({latest_time})")]
    if found.state == "open":
        wait = duration(max(0.0, found.due - now))
        root = "its root has ended" if found.root else "its root has not ended"
        sentence = f"it is not complete: {root}, and it is complete in {wait} if nothing more comes"
        return [TraceReason(trace=trace, state="open", sentence=sentence)]
    names = ", ".join(monitors_of(store)) or "none"
    sentence = (
        "no monitor sampled it: the hash of its id was above its sampling probability, or no monitor watches "
        f"its service (monitors: {names})"
    )
    return [TraceReason(trace=trace, state="unsampled", sentence=sentence)]


def _of_job(store: Store, job: Job, now: float) -> TraceReason:
    how = f"sampled with probability {job.probability:g}" + (f" (rule: {job.rule})" if job.rule else "")
    reason = f": {job.reason}" if job.reason else ""
    if job.state == "done":
        return _scored(store, job, how)
    sentences = {
        "waiting": f"{how}; it waits to be scored for {duration(max(0.0, now - job.created))}"
        + (f", after {job.tries} tries{reason}" if job.tries else ""),
        "scoring": f"{how}; it is being scored",
        "dropped": f"{how}; it was dropped before it was scored{reason or ': too many samples waited'}",
        "failed": f"{how}; it could not be scored in {job.tries} tries{reason}",
    }
    sentence = sentences.get(job.state, f"{how}; {job.state}{reason}")
    return TraceReason(trace=job.trace, monitor=job.monitor, state=job.state, sentence=sentence)


def _scored(store: Store, job: Job, how: str) -> TraceReason:
    found = score_of_job(store, job)
    if found is None:
        sentence = f"{how} and scored, but the scores are so old that they were deleted"
        return TraceReason(trace=job.trace, monitor=job.monitor, state="scored", sentence=sentence)
    verdict = {True: ", passed", False: ", failed", None: _undecided(store, found.run, found.position)}[
        found.passed
    ]
    score = "without a composite" if found.score is None else f"composite {found.score:.3f}"
    late = f", version {job.version} (a span came late)" if job.version > 1 else ""
    return TraceReason(
        trace=job.trace,
        monitor=job.monitor,
        state="scored",
        sentence=f"{how}; scored {moment(found.scored)}: {score}{verdict}{late}{_cut(found.cut)}",
        score=found.score,
        passed=found.passed,
        run=found.run,
        case=case_of_trace(job.trace, job.version),
    )


def _cut(number: int | None) -> str:
    """How much of a trace that is larger than allowed was refused; empty if nothing was."""
    return f"; the trace is cut: larger than allowed, {number:,} of its spans are left out" if number else ""


def _undecided(store: Store, run: str | None, position: int) -> str:
    """Why a sample neither passed nor failed: why the metrics that decide it have no score."""
    if run is None:
        return ""
    record = store.run(run)
    settings = record.settings
    rule = settings.passed
    deciding = settings.composite.weights if rule is None or rule.metric == "composite" else (rule.metric,)
    for _, _, evaluation in store.views(record, positions=[position]):
        for name in deciding:
            score = evaluation.scores.get(name)
            if score is not None and score.value is None and score.reason:
                return f", neither passed nor failed: {name} has no score: {score.reason}"
    return ", neither passed nor failed"
