"""Lists mistakes in the settings of a monitor whose types are correct."""

from urllib.parse import urlsplit

from trivium.errors import Problem
from trivium.suites.monitor_settings import ChannelSettings, MonitorSettings
from trivium.suites.validation import at

KINDS = ("log", "webhook", "email", "command")

_ONLY_FOR = {
    "secret": "webhook",
    "headers": "webhook",
    "sender": "email",
    "user": "email",
    "password": "email",
}
"""Keys of a channel that go with one kind only."""


def monitor_problems(settings: MonitorSettings) -> list[Problem]:
    """List the mistakes in a monitor's settings."""
    problems = []
    for figure, thresholds in settings.figures.items():
        if thresholds.critical > thresholds.warning:
            what = f"critical ({thresholds.critical:g}) is above warning ({thresholds.warning:g})"
            problems.append(Problem(at("monitor.figures", figure), what))
    if len(set(settings.by)) < len(settings.by):
        problems.append(Problem("monitor.by", "names a facet twice"))
    for place, rule in enumerate(settings.rules):
        if rule.rate <= settings.sample_rate:
            what = f"found {rule.rate:g}, which does not raise sample_rate ({settings.sample_rate:g})"
            problems.append(Problem(f"monitor.rules[{place}].rate", what))
    for place, channel in enumerate(settings.alerts.channels):
        problems += _channel_problems(channel, f"monitor.alerts.channels[{place}]")
    if settings.events is not None:
        problems += _address_problems(settings.events, "monitor.events")
    return problems


def _channel_problems(channel: ChannelSettings, where: str) -> list[Problem]:
    kinds = [kind for kind in KINDS if getattr(channel, kind) is not None]
    if len(kinds) != 1:
        found = f"names {' and '.join(kinds)}" if kinds else "names none"
        return [Problem(where, f"{found}: expected exactly one of {', '.join(KINDS)}")]
    problems = [
        Problem(f"{where}.{key}", f"goes with {kind} only")
        for key, kind in _ONLY_FOR.items()
        if getattr(channel, key) and kinds != [kind]
    ]
    if channel.webhook is not None:
        problems += _address_problems(channel.webhook, f"{where}.webhook")
    if channel.email is not None:
        wrong = [each for each in channel.email if not _is_address(each)]
        problems += [Problem(f"{where}.email", f'"{each}" is no e-mail address') for each in wrong]
        if not channel.email:
            problems.append(Problem(f"{where}.email", "names no recipient"))
        if channel.sender is not None and not _is_address(channel.sender):
            problems.append(Problem(f"{where}.sender", f'"{channel.sender}" is no e-mail address'))
        if channel.password is not None and channel.user is None:
            problems.append(Problem(f"{where}.password", "goes with a user"))
        if channel.password is not None and channel.encryption == "none":
            problems.append(Problem(f"{where}.encryption", "a password is never sent unencrypted"))
    if channel.command is not None and not channel.command:
        problems.append(Problem(f"{where}.command", "names no program"))
    return problems


def _address_problems(address: str, where: str) -> list[Problem]:
    if address.startswith("${"):
        return []
    try:
        parts = urlsplit(address)
        host = parts.hostname
    except ValueError:
        host = None
    if not host or parts.scheme not in {"http", "https"}:
        return [Problem(where, "is no address: expected http://… or https://…, or ${NAME}")]
    return []


def _is_address(text: str) -> bool:
    if "${" in text:
        return True
    name, _, host = text.strip().rpartition("@")
    return bool(name and host) and not any(each in text for each in "\r\n,;")
