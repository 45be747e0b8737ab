"""Mistakes in the settings of a monitor are found when its suite is loaded, all at once."""

import pytest

from trivium.suites.settings_loader import parse_settings

KEY = "q8ZrT2mVw4Lk9PxB3nCs7Yd1"
UUID = "3f2b8c1e-9a4d-4e6f-8b7a-0c1d2e3f4a5b"


def problems(**monitor) -> list[str]:
    return [str(problem) for problem in parse_settings({"monitor": monitor})[1]]


def channel(**settings) -> list[str]:
    return problems(alerts={"channels": [settings]})


def test_settings_that_are_right():
    assert problems(sample_rate=0.05, rules=[{"errors": True}], by=["agent"]) == []
    assert channel(webhook="https://example.org/hook", secret="${S}") == []
    assert channel(email=["a@example.org"], user="u", password="${P}", smtp="mail:587") == []
    assert channel(command=["notify", "--now"]) == []
    assert channel(log="error") == []
    assert channel(webhook="https://hooks.example/services/${KEY}", private=True) == []
    assert channel(webhook="https://example.org/alerts-of-the-customer-support-team-2/in") == []


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "names none: expected exactly one of log, webhook, email, command"),
        ({"log": "error", "webhook": "https://x"}, "names log and webhook: expected exactly one of"),
        ({"webhook": "ftp://x"}, "webhook: is no address"),
        ({"webhook": "https://"}, "webhook: is no address"),
        ({"webhook": "http://[x"}, "webhook: is no address"),
        ({"log": "error", "secret": "x"}, "secret: goes with webhook only"),
        ({"log": "error", "user": "x"}, "user: goes with email only"),
        ({"email": ["nobody"]}, '"nobody" is no e-mail address'),
        ({"email": ["a@b"], "sender": "x"}, '"x" is no e-mail address'),
        ({"email": []}, "names no recipient"),
        ({"email": ["a@b"], "password": "x"}, "password: goes with a user"),
        (
            {"email": ["a@b"], "user": "u", "password": "x", "encryption": "none"},
            "a password is never sent unencrypted",
        ),
        ({"command": []}, "names no program"),
        ({"log": "error", "private": True}, "private: goes with webhook only"),
        ({"webhook": "https://x", "secret": "plainSECRET99"}, "secret: holds a secret: write ${NAME}"),
        ({"email": ["a@b"], "user": "u", "password": "plain"}, "password: holds a secret: write ${NAME}"),
        ({"webhook": "https://x", "headers": {"Authorization": "Bearer abc123def456"}}, "write ${NAME}"),
        ({"webhook": "https://u:pw@x/hook"}, "webhook: holds a secret: write ${NAME}"),
        ({"webhook": "https://trv_key@x/hook"}, "webhook: holds a secret: write ${NAME}"),
        ({"webhook": "https://x/hook?token=abcdef123456"}, "webhook: holds a secret: write ${NAME}"),
        ({"webhook": f"https://hooks.example/services/T0/{KEY}"}, "webhook: holds a secret: write ${NAME}"),
        ({"webhook": f"https://x/{UUID}/in"}, "webhook: holds a secret: write ${NAME}"),
        ({"command": ["curl", "-H", f"Authorization: Bearer {KEY}"]}, "command: holds a secret"),
    ],
)
def test_a_channel_that_is_wrong(settings, said):
    (problem, *_) = channel(**settings)
    assert problem.startswith("monitor.alerts.channels[0]")
    assert said in " ".join(channel(**settings))


def test_other_mistakes():
    assert (
        "critical (0.9) is above warning (0.8)"
        in problems(figures={"pass_rate": {"critical": 0.9, "warning": 0.8}})[0]
    )
    assert "names a facet twice" in problems(by=["agent", "agent"])[0]
    assert "does not raise sample_rate" in problems(sample_rate=0.5, rules=[{"errors": True, "rate": 0.5}])[0]
    assert "monitor.events: is no address" in problems(events="localhost")[0]
    assert "monitor.events: holds a secret" in problems(events="https://u:pw@example.org/v1/traces")[0]
