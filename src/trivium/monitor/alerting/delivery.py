"""Delivers stored messages to their channels: retried with growing waits, each by one process at a time."""

import logging
import time
from collections.abc import Callable, Iterable
from threading import Event, Thread
from typing import Self

import msgspec

from trivium.errors import StoreError
from trivium.http import Backoff
from trivium.monitor.alerting.channels import Channel, NotSent, channel_of
from trivium.monitor.alerting.messages import Message
from trivium.monitor.monitored import Monitored
from trivium.store.live_alerts import Delivery, lease_deliveries, settle_delivery
from trivium.store.store import Store
from trivium.suites.monitor_settings import ChannelSettings

log = logging.getLogger(__name__)

MOST_TRIES = 12
"""Times that a message is tried: with the waits, over some nine hours."""

BACKOFF = Backoff(first=5.0, longest=3600.0, factor=3.0)

LOOK_SECONDS = 2.0
"""Time between two looks for messages."""

_DEFAULT = (ChannelSettings(log="warning"),)


class Deliverer:
    """Delivers the messages of monitors, with a thread for each channel once it is started.

    A channel that hangs delays its own messages only. A message is leased while it is sent, so that several
    servers do not send it twice; a server that is killed between sending a message and noting that sends it
    once more, with the same key.

    Args:
        store: The store.
        monitors: The monitors.
        clock: Returns the Unix time.
    """

    def __init__(
        self, store: Store, monitors: Iterable[Monitored], *, clock: Callable[[], float] = time.time
    ) -> None:
        self._store = store
        self._clock = clock
        self._channels: list[tuple[str, int, Channel, float]] = [
            (each.name, place, channel_of(settings, clock=clock), settings.timeout)
            for each in monitors
            for place, settings in enumerate(each.monitor.alerts.channels or _DEFAULT)
        ]
        self._stopped = Event()
        self._threads: list[Thread] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def deliver(self, now: float) -> int:
        """Send what is due at a Unix time to all channels, one after the other; returns how much was sent.

        Raises:
            StoreError: If the store fails.
        """
        sent = 0
        for channel in self._channels:
            while (found := self._deliver(*channel, now)) is not None:
                sent += found
        return sent

    def start(self) -> None:
        """Deliver until :meth:`stop`."""
        for channel in self._channels:
            name = f"trivium-{channel[2].name}-{channel[1]}"
            self._threads.append(Thread(target=self._run, args=channel, name=name, daemon=True))
        for thread in self._threads:
            thread.start()

    def stop(self, *, wait_seconds: float = 2.0) -> None:
        """End the threads; what is not sent is sent after a restart.

        Args:
            wait_seconds: How long to wait for a message that is being sent.
        """
        self._stopped.set()
        deadline = time.monotonic() + wait_seconds
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _run(self, monitor: str, place: int, channel: Channel, timeout: float) -> None:
        while not self._stopped.wait(LOOK_SECONDS):
            try:
                while self._deliver(monitor, place, channel, timeout, self._clock()) is not None:
                    pass
            except StoreError as error:
                log.warning("messages cannot be read now: %s", error)
            except Exception:  # the next look may succeed
                log.exception("messages cannot be delivered now")

    def _deliver(self, monitor: str, place: int, channel: Channel, timeout: float, now: float) -> bool | None:
        """Try one message that is due to a channel, so that a lease is short; None if none is due."""
        if self._stopped.is_set():
            return None
        lease = 4 * timeout + 60
        leased = lease_deliveries(self._store, monitor, channel=place, now=now, lease=lease, limit=1)
        return self._send(channel, leased[0], now) if leased else None

    def _send(self, channel: Channel, delivery: Delivery, now: float) -> bool:
        try:
            message = msgspec.json.decode(delivery.body, type=Message)
            try:
                channel.send(message, delivery.body.encode(), delivery.key)
            except NotSent:
                raise
            except Exception as error:  # its text may hold secrets
                log.debug("%s", channel.name, exc_info=True)
                raise NotSent(f"failed: {type(error).__name__}") from error
        except NotSent as error:
            over = not error.retry or delivery.tries >= MOST_TRIES
            wait = min(BACKOFF.seconds(delivery.tries, asked_for=error.after), BACKOFF.longest)
            state = "failed" if over else "waiting"
            settle_delivery(self._store, delivery, state=state, due=now + wait, reason=str(error))
            then = "it is not tried again" if over else f"next try in {wait:.0f} s"
            log.warning("%s: alert %s was not sent: %s; %s", channel.name, delivery.key, error, then)
            return False
        settle_delivery(self._store, delivery, state="sent", due=now)
        return True
