"""A frame on its way to many sockets: encoded once for all of them, however many tabs show it."""

import itertools

from ws_gateway import stomp

DESTINATION = "/user/queue/notifications"

_numbers = itertools.count(1)


def text_frame(payload: bytes) -> bytes:
    """A WebSocket text frame. A server's frames are not masked, so the bytes are the same for every peer."""
    length = len(payload)
    if length < 126:
        head = bytes((0x81, length))
    elif length < 65_536:
        head = b"\x81\x7e" + length.to_bytes(2)
    else:
        head = b"\x81\x7f" + length.to_bytes(8)
    return head + payload


class Packet:
    __slots__ = ("_messages", "_number", "_payload", "_text_frame")

    def __init__(self, text: bytes) -> None:
        self._payload = text
        self._number = next(_numbers)
        self._text_frame: bytes | None = None
        self._messages: dict[tuple[str, str, bool], bytes] | None = None

    def as_json(self) -> bytes:
        if self._text_frame is None:
            self._text_frame = text_frame(self._payload)
        return self._text_frame

    def as_stomp(self, subscription: str, version: str, *, acked: bool) -> bytes:
        """Clients number their subscriptions alike, so that here too most sockets share one encoding."""
        if self._messages is None:
            self._messages = {}
        key = (subscription, version, acked)
        message = self._messages.get(key)
        if message is None:
            message = self._messages[key] = text_frame(self._message(*key))
        return message

    def _message(self, subscription: str, version: str, acked: bool) -> bytes:  # noqa: FBT001 - a key's parts
        number = str(self._number)
        headers = {"subscription": subscription, "message-id": number, "destination": DESTINATION}
        if acked:
            headers["ack"] = number
        headers["content-type"] = "application/json"
        return stomp.encode("MESSAGE", headers, self._payload, version)
