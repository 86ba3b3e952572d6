"""Delivers the frames of a RabbitMQ message to the sessions of their addresses.

The invariant: frames keep their order. `route` never awaits, so two messages cannot mix.
"""

import time
from datetime import datetime
from typing import Any

import structlog

from tablebell.frames import AddressedFrame, decode_frames
from tablebell.outage import describe
from ws_gateway import metrics
from ws_gateway.encoded_frame import EncodedFrame
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

    def _deliver(self, frame: AddressedFrame) -> int:
        """Return the number of sessions that took the frame."""
        encoded: EncodedFrame | None = None
        sent = 0
        for address in frame.to:
            for session in self._registry.get(address):
                encoded = encoded or EncodedFrame(frame.text)
                sent += session.deliver(encoded)
        return sent


def _observe_lag(text: bytes) -> None:
    """Find createdAt without parsing: the last match is the frame's own, because quotes inside strings are escaped."""
    start = text.rfind(CREATED_AT)
    if start < 0:
        return
    start += len(CREATED_AT)
    try:
        created = datetime.fromisoformat(text[start : text.index(b'"', start)].decode())
    except ValueError:
        return
    metrics.LAG.observe(max(0.0, time.time() - created.timestamp()))
