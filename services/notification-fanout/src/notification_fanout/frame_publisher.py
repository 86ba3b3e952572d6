"""The live channel: frames to `notification.websocket`, confirmed.

Frames may come twice but are never lost. They are emitted before the commit of the transaction that makes them. If
RabbitMQ does not take them, they are stored in that transaction (`live_frame`), and `frame_backlog.py` publishes them
later. So neither the listeners nor the durable channels ever wait for the live channel.

As long as stored frames may be waiting, new ones are stored behind them: the order is kept.
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
"""A transaction that stored frames has ended by then."""

# Transient: nobody looks at a frame that outlived a broker's restart.
PROPERTIES = Basic.Properties(content_type="application/json", delivery_mode=1)


class FramePublisher:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._publisher = Publisher(broker, declare_live, confirm_seconds=CONFIRM_SECONDS)
        self._stored_at = 0.0
        self.is_behind = False
        """Whether frames that this process stored may be waiting."""

    @property
    def is_available(self) -> bool:
        return self._broker.connected

    async def emit(self, connection: Connection, frames: Sequence[AddressedFrame]) -> None:
        """One message, however many frames: RabbitMQ has it, or the transaction of `connection` stores it."""
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
        """How many of them, from the first on, RabbitMQ has taken."""
        outgoing = [OutgoingMessage(LIVE_EXCHANGE, "", message, PROPERTIES, mandatory=False) for message in messages]
        for number, outcome in enumerate(await self._publisher.publish_all(outgoing)):
            if not isinstance(outcome, Confirmed):
                return number
        return len(messages)

    def note_empty(self) -> None:
        """No stored frame was found: new ones need not wait any more, unless one is being stored right now."""
        if time.monotonic() - self._stored_at > COMMIT_SECONDS:
            self.is_behind = False

    async def aclose(self) -> None:
        await self._publisher.close()
