"""Publishes live frames to `notification.websocket` with confirms.

Frames may be repeated but are never lost. They are emitted before the commit of the transaction that creates them. If
RabbitMQ does not confirm them, they are stored in that transaction (`live_frame`); `frame_backlog.py` publishes them
later. So neither the listeners nor the durable channels ever wait for the live channel.

While stored frames may be pending, new frames are stored as well: this keeps the order.
"""

import time
from collections.abc import Sequence

from pamqp.commands import Basic

from notification_fanout import store
from notification_fanout.metrics import FRAMES, FRAMES_STORED
from tablebell.frames import AddressedFrame, encode_frames
from tablebell.postgres import Connection
from tablebell.rabbit import Broker, Confirmed, OutgoingMessage, Publisher
from tablebell.topology import LIVE_EXCHANGE, declare_live

CONFIRM_SECONDS = 2.0
COMMIT_SECONDS = 5.0
"""An upper bound for the time from storing a frame to the commit."""

# Transient: frames are of no use after a restart of the broker.
PROPERTIES = Basic.Properties(content_type="application/json", delivery_mode=1)


class FramePublisher:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._publisher = Publisher(broker, declare_live, confirm_seconds=CONFIRM_SECONDS)
        self._stored_at = 0.0
        self.is_behind = False
        """Whether frames stored by this process may be pending."""

    @property
    def is_available(self) -> bool:
        return self._broker.connected

    async def emit(self, connection: Connection, frames: Sequence[AddressedFrame]) -> None:
        """Publish the frames as one message, or store it in the transaction of `connection`."""
        if not frames:
            return
        message = encode_frames(frames)
        if not self.is_behind and self.is_available and await self.publish([message]):
            FRAMES.inc(len(frames))
            return
        self.is_behind, self._stored_at = True, time.monotonic()
        await store.append_live_frame(connection, message)
        FRAMES_STORED.inc(len(frames))

    async def publish(self, messages: Sequence[bytes]) -> int:
        """Return how many messages, counted from the first, RabbitMQ confirmed."""
        outgoing = [OutgoingMessage(LIVE_EXCHANGE, "", message, PROPERTIES, mandatory=False) for message in messages]
        for index, outcome in enumerate(await self._publisher.publish_all(outgoing)):
            if not isinstance(outcome, Confirmed):
                return index
        return len(messages)

    def note_empty(self) -> None:
        """No stored frame was found: publish new frames directly, unless one may be stored but not yet committed."""
        if time.monotonic() - self._stored_at > COMMIT_SECONDS:
            self.is_behind = False

    async def aclose(self) -> None:
        await self._publisher.close()
