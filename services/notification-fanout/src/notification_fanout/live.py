"""The live channel: frames to `notification.websocket`, confirmed.

Frames may come twice but are never lost while RabbitMQ is up, so whoever emits one does it before the act that would
keep it from being emitted again. While RabbitMQ is away nobody waits for it: after a failure every call fails at once
for a moment, so that the durable channels go on.
"""

import time
from collections.abc import Sequence

from pamqp.commands import Basic

from notification_fanout.metrics import FRAMES
from tablebell.frames import Addressed, encode_frames
from tablebell.rabbit import Broker, Confirmed, Outgoing, Publisher
from tablebell.topology import LIVE_EXCHANGE, declare_live

CONFIRM_SECONDS = 2.0
PAUSE_SECONDS = 1.0

# Transient: nobody looks at a frame that outlived a broker's restart.
PROPERTIES = Basic.Properties(content_type="application/json", delivery_mode=1)


class Live:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._publisher = Publisher(broker, declare_live, confirm_seconds=CONFIRM_SECONDS)
        self._silent_until = 0.0

    async def emit(self, frames: Sequence[Addressed]) -> str | None:
        """None when the broker has them, otherwise why not. One message, however many frames."""
        if not frames:
            return None
        if not self._broker.connected or time.monotonic() < self._silent_until:
            return "RabbitMQ is away"
        message = Outgoing(LIVE_EXCHANGE, "", encode_frames(frames), PROPERTIES, mandatory=False)
        outcome = await self._publisher.publish(message)
        if isinstance(outcome, Confirmed):
            FRAMES.inc(len(frames))
            return None
        self._silent_until = time.monotonic() + PAUSE_SECONDS
        return outcome.reason

    async def aclose(self) -> None:
        await self._publisher.close()
