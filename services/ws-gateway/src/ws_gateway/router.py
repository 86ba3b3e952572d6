"""From a message of RabbitMQ to the sockets of its addressees, without a pause in between, so in order."""

import time
from datetime import datetime
from typing import Any

import structlog

from tablebell.frames import Addressed, decode_frames
from tablebell.outage import describe
from ws_gateway import metrics
from ws_gateway.packet import Packet
from ws_gateway.registry import Registry
from ws_gateway.session import Session

log = structlog.get_logger(__name__)

CREATED_AT = b'"createdAt":"'


class Router:
    def __init__(self, registry: Registry[Session[Any]]) -> None:
        self._registry = registry

    def route(self, body: bytes) -> None:
        metrics.MESSAGES.inc()
        try:
            frames = decode_frames(body)
        except (ValueError, TypeError) as error:
            metrics.DROPPED.labels("unreadable").inc()
            log.warning("message_unreadable", error=describe(error), size=len(body))
            return
        sent = [self._deliver(frame) for frame in frames]
        metrics.FRAMES.inc(len(frames))
        metrics.SENT.inc(sum(sent))
        delivered = next((frame for frame, times in zip(frames, sent, strict=True) if times), None)
        if delivered is not None:
            _observe_lag(delivered.text)

    def _deliver(self, frame: Addressed) -> int:
        """To how many sockets it went."""
        packet: Packet | None = None
        sent = 0
        for address in frame.to:
            for session in self._registry.at(address):
                packet = packet or Packet(frame.text)
                sent += session.deliver(packet)
        return sent


def _observe_lag(text: bytes) -> None:
    """Of a batch's first frame, and without parsing it: its own createdAt is the last that is not within a string."""
    start = text.rfind(CREATED_AT)
    if start < 0:
        return
    start += len(CREATED_AT)
    try:
        created = datetime.fromisoformat(text[start : text.index(b'"', start)].decode())
    except ValueError:
        return
    metrics.LAG.observe(max(0.0, time.time() - created.timestamp()))
