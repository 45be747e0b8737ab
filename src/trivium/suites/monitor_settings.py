"""The settings of a monitor (key ``monitor`` of a suite), their defaults, and mistakes beyond wrong types."""

import re
from collections.abc import Iterator
from typing import Annotated, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from trivium.errors import Problem
from trivium.http import VARIABLE
from trivium.masking import MASK, mask
from trivium.records.validation import at
from trivium.suites.agent_settings import header_problems
from trivium.suites.case import Count, Seconds, Share, Texts, Weight
from trivium.values import FileRecord

Probability = Annotated[float, Meta(gt=0, le=1)]


class SamplingRule(FileRecord, frozen=True, kw_only=True):
    """Interactions that are sampled more often. All conditions that are given must hold.

    Attributes:
        errors: Interactions that failed (true) or did not (false).
        tag: Interactions with this tag.
        agent: Interactions in which this agent acted.
        unsure: Interactions of agents whose latest samples the judge scored with a mean confidence below
            this, in [0, 1].
        rate: Their sampling probability; the highest of all rules that hold and ``sample_rate`` counts.
    """

    errors: bool | None = None
    tag: str | None = None
    agent: str | None = None
    unsure: Share | None = None
    rate: Probability = 1.0


class StatusThresholds(FileRecord, frozen=True, kw_only=True):
    """Means below which a figure is in status ``warning`` and ``critical``, in [0, 1]."""

    warning: Share = 0.85
    critical: Share = 0.70


class ChangeSettings(FileRecord, frozen=True, kw_only=True):
    """When the mean of a figure counts as worse than before the last deployment.

    Attributes:
        tolerance: Loss that is tolerated, in [0, 1].
        false_alarm_days: Mean time between false alarms of one figure, in days, at least.
        min_samples: Samples before the deployment that a reference needs.
    """

    tolerance: Share = 0.02
    false_alarm_days: Annotated[float, Meta(gt=0)] = 90
    min_samples: Count = 100


class ChannelSettings(FileRecord, frozen=True, kw_only=True):
    """Where alerts are sent. Exactly one of ``log``, ``webhook``, ``email`` and ``command`` is given.

    ``${NAME}`` stands for an environment variable in addresses, secrets and headers.

    Attributes:
        log: Level of the log record: ``warning`` or ``error``.
        webhook: Address that the alert is posted to as JSON.
        private: Whether the webhook may be in the private network; else the log tells that it is.
        secret: Key of the webhook's signature (HMAC-SHA256).
        headers: Headers of the webhook's requests.
        email: Addresses of the recipients.
        sender: Address of the sender.
        smtp: ``host:port`` of the mail server.
        user: User name at the mail server.
        password: Password at the mail server.
        encryption: How the connection to the mail server is encrypted.
        command: Program and arguments; it gets the alert as JSON on standard input.
        timeout: Time limit of one delivery, in seconds.
    """

    log: Literal["warning", "error"] | None = None
    webhook: str | None = None
    private: bool = False
    secret: str | None = None
    headers: dict[str, str] = {}
    email: Texts | None = None
    sender: str | None = None
    smtp: str = "localhost:25"
    user: str | None = None
    password: str | None = None
    encryption: Literal["starttls", "tls", "none"] = "starttls"
    command: Texts | None = None
    timeout: Seconds = 10


class AlertSettings(FileRecord, frozen=True, kw_only=True):
    """When alerts are sent, and where.

    Attributes:
        only_sure: Send an alert on a status only if it is sure.
        hysteresis: How far above its threshold a figure must be before the alert is resolved, in [0, 1].
        cool_down: Least time between two messages about the same cause, in seconds.
        examples: Number of the worst samples that a message names.
        channels: Where alerts are sent; the log if none is given.
    """

    only_sure: bool = True
    hysteresis: Share = 0.02
    cool_down: Weight = 3600
    examples: Annotated[int, Meta(ge=0, le=20)] = 3
    channels: tuple[ChannelSettings, ...] = ()


class RetentionSettings(FileRecord, frozen=True, kw_only=True):
    """How long a monitor's data are kept. What is oldest is deleted first.

    Attributes:
        days: Days that samples and their traces are kept.
        unsampled_days: Days that traces that were not sampled are kept after they are complete.
        max_gb: Largest size of the traces, in gigabytes.
    """

    days: Annotated[float, Meta(gt=0)] = 90
    unsampled_days: Weight = 1
    max_gb: Annotated[float, Meta(gt=0)] = 10


