"""What goes over the wire, held against the library's own encoder and our own parser."""

import pytest
from websockets.frames import Frame, Opcode

from ws_gateway.packet import DESTINATION, Packet, text_frame
from ws_gateway.stomp import Parser


@pytest.mark.parametrize("length", [0, 1, 125, 126, 65_535, 65_536, 200_000])
def test_a_text_frame_is_what_the_library_would_write(length: int) -> None:
    payload = b"x" * length
    assert text_frame(payload) == Frame(Opcode.TEXT, payload).serialize(mask=False)


def test_a_packet_is_encoded_once_for_all_sockets() -> None:
    packet = Packet(b'{"type":"status","live":true}')
    assert packet.as_json() is packet.as_json()
    assert packet.as_stomp("sub-0", "1.2", acked=False) is packet.as_stomp("sub-0", "1.2", acked=False)


def test_subscriptions_versions_and_acks_are_told_apart() -> None:
    packet = Packet(b"{}")
    keys = [("sub-0", "1.2", False), ("sub-1", "1.2", False), ("sub-0", "1.2", True)]
    encoded = [packet.as_stomp(subscription, version, acked=acked) for subscription, version, acked in keys]
    assert len(set(encoded)) == 3
    for (subscription, _, acked), frame in zip(keys, encoded, strict=True):
        (message,) = Parser(10_000).feed(frame[2:] if frame[1] < 126 else frame[4:])
        assert message.headers["subscription"] == subscription
        assert message.headers["destination"] == DESTINATION
        assert ("ack" in message.headers) is acked
        assert message.body == b"{}"
