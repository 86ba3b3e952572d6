"""A frame for many connections: each encoding is made once and shared by all of them."""

import itertools

from ws_gateway import stomp

DESTINATION = "/user/queue/notifications"

_message_ids = itertools.count(1)


def text_frame(payload: bytes) -> bytes:
    """A WebSocket text frame. Server frames are not masked, so the bytes are the same for every peer."""
    length = len(payload)
    if length < 126:
        head = bytes((0x81, length))
    elif length < 65_536:
        head = b"\x81\x7e" + length.to_bytes(2)
    else:
        head = b"\x81\x7f" + length.to_bytes(8)
    return head + payload


class EncodedFrame:
    __slots__ = ("_message_id", "_payload", "_stomp_frames", "_text_frame")

    def __init__(self, payload: bytes) -> None:
        self._payload = payload
        self._message_id = next(_message_ids)
        self._text_frame: bytes | None = None
        self._stomp_frames: dict[tuple[str, str, bool], bytes] | None = None

    def as_json(self) -> bytes:
        if self._text_frame is None:
            self._text_frame = text_frame(self._payload)
        return self._text_frame

    def as_stomp(self, subscription: str, version: str, *, needs_ack: bool) -> bytes:
        """Clients use the same subscription ids, so most connections share one encoding here too."""
        if self._stomp_frames is None:
            self._stomp_frames = {}
        key = (subscription, version, needs_ack)
        encoded = self._stomp_frames.get(key)
        if encoded is None:
            encoded = self._stomp_frames[key] = text_frame(self._stomp_message(*key))
        return encoded

    def _stomp_message(self, subscription: str, version: str, needs_ack: bool) -> bytes:  # noqa: FBT001 - from the key
        message_id = str(self._message_id)
        headers = {"subscription": subscription, "message-id": message_id, "destination": DESTINATION}
        if needs_ack:
            headers["ack"] = message_id
        headers["content-type"] = "application/json"
        return stomp.encode("MESSAGE", headers, self._payload, version)