class MonitorSettings(FileRecord, frozen=True, kw_only=True):
    """How production traffic is sampled, scored and watched.

    Attributes:
        sample_rate: Probability that an interaction is sampled, in (0, 1].
        salt: Text that is hashed with the trace id: monitors with other salts draw other samples.
        rules: Interactions that are sampled more often.
        per_hour: Number of samples an hour that is aimed at; above it the probabilities are lowered.
        services: Names of the services (``service.name``) whose traces are watched; all if empty.
        quiet: A trace is complete when its root has ended and no span came for this long, in seconds.
        longest: A trace is complete at this age even if its root has not ended, in seconds.
        max_spans: Most spans of a trace; later ones are refused, but for its root and some that failed.
        backlog: Number of samples that may wait to be scored; above it the oldest is dropped.
        budget_usd_per_day: What the judges may cost in a day (UTC), in US dollars; None for no limit.
        window: Length of the window that statuses are computed over, in seconds.
        window_samples: Number of the latest samples that statuses are computed over, instead of ``window``.
        by: What figures are computed by: ``agent``, ``tool``, ``tag``, ``model``, ``version``, ``service``.
        figures: Thresholds of each figure that has a status: ``pass_rate``, ``composite`` or a metric.
        alpha: Probability that a status is ever wrongly called sure, in (0, 1).
        change: When a figure counts as worse than before the last deployment.
        stalled_after: Age of the oldest sample that waits to be scored at which scoring has stalled, in
            seconds.
        no_data_after: Time without any interaction after which the status is ``no_data``, in seconds.
        alerts: When alerts are sent, and where.
        retention: How long data are kept.
        events: OTLP/HTTP address that scores are sent to as ``gen_ai.evaluation.result`` events.
    """

    sample_rate: Probability = 0.01
    salt: str = ""
    rules: tuple[SamplingRule, ...] = ()
    per_hour: Count | None = None
    services: Texts = ()
    quiet: Seconds = 30
    longest: Seconds = 7200
    max_spans: Count = 10_000
    backlog: Count = 10_000
    budget_usd_per_day: Weight | None = None
    window: Seconds = 86_400
    window_samples: Count | None = None
    by: tuple[Literal["agent", "tool", "tag", "model", "version", "service"], ...] = (
        "agent",
        "tool",
        "tag",
        "model",
        "version",
    )
    figures: dict[str, StatusThresholds] = msgspec.field(
        default_factory=lambda: {"pass_rate": StatusThresholds()}
    )
    alpha: Annotated[float, Meta(gt=0, lt=1)] = 0.05
    change: ChangeSettings = ChangeSettings()
    stalled_after: Seconds = 900
    no_data_after: Seconds = 86_400
    alerts: AlertSettings = AlertSettings()
    retention: RetentionSettings = RetentionSettings()
    events: str | None = None


KINDS = ("log", "webhook", "email", "command")

_LITERAL = "holds a secret: write ${NAME}, an environment variable"

_KEY = re.compile(
    r"/(?:[^/?#]*[^/?#A-Za-z0-9])?(?=[A-Za-z]*\d)(?=\d*[A-Za-z])[A-Za-z0-9]{20,}"
    r"|/[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"
)
"""A part of a path that somebody drew at random: a long run of letters and digits, or a UUID."""

_ONLY_FOR = {
    "private": "webhook",
    "secret": "webhook",
    "headers": "webhook",
    "sender": "email",
    "user": "email",
    "password": "email",
}
"""Keys of a channel that go with one kind only."""


def monitor_problems(settings: MonitorSettings) -> Iterator[Problem]:
    """Yield the mistakes in a monitor's settings."""
    for figure, thresholds in settings.figures.items():
        if thresholds.critical > thresholds.warning:
            what = f"critical ({thresholds.critical:g}) is above warning ({thresholds.warning:g})"
            yield Problem(at("monitor.figures", figure), what)
    if len(set(settings.by)) < len(settings.by):
        yield Problem("monitor.by", "names a facet twice")
    for place, rule in enumerate(settings.rules):
        if rule.rate <= settings.sample_rate:
            what = f"found {rule.rate:g}, which does not raise sample_rate ({settings.sample_rate:g})"
            yield Problem(f"monitor.rules[{place}].rate", what)
    for place, channel in enumerate(settings.alerts.channels):
        yield from _channel_problems(channel, f"monitor.alerts.channels[{place}]")
    if settings.events is not None:
        yield from _address_problems(settings.events, "monitor.events")
        if _holds_key(settings.events):
            yield Problem("monitor.events", _LITERAL)


