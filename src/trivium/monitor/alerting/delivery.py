"""Delivers stored messages to their channels: retried with growing waits, each by one process at a time."""

import logging
import time
from collections.abc import Callable, Iterable

import msgspec

from trivium.http import Backoff
from trivium.monitor.alerting.channels import Channel, NotSent
from trivium.monitor.alerting.messages import Message
from trivium.monitor.loop import Loop
from trivium.monitor.monitored import Monitored
from trivium.store.live_alerts import Delivery, lease_delivery, settle_delivery
from trivium.store.store import Store
from trivium.suites.monitor_settings import ChannelSettings

log = logging.getLogger(__name__)

MOST_TRIES = 12
"""Times that a message is tried: with the waits, over some nine hours."""

BACKOFF = Backoff(first=5.0, longest=3600.0, factor=3.0)

LOOK_SECONDS = 2.0
"""Time between two looks for messages."""

_DEFAULT = (ChannelSettings(log="warning"),)


class Deliverer(Loop):
    """Delivers the messages of a monitor to one of its channels, in a background thread.

    A channel that hangs delays its own messages only. A message is leased while it is sent, so that several
    servers do not send it twice; a server that is killed between sending a message and noting that sends it
    once more, with the same key.

    Args:
        store: The store.
        monitor: Name of the monitor.
        place: Place of the channel among those of the monitor.
        settings: The channel.
        clock: Returns the Unix time.
    """

    def __init__(
        self,
        store: Store,
        monitor: str,
        place: int,
        settings: ChannelSettings,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._monitor = monitor
        self._place = place
        self._channel = Channel(settings, clock=clock)
        self._lease = 4 * settings.timeout + 60
        self._clock = clock
        super().__init__(
            f"trivium-{self._channel.name}-{place}",
            self.deliver,
            seconds=LOOK_SECONDS,
            failing="messages cannot be delivered now",
            patience=2.0,
        )

    def deliver(self, now: float | None = None) -> int:
        """Send what is due at a Unix time, or now, one message after the other; returns how much was sent.

        Raises:
            StoreError: If the store fails.
        """
        sent = 0
        while not self.stopping:
            at = self._clock() if now is None else now
            due = lease_delivery(self._store, self._monitor, channel=self._place, now=at, lease=self._lease)
            if due is None:
                break
            sent += self._send(due, at)
        return sent

    def _send(self, delivery: Delivery, now: float) -> bool:
        channel = self._channel
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


def deliverers(
    store: Store, monitors: Iterable[Monitored], *, clock: Callable[[], float] = time.time
) -> list[Deliverer]:
    """Those of all channels of some monitors."""
    return [
        Deliverer(store, each.name, place, settings, clock=clock)
        for each in monitors
        for place, settings in enumerate(each.monitor.alerts.channels or _DEFAULT)
    ]
