"""Every key of ``monitor`` is given by the test that shows what it changes."""

import re
from pathlib import Path

import pytest

from tests.runs.test_every_setting import _keys
from trivium.suites.monitor_settings import MonitorSettings

TESTS = Path(__file__).parents[1]

SHOWN_IN = {
    "monitor/test_sampling.py": (
        "sample_rate", "salt", "services", "per_hour", "rules.errors", "rules.tag", "rules.agent",
        "rules.unsure", "rules.rate",
    ),
    "monitor/test_completion.py": ("quiet", "longest", "max_spans"),
    "monitor/test_scorer.py": ("backlog",),
    "monitor/test_judged_samples.py": ("budget_usd_per_day",),
    "monitor/test_windows.py": ("by", "figures"),
    "monitor/test_watcher.py": (
        "window", "window_samples", "stalled_after", "no_data_after", "alerts.only_sure", "alerts.hysteresis",
        "alerts.cool_down", "alerts.examples",
    ),
    "monitor/test_levels.py": (
        "alpha", "change.tolerance", "change.false_alarm_days", "change.min_samples",
    ),
    "monitor/test_channels.py": (
        "alerts.channels.log", "alerts.channels.webhook", "alerts.channels.private", "alerts.channels.secret",
        "alerts.channels.headers",
        "alerts.channels.email", "alerts.channels.sender", "alerts.channels.smtp", "alerts.channels.user",
        "alerts.channels.password", "alerts.channels.encryption", "alerts.channels.command",
        "alerts.channels.timeout",
    ),
    "monitor/test_events.py": ("events",),
    "store/test_retention.py": ("retention.days", "retention.unsampled_days", "retention.max_gb"),
}  # fmt: skip


@pytest.mark.parametrize("file", SHOWN_IN)
def test_the_keys_are_given_there(file):
    text = (TESTS / file).read_text(encoding="utf-8")
    names = [key.rpartition(".")[2] for key in SHOWN_IN[file]]
    pattern = r'\b{}\b["\']?\s*[=:]'
    assert [name for name in names if not re.search(pattern.format(name), text)] == []


def test_every_key_is_shown_somewhere():
    assert _keys(MonitorSettings) == {key for keys in SHOWN_IN.values() for key in keys}