def without_channel_secrets(monitor: MonitorSettings | None) -> MonitorSettings | None:
    """The settings of a monitor as they are stored: of its channels nothing that may hold a secret."""
    if monitor is None:
        return None
    channels = tuple(
        msgspec.structs.replace(
            channel,
            webhook=channel.webhook and _without_path(channel.webhook),
            secret=channel.secret and MASK,
            headers=dict.fromkeys(channel.headers, MASK),
            password=channel.password and MASK,
            command=channel.command and tuple(map(mask, channel.command)),
        )
        for channel in monitor.alerts.channels
    )
    alerts = msgspec.structs.replace(monitor.alerts, channels=channels)
    return msgspec.structs.replace(monitor, alerts=alerts, events=monitor.events and mask(monitor.events))


def _without_path(address: str) -> str:
    """An address without what may be a key: all that comes after the host."""
    if VARIABLE.match(address):
        return address
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}/{MASK}"


def _secrets_in(channel: ChannelSettings, where: str) -> Iterator[Problem]:
    """The settings of a channel that hold a secret: it would be in every copy of the suite."""
    for key in ("secret", "password"):
        text = getattr(channel, key)
        if text and not VARIABLE.search(text):
            yield Problem(f"{where}.{key}", _LITERAL)
    if channel.webhook is not None and _holds_key(channel.webhook):
        yield Problem(f"{where}.webhook", _LITERAL)
    for word in channel.command or ():
        if mask(bare := VARIABLE.sub("", word)) != bare:
            yield Problem(f"{where}.command", _LITERAL)
    yield from header_problems(f"{where}.headers", channel.headers)


def _holds_key(address: str) -> bool:
    """Whether an address holds a key: as a user's, as an argument, or as a random part of its path."""
    bare = VARIABLE.sub("", address)
    return mask(bare) != bare or "@" in bare.partition("://")[2].partition("/")[0] or bool(_KEY.search(bare))


def _channel_problems(channel: ChannelSettings, where: str) -> Iterator[Problem]:
    kinds = [kind for kind in KINDS if getattr(channel, kind) is not None]
    if len(kinds) != 1:
        found = f"names {' and '.join(kinds)}" if kinds else "names none"
        yield Problem(where, f"{found}: expected exactly one of {', '.join(KINDS)}")
        return
    for key, kind in _ONLY_FOR.items():
        if getattr(channel, key) and kinds != [kind]:
            yield Problem(f"{where}.{key}", f"goes with {kind} only")
    yield from _secrets_in(channel, where)
    if channel.webhook is not None:
        yield from _address_problems(channel.webhook, f"{where}.webhook")
    if channel.email is not None:
        yield from _email_problems(channel, channel.email, where)
    if channel.command is not None and not channel.command:
        yield Problem(f"{where}.command", "names no program")


def _email_problems(channel: ChannelSettings, recipients: tuple[str, ...], where: str) -> Iterator[Problem]:
    for each in recipients:
        if not _is_address(each):
            yield Problem(f"{where}.email", f'"{each}" is no e-mail address')
    if not recipients:
        yield Problem(f"{where}.email", "names no recipient")
    if channel.sender is not None and not _is_address(channel.sender):
        yield Problem(f"{where}.sender", f'"{channel.sender}" is no e-mail address')
    if channel.password is not None and channel.user is None:
        yield Problem(f"{where}.password", "goes with a user")
    if channel.password is not None and channel.encryption == "none":
        yield Problem(f"{where}.encryption", "a password is never sent unencrypted")


def _address_problems(address: str, where: str) -> Iterator[Problem]:
    try:
        parts = urlsplit(address)
        known = parts.hostname and parts.scheme in {"http", "https"}
    except ValueError:
        known = False
    if not known and not address.startswith("${"):
        yield Problem(where, "is no address: expected http://… or https://…, or ${NAME}")


def _is_address(text: str) -> bool:
    if "${" in text:
        return True
    name, _, host = text.strip().rpartition("@")
    return bool(name and host) and not any(each in text for each in "\r\n,;")
