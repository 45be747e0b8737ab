"""Sends messages to the log, a webhook, by e-mail, or to a command.

``${NAME}`` in addresses, secrets and headers stands for an environment variable. It is replaced when a
message is sent: neither the store nor the log ever holds what it stands for.

A webhook's request has the message as its JSON body and the headers

* ``Idempotency-Key``: the same at every try of one message;
* ``X-Trivium-Signature: t=TIME,v1=HEX``, if there is a ``secret``: HEX is the HMAC-SHA256, with the secret,
  of TIME, a full stop, and the body. Who receives it compares HEX in constant time and refuses old times.
"""

import hmac
import logging
import os
import re
import smtplib
import ssl
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from email.message import EmailMessage
from email.utils import formatdate
from hashlib import sha256
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

from trivium.errors import InputError, Problem
from trivium.http import is_retryable_status, read_prefix, retry_after_seconds
from trivium.masking import MASK, mask
from trivium.monitor.alerting.messages import Message, one_line, text_of
from trivium.processes import kill_with_children
from trivium.suites.monitor_settings import ChannelSettings

if TYPE_CHECKING:
    import httpx

log = logging.getLogger("trivium.alerts")

MOST_RESPONSE_BYTES = 65_536
"""Bytes of a webhook's response that are read."""

SIGNATURE = "X-Trivium-Signature"

_VARIABLE = re.compile(r"\$\{(\w+)\}")
_SECRET_LENGTH = 4
"""Values shorter than this are not looked for in error messages: they would mask ordinary words."""


class NotSent(Exception):
    """A message could not be sent.

    Args:
        reason: Why.
        retry: Whether another try may succeed.
        after: Seconds after which the receiver wants it again, or None.
    """

    def __init__(self, reason: str, *, retry: bool = True, after: float | None = None) -> None:
        super().__init__(reason)
        self.retry = retry
        self.after = after


def missing_variables(channels: Iterable[ChannelSettings], source: str) -> None:
    """Check that every environment variable that channels name is set.

    Raises:
        InputError: If one is not.
    """
    problems = []
    for place, each in enumerate(channels):
        for name, value in _texts(each):
            for variable in _VARIABLE.findall(value):
                if variable not in os.environ:
                    where = f"monitor.alerts.channels[{place}].{name}"
                    problems.append(Problem(where, f"the environment variable {variable} is not set"))
    if problems:
        raise InputError(source, problems)


class Channel:
    """Where messages are sent: to a webhook, by e-mail, to a command, or to the log.

    Args:
        settings: Which of them, and how.
        clock: Returns the Unix time.

    Attributes:
        name: ``webhook``, ``email``, ``command`` or ``log``.
    """

    def __init__(self, settings: ChannelSettings, *, clock: Callable[[], float] = time.time) -> None:
        self._settings = settings
        self._clock = clock
        self._told = settings.private
        named = (name for name in ("webhook", "email", "command") if getattr(settings, name) is not None)
        self.name = next(named, "log")

    def send(self, message: Message, body: bytes, key: str) -> None:
        """Send a message.

        Args:
            message: The message.
            body: The same as JSON.
            key: The same at every try.

        Raises:
            NotSent: If it could not be sent.
        """
        secrets = Secrets(self._settings)
        match self.name:
            case "webhook":
                self._post(body, key, secrets)
            case "email":
                self._mail(message, key, secrets)
            case "command":
                self._run(body, key, secrets)
            case _:
                self._log(message)

    def _log(self, message: Message) -> None:
        """Log the sentence of a message; of a resolved alert as information."""
        level = logging.ERROR if self._settings.log == "error" else logging.WARNING
        log.log(logging.INFO if message.kind == "resolved" else level, "%s", one_line(message.title))

    def _post(self, body: bytes, key: str, secrets: "Secrets") -> None:
        """Post a message as JSON; redirects are not followed."""
        import httpx

        settings = self._settings
        headers = {name: secrets.replaced(value) for name, value in settings.headers.items()}
        headers |= {
            "accept-encoding": "identity",  # the beginning of the answer is shown as it is sent
            "content-type": "application/json",
            "idempotency-key": key,
            "user-agent": "trivium",
        }
        if settings.secret is not None:
            headers[SIGNATURE] = signature(secrets.replaced(settings.secret), body, self._clock())
        deadline = time.monotonic() + settings.timeout
        try:
            with (
                httpx.Client(timeout=settings.timeout, follow_redirects=False) as client,
                client.stream(
                    "POST", secrets.replaced(settings.webhook or ""), content=body, headers=headers
                ) as response,
            ):
                self._tell_if_private(response)
                text = read_prefix(response, MOST_RESPONSE_BYTES, deadline=deadline)
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeEncodeError) as error:
            what = str(error) or type(error).__name__
            raise NotSent(secrets.masked(f"cannot be reached: {what}")) from error
        if 200 <= response.status_code < 300:
            return
        hint = "; redirects are not followed" if 300 <= response.status_code < 400 else ""
        shown = text[:200].decode(errors="replace")
        raise NotSent(
            secrets.masked(f"answered {response.status_code}{hint}{': ' if shown else ''}{shown}"),
            retry=is_retryable_status(response.status_code),
            after=retry_after_seconds(response.headers, now=self._clock()),
        )

    def _tell_if_private(self, response: "httpx.Response") -> None:
        """Log once that the address leads into the private network, where others may not be meant to send."""
        peer = response.extensions["network_stream"].get_extra_info("server_addr")
        if self._told or not peer or not ip_address(peer[0].partition("%")[0]).is_private:
            return
        self._told = True
        log.warning(
            "a webhook leads to %s, an address of the private network; if it should, set private: true",
            peer[0],
        )

    def _mail(self, message: Message, key: str, secrets: "Secrets") -> None:
        """Send a message by e-mail to all recipients."""
        settings = self._settings
        mail = EmailMessage()
        mail["Subject"] = one_line(message.title)[:300]
        try:
            mail["From"] = secrets.replaced(settings.sender or "trivium@localhost")
            mail["To"] = ", ".join(secrets.replaced(each) for each in settings.email or ())
        except ValueError as error:  # such as a line feed
            raise NotSent(secrets.masked(f"sender or recipients: {error}"), retry=False) from error
        mail["Date"] = formatdate()
        mail["Message-ID"] = f"<{re.sub(r'[^0-9a-zA-Z.-]', '-', key)}@trivium>"
        mail["Auto-Submitted"] = "auto-generated"
        mail.set_content(text_of(message))
        try:
            with self._connected(secrets) as server:
                server.send_message(mail)
        except smtplib.SMTPNotSupportedError as error:
            hint = 'the server offers no STARTTLS; set encryption to "tls" or "none"'
            raise NotSent(hint, retry=False) from error
        except smtplib.SMTPAuthenticationError as error:
            raise NotSent(secrets.masked(f"user or password is wrong: {error}"), retry=False) from error
        except smtplib.SMTPRecipientsRefused as error:
            raise NotSent(secrets.masked(f"refused: {error}"), retry=_temporary(error)) from error
        except (smtplib.SMTPException, OSError) as error:
            raise NotSent(secrets.masked(f"{type(error).__name__}: {error}")) from error

    def _connected(self, secrets: "Secrets") -> smtplib.SMTP:
        settings = self._settings
        host, port = host_and_port(secrets.replaced(settings.smtp))
        if settings.encryption == "tls":
            context = ssl.create_default_context()
            server: smtplib.SMTP = smtplib.SMTP_SSL(host, port, timeout=settings.timeout, context=context)
        else:
            server = smtplib.SMTP(host, port, timeout=settings.timeout)
        try:
            if settings.encryption == "starttls":
                server.starttls(context=ssl.create_default_context())
            if settings.user is not None:
                server.login(secrets.replaced(settings.user), secrets.replaced(settings.password or ""))
        except BaseException:
            server.close()
            raise
        return server

    def _run(self, body: bytes, key: str, secrets: "Secrets") -> None:
        """Run a program, which is killed with its children after the timeout."""
        words = self._settings.command or ()
        try:
            process = subprocess.Popen(  # noqa: S603 - the user's own program
                [secrets.replaced(word) for word in words],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                env=os.environ | {"TRIVIUM_ALERT_KEY": key},
            )
        except (OSError, ValueError) as error:
            raise NotSent(secrets.masked(f"cannot be started: {error}")) from error
        try:
            with suppress(BrokenPipeError):
                process.communicate(body, timeout=self._settings.timeout)
        except subprocess.TimeoutExpired as error:
            kill_with_children(process.pid)
            process.communicate()
            raise NotSent(f"was killed after {self._settings.timeout:g} s") from error
        if process.returncode:
            raise NotSent(f"ended with exit code {process.returncode}")


class Secrets:
    """Replaces ``${NAME}`` by environment variables, and masks their values in error messages.

    Args:
        settings: What may name variables.
        environ: The variables.
    """

    def __init__(self, settings: ChannelSettings, environ: Mapping[str, str] | None = None) -> None:
        self._environ = os.environ if environ is None else environ
        texts = [value for _, value in _texts(settings)]
        found = {self._environ.get(name, "") for text in texts for name in _VARIABLE.findall(text)}
        found |= {settings.secret or "", settings.password or ""}
        self._values = sorted((each for each in found if len(each) >= _SECRET_LENGTH), key=len, reverse=True)

    def replaced(self, text: str) -> str:
        """A text with the values of its variables.

        Raises:
            NotSent: If one is not set.
        """

        def value(match: re.Match[str]) -> str:
            name = match.group(1)
            if name not in self._environ:
                raise NotSent(f"the environment variable {name} is not set")
            return self._environ[name]

        return _VARIABLE.sub(value, text)

    def masked(self, text: str) -> str:
        """A text without the values."""
        for value in self._values:
            text = text.replace(value, MASK)
        return mask(text)[:500]


def signature(secret: str, body: bytes, now: float) -> str:
    """The value of the signature's header.

    >>> signature("key", b"{}", 0)[:12]
    't=0,v1=84f2f'
    """
    stamp = str(int(now))
    digest = hmac.new(secret.encode(), stamp.encode() + b"." + body, sha256).hexdigest()
    return f"t={stamp},v1={digest}"


def host_and_port(address: str) -> tuple[str, int]:
    """Split ``host:port``; the port is 25 if there is none.

    Raises:
        NotSent: If the port is no number.
    """
    host, _, port = address.rpartition(":")
    if not host:
        host, port = address, "25"
    if not port.isdecimal() or not 0 < int(port) < 65_536:
        raise NotSent(f'smtp: found "{address}", expected host:port', retry=False)
    return host.strip("[]"), int(port)


def _texts(settings: ChannelSettings) -> list[tuple[str, str]]:
    """The settings that may name variables, with their keys."""
    found: list[tuple[str, Any]] = [
        (name, getattr(settings, name))
        for name in ("webhook", "secret", "sender", "smtp", "user", "password")
    ]
    found += [(f"headers.{name}", value) for name, value in settings.headers.items()]
    found += [("email", value) for value in settings.email or ()]
    found += [("command", value) for value in settings.command or ()]
    return [(name, value) for name, value in found if value]


def _temporary(error: smtplib.SMTPRecipientsRefused) -> bool:
    return any(400 <= code < 500 for code, _ in error.recipients.values())
